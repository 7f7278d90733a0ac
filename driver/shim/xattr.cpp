// Extended attributes: there are none on device nodes and in sysfs, which ls and cp ask about.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>

#include "driver/shim/client.h"
#include "driver/shim/descriptors.h"
#include "driver/shim/real.h"

namespace shim = driver::shim;

namespace {

bool starts(const char* name, const char* prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

// sysfs knows no access lists; what it could keep, and nodes in /dev, just have nothing.
int no_value(const shim::Place& place, const char* name) {
  if (place.kind == shim::Place::kDevice)
    return shim::fail(place.error != 0 ? place.error : ENODATA);
  return shim::fail(starts(name, "system.") ? EOPNOTSUPP : ENODATA);
}

int no_list(const shim::Place& place) {
  return place.error != 0 ? shim::fail(place.error) : 0;
}

int not_kept(const shim::Place& place) {
  return shim::fail(place.error != 0 ? place.error : EOPNOTSUPP);
}

// The place of an open node or attribute.
bool open_place(int fd, shim::Place* place) {
  shim::DeviceFile file;
  if (shim::tree_file(fd, place)) return true;
  if (!shim::uses_devices() || !shim::device_file(fd, &file)) return false;
  place->kind = shim::Place::kDevice;
  place->minor = file.minor;
  return true;
}

bool named_place(const char* path, shim::Place* place) {
  return shim::locate(AT_FDCWD, path, place);
}

}  // namespace

#define SHIM_XATTR(prefix, type, find)                                                          \
  SHIM_EXPORT ssize_t prefix##getxattr(type what, const char* name, void* value,                \
                                       size_t size) noexcept {                                  \
    shim::Place place;                                                                          \
    if (find(what, &place)) return no_value(place, name);                                       \
    return SHIM_REAL(prefix##getxattr)(what, name, value, size);                                \
  }                                                                                             \
  SHIM_EXPORT ssize_t prefix##listxattr(type what, char* list, size_t size) noexcept {          \
    shim::Place place;                                                                          \
    if (find(what, &place)) return no_list(place);                                              \
    return SHIM_REAL(prefix##listxattr)(what, list, size);                                      \
  }                                                                                             \
  SHIM_EXPORT int prefix##setxattr(type what, const char* name, const void* value, size_t size, \
                                   int flags) noexcept {                                        \
    shim::Place place;                                                                          \
    if (find(what, &place)) return not_kept(place);                                             \
    return SHIM_REAL(prefix##setxattr)(what, name, value, size, flags);                         \
  }                                                                                             \
  SHIM_EXPORT int prefix##removexattr(type what, const char* name) noexcept {                   \
    shim::Place place;                                                                          \
    if (find(what, &place)) return not_kept(place);                                             \
    return SHIM_REAL(prefix##removexattr)(what, name);                                          \
  }
SHIM_XATTR(, const char*, named_place)
SHIM_XATTR(l, const char*, named_place)
SHIM_XATTR(f, int, open_place)
