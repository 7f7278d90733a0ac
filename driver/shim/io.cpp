// read, write and their relatives. A device node has none of them (spec/driver-ioctl.md 1.1); a
// read from the start of a sysfs attribute makes a new text. Only descriptors of processes that use
// devices or attributes are looked at, so that others pay nothing.
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver/shim/client.h"
#include "driver/shim/descriptors.h"
#include "driver/shim/real.h"

namespace shim = driver::shim;

namespace {

// Whether the call ends here, with errno set.
bool refused(int fd, bool writing) {
  shim::DeviceFile file;
  if (!shim::uses_devices() || !shim::device_file(fd, &file)) return false;
  const int mode = file.flags & O_ACCMODE;
  errno = mode == (writing ? O_RDONLY : O_WRONLY) ? EBADF : EINVAL;
  return true;
}

bool refused_read(int fd, int64_t position) {
  if (refused(fd, false)) return true;
  if (shim::noted(fd) == nullptr) return false;
  const int error = shim::renew_text(fd, position);
  if (error == 0) return false;
  errno = -error;
  return true;
}

}  // namespace

SHIM_EXPORT ssize_t read(int fd, void* buffer, size_t size) {
  if (refused_read(fd, -1)) return -1;
  return SHIM_REAL(read)(fd, buffer, size);
}

SHIM_EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
  if (refused(fd, true)) return -1;
  return SHIM_REAL(write)(fd, buffer, size);
}

SHIM_EXPORT ssize_t readv(int fd, const iovec* parts, int count) {
  if (refused_read(fd, -1)) return -1;
  return SHIM_REAL(readv)(fd, parts, count);
}

SHIM_EXPORT ssize_t writev(int fd, const iovec* parts, int count) {
  if (refused(fd, true)) return -1;
  return SHIM_REAL(writev)(fd, parts, count);
}

// A negative position is an error before all others, and never the start.
#define SHIM_READ_AT(name, buffer_type, size_type)                                 \
  SHIM_EXPORT ssize_t name(int fd, buffer_type buffer, size_type size, off_t at) { \
    if (at >= 0 && refused_read(fd, at)) return -1;                                \
    return SHIM_REAL(name)(fd, buffer, size, at);                                  \
  }
SHIM_READ_AT(pread, void*, size_t)
SHIM_READ_AT(pread64, void*, size_t)
SHIM_READ_AT(preadv, const iovec*, int)
SHIM_READ_AT(preadv64, const iovec*, int)

#define SHIM_WRITE_AT(name, buffer_type, size_type)                                \
  SHIM_EXPORT ssize_t name(int fd, buffer_type buffer, size_type size, off_t at) { \
    if (at >= 0 && refused(fd, true)) return -1;                                   \
    return SHIM_REAL(name)(fd, buffer, size, at);                                  \
  }
SHIM_WRITE_AT(pwrite, const void*, size_t)
SHIM_WRITE_AT(pwrite64, const void*, size_t)
SHIM_WRITE_AT(pwritev, const iovec*, int)
SHIM_WRITE_AT(pwritev64, const iovec*, int)

// Position -1: where the descriptor stands.
#define SHIM_READ_FLAGS(name)                                                            \
  SHIM_EXPORT ssize_t name(int fd, const iovec* parts, int count, off_t at, int flags) { \
    if (at >= -1 && refused_read(fd, at)) return -1;                                     \
    return SHIM_REAL(name)(fd, parts, count, at, flags);                                 \
  }
SHIM_READ_FLAGS(preadv2)
SHIM_READ_FLAGS(preadv64v2)

#define SHIM_WRITE_FLAGS(name)                                                           \
  SHIM_EXPORT ssize_t name(int fd, const iovec* parts, int count, off_t at, int flags) { \
    if (at >= -1 && refused(fd, true)) return -1;                                        \
    return SHIM_REAL(name)(fd, parts, count, at, flags);                                 \
  }
SHIM_WRITE_FLAGS(pwritev2)
SHIM_WRITE_FLAGS(pwritev64v2)

// An attribute is a page long and has no holes, whatever its text is.
SHIM_EXPORT off_t lseek(int fd, off_t offset, int whence) noexcept {
  constexpr off_t kSize = 4096;
  shim::Place place;
  if (whence == SEEK_SET || whence == SEEK_CUR || !shim::tree_file(fd, &place) ||
      place.kind != shim::Place::kTree) {
    return SHIM_REAL(lseek)(fd, offset, whence);
  }
  if (whence == SEEK_END) return SHIM_REAL(lseek)(fd, kSize + offset, SEEK_SET);
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return shim::fail(EINVAL);
  if (offset < 0 || offset >= kSize) return shim::fail(ENXIO);
  return SHIM_REAL(lseek)(fd, whence == SEEK_DATA ? offset : kSize, SEEK_SET);
}

SHIM_EXPORT off64_t lseek64(int fd, off64_t offset, int whence) noexcept {
  return lseek(fd, offset, whence);
}

// Entry points of programs built with _FORTIFY_SOURCE.
extern "C" {
ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room);
ssize_t __pread_chk(int fd, void* buffer, size_t size, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void* buffer, size_t size, off_t at, size_t room);
}
SHIM_EXPORT ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room) {
  if (refused_read(fd, -1)) return -1;
  return SHIM_REAL(__read_chk)(fd, buffer, size, room);
}
SHIM_EXPORT ssize_t __pread_chk(int fd, void* buffer, size_t size, off_t at, size_t room) {
  if (at >= 0 && refused_read(fd, at)) return -1;
  return SHIM_REAL(__pread_chk)(fd, buffer, size, at, room);
}
SHIM_EXPORT ssize_t __pread64_chk(int fd, void* buffer, size_t size, off_t at, size_t room) {
  return __pread_chk(fd, buffer, size, at, room);
}
