// The other end of a remote PCI socket, as QEMU's proxy device plays it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "driver/qemu/remote_protocol.h"

namespace driver_test {

namespace remote = driver::qemu::remote;

// One end for the front end, one for the peer.
inline std::pair<base::UniqueFd, base::UniqueFd> socket_pair(int type = SOCK_STREAM) {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {base::UniqueFd(fds[0]), base::UniqueFd(fds[1])};
}

inline void append(std::vector<uint8_t>& to, const void* from, size_t size) {
  to.resize(to.size() + size);
  std::memcpy(to.data() + to.size() - size, from, size);
}
template <typename T>
void append(std::vector<uint8_t>& to, T value) {
  append(to, &value, sizeof value);
}

inline std::vector<uint8_t> message(remote::Command command, const std::vector<uint8_t>& payload) {
  const auto header = remote::encode_header(command, payload.size());
  std::vector<uint8_t> bytes(header.size() + payload.size());
  std::copy(header.begin(), header.end(), bytes.begin());
  std::copy(payload.begin(), payload.end(), bytes.begin() + header.size());
  return bytes;
}
inline std::vector<uint8_t> config_message(bool write, uint32_t offset, int32_t size,
                                           uint32_t value = 0) {
  std::vector<uint8_t> payload;
  append(payload, offset);
  append(payload, value);
  append(payload, size);
  return message(write ? remote::Command::kConfigWrite : remote::Command::kConfigRead, payload);
}
inline std::vector<uint8_t> bar_message(bool write, uint64_t address, uint32_t size,
                                        uint64_t value = 0, uint8_t is_memory = 1) {
  std::vector<uint8_t> payload;
  append(payload, address);
  append(payload, value);
  append(payload, size);
  append(payload, uint32_t{is_memory});
  return message(write ? remote::Command::kBarWrite : remote::Command::kBarRead, payload);
}
inline std::vector<uint8_t> memory_message(const std::vector<remote::MemoryRegion>& regions) {
  std::array<uint64_t, 3 * remote::kRegions> words{};
  for (size_t k = 0; k < regions.size(); ++k) {
    words[k] = regions[k].base;
    words[remote::kRegions + k] = regions[k].size;
    words[2 * remote::kRegions + k] = regions[k].fd_offset;
  }
  std::vector<uint8_t> payload;
  append(payload, words.data(), sizeof words);
  return message(remote::Command::kSyncSysmem, payload);
}

// Sends `bytes` with descriptors; false when the other end is gone.
inline bool send_with(int socket, const std::vector<uint8_t>& bytes, const std::vector<int>& fds) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// Blocking calls of a guest, for a thread of its own.
class GuestPeer {
 public:
  explicit GuestPeer(base::UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

  uint64_t call(const std::vector<uint8_t>& bytes) {
    EXPECT_TRUE(send_with(socket_.get(), bytes, {}));
    return reply();
  }
  uint64_t reply() {
    std::array<uint8_t, remote::kReplyBytes> bytes{};
    EXPECT_EQ(::recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL),
              static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(base::load<int32_t>(bytes.data()), 1);
    EXPECT_EQ(base::load<uint64_t>(bytes.data() + 8), 8u);
    return base::load<uint64_t>(bytes.data() + 16);
  }
  uint32_t config_read(uint32_t offset, int32_t size = 4) {
    return static_cast<uint32_t>(call(config_message(false, offset, size)));
  }
  void config_write(uint32_t offset, uint32_t value, int32_t size = 4) {
    (void)call(config_message(true, offset, size, value));
  }
  uint64_t read(uint64_t address, uint32_t size = 4) {
    return call(bar_message(false, address, size));
  }
  void write(uint64_t address, uint64_t value, uint32_t size = 4) {
    (void)call(bar_message(true, address, size, value));
  }
  void reset() { (void)call(message(remote::Command::kDeviceReset, {})); }
  void set_memory(const std::vector<remote::MemoryRegion>& regions, const std::vector<int>& fds) {
    EXPECT_TRUE(send_with(socket_.get(), memory_message(regions), fds));
  }

 private:
  base::UniqueFd socket_;
};

// Descriptors of this process, to see that none leaks.
inline size_t open_fds() {
  size_t n = 0;
  for (int fd = 0; fd < 256; ++fd) n += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return n;
}

}  // namespace driver_test
