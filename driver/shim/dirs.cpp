// Directory listings: sysfs directories are real ones elsewhere; /dev is the host's, with its own
// neuronN entries hidden and ours added at the end.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "driver/shim/client.h"
#include "driver/shim/paths.h"
#include "driver/shim/real.h"
#include "driver/shim/sdk.h"

namespace shim = driver::shim;

namespace {

static_assert(sizeof(dirent) == sizeof(dirent64), "one layout on 64-bit hosts");

// Open listings of /dev.
struct Listing {
  std::atomic<DIR*> stream{nullptr};
  int next = 0;  // minor to emit
  dirent64 entry = {};
};
constexpr int kMaxListings = 32;
Listing listings[kMaxListings];
std::atomic<int> open_listings{0};

Listing* listing_of(DIR* stream) {
  if (open_listings.load(std::memory_order_relaxed) == 0) return nullptr;
  for (Listing& listing : listings) {
    if (listing.stream.load(std::memory_order_acquire) == stream) return &listing;
  }
  return nullptr;
}

DIR* track(DIR* stream) {
  if (stream == nullptr) return nullptr;
  for (Listing& listing : listings) {
    DIR* expected = nullptr;
    if (listing.stream.compare_exchange_strong(expected, stream)) {
      listing.next = 0;
      open_listings.fetch_add(1, std::memory_order_relaxed);
      return stream;
    }
  }
  closedir(stream);
  errno = ENFILE;
  return nullptr;
}

bool is_node_name(const char* name) {
  constexpr char kPrefix[] = "neuron";
  if (strncmp(name, kPrefix, sizeof kPrefix - 1) != 0) return false;
  const char* digits = name + sizeof kPrefix - 1;
  return *digits != 0 && strspn(digits, "0123456789") == strlen(digits);
}

dirent64* next_node(Listing& listing) {
  while (listing.next < 64) {
    const int minor = listing.next++;
    if ((shim::facts.minors >> minor & 1) == 0) continue;
    listing.entry = {};
    listing.entry.d_ino = 0x4e000u + static_cast<unsigned>(minor);
    listing.entry.d_reclen = sizeof listing.entry;
    listing.entry.d_type = DT_CHR;
    snprintf(listing.entry.d_name, sizeof listing.entry.d_name, "neuron%d", minor);
    return &listing.entry;
  }
  return nullptr;
}

template <typename Entry, typename Real>
Entry* read_entry(DIR* stream, Real real) {
  Listing* listing = listing_of(stream);
  if (listing == nullptr) return real(stream);
  const int saved = errno;
  while (Entry* entry = real(stream)) {
    if (!is_node_name(entry->d_name)) return entry;
  }
  if (errno != saved) return nullptr;
  return reinterpret_cast<Entry*>(next_node(*listing));
}

}  // namespace

SHIM_EXPORT DIR* opendir(const char* path) {
  if (shim::facts.active && shim::is_dev_directory(path)) return track(SHIM_REAL(opendir)(path));
  shim::Place place;
  if (!shim::locate(AT_FDCWD, path, &place)) return SHIM_REAL(opendir)(shim::SdkName(path).get());
  if (place.kind == shim::Place::kTree) return SHIM_REAL(opendir)(place.path);
  errno = place.error != 0 ? place.error : ENOTDIR;
  return nullptr;
}

SHIM_EXPORT DIR* fdopendir(int fd) {
  DIR* stream = SHIM_REAL(fdopendir)(fd);
  if (stream == nullptr || !shim::facts.active) return stream;
  char link[32];
  char target[8] = {};
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const int saved = errno;
  const ssize_t length = SHIM_REAL(readlinkat)(AT_FDCWD, link, target, sizeof target - 1);
  errno = saved;
  return length > 0 && strcmp(target, "/dev") == 0 ? track(stream) : stream;
}

SHIM_EXPORT dirent* readdir(DIR* stream) {
  return read_entry<dirent>(stream, SHIM_REAL(readdir));
}

SHIM_EXPORT dirent64* readdir64(DIR* stream) {
  return read_entry<dirent64>(stream, SHIM_REAL(readdir64));
}

SHIM_EXPORT void rewinddir(DIR* stream) noexcept {
  if (Listing* listing = listing_of(stream)) listing->next = 0;
  SHIM_REAL(rewinddir)(stream);
}

SHIM_EXPORT int closedir(DIR* stream) {
  if (Listing* listing = listing_of(stream)) {
    open_listings.fetch_sub(1, std::memory_order_relaxed);
    listing->stream.store(nullptr, std::memory_order_release);
  }
  return SHIM_REAL(closedir)(stream);
}

namespace {

using Filter = int (*)(const dirent*);
using Compare = int (*)(const dirent**, const dirent**);

// libc's scandir opens the directory behind our back.
int scan_dev(dirent*** names, Filter filter, Compare compare) {
  DIR* stream = opendir("/dev");
  if (stream == nullptr) return -1;
  size_t count = 0;
  size_t room = 0;
  dirent** found = nullptr;
  while (const dirent* entry = readdir(stream)) {
    if (filter != nullptr && filter(entry) == 0) continue;
    if (count == room) {
      room = room == 0 ? 64 : room * 2;
      auto* larger = static_cast<dirent**>(realloc(found, room * sizeof *found));
      if (larger == nullptr) break;
      found = larger;
    }
    found[count] = static_cast<dirent*>(malloc(sizeof(dirent)));
    if (found[count] == nullptr) break;
    memset(found[count], 0, sizeof(dirent));
    memcpy(found[count], entry,
           entry->d_reclen < sizeof(dirent) ? entry->d_reclen : sizeof(dirent));
    ++count;
  }
  closedir(stream);
  if (compare != nullptr && count > 0) {
    qsort(found, count, sizeof *found,
          reinterpret_cast<int (*)(const void*, const void*)>(compare));
  }
  *names = found;
  return static_cast<int>(count);
}

}  // namespace

SHIM_EXPORT int scandir(const char* path, dirent*** names, Filter filter, Compare compare) {
  if (shim::facts.active && shim::is_dev_directory(path)) return scan_dev(names, filter, compare);
  shim::Place place;
  const char* target = shim::redirect(AT_FDCWD, path, &place);
  return SHIM_REAL(scandir)(target != nullptr ? target : shim::SdkName(path).get(), names, filter,
                            compare);
}

SHIM_EXPORT int scandir64(const char* path, dirent64*** names, int (*filter)(const dirent64*),
                          int (*compare)(const dirent64**, const dirent64**)) {
  return scandir(path, reinterpret_cast<dirent***>(names), reinterpret_cast<Filter>(filter),
                 reinterpret_cast<Compare>(compare));
}

namespace {

// glob(3) takes the directory functions to use from its argument.
void* glob_open(const char* path) {
  return opendir(path);
}
dirent* glob_read(void* stream) {
  return readdir(static_cast<DIR*>(stream));
}
void glob_close(void* stream) {
  closedir(static_cast<DIR*>(stream));
}
int glob_lstat(const char* path, struct stat* to) {
  return lstat(path, to);
}
int glob_stat(const char* path, struct stat* to) {
  return stat(path, to);
}

using GlobError = int (*)(const char*, int);

template <typename Real>
int glob_virtual(const char* pattern, int flags, GlobError error, glob_t* result, Real real) {
  const bool ours = shim::facts.active && pattern != nullptr && (flags & GLOB_ALTDIRFUNC) == 0 &&
                    (strncmp(pattern, "/dev", 4) == 0 || strncmp(pattern, "/sys", 4) == 0 ||
                     strncmp(pattern, "/opt", 4) == 0);
  if (!ours) return real(pattern, flags, error, result);
  result->gl_opendir = glob_open;
  result->gl_readdir = glob_read;
  result->gl_closedir = glob_close;
  result->gl_lstat = glob_lstat;
  result->gl_stat = glob_stat;
  return real(pattern, flags | GLOB_ALTDIRFUNC, error, result);
}

}  // namespace

SHIM_EXPORT int glob(const char* pattern, int flags, GlobError error, glob_t* result) noexcept {
  return glob_virtual(pattern, flags, error, result, SHIM_REAL_VERSION(glob, "GLIBC_2.27"));
}

SHIM_EXPORT int glob64(const char* pattern, int flags, GlobError error, glob64_t* result) noexcept {
  static_assert(sizeof(glob_t) == sizeof(glob64_t), "one layout on 64-bit hosts");
  return glob(pattern, flags, error, reinterpret_cast<glob_t*>(result));
}
