// poll and select. A device node has no poll of its own and is always ready for both directions; an
// attribute is ready to be read, and has "exceptional" news when it has changed since the last
// read. epoll takes neither (a real kernel takes attributes).
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <time.h>

#include "driver/shim/client.h"
#include "driver/shim/descriptors.h"
#include "driver/shim/real.h"

namespace shim = driver::shim;

// Headers say that poll only writes the array that it also reads.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace {

constexpr short kAlways = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

// What is polled in place of the program's array.
class Substitute {
 public:
  Substitute(pollfd* fds, nfds_t count) : program_(fds), count_(count) {
    if (count > kFew) {
      void* room = SHIM_REAL(mmap)(nullptr, count * sizeof(pollfd), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      polled_ = room == MAP_FAILED ? nullptr : static_cast<pollfd*>(room);
    }
    for (nfds_t i = 0; valid() && i < count; ++i) ready_ += replace(fds[i], &polled_[i]);
  }
  ~Substitute() {
    if (polled_ != few_ && valid()) SHIM_REAL(munmap)(polled_, count_ * sizeof(pollfd));
  }
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;

  bool valid() const { return polled_ != nullptr; }
  bool ready() const { return ready_ > 0; }
  pollfd* fds() { return polled_; }

  // Gives the program its answer.
  int finish(int result) {
    if (result < 0) return result;
    int count = 0;
    for (nfds_t i = 0; i < count_; ++i) {
      program_[i].revents = polled_[i].revents;
      if (shim::noted(program_[i].fd) != nullptr) add_own(&program_[i], polled_[i]);
      if (program_[i].revents != 0) ++count;
    }
    return count;
  }

 private:
  static constexpr nfds_t kFew = 64;
  static constexpr short kNews = 1 << 14;  // in `events` of an entry that the kernel does not see

  // 1 when there is an answer already.
  static int replace(const pollfd& from, pollfd* to) {
    *to = from;
    to->revents = 0;
    shim::Place place;
    shim::DeviceFile file;
    if (shim::noted(from.fd) == nullptr) return 0;
    if (!shim::tree_file(from.fd, &place)) {
      if (!shim::device_file(from.fd, &file)) return 0;
      *to = {-1, static_cast<short>(from.events & kAlways), 0};
      return to->events != 0 ? 1 : 0;
    }
    const int watch = shim::watch_of(from.fd, place);
    *to = {watch, POLLIN, 0};
    if (watch < 0) to->events = kNews;
    return watch < 0 || (from.events & kAlways) != 0 ? 1 : 0;
  }

  static void add_own(pollfd* program, const pollfd& polled) {
    if (polled.fd == program->fd) return;  // the program's after all
    const bool news = polled.fd < 0 ? polled.events == kNews : polled.revents != 0;
    program->revents = static_cast<short>(program->events & kAlways);
    if (news)
      program->revents =
          static_cast<short>(program->revents | POLLERR | (program->events & POLLPRI));
  }

  pollfd* program_;
  nfds_t count_;
  pollfd few_[kFew];
  pollfd* polled_ = few_;
  int ready_ = 0;
};

bool concerns_us(const pollfd* fds, nfds_t count) {
  if (!shim::any_descriptor.load(std::memory_order_relaxed)) return false;
  for (nfds_t i = 0; i < count; ++i) {
    if (shim::noted(fds[i].fd) != nullptr) return true;
  }
  return false;
}

}  // namespace

SHIM_EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  if (!concerns_us(fds, count)) return SHIM_REAL(poll)(fds, count, timeout);
  Substitute substitute(fds, count);
  if (!substitute.valid()) return -1;
  return substitute.finish(
      SHIM_REAL(poll)(substitute.fds(), count, substitute.ready() ? 0 : timeout));
}

SHIM_EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  if (!concerns_us(fds, count)) return SHIM_REAL(ppoll)(fds, count, timeout, mask);
  Substitute substitute(fds, count);
  if (!substitute.valid()) return -1;
  const timespec none = {};
  return substitute.finish(
      SHIM_REAL(ppoll)(substitute.fds(), count, substitute.ready() ? &none : timeout, mask));
}

extern "C" {
int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask,
                size_t room);
}
SHIM_EXPORT int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t room) {
  if (room / sizeof(pollfd) < count) return SHIM_REAL(__poll_chk)(fds, count, timeout, room);
  return poll(fds, count, timeout);
}
SHIM_EXPORT int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout,
                            const sigset_t* mask, size_t room) {
  if (room / sizeof(pollfd) < count) {
    return SHIM_REAL(__ppoll_chk)(fds, count, timeout, mask, room);
  }
  return ppoll(fds, count, timeout, mask);
}

namespace {

struct Sets {
  int count;
  fd_set* sets[3];  // to read, to write, exceptional
};
constexpr short kWanted[3] = {POLLIN, POLLOUT, POLLPRI};
constexpr short kCounts[3] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI};

bool in_set(const fd_set* set, int fd) {
  return set != nullptr && FD_ISSET(fd, set);
}

bool concerns_us(const Sets& sets) {
  if (!shim::any_descriptor.load(std::memory_order_relaxed) || sets.count > FD_SETSIZE) {
    return false;
  }
  for (int fd = 0; fd < sets.count; ++fd) {
    const bool asked =
        in_set(sets.sets[0], fd) || in_set(sets.sets[1], fd) || in_set(sets.sets[2], fd);
    if (asked && shim::noted(fd) != nullptr) return true;
  }
  return false;
}

int select_by_poll(const Sets& sets, const timespec* timeout, const sigset_t* mask) {
  pollfd fds[FD_SETSIZE];
  nfds_t count = 0;
  for (int fd = 0; fd < sets.count; ++fd) {
    short events = 0;
    for (int i = 0; i < 3; ++i) {
      if (in_set(sets.sets[i], fd)) events = static_cast<short>(events | kWanted[i]);
    }
    if (events != 0) fds[count++] = {fd, events, 0};
  }
  if (ppoll(fds, count, timeout, mask) < 0) return -1;
  for (nfds_t n = 0; n < count; ++n) {
    if ((fds[n].revents & POLLNVAL) == 0) continue;
    errno = EBADF;
    return -1;
  }
  int total = 0;
  for (nfds_t n = 0; n < count; ++n) {
    for (int i = 0; i < 3; ++i) {
      if ((fds[n].events & kWanted[i]) == 0) continue;
      if ((fds[n].revents & kCounts[i]) != 0) {
        ++total;
      } else {
        FD_CLR(fds[n].fd, sets.sets[i]);
      }
    }
  }
  return total;
}

}  // namespace

SHIM_EXPORT int select(int count, fd_set* to_read, fd_set* to_write, fd_set* exceptional,
                       timeval* timeout) {
  const Sets sets = {count, {to_read, to_write, exceptional}};
  if (!concerns_us(sets)) {
    return SHIM_REAL(select)(count, to_read, to_write, exceptional, timeout);
  }
  timespec limit = {};
  if (timeout != nullptr) limit = {timeout->tv_sec, timeout->tv_usec * 1000};
  return select_by_poll(sets, timeout == nullptr ? nullptr : &limit, nullptr);
}

SHIM_EXPORT int pselect(int count, fd_set* to_read, fd_set* to_write, fd_set* exceptional,
                        const timespec* timeout, const sigset_t* mask) {
  const Sets sets = {count, {to_read, to_write, exceptional}};
  if (!concerns_us(sets)) {
    return SHIM_REAL(pselect)(count, to_read, to_write, exceptional, timeout, mask);
  }
  return select_by_poll(sets, timeout, mask);
}

SHIM_EXPORT int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  shim::DeviceFile file;
  if (operation == EPOLL_CTL_ADD && shim::noted(fd) != nullptr && shim::device_file(fd, &file)) {
    errno = EPERM;
    return -1;
  }
  return SHIM_REAL(epoll_ctl)(epoll, operation, fd, event);
}

#pragma GCC diagnostic pop
