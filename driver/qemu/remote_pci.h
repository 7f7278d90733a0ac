// A guest of a stock QEMU, through its proxy PCI device: configuration space and BAR accesses
// arrive on a stream socket, guest memory as descriptors of memory files. Source of truth:
// spec/qemu-remote-pci.md. One socket per device.
//
// Exact: what the guest reads, the order of its accesses (each is answered before the next is
// looked at). Missing: interrupts; the device has no interrupt pin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/fd.h"
#include "driver/qemu/front_end.h"
#include "driver/qemu/guest_memory.h"
#include "driver/qemu/remote_protocol.h"

namespace driver::qemu {

class RemotePci final : public FrontEnd {
 public:
  // `memory` is where the device's DMA goes. Both outlive the front end.
  RemotePci(pcie::Device& device, GuestMemory& memory, base::UniqueFd socket);

  int poll_fd() const override { return socket_.get(); }
  base::Result<bool> serve() override;

  uint64_t requests() const { return requests_; }

 private:
  enum class Received { kAll, kLater, kGone };

  base::Result<bool> serve_all();
  base::Result<Received> receive();
  base::Result<Received> receive_some(uint8_t* to, size_t size, size_t& done);
  base::Result<bool> handle();
  base::Status sync_memory(const remote::Request& request);
  int bar_at(uint64_t address, uint64_t& offset);
  uint64_t access_config(const remote::Request& request);
  uint64_t access_bar(const remote::Request& request);
  base::Result<bool> reply(uint64_t value);
  void leave();

  pcie::Device& device_;
  GuestMemory& memory_;
  base::UniqueFd socket_;
  // The message that is arriving.
  std::array<uint8_t, remote::kHeaderBytes + remote::kMaxPayloadBytes> bytes_ = {};
  size_t have_ = 0;
  remote::Header header_;
  std::vector<base::UniqueFd> fds_;
  uint64_t requests_ = 0;
};

}  // namespace driver::qemu
