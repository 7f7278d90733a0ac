// Calls that make, remove and rename names, and chmod and chown. sysfs takes no names from programs
// and gives none up; a node's mode and owner can be changed. Real files would follow where these
// names lead, so nothing here may reach libc.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/shim/client.h"
#include "driver/shim/descriptors.h"
#include "driver/shim/paths.h"
#include "driver/shim/real.h"
#include "driver/shim/sdk.h"

namespace shim = driver::shim;

namespace {

// 0, or the errno of asking for it.
int absent(const shim::Place& place) {
  if (place.kind == shim::Place::kDevice) return place.error;
  struct stat info;
  return SHIM_REAL(lstat)(place.path, &info) == 0 ? 0 : errno;
}

// Users change nothing in the SDK.
bool refuses_sdk(const char* path, int* result) {
  if (!shim::is_sdk_name(path)) return false;
  *result = shim::fail(EACCES);
  return true;
}

// Whether `path` is one of ours: no new name can stand there. *result is -1.
bool refuses_name(int dirfd, const char* path, int* result) {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) return refuses_sdk(path, result);
  const int missing = absent(place);
  *result = shim::fail(missing == 0 ? EEXIST : missing == ENOENT ? EPERM : missing);
  return true;
}

// Whether `path` is one of ours: it cannot be removed.
bool refuses_removal(int dirfd, const char* path, int* result) {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) return refuses_sdk(path, result);
  const int missing = absent(place);
  *result = shim::fail(missing == 0 ? EPERM : missing);
  return true;
}

bool refuses_rename(int from_dir, const char* from, int to_dir, const char* to, int* result) {
  shim::Place old_place;
  shim::Place new_place;
  const bool ours = shim::locate(from_dir, from, &old_place);
  const bool onto_ours = shim::locate(to_dir, to, &new_place);
  if (!ours && !onto_ours) return refuses_sdk(from, result) || refuses_sdk(to, result);
  const int missing = ours ? absent(old_place) : 0;
  *result = shim::fail(missing != 0 ? missing : ours != onto_ours ? EXDEV : EPERM);
  return true;
}

}  // namespace

SHIM_EXPORT int mkdirat(int dirfd, const char* path, mode_t mode) noexcept {
  int result;
  if (refuses_name(dirfd, path, &result)) return result;
  return SHIM_REAL(mkdirat)(dirfd, path, mode);
}
SHIM_EXPORT int mkdir(const char* path, mode_t mode) noexcept {
  int result;
  if (refuses_name(AT_FDCWD, path, &result)) return result;
  return SHIM_REAL(mkdir)(path, mode);
}

SHIM_EXPORT int mknodat(int dirfd, const char* path, mode_t mode, dev_t device) noexcept {
  int result;
  if (refuses_name(dirfd, path, &result)) return result;
  return SHIM_REAL(mknodat)(dirfd, path, mode, device);
}
SHIM_EXPORT int mknod(const char* path, mode_t mode, dev_t device) noexcept {
  return mknodat(AT_FDCWD, path, mode, device);
}

SHIM_EXPORT int symlinkat(const char* target, int dirfd, const char* path) noexcept {
  int result;
  if (refuses_name(dirfd, path, &result)) return result;
  return SHIM_REAL(symlinkat)(target, dirfd, path);
}
SHIM_EXPORT int symlink(const char* target, const char* path) noexcept {
  return symlinkat(target, AT_FDCWD, path);
}

SHIM_EXPORT int linkat(int from_dir, const char* from, int to_dir, const char* to,
                       int flags) noexcept {
  int result;
  if (refuses_rename(from_dir, from, to_dir, to, &result)) return result;
  return SHIM_REAL(linkat)(from_dir, from, to_dir, to, flags);
}
SHIM_EXPORT int link(const char* from, const char* to) noexcept {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

SHIM_EXPORT int unlinkat(int dirfd, const char* path, int flags) noexcept {
  int result;
  if (refuses_removal(dirfd, path, &result)) return result;
  return SHIM_REAL(unlinkat)(dirfd, path, flags);
}
SHIM_EXPORT int unlink(const char* path) noexcept {
  int result;
  if (refuses_removal(AT_FDCWD, path, &result)) return result;
  return SHIM_REAL(unlink)(path);
}
SHIM_EXPORT int rmdir(const char* path) noexcept {
  int result;
  if (refuses_removal(AT_FDCWD, path, &result)) return result;
  return SHIM_REAL(rmdir)(path);
}
SHIM_EXPORT int remove(const char* path) noexcept {
  int result;
  if (refuses_removal(AT_FDCWD, path, &result)) return result;
  return SHIM_REAL(remove)(path);
}

SHIM_EXPORT int renameat2(int from_dir, const char* from, int to_dir, const char* to,
                          unsigned flags) noexcept {
  int result;
  if (refuses_rename(from_dir, from, to_dir, to, &result)) return result;
  return SHIM_REAL(renameat2)(from_dir, from, to_dir, to, flags);
}
SHIM_EXPORT int renameat(int from_dir, const char* from, int to_dir, const char* to) noexcept {
  int result;
  if (refuses_rename(from_dir, from, to_dir, to, &result)) return result;
  return SHIM_REAL(renameat)(from_dir, from, to_dir, to);
}
SHIM_EXPORT int rename(const char* from, const char* to) noexcept {
  int result;
  if (refuses_rename(AT_FDCWD, from, AT_FDCWD, to, &result)) return result;
  return SHIM_REAL(rename)(from, to);
}

// An attribute takes any length and keeps its own.
SHIM_EXPORT int truncate(const char* path, off_t length) noexcept {
  shim::Place place;
  if (!shim::locate(AT_FDCWD, path, &place)) return SHIM_REAL(truncate)(path, length);
  if (const int missing = absent(place)) return shim::fail(missing);
  return place.kind == shim::Place::kDevice ? shim::fail(EINVAL) : 0;
}
SHIM_EXPORT int truncate64(const char* path, off64_t length) noexcept {
  return truncate(path, length);
}

namespace {

// The file that keeps a node's mode and owner, made when there is something to keep; null with
// errno.
const char* stand_in(const shim::Place& place) {
  if (place.error != 0) {
    errno = place.error;
    return nullptr;
  }
  return shim::make_stand_in(place) ? place.path : nullptr;
}

// Of an open node, or of its name open with O_PATH.
bool node_of(int fd, shim::Place* place) {
  shim::DeviceFile file;
  if (!shim::uses_devices() || !shim::device_file(fd, &file)) return false;
  place->minor = file.minor;
  snprintf(place->path, sizeof place->path, "%s/dev/neuron%d", shim::facts.root, file.minor);
  return true;
}

}  // namespace

SHIM_EXPORT int fchmodat(int dirfd, const char* path, mode_t mode, int flags) noexcept {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) return SHIM_REAL(fchmodat)(dirfd, path, mode, flags);
  const char* file = place.kind == shim::Place::kDevice ? stand_in(place) : place.path;
  return file == nullptr ? -1 : SHIM_REAL(chmod)(file, mode);
}
SHIM_EXPORT int chmod(const char* path, mode_t mode) noexcept {
  return fchmodat(AT_FDCWD, path, mode, 0);
}
SHIM_EXPORT int fchmod(int fd, mode_t mode) noexcept {
  shim::Place place;
  if (!node_of(fd, &place)) return SHIM_REAL(fchmod)(fd, mode);
  const char* file = stand_in(place);
  return file == nullptr ? -1 : SHIM_REAL(chmod)(file, mode);
}

SHIM_EXPORT int fchownat(int dirfd, const char* path, uid_t owner, gid_t group,
                         int flags) noexcept {
  shim::Place place;
  if (!shim::locate(dirfd, path, &place)) {
    return SHIM_REAL(fchownat)(dirfd, path, owner, group, flags);
  }
  const char* file = place.kind == shim::Place::kDevice ? stand_in(place) : place.path;
  return file == nullptr ? -1 : SHIM_REAL(chown)(file, owner, group);
}
SHIM_EXPORT int chown(const char* path, uid_t owner, gid_t group) noexcept {
  return fchownat(AT_FDCWD, path, owner, group, 0);
}
SHIM_EXPORT int lchown(const char* path, uid_t owner, gid_t group) noexcept {
  return fchownat(AT_FDCWD, path, owner, group, AT_SYMLINK_NOFOLLOW);
}
SHIM_EXPORT int fchown(int fd, uid_t owner, gid_t group) noexcept {
  shim::Place place;
  if (!node_of(fd, &place)) return SHIM_REAL(fchown)(fd, owner, group);
  const char* file = stand_in(place);
  return file == nullptr ? -1 : SHIM_REAL(chown)(file, owner, group);
}
