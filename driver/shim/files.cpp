// open, close, ioctl and their relatives on device nodes and sysfs attributes.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver/shim/client.h"
#include "driver/shim/descriptors.h"
#include "driver/shim/paths.h"
#include "driver/shim/real.h"
#include "driver/shim/sdk.h"

namespace shim = driver::shim;
namespace wire = driver::wire;

namespace {

int as_errno(int64_t result) {
  if (result >= 0) return static_cast<int>(result);
  errno = static_cast<int>(-result);
  return -1;
}

int real_open(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, 0));
}

// A descriptor that only names the node: the driver hears nothing of it, and all calls but those
// about the file fail.
int open_path_only(const shim::Place& place, int flags) {
  if ((flags & O_DIRECTORY) != 0) return as_errno(-ENOTDIR);
  if (!shim::make_stand_in(place)) return -1;
  const int fd = real_open(place.path, flags);
  if (fd >= 0) shim::note_descriptor(fd);
  return fd;
}

int open_node(const shim::Place& place, int flags) {
  if (place.error != 0) return as_errno(-place.error);
  if ((flags & O_PATH) != 0) return open_path_only(place, flags);
  // Only a node whose mode somebody has changed has a file that stands for it.
  const int mode = (flags & O_ACCMODE) == O_RDONLY   ? R_OK
                   : (flags & O_ACCMODE) == O_WRONLY ? W_OK
                                                     : R_OK | W_OK;
  const int saved = errno;
  if (syscall(SYS_faccessat, AT_FDCWD, place.path, mode) != 0 && errno == EACCES &&
      syscall(SYS_faccessat, AT_FDCWD, place.path, F_OK) == 0) {
    return shim::fail(EACCES);
  }
  errno = saved;
  const int fd = shim::open_device(place.minor, flags);
  if (fd >= 0) shim::note_descriptor(fd);
  return as_errno(fd);
}

// What sysfs, whose directories take no new names, says to O_CREAT and to writing; 0 or -errno.
int check_creation(const shim::Place& place, int flags) {
  struct stat info;
  if (SHIM_REAL(stat)(place.path, &info) != 0) {
    if (errno != ENOENT || (flags & O_CREAT) == 0) return -errno;
    char parent[sizeof place.path];
    strcpy(parent, place.path);
    *strrchr(parent, '/') = 0;
    return SHIM_REAL(stat)(parent, &info) == 0 ? -EACCES : -ENOENT;
  }
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
  const bool writing = (flags & O_ACCMODE) != O_RDONLY;
  return S_ISDIR(info.st_mode) && (writing || (flags & O_CREAT) != 0) ? -EISDIR : 0;
}

// Comes with a text, for who reads it in a way that we do not see.
int open_attribute(const shim::Place& place, int flags) {
  const int kept = flags & ~(O_CREAT | O_EXCL | O_TRUNC);
  if ((flags & O_PATH) != 0) {
    const int fd = real_open(place.path, kept);
    if (fd >= 0) shim::note_descriptor(fd);
    return fd;
  }
  const bool writing = (flags & O_ACCMODE) != O_RDONLY;
  if (writing || (flags & O_CREAT) != 0) {
    const int refused = check_creation(place, flags);
    if (refused < 0) return as_errno(refused);
  }
  if (writing) return as_errno(shim::open_attribute(place.virtual_path(), flags));
  const uint64_t state = shim::page_state();
  const int64_t events = shim::refresh(place);
  const int fd = real_open(place.path, kept);
  // A text that cannot be made is the affair of who reads it.
  if (fd >= 0) shim::note_attribute(fd, events < 0 ? 0 : state, events < 0 ? 0 : events);
  return fd;
}

// Users do not write to the SDK.
int open_sdk(const shim::SdkName& name, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0) {
    return as_errno(-EACCES);
  }
  return real_open(name.get(), flags);
}

// Opens one of ours; false when the path is the host's.
bool open_virtual(int dirfd, const char* path, int flags, int* result) {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) {
    const shim::SdkName name(path);
    if (name.ours()) *result = open_sdk(name, flags);
    return name.ours();
  }
  *result =
      place.kind == shim::Place::kDevice ? open_node(place, flags) : open_attribute(place, flags);
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
  if (shim::noted(fd) != nullptr) shim::forget_descriptor(fd);
  return SHIM_REAL(close)(fd);
}

namespace {

int duplicated(int from, int to) {
  if (to < 0) return to;
  if (shim::noted(from) != nullptr) {
    shim::note_copy(from, to);
  } else if (shim::noted(to) != nullptr) {
    shim::forget_descriptor(to);
  }
  return to;
}

}  // namespace

SHIM_EXPORT int dup(int from) noexcept {
  return duplicated(from, SHIM_REAL(dup)(from));
}

// dup2 and dup3 close what was behind the new number.
SHIM_EXPORT int dup2(int from, int to) noexcept {
  if (from == to) return SHIM_REAL(dup2)(from, to);
  shim::before_close(to);
  return duplicated(from, SHIM_REAL(dup2)(from, to));
}

SHIM_EXPORT int dup3(int from, int to, int flags) noexcept {
  if (from == to) return SHIM_REAL(dup3)(from, to, flags);
  shim::before_close(to);
  return duplicated(from, SHIM_REAL(dup3)(from, to, flags));
}

namespace {

// What F_GETFL says of an open device node beside what is set on the socket behind it.
int node_flags(int fd, int flags) {
  shim::DeviceFile file;
  if (flags < 0 || !shim::device_file(fd, &file)) return flags;
  constexpr int kLargeFile = 0100000;  // O_LARGEFILE, which headers for 64 bits have as 0
  constexpr int kChangeable = O_APPEND | O_NONBLOCK | O_ASYNC;
  constexpr int kKept = O_ACCMODE | O_APPEND | O_DSYNC | O_SYNC | O_NOFOLLOW;
  return (flags & kChangeable) | (file.flags & kKept) | kLargeFile;
}

}  // namespace

SHIM_EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const int result = SHIM_REAL(fcntl)(fd, command, argument);
  if (command == F_GETFL) return node_flags(fd, result);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) return duplicated(fd, result);
  return result;
}

SHIM_EXPORT int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl(fd, command, argument);
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
