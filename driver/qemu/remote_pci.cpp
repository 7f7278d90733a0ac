#include "driver/qemu/remote_pci.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace driver::qemu {
namespace {

using remote::Command;

constexpr size_t kMostFds = 253;       // that Linux passes at once (SCM_MAX_FD)
constexpr int kRequestsPerServe = 64;  // the machine must get its turn

// Type 0 header of the PCI Local Bus specification.
constexpr uint32_t kBar0 = 0x10;
constexpr int kBars = 6;
constexpr uint32_t kBarTypeMask = 0x6;
constexpr uint32_t kBarType64 = 0x4;
constexpr uint32_t kBarFlags = 0xF;

uint64_t mask_of(unsigned size) {
  return size >= 8 ? ~0ull : (1ull << (8 * size)) - 1;
}

base::Error broken(const char* what) {
  return {base::Fault::kUsage, 0, "remote PCI", what};
}

bool hung_up(int error) {
  return error == ECONNRESET || error == EPIPE;
}

}  // namespace

RemotePci::RemotePci(pcie::Device& device, GuestMemory& memory, base::UniqueFd socket)
    : device_(device), memory_(memory), socket_(std::move(socket)) {}

base::Result<bool> RemotePci::serve() {
  auto stays = serve_all();
  if (!stays || !*stays) leave();
  return stays;
}

// The guest's memory is out of reach from here on.
void RemotePci::leave() {
  socket_.reset();
  fds_.clear();
  memory_.clear();
}

base::Result<bool> RemotePci::serve_all() {
  for (int i = 0; i < kRequestsPerServe; ++i) {
    const auto received = receive();
    if (!received) return received.error();
    if (*received == Received::kGone) return false;
    if (*received == Received::kLater) return true;
    auto stays = handle();
    have_ = 0;
    fds_.clear();
    if (!stays || !*stays) return stays;
  }
  return true;
}

// Never reads past the message that is arriving, so that descriptors are those of this message.
base::Result<RemotePci::Received> RemotePci::receive() {
  if (have_ < remote::kHeaderBytes) {
    auto received = receive_some(bytes_.data(), remote::kHeaderBytes, have_);
    if (!received || *received != Received::kAll) return received;
    const auto header = remote::decode_header({bytes_.data(), remote::kHeaderBytes});
    if (!header) return header.error();
    header_ = *header;
  }
  return receive_some(bytes_.data(), remote::kHeaderBytes + header_.payload, have_);
}

base::Result<RemotePci::Received> RemotePci::receive_some(uint8_t* to, size_t size, size_t& done) {
  while (done < size) {
    iovec part{to + done, size - done};
    alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))];
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::kLater;
    if (n < 0 && hung_up(errno)) return Received::kGone;
    if (n < 0) return base::errno_error("remote PCI", "cannot receive");
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
         each = CMSG_NXTHDR(&message, each)) {
      if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t k = 0; k < count; ++k) {
        fds_.emplace_back(base::load<int>(CMSG_DATA(each) + k * sizeof(int)));
      }
    }
    if (n == 0) return Received::kGone;
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return base::Error{base::Fault::kResource, 0, "remote PCI",
                         "file descriptors were lost; the limit of open files is too low"};
    }
    if (fds_.size() > remote::kMaxFds) return broken("too many file descriptors in one message");
    done += static_cast<size_t>(n);
  }
  return Received::kAll;
}

base::Result<bool> RemotePci::handle() {
  const auto request = remote::decode_payload(
      header_, {bytes_.data() + remote::kHeaderBytes, header_.payload}, fds_.size());
  if (!request) return request.error();
  ++requests_;
  switch (request->command) {
    case Command::kSyncSysmem: {
      base::Status status = sync_memory(*request);
      if (!status) return status.error();
      return true;
    }
    case Command::kConfigWrite:
    case Command::kConfigRead:
      return reply(access_config(*request));
    case Command::kBarWrite:
    case Command::kBarRead:
      return reply(access_bar(*request));
    case Command::kDeviceReset:
      device_.reset();
      return reply(0);
    case Command::kSetIrqFd:  // no interrupt ever happens
    case Command::kReply:
      return true;
  }
  return true;
}

base::Status RemotePci::sync_memory(const remote::Request& request) {
  std::vector<GuestMemory::Region> regions;
  for (size_t k = 0; k < fds_.size(); ++k) {
    const remote::MemoryRegion& each = request.memory[k];
    if (each.size == 0) continue;
    GuestMemory::Region region;
    region.base = each.base;
    region.size = each.size;
    region.fd = std::move(fds_[k]);
    region.fd_offset = each.fd_offset;
    regions.push_back(std::move(region));
  }
  return memory_.replace(std::move(regions));
}

uint64_t RemotePci::access_config(const remote::Request& request) {
  const auto offset = static_cast<uint32_t>(request.address);
  if (request.command == Command::kConfigRead) {
    return device_.config_read(offset, request.size) & mask_of(request.size);
  }
  device_.config_write(offset, request.size, static_cast<uint32_t>(request.value));
  return 0;
}

// The BAR at a guest physical address, or -1. Where a guest lets BARs overlap the lowest answers.
int RemotePci::bar_at(uint64_t address, uint64_t& offset) {
  for (int bar = 0; bar < kBars; ++bar) {
    const uint64_t size = device_.identity().bar_size[bar];
    if (size == 0) continue;
    const uint32_t at = kBar0 + 4 * static_cast<uint32_t>(bar);
    const uint32_t low = device_.config_read(at, 4);
    uint64_t base = low & ~kBarFlags;
    if ((low & kBarTypeMask) == kBarType64) {
      base |= static_cast<uint64_t>(device_.config_read(at + 4, 4)) << 32;
    }
    offset = address - base;
    if (offset < size) return bar;
  }
  return -1;
}

// An address that no BAR claims reads all ones, as a PCI master abort does. An access over the end
// of a BAR is the device's to answer.
uint64_t RemotePci::access_bar(const remote::Request& request) {
  uint8_t bytes[8] = {};
  base::store(bytes, request.value);
  uint64_t offset = 0;
  const int bar = request.is_memory ? bar_at(request.address, offset) : -1;
  const bool write = request.command == Command::kBarWrite;
  if (bar < 0) return write ? 0 : mask_of(request.size);
  if (write) {
    device_.bar_write(bar, offset, {bytes, request.size});
    return 0;
  }
  device_.bar_read(bar, offset, {bytes, request.size});
  return base::load<uint64_t>(bytes) & mask_of(request.size);
}

base::Result<bool> RemotePci::reply(uint64_t value) {
  const auto bytes = remote::encode_reply(value);
  for (;;) {
    const ssize_t n =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n == static_cast<ssize_t>(bytes.size())) return true;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && hung_up(errno)) return false;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      return base::errno_error("remote PCI", "cannot reply");
    }
    return broken("it sends requests without reading the replies");
  }
}

}  // namespace driver::qemu
