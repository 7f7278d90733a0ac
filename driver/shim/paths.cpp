#include "driver/shim/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "driver/shim/client.h"
#include "driver/shim/real.h"

namespace driver::shim {
namespace {

std::atomic<bool> tree_prepared{false};
std::atomic<uint64_t> devices_prepared{0};  // by minor

bool below(const char* path, const char* directory) {
  const size_t length = strlen(directory);
  return strncmp(path, directory, length) == 0 && (path[length] == 0 || path[length] == '/');
}

// Removes repeated slashes and "/./"; false when the name is too long to be one of ours.
// `directory`: the name ends as only a directory's may.
bool clean(const char* from, char* to, size_t room, bool* directory = nullptr) {
  size_t used = 0;
  while (*from != 0) {
    if (from[0] == '/') {
      while (from[1] == '/' || (from[1] == '.' && from[2] == '/')) from += from[1] == '/' ? 1 : 2;
    }
    const bool last = from[0] == '/' && from[1] == '.' && from[2] == 0;
    if (used + 1 >= room) return false;
    to[used++] = *from++;
    if (last) break;
  }
  const bool slash = used > 1 && to[used - 1] == '/';
  if (slash) --used;
  to[used] = 0;
  if (directory != nullptr) *directory = slash;
  return true;
}

// The N of "/dev/neuronN" and of names below it, which start at *rest.
int node_number(const char* path, const char** rest) {
  constexpr char kPrefix[] = "/dev/neuron";
  if (strncmp(path, kPrefix, sizeof kPrefix - 1) != 0) return -1;
  const char* digit = path + sizeof kPrefix - 1;
  if (digit[0] == '0' && digit[1] >= '0' && digit[1] <= '9') return -1;
  int minor = 0;
  const char* first = digit;
  for (; *digit >= '0' && *digit <= '9'; ++digit) {
    if (minor > 99) return -1;
    minor = minor * 10 + (*digit - '0');
  }
  *rest = digit;
  return digit != first && (*digit == 0 || *digit == '/') && minor < 64 ? minor : -1;
}

bool listed(const char* path) {
  const char* entry = facts.extra_paths;
  for (uint32_t i = 0; i < facts.extra_count; ++i) {
    if (strcmp(entry, path) == 0) return true;
    entry += strlen(entry) + 1;
  }
  return false;
}

bool in_tree(const char* path) {
  return below(path, "/sys/class/neuron_device") ||
         below(path, "/sys/devices/virtual/neuron_device") || below(path, "/sys/module/neuron") ||
         strcmp(path, "/proc/devices") == 0 || (facts.extra_count > 0 && listed(path));
}

// The device whose directory a name of the tree leads through, or -1.
int device_in(const char* path) {
  constexpr char kPart[] = "/neuron_device/neuron";
  const char* at = strstr(path, kPart);
  if (at == nullptr) return -1;
  char* end = nullptr;
  const char* digits = at + sizeof kPart - 1;
  const unsigned long minor = strtoul(digits, &end, 10);
  return end != digits && (*end == 0 || *end == '/') && minor < 64 ? static_cast<int>(minor) : -1;
}

// The server makes the files of a device when somebody looks.
void prepare_tree(const char* path) {
  const int minor = device_in(path);
  const uint64_t bit = minor < 0 ? 0 : uint64_t{1} << minor;
  if (tree_prepared.load(std::memory_order_relaxed) &&
      (devices_prepared.load(std::memory_order_relaxed) & bit) == bit) {
    return;
  }
  wire::SysfsBody body = {};
  copy_path(&body, path);
  if (call(wire::kSysfsRefresh, 0, &body, sizeof body) >= 0) {
    tree_prepared.store(true, std::memory_order_relaxed);
    devices_prepared.fetch_or(bit, std::memory_order_relaxed);
  }
}

// The directory that a relative name starts from, when it can be one of ours.
bool directory_of(int dirfd, char* to, size_t room) {
  const int saved = errno;
  bool ok = false;
  if (dirfd == AT_FDCWD) {
    ok = facts.inside_tree && syscall(SYS_getcwd, to, room) > 0;
  } else {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
    const long length = syscall(SYS_readlinkat, AT_FDCWD, link, to, room - 1);
    ok = length > 0;
    if (ok) to[length] = 0;
  }
  errno = saved;
  return ok && (root_prefix(to) > 0 || strcmp(to, "/dev") == 0);
}

}  // namespace

int device_minor(const char* path) {
  const char* rest = path;
  const int minor = node_number(path, &rest);
  return *rest == 0 ? minor : -1;
}

size_t root_prefix(const char* path) {
  if (facts.root_length == 0 || strncmp(path, facts.root, facts.root_length) != 0) return 0;
  return path[facts.root_length] == '/' ? facts.root_length : 0;
}

const char* Place::virtual_path() const {
  return path + root_prefix(path);
}

bool is_dev_directory(const char* path) {
  char name[16];
  return path != nullptr && path[0] == '/' && clean(path, name, sizeof name) &&
         strcmp(name, "/dev") == 0;
}

bool locate(int dirfd, const char* path, Place* place) {
  place->kind = Place::kHost;
  if (!facts.active || path == nullptr || path[0] == 0) return false;
  char joined[2 * wire::kMaxPath];
  if (path[0] != '/') {
    char directory[wire::kMaxPath];
    if (dirfd == AT_FDCWD && !facts.inside_tree) return false;
    if (!directory_of(dirfd, directory, sizeof directory)) return false;
    const size_t skip = root_prefix(directory);
    snprintf(joined, sizeof joined, "%s/%s", directory + skip, path);
    path = joined;
  }
  const bool candidate = strncmp(path, "/dev", 4) == 0 || strncmp(path, "/sys", 4) == 0 ||
                         strncmp(path, "/proc", 5) == 0 || path[1] == '/' || path[1] == '.';
  char name[wire::kMaxPath];
  bool directory = false;
  if (!candidate || !clean(path, name, sizeof name, &directory)) return false;
  const char* below_node = nullptr;
  place->minor = node_number(name, &below_node);
  if (place->minor >= 0) {
    place->kind = Place::kDevice;
    const bool exists = (facts.minors >> place->minor & 1) != 0;
    place->error = !exists ? ENOENT : directory || *below_node != 0 ? ENOTDIR : 0;
    snprintf(place->path, sizeof place->path, "%s/dev/neuron%d", facts.root, place->minor);
    return true;
  }
  if (!in_tree(name)) return false;
  prepare_tree(name);
  place->kind = Place::kTree;
  snprintf(place->path, sizeof place->path, "%s%s%s", facts.root, name, directory ? "/" : "");
  return true;
}

bool make_stand_in(const Place& place) {
  char directory[2 * wire::kMaxPath];
  snprintf(directory, sizeof directory, "%s/dev", facts.root);
  constexpr mode_t kOpen = 0755;
  if (SHIM_REAL(mkdir)(facts.root, kOpen) != 0 && errno != EEXIST) return false;
  if (SHIM_REAL(mkdir)(directory, kOpen) != 0 && errno != EEXIST) return false;
  const auto fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, place.path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd < 0) return errno == EEXIST;
  const bool made = SHIM_REAL(fchmod)(fd, kNodeMode) == 0;
  syscall(SYS_close, fd);
  return made;
}

uint64_t inode_of(const Place& place) {
  const char* path = place.virtual_path();
  char resolved[PATH_MAX];
  // Names that go up or through the links of the tree.
  if (strstr(path, "/..") != nullptr || strstr(path, "/subsystem") != nullptr) {
    if (SHIM_REAL(realpath)(place.path, resolved) != nullptr) {
      path = resolved + root_prefix(resolved);
    }
  }
  constexpr char kClass[] = "/sys/class/neuron_device/neuron";
  constexpr char kDevices[] = "/sys/devices/virtual/neuron_device/neuron";
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](const char* text) {
    for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  };
  const bool by_class = strncmp(path, kClass, sizeof kClass - 1) == 0;
  add(by_class ? kDevices : "");
  add(by_class ? path + sizeof kClass - 1 : path);
  return hash >> 24 | 1;  // 40 bits: programs print it
}

const char* redirect(int dirfd, const char* path, Place* place) {
  return locate(dirfd, path, place) && place->kind == Place::kTree ? place->path : nullptr;
}

int64_t refresh(const Place& place) {
  wire::SysfsBody body = {};
  copy_path(&body, place.virtual_path());
  return call(wire::kSysfsRefresh, 0, &body, sizeof body);
}

}  // namespace driver::shim
