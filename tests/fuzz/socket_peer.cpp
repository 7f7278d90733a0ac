#include "tests/fuzz/socket_peer.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/fuzz/finding.h"

namespace fuzz {

namespace {

constexpr size_t kUnsealed = 1;

base::UniqueFd memory_file(uint64_t size, int seals) {
  base::UniqueFd fd(::memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 ||
      (seals != 0 && ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0)) {
    found("no memory file");
  }
  return fd;
}

base::UniqueFd opened(const char* path, int flags) {
  return base::UniqueFd(::open(path, flags | O_CLOEXEC));
}

}  // namespace

OddFiles::OddFiles() {
  constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW;
  files_[0] = memory_file(kMemory, kFixed);
  files_[kUnsealed] = memory_file(kMemory, 0);
  files_[2] = memory_file(100, kFixed);
  files_[3] = memory_file(0, F_SEAL_SHRINK);
  files_[4] = opened(("/proc/self/fd/" + std::to_string(files_[0].get())).c_str(), O_RDONLY);
  files_[5] = memory_file(kMemory, kFixed | F_SEAL_WRITE);
  files_[6] = memory_file(1ull << 40, kFixed);
  files_[7] = memory_file(kMemory + 0x123, kFixed);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) found("no pipe");
  files_[8].reset(ends[0]);
  files_[9].reset(ends[1]);
  files_[10].reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  files_[11] = opened("/dev/zero", O_RDWR);
  files_[12] = opened("/", O_RDONLY | O_DIRECTORY);
  files_[13] = opened("/proc/self/exe", O_PATH);
  files_[14].reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  files_[15] = opened("/proc/self/maps", O_RDONLY);
}

std::vector<int> OddFiles::several(uint8_t choice) const {
  std::vector<int> result;
  for (size_t i = 0; i < static_cast<size_t>(choice >> 4); ++i) {
    result.push_back(get((choice & 15) + i));
  }
  return result;
}

void OddFiles::shrink(uint64_t size) {
  shrunk_ = true;
  if (::ftruncate(files_[kUnsealed].get(), static_cast<off_t>(size % kMemory)) != 0) {
    found("the memory file cannot shrink");
  }
}

void OddFiles::restore() {
  if (!shrunk_) return;
  shrunk_ = false;
  if (::ftruncate(files_[kUnsealed].get(), kMemory) != 0) found("the memory file cannot grow");
}

SocketPeer::SocketPeer() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) found("no socket pair");
  own_.reset(ends[0]);
  other_.reset(ends[1]);
}

void SocketPeer::send(base::ConstByteSpan bytes, const std::vector<int>& fds) {
  if (!own_.valid() || bytes.empty()) return;
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::vector<uint64_t> control((CMSG_SPACE(fds.size() * sizeof(int)) + 7) / 8);
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  (void)::sendmsg(own_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void SocketPeer::drain() {
  uint8_t bytes[4096];
  while (own_.valid() && ::recv(own_.get(), bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
  }
}

void SocketPeer::half_close() {
  if (own_.valid()) ::shutdown(own_.get(), SHUT_WR);
}

int lowest_free_fd() {
  const base::UniqueFd probe(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return probe.get();
}

}  // namespace fuzz
