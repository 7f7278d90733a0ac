#include "driver/qemu/message_stream.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/passed_fd.h"

namespace driver::qemu::vfio {
namespace {

constexpr const char* kWhere = "vfio-user";
// Linux passes at most so many descriptors in one control message (SCM_MAX_FD, unix(7)).
constexpr size_t kMaxFdsPerPacket = 253;
// The largest message is a region write of the largest transfer.
constexpr uint32_t kMaxMessage = sizeof(Header) + sizeof(RegionAccess) + kDefaultMaxTransfer;

base::Error gone() {
  return {base::Fault::kIo, 0, kWhere, "the client has left"};
}

base::Error broken(const std::string& what) {
  return {base::Fault::kUsage, EPROTO, kWhere, what};
}

}  // namespace

MessageStream::MessageStream(base::UniqueFd socket) : socket_(std::move(socket)) {
  // Whatever it was, it must not block.
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags >= 0) ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
}

base::Status MessageStream::check_header() const {
  const Header& header = incoming_.header;
  if (header.size < sizeof(Header) || header.size > kMaxMessage) {
    return broken("message size " + std::to_string(header.size) + " is not in [16, " +
                  std::to_string(kMaxMessage) + "]");
  }
  const uint32_t type = header.flags & kFlagType;
  if (type != kTypeCommand && type != kTypeReply) {
    return broken("message type " + std::to_string(type) + " is neither command nor reply");
  }
  return {};
}

base::Result<std::optional<Message>> MessageStream::receive() {
  while (header_got_ < sizeof(Header)) {
    const auto got = read_some(header_bytes_ + header_got_, sizeof(Header) - header_got_);
    if (!got) return got.error();
    if (*got == 0) return std::optional<Message>();
    header_got_ += *got;
    if (header_got_ < sizeof(Header)) continue;
    incoming_.header = base::load<Header>(header_bytes_);
    if (const base::Status good = check_header(); !good) return good.error();
    incoming_.payload.resize(incoming_.header.size - sizeof(Header));
  }
  while (payload_got_ < incoming_.payload.size()) {
    const auto got =
        read_some(incoming_.payload.data() + payload_got_, incoming_.payload.size() - payload_got_);
    if (!got) return got.error();
    if (*got == 0) return std::optional<Message>();
    payload_got_ += *got;
  }
  header_got_ = payload_got_ = 0;
  return std::optional<Message>(std::exchange(incoming_, {}));
}

base::Result<size_t> MessageStream::read_some(uint8_t* at, size_t size) {
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int) * kMaxFdsPerPacket)];
  iovec part{at, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno == ECONNRESET) return gone();
    return base::errno_error(kWhere, "cannot receive");
  }
  take_fds(message);
  if (got == 0) return gone();
  return static_cast<size_t>(got);
}

void MessageStream::take_fds(const msghdr& message) {
  auto* writable = const_cast<msghdr*>(&message);  // the macros of <sys/socket.h> want it so
  for (cmsghdr* part = CMSG_FIRSTHDR(writable); part != nullptr;
       part = CMSG_NXTHDR(writable, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      base::UniqueFd fd(base::load<int>(CMSG_DATA(part) + i * sizeof(int)));
      if (incoming_.fds.size() <= kDefaultMaxFds) incoming_.fds.push_back(std::move(fd));
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) incoming_.fds_lost = true;
}

void MessageStream::send(Header header, std::vector<uint8_t> message, base::UniqueFd fd) {
  header.size = static_cast<uint32_t>(message.size());
  base::store(message.data(), header);
  pending_ += message.size();
  Output& output = output_.emplace_back();
  output.bytes = std::move(message);
  output.fd = std::move(fd);
}

base::Status MessageStream::flush() {
  while (!output_.empty()) {
    Output& next = output_.front();
    iovec part{next.bytes.data() + next.sent, next.bytes.size() - next.sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    base::PassedFd passed;
    if (next.fd.valid()) passed.attach(&message, next.fd.get());
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (errno == EPIPE || errno == ECONNRESET) return gone();
      return base::errno_error(kWhere, "cannot send");
    }
    next.fd.reset();  // went with the first byte
    next.sent += static_cast<size_t>(sent);
    pending_ -= static_cast<size_t>(sent);
    if (next.sent == next.bytes.size()) output_.pop_front();
  }
  return {};
}

}  // namespace driver::qemu::vfio
