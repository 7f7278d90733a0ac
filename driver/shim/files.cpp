// open, close, ioctl and their relatives on device nodes and sysfs attributes.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "driver/shim/client.h"
#include "driver/shim/paths.h"
#include "driver/shim/real.h"

namespace shim = driver::shim;
namespace wire = driver::wire;

namespace {

int as_errno(int64_t result) {
  if (result >= 0) return static_cast<int>(result);
  errno = static_cast<int>(-result);
  return -1;
}

// Opens one of ours; false when the path is the host's.
bool open_virtual(int dirfd, const char* path, int flags, int* result) {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) return false;
  if (place.kind == shim::Place::kDevice) {
    *result = as_errno(shim::open_device(place.minor, flags));
    return true;
  }
  const bool writing = (flags & O_ACCMODE) != O_RDONLY;
  if (writing) {
    *result = as_errno(shim::open_attribute(place.virtual_path(), flags));
    return true;
  }
  const int refreshed = shim::refresh(place);
  if (refreshed < 0) {
    *result = as_errno(refreshed);
    return true;
  }
  const int kept = flags & ~(O_CREAT | O_EXCL | O_TRUNC);
  *result = SHIM_REAL(openat)(AT_FDCWD, place.path, kept, 0);
  return true;
}

bool needs_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

}  // namespace

#define SHIM_MODE(flags)                                     \
  mode_t mode = 0;                                           \
  if (needs_mode(flags)) {                                   \
    va_list arguments;                                       \
    va_start(arguments, flags);                              \
    mode = static_cast<mode_t>(va_arg(arguments, unsigned)); \
    va_end(arguments);                                       \
  }

SHIM_EXPORT int open(const char* path, int flags, ...) {
  SHIM_MODE(flags)
  int result;
  if (open_virtual(AT_FDCWD, path, flags, &result)) return result;
  return SHIM_REAL(open)(path, flags, mode);
}

SHIM_EXPORT int open64(const char* path, int flags, ...) {
  SHIM_MODE(flags)
  int result;
  if (open_virtual(AT_FDCWD, path, flags, &result)) return result;
  return SHIM_REAL(open64)(path, flags, mode);
}

SHIM_EXPORT int openat(int dirfd, const char* path, int flags, ...) {
  SHIM_MODE(flags)
  int result;
  if (open_virtual(dirfd, path, flags, &result)) return result;
  return SHIM_REAL(openat)(dirfd, path, flags, mode);
}

SHIM_EXPORT int openat64(int dirfd, const char* path, int flags, ...) {
  SHIM_MODE(flags)
  int result;
  if (open_virtual(dirfd, path, flags, &result)) return result;
  return SHIM_REAL(openat64)(dirfd, path, flags, mode);
}

// Entry points of programs built with _FORTIFY_SOURCE.
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int dirfd, const char* path, int flags);
int __openat64_2(int dirfd, const char* path, int flags);
}
SHIM_EXPORT int __open_2(const char* path, int flags) {
  return open(path, flags);
}
SHIM_EXPORT int __open64_2(const char* path, int flags) {
  return open64(path, flags);
}
SHIM_EXPORT int __openat_2(int dirfd, const char* path, int flags) {
  return openat(dirfd, path, flags);
}
SHIM_EXPORT int __openat64_2(int dirfd, const char* path, int flags) {
  return openat64(dirfd, path, flags);
}

SHIM_EXPORT int creat(const char* path, mode_t mode) {
  return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

SHIM_EXPORT int creat64(const char* path, mode_t mode) {
  return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

SHIM_EXPORT int close(int fd) {
  shim::before_close(fd);
  return SHIM_REAL(close)(fd);
}

// dup2 and dup3 close what was behind the new number; dup itself needs no help.
SHIM_EXPORT int dup2(int from, int to) {
  if (from != to) shim::before_close(to);
  return SHIM_REAL(dup2)(from, to);
}

SHIM_EXPORT int dup3(int from, int to, int flags) {
  if (from != to) shim::before_close(to);
  return SHIM_REAL(dup3)(from, to, flags);
}

SHIM_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  shim::DeviceFile file;
  const bool generic =
      request == FIOCLEX || request == FIONCLEX || request == FIONBIO || request == FIOASYNC;
  if (generic || !shim::device_file(fd, &file)) return SHIM_REAL(ioctl)(fd, request, argument);
  const wire::IoctlBody body = {static_cast<uint32_t>(request), 0,
                                reinterpret_cast<uint64_t>(argument)};
  return as_errno(shim::call(wire::kIoctl, file.token, &body, sizeof body));
}

// A device node has no read and write (spec/driver-ioctl.md 1.1). Only descriptors of processes
// that use devices are looked at, so that others pay nothing.
SHIM_EXPORT ssize_t read(int fd, void* buffer, size_t size) {
  shim::DeviceFile file;
  if (shim::uses_devices() && shim::device_file(fd, &file)) return as_errno(-EINVAL);
  return SHIM_REAL(read)(fd, buffer, size);
}

SHIM_EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
  shim::DeviceFile file;
  if (shim::uses_devices() && shim::device_file(fd, &file)) return as_errno(-EINVAL);
  return SHIM_REAL(write)(fd, buffer, size);
}

namespace {

// What fopen would have passed to open.
int flags_of_mode(const char* mode) {
  const bool plus = strchr(mode, '+') != nullptr;
  int flags = plus ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
  if (strchr(mode, 'e') != nullptr) flags |= O_CLOEXEC;
  return flags;
}

bool fopen_virtual(const char* path, const char* mode, FILE** result) {
  int fd;
  if (mode == nullptr || !open_virtual(AT_FDCWD, path, flags_of_mode(mode), &fd)) return false;
  *result = fd < 0 ? nullptr : fdopen(fd, mode);
  return true;
}

}  // namespace

SHIM_EXPORT FILE* fopen(const char* path, const char* mode) {
  FILE* result;
  if (fopen_virtual(path, mode, &result)) return result;
  return SHIM_REAL(fopen)(path, mode);
}

SHIM_EXPORT FILE* fopen64(const char* path, const char* mode) {
  FILE* result;
  if (fopen_virtual(path, mode, &result)) return result;
  return SHIM_REAL(fopen64)(path, mode);
}
