// A process that gives up its user can no longer reach the server's socket by name, for the
// directory is private. It keeps a descriptor of the socket's inode from before: threads and
// children then still connect.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "driver/shim/client.h"
#include "driver/shim/real.h"

namespace shim = driver::shim;

namespace driver::shim {
namespace {

// Sockets of the server that were kept before a change of user: O_PATH descriptors.
struct KeptSocket {
  std::atomic<int> fd{-1};
  uint64_t inode = 0;
};
KeptSocket kept_sockets[2];  // as facts.socket_path, facts.attribute_path

void keep_socket(const char* path, KeptSocket* kept) {
  if (kept->fd.load(std::memory_order_acquire) >= 0) return;
  const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0));
  struct stat info;
  if (fd < 0) return;
  const int high = move_high(fd);
  if (SHIM_REAL(fstat)(high, &info) == 0) {
    kept->inode = info.st_ino;
    kept->fd.store(high, std::memory_order_release);
  }
}

}  // namespace

// The kept one when the program has not closed it, else `path`.
const char* reachable(const char* path, char (&by_descriptor)[32]) {
  const KeptSocket& kept = kept_sockets[path == facts.socket_path ? 0 : 1];
  const int fd = kept.fd.load(std::memory_order_acquire);
  struct stat info;
  if (fd < 0 || SHIM_REAL(fstat)(fd, &info) != 0 || !S_ISSOCK(info.st_mode) ||
      info.st_ino != kept.inode) {
    return path;
  }
  snprintf(by_descriptor, sizeof by_descriptor, "/proc/self/fd/%d", fd);
  return by_descriptor;
}

void keep_sockets() {
  if (!facts.active) return;
  const int saved = errno;
  keep_socket(facts.socket_path, &kept_sockets[0]);
  keep_socket(facts.attribute_path, &kept_sockets[1]);
  errno = saved;
}

}  // namespace driver::shim

SHIM_EXPORT int setuid(uid_t user) noexcept {
  shim::keep_sockets();
  return SHIM_REAL(setuid)(user);
}
SHIM_EXPORT int seteuid(uid_t user) noexcept {
  shim::keep_sockets();
  return SHIM_REAL(seteuid)(user);
}
SHIM_EXPORT int setreuid(uid_t real, uid_t effective) noexcept {
  shim::keep_sockets();
  return SHIM_REAL(setreuid)(real, effective);
}
SHIM_EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved) noexcept {
  shim::keep_sockets();
  return SHIM_REAL(setresuid)(real, effective, saved);
}
