#include "driver/shim/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver/shim/client.h"
#include "driver/shim/real.h"

namespace driver::shim {

Descriptor descriptors[kDescriptors];
std::atomic<bool> any_descriptor{false};

namespace {

bool tracked(int fd) {
  return fd >= 0 && fd < kDescriptors;
}

void close_watch(Descriptor& descriptor) {
  const int watch = descriptor.watch.exchange(-1, std::memory_order_acq_rel);
  // A forked child has a copy of its parent's: closed as well.
  if (watch >= 0) syscall(SYS_close, watch);
}

void drain(Descriptor& descriptor) {
  const int watch = descriptor.watch.load(std::memory_order_acquire);
  char events[64];
  while (watch >= 0 && recv(watch, events, sizeof events, MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

void note_descriptor(int fd) {
  if (!tracked(fd)) return;
  Descriptor& descriptor = descriptors[fd];
  close_watch(descriptor);
  descriptor.text_of.store(0, std::memory_order_relaxed);
  descriptor.events.store(0, std::memory_order_relaxed);
  descriptor.read.store(false, std::memory_order_relaxed);
  descriptor.ours.store(true, std::memory_order_release);
  any_descriptor.store(true, std::memory_order_relaxed);
}

void note_attribute(int fd, uint64_t text_of, int64_t events) {
  note_descriptor(fd);
  if (!tracked(fd)) return;
  descriptors[fd].events.store(static_cast<uint32_t>(events), std::memory_order_relaxed);
  descriptors[fd].text_of.store(text_of, std::memory_order_relaxed);
}

void note_copy(int from, int to) {
  const Descriptor* source = noted(from);
  if (source == nullptr) return;
  note_attribute(to, source->text_of.load(std::memory_order_relaxed),
                 source->events.load(std::memory_order_relaxed));
  if (tracked(to)) descriptors[to].read.store(source->read.load(std::memory_order_relaxed));
}

void forget_descriptor(int fd) {
  if (!tracked(fd)) return;
  descriptors[fd].ours.store(false, std::memory_order_release);
  close_watch(descriptors[fd]);
}

uint64_t page_state() {
  const StatusLayout& page = *facts.page;
  // Generations begin anew after 2^32; the bit keeps 0 free.
  return uint64_t{page.generation.load(std::memory_order_acquire)} << 32 |
         page.changes.load(std::memory_order_acquire) | uint64_t{1} << 63;
}

bool tree_file(int fd, Place* place) {
  if (noted(fd) == nullptr) return false;
  const int saved = errno;
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, place->path, sizeof place->path - 1);
  errno = saved;
  if (length <= 0) return false;
  place->path[length] = 0;
  // Another reader's text has taken the name meanwhile.
  constexpr char kDeleted[] = " (deleted)";
  char* end = place->path + length - (sizeof kDeleted - 1);
  if (end > place->path && strcmp(end, kDeleted) == 0) *end = 0;
  const size_t prefix = root_prefix(place->path);
  if (prefix == 0) return false;
  place->minor = device_minor(place->path + prefix);
  place->kind = place->minor >= 0 ? Place::kDevice : Place::kTree;
  return true;
}

int renew_text(int fd, int64_t position) {
  Descriptor* descriptor = noted(fd);
  Place place;
  if (descriptor == nullptr) return 0;
  if (!tree_file(fd, &place)) {
    DeviceFile file;
    if (!device_file(fd, &file)) forget_descriptor(fd);
    return 0;
  }
  if (place.kind != Place::kTree) return 0;
  const int saved = errno;
  const off_t stands = SHIM_REAL(lseek)(fd, 0, SEEK_CUR);
  if (position < 0) position = stands;
  const int flags = SHIM_REAL(fcntl)(fd, F_GETFL);
  errno = saved;
  if (position != 0 || flags < 0 || (flags & O_PATH) != 0) return 0;
  descriptor->read.store(true, std::memory_order_relaxed);
  const uint64_t now = page_state();
  if (descriptor->text_of.load(std::memory_order_relaxed) == now) return 0;
  drain(*descriptor);
  const int64_t events = refresh(place);
  if (events < 0) return static_cast<int>(events);
  const int fresh = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, place.path, (flags & ~O_ACCMODE) | O_RDONLY | O_CLOEXEC, 0));
  if (fresh < 0) return 0;
  if (stands > 0) SHIM_REAL(lseek)(fresh, stands, SEEK_SET);
  const int cloexec = SHIM_REAL(fcntl)(fd, F_GETFD) & FD_CLOEXEC;
  syscall(SYS_dup3, fresh, fd, cloexec != 0 ? O_CLOEXEC : 0);
  syscall(SYS_close, fresh);
  errno = saved;
  descriptor->events.store(static_cast<uint32_t>(events), std::memory_order_relaxed);
  descriptor->text_of.store(now, std::memory_order_relaxed);
  return 0;
}

int watch_of(int fd, const Place& place) {
  Descriptor* descriptor = noted(fd);
  if (descriptor == nullptr) return -1;
  // Never read, neither through us nor by libc itself, which moves the position.
  if (!descriptor->read.load(std::memory_order_relaxed) && SHIM_REAL(lseek)(fd, 0, SEEK_CUR) == 0)
    return -1;
  const int watch = descriptor->watch.load(std::memory_order_acquire);
  const auto self = static_cast<int32_t>(getpid());
  if (watch >= 0 && descriptor->watch_pid.load(std::memory_order_relaxed) == self) return watch;
  close_watch(*descriptor);
  bool news = false;
  const int made = open_watch(place.virtual_path(), descriptor->events, &news);
  if (made < 0) return -1;
  descriptor->watch_pid.store(self, std::memory_order_relaxed);
  descriptor->watch.store(made, std::memory_order_release);
  return news ? -1 : made;
}

}  // namespace driver::shim
