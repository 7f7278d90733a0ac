// A Unix socket at which clients of one device arrive, one at a time. While a client is there that
// has spoken, others are turned away; one that is silent makes room. When a client leaves, or
// breaks the protocol, its memory is out of reach at once, the device gets a conventional reset
// (its host is gone; HBM keeps its content), and the next client may come.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "base/fd.h"
#include "driver/qemu/client_memory.h"
#include "driver/qemu/front_end.h"

namespace driver::qemu {

class VfioUser;

class VfioUserServer final : public FrontEnd {
 public:
  struct Params {
    std::string path;
    pcie::Device& device;
    vfio::ClientMemory& memory;  // host memory of that device
    // Why a client was dropped or turned away. Without the path, which the receiver knows.
    std::function<void(const base::Error&)> on_trouble;
  };
  // Replaces a socket that nobody listens on; anything else at the path is an error. The socket
  // goes with the object.
  static base::Result<std::unique_ptr<VfioUserServer>> listen(Params params);
  ~VfioUserServer() override;
  VfioUserServer(const VfioUserServer&) = delete;
  VfioUserServer& operator=(const VfioUserServer&) = delete;

  int poll_fd() const override { return epoll_.get(); }
  base::Result<bool> serve() override;  // true, always

 private:
  explicit VfioUserServer(Params params);
  base::Status open();
  void accept();
  void end_session();
  void trouble(const base::Error& error) const;

  Params params_;
  base::UniqueFd listener_;
  base::UniqueFd epoll_;
  base::UniqueFd spare_;  // given up for a moment to turn a client away when no other is left
  std::unique_ptr<VfioUser> session_;
  bool bound_ = false;
};

}  // namespace driver::qemu
