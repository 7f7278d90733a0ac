// Messages of the vfio-user protocol over a connected Unix socket, without blocking. Receiving
// never reads past the end of a message, so that descriptors which arrive belong to the message
// that was being read, whatever the sender's packets were. What cannot be sent at once waits in
// memory; its owner looks at pending() and stops taking commands.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/span.h"
#include "driver/qemu/vfio_user_protocol.h"

struct msghdr;  // <sys/socket.h>

namespace driver::qemu::vfio {

struct Message {
  Header header;
  std::vector<uint8_t> payload;
  std::vector<base::UniqueFd> fds;  // at most one more than is agreed on; the rest is closed
  bool fds_lost = false;            // the process could not take them all
};

class MessageStream {
 public:
  explicit MessageStream(base::UniqueFd socket);

  int fd() const { return socket_.get(); }
  // The next whole message, or nothing yet. An error ends the connection: Fault::kIo with code 0
  // when the peer has left, else the peer has broken the protocol.
  base::Result<std::optional<Message>> receive();
  // `message` starts with room for the header, which is filled in with the size.
  // The descriptor goes along with it.
  void send(Header header, std::vector<uint8_t> message, base::UniqueFd fd = {});
  base::Status flush();
  size_t pending() const { return pending_; }

 private:
  struct Output {
    std::vector<uint8_t> bytes;
    size_t sent = 0;
    base::UniqueFd fd;
  };
  // Reads into [at, at + size); bytes read, 0 when there are none now.
  base::Result<size_t> read_some(uint8_t* at, size_t size);
  void take_fds(const msghdr& message);
  base::Status check_header() const;

  base::UniqueFd socket_;
  uint8_t header_bytes_[sizeof(Header)] = {};
  size_t header_got_ = 0;
  size_t payload_got_ = 0;
  Message incoming_;
  std::deque<Output> output_;
  size_t pending_ = 0;
};

}  // namespace driver::qemu::vfio
