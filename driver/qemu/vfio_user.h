// Server of the vfio-user protocol for one PCIe function and one connected client. Source of truth:
// QEMU's docs/interop/vfio-user.rst (vfio_user_protocol.h). The client's BAR and configuration
// accesses become calls of pcie::Device; its memory becomes the machine's host memory.
//
// Complete: version 0.1 with write_multiple, DMA mapping with and without files, device, region and
// interrupt information, region access, reset. The device has no interrupts
// (spec/hw-registers.md 1.4), so types of them are listed with a count of 0. HBM can be mapped
// through BAR4. Refused with ENOTSUP: device features,
// migration, dirty pages. Fields that a request must leave zero but only the reply defines are not
// looked at.
//
// Nothing of the client is trusted: sizes, counts, offsets and flags are checked before use, an
// answer that it does not fetch stops its own commands only, and a DMA through messages waits
// for it a bounded time, after which it is dropped. A client whose main memory only messages reach
// is refused: QEMU cannot answer one while a processor of its guest waits for a register.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/fd.h"
#include "driver/qemu/client_memory.h"
#include "driver/qemu/front_end.h"
#include "driver/qemu/message_stream.h"

namespace driver::qemu {

class VfioUser final : public FrontEnd, private vfio::DmaMessenger {
 public:
  // `memory` is what the device's DMA sees, empty at first; both outlive this.
  VfioUser(pcie::Device& device, vfio::ClientMemory& memory, base::UniqueFd socket);
  // Drops the client's mappings. The device keeps its state: see Device::reset().
  ~VfioUser() override;
  VfioUser(const VfioUser&) = delete;
  VfioUser& operator=(const VfioUser&) = delete;

  int poll_fd() const override { return epoll_.get(); }
  base::Result<bool> serve() override;
  // The client has spoken, and in a version that both know.
  bool negotiated() const { return negotiated_; }

 private:
  using Message = vfio::Message;
  struct Reply {
    uint32_t error = 0;          // errno: the reply is a header only
    std::vector<uint8_t> bytes;  // begins with room for the header
    base::UniqueFd fd;
    std::string farewell;  // not empty: the client must go after this, and why
  };
  using Handler = Reply (VfioUser::*)(Message&);
  struct Entry {
    vfio::Command command;
    uint32_t least;  // bytes of payload
    Handler handler;
  };
  static const Entry kCommands[];

  static Reply error(uint32_t code) {
    Reply reply;
    reply.error = code;
    return reply;
  }
  template <typename Payload>
  static Reply reply_with(const Payload& payload);

  base::Status serve_messages();
  base::Status handle(Message message);
  Reply dispatch(Message& message);
  void watch();
  void set_wake(bool on);

  Reply version(Message& message);
  Reply dma_map(Message& message);
  Reply dma_unmap(Message& message);
  Reply device_info(Message& message);
  Reply region_info(Message& message);
  Reply region_io_fds(Message& message);
  Reply irq_info(Message& message);
  Reply set_irqs(Message& message);
  Reply region_read(Message& message);
  Reply region_write(Message& message);
  Reply region_write_multi(Message& message);
  Reply device_reset(Message& message);

  uint64_t region_size(uint32_t region) const;
  base::UniqueFd mappable(uint32_t region, vfio::RegionInfo& info,
                          std::vector<vfio::SparseArea>& areas);
  bool accessible(const vfio::RegionAccess& access, uint64_t count_limit) const;
  void read_region(const vfio::RegionAccess& access, uint8_t* to);
  void write_region(const vfio::RegionAccess& access, const uint8_t* from);
  void access_config(uint64_t offset, uint8_t* data, uint32_t count, bool write);

  bool dma_read(uint64_t address, base::ByteSpan to) override;
  bool dma_write(uint64_t address, base::ConstByteSpan from) override;
  bool exchange(vfio::Command command, const vfio::DmaAccess& access, base::ConstByteSpan from,
                base::ByteSpan to);
  bool wait_for_reply(vfio::Command command, uint16_t id, Message& reply);
  bool take_reply(Message& message, vfio::Command command, uint16_t id, Message& reply);
  void give_up(base::Error why);

  pcie::Device& device_;
  vfio::ClientMemory& memory_;
  vfio::MessageStream stream_;
  base::UniqueFd epoll_;
  base::UniqueFd wake_;  // readable while commands wait in here
  uint32_t watched_;     // what epoll_ was asked to watch the socket for
  bool awake_ = false;   // wake_ is readable
  bool negotiated_ = false;
  bool write_multiple_ = false;
  uint32_t max_transfer_ = vfio::kDefaultMaxTransfer;
  uint16_t next_id_ = 0;
  std::deque<Message> deferred_;  // arrived while a DMA waited for its answer
  size_t deferred_bytes_ = 0;
  size_t moved_ = 0;  // bytes in this call of serve()
  base::Status broken_;
};

}  // namespace driver::qemu
