// Questions about paths and names: a device node must look like a character device, sysfs names
// lead into the tree.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "driver/shim/client.h"
#include "driver/shim/descriptors.h"
#include "driver/shim/paths.h"
#include "driver/shim/real.h"
#include "driver/shim/sdk.h"

namespace shim = driver::shim;

namespace {

constexpr unsigned long kFirstInode = 0x4e000;
constexpr int64_t kAttributeSize = 4096;  // what sysfs says of every attribute

struct NodeState {
  mode_t mode = S_IFCHR | shim::kNodeMode;
  uid_t uid = 0;
  gid_t gid = 0;
};

// What chmod and chown have made of the node.
NodeState state_of(const shim::Place& place) {
  NodeState state;
  const int saved = errno;
  struct stat info;
  if (SHIM_REAL(stat)(place.path, &info) == 0) {
    state = {S_IFCHR | (info.st_mode & 07777), info.st_uid, info.st_gid};
  }
  errno = saved;
  return state;
}

template <typename Stat>
int fill(const shim::Place& place, Stat* to) {
  if (place.error != 0) return shim::fail(place.error);
  const NodeState state = state_of(place);
  *to = {};
  to->st_mode = state.mode;
  to->st_uid = state.uid;
  to->st_gid = state.gid;
  to->st_nlink = 1;
  to->st_ino = kFirstInode + static_cast<unsigned long>(place.minor);
  to->st_rdev = makedev(shim::facts.major, static_cast<unsigned>(place.minor));
  to->st_blksize = 4096;
  return 0;
}

int fill_statx(const shim::Place& place, struct statx* to) {
  if (place.error != 0) return shim::fail(place.error);
  const NodeState state = state_of(place);
  *to = {};
  to->stx_mask = STATX_BASIC_STATS;
  to->stx_mode = static_cast<uint16_t>(state.mode);
  to->stx_uid = state.uid;
  to->stx_gid = state.gid;
  to->stx_nlink = 1;
  to->stx_ino = kFirstInode + static_cast<unsigned long>(place.minor);
  to->stx_rdev_major = shim::facts.major;
  to->stx_rdev_minor = static_cast<uint32_t>(place.minor);
  to->stx_blksize = 4096;
  return 0;
}

bool in_sysfs(const shim::Place& place) {
  return strncmp(place.virtual_path(), "/sys/", 5) == 0;
}

// The files behind attributes are made anew all the time and shared while nobody has read them;
// what is told of them stays.
template <typename Stat>
int as_tree(const shim::Place& place, Stat* to, int result) {
  if (result != 0) return result;
  if (S_ISREG(to->st_mode)) {
    to->st_ino = shim::inode_of(place);
    to->st_nlink = 1;
    to->st_blocks = 0;
  }
  to->st_size = in_sysfs(place) && S_ISREG(to->st_mode) ? kAttributeSize : 0;
  return 0;
}

int as_tree_x(const shim::Place& place, struct statx* to, int result) {
  if (result != 0) return result;
  if (S_ISREG(to->stx_mode)) {
    to->stx_ino = shim::inode_of(place);
    to->stx_nlink = 1;
    to->stx_blocks = 0;
  }
  to->stx_size = in_sysfs(place) && S_ISREG(to->stx_mode) ? kAttributeSize : 0;
  return 0;
}

shim::Place node_place(int minor) {
  shim::Place place;
  place.kind = shim::Place::kDevice;
  place.minor = minor;
  snprintf(place.path, sizeof place.path, "%s/dev/neuron%d", shim::facts.root, minor);
  return place;
}

// A descriptor of a node is a socket underneath, one of an attribute or of a node's name a file.
template <typename Stat>
int fix_fstat(int fd, Stat* to, int result) {
  if (result != 0) return result;
  shim::DeviceFile file;
  if (S_ISSOCK(to->st_mode) && shim::device_file(fd, &file))
    return fill(node_place(file.minor), to);
  shim::Place place;
  if (!S_ISREG(to->st_mode) || !shim::tree_file(fd, &place)) return 0;
  return place.kind == shim::Place::kDevice ? fill(place, to) : as_tree(place, to, 0);
}

}  // namespace

#define SHIM_STAT(name, type)                                        \
  SHIM_EXPORT int name(const char* path, struct type* to) noexcept { \
    shim::Place place;                                               \
    if (!shim::locate(AT_FDCWD, path, &place)) {                     \
      return SHIM_REAL(name)(shim::SdkName(path).get(), to);         \
    }                                                                \
    if (place.kind == shim::Place::kDevice) return fill(place, to);  \
    return as_tree(place, to, SHIM_REAL(name)(place.path, to));      \
  }
SHIM_STAT(stat, stat)
SHIM_STAT(stat64, stat64)
SHIM_STAT(lstat, stat)
SHIM_STAT(lstat64, stat64)

SHIM_EXPORT int fstat(int fd, struct stat* to) noexcept {
  return fix_fstat(fd, to, SHIM_REAL(fstat)(fd, to));
}
SHIM_EXPORT int fstat64(int fd, struct stat64* to) noexcept {
  return fix_fstat(fd, to, SHIM_REAL(fstat64)(fd, to));
}

#define SHIM_FSTATAT(name, type)                                                           \
  SHIM_EXPORT int name(int dirfd, const char* path, struct type* to, int flags) noexcept { \
    shim::Place place;                                                                     \
    if (!shim::locate(dirfd, path, &place)) {                                              \
      const int result = SHIM_REAL(name)(dirfd, shim::SdkName(path).get(), to, flags);     \
      return (flags & AT_EMPTY_PATH) != 0 ? fix_fstat(dirfd, to, result) : result;         \
    }                                                                                      \
    if (place.kind == shim::Place::kDevice) return fill(place, to);                        \
    return as_tree(place, to, SHIM_REAL(name)(AT_FDCWD, place.path, to, flags));           \
  }
SHIM_FSTATAT(fstatat, stat)
SHIM_FSTATAT(fstatat64, stat64)

SHIM_EXPORT int statx(int dirfd, const char* path, int flags, unsigned mask,
                      struct statx* to) noexcept {
  shim::Place place;
  if (shim::locate(dirfd, path, &place)) {
    if (place.kind == shim::Place::kDevice) return fill_statx(place, to);
    return as_tree_x(place, to, SHIM_REAL(statx)(AT_FDCWD, place.path, flags, mask, to));
  }
  const int result = SHIM_REAL(statx)(dirfd, shim::SdkName(path).get(), flags, mask, to);
  if (result != 0 || (flags & AT_EMPTY_PATH) == 0) return result;
  shim::DeviceFile file;
  if (S_ISSOCK(to->stx_mode) && shim::device_file(dirfd, &file)) {
    return fill_statx(node_place(file.minor), to);
  }
  if (!S_ISREG(to->stx_mode) || !shim::tree_file(dirfd, &place)) return 0;
  return place.kind == shim::Place::kDevice ? fill_statx(place, to) : as_tree_x(place, to, 0);
}

// Entry points of programs built against a C library before 2.33; the version argument has one
// value.
#define SHIM_XSTAT(name, modern, type)                                    \
  SHIM_EXPORT int name(int, const char* path, struct type* to) noexcept { \
    return modern(path, to);                                              \
  }
extern "C" {
int __xstat(int version, const char* path, struct stat* to) noexcept;
int __xstat64(int version, const char* path, struct stat64* to) noexcept;
int __lxstat(int version, const char* path, struct stat* to) noexcept;
int __lxstat64(int version, const char* path, struct stat64* to) noexcept;
int __fxstat(int version, int fd, struct stat* to) noexcept;
int __fxstat64(int version, int fd, struct stat64* to) noexcept;
}
SHIM_XSTAT(__xstat, stat, stat)
SHIM_XSTAT(__xstat64, stat64, stat64)
SHIM_XSTAT(__lxstat, lstat, stat)
SHIM_XSTAT(__lxstat64, lstat64, stat64)
SHIM_EXPORT int __fxstat(int, int fd, struct stat* to) noexcept {
  return fstat(fd, to);
}
SHIM_EXPORT int __fxstat64(int, int fd, struct stat64* to) noexcept {
  return fstat64(fd, to);
}

SHIM_EXPORT int access(const char* path, int mode) noexcept {
  return faccessat(AT_FDCWD, path, mode, 0);
}

SHIM_EXPORT int euidaccess(const char* path, int mode) noexcept {
  return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

SHIM_EXPORT int faccessat(int dirfd, const char* path, int mode, int flags) noexcept {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) {
    const shim::SdkName name(path);
    if (name.ours() && (mode & W_OK) != 0) return shim::fail(EACCES);
    return SHIM_REAL(faccessat)(dirfd, name.get(), mode, flags);
  }
  if (place.kind == shim::Place::kTree) {
    return SHIM_REAL(faccessat)(AT_FDCWD, place.path, mode, flags);
  }
  if (place.error != 0) return shim::fail(place.error);
  const int saved = errno;
  struct stat info;
  if (SHIM_REAL(stat)(place.path, &info) == 0) {
    return SHIM_REAL(faccessat)(AT_FDCWD, place.path, mode, flags);
  }
  errno = saved;
  return (mode & X_OK) == 0 ? 0 : shim::fail(EACCES);
}

SHIM_EXPORT ssize_t readlinkat(int dirfd, const char* path, char* buffer, size_t size) noexcept {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) {
    return SHIM_REAL(readlinkat)(dirfd, shim::SdkName(path).get(), buffer, size);
  }
  if (place.kind == shim::Place::kTree) {
    return SHIM_REAL(readlinkat)(AT_FDCWD, place.path, buffer, size);
  }
  return shim::fail(place.error != 0 ? place.error : EINVAL);
}

SHIM_EXPORT ssize_t readlink(const char* path, char* buffer, size_t size) noexcept {
  return readlinkat(AT_FDCWD, path, buffer, size);
}

SHIM_EXPORT char* realpath(const char* path, char* resolved) noexcept {
  shim::Place place;
  if (!shim::locate(AT_FDCWD, path, &place)) {
    return SHIM_REAL(realpath)(shim::SdkName(path).get(), resolved);
  }
  char real[PATH_MAX] = {};
  if (place.kind == shim::Place::kDevice) {
    if (place.error != 0) {
      errno = place.error;
      return nullptr;
    }
    snprintf(real, sizeof real, "/dev/neuron%d", place.minor);
  } else if (SHIM_REAL(realpath)(place.path, real) == nullptr) {
    return nullptr;
  }
  const char* result = real + shim::root_prefix(real);
  return resolved == nullptr ? strdup(result) : strcpy(resolved, result);
}

SHIM_EXPORT int chdir(const char* path) noexcept {
  shim::Place place;
  const char* target = shim::redirect(AT_FDCWD, path, &place);
  if (place.kind == shim::Place::kDevice) {
    return shim::fail(place.error != 0 ? place.error : ENOTDIR);
  }
  const int result = SHIM_REAL(chdir)(target != nullptr ? target : shim::SdkName(path).get());
  // Relative names keep leading into the tree while the working directory is in it.
  if (result == 0 && shim::facts.active && (target != nullptr || path[0] == '/')) {
    shim::facts.inside_tree = target != nullptr;
  }
  return result;
}

// The node's name, on a platform whose nodes have one.
SHIM_EXPORT int gethostname(char* name, size_t size) noexcept {
  if (!shim::facts.active || shim::facts.host_name[0] == 0) {
    return SHIM_REAL(gethostname)(name, size);
  }
  const size_t length = strlen(shim::facts.host_name);
  if (length >= size) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(name, shim::facts.host_name, length + 1);
  return 0;
}

SHIM_EXPORT int uname(utsname* to) noexcept {
  const int result = SHIM_REAL(uname)(to);
  if (result == 0 && shim::facts.active && shim::facts.host_name[0] != 0) {
    strcpy(to->nodename, shim::facts.host_name);
  }
  return result;
}
