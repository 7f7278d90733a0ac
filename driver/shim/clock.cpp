// The virtual clock (virtual_clock.h): what clock_gettime and its relatives say, and how long waits
// last. Absolute deadlines that a program computes from the virtual clock are translated before
// libc hands them to the kernel. A program that polls device memory sleeps on the machine's
// generation word, so it wakes when there may be something new to see.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "driver/shim/client.h"
#include "driver/shim/real.h"

namespace shim = driver::shim;

namespace {

constexpr int64_t kNsPerS = 1000000000;
// Sleeps up to this length by a user of devices end early when the machine has made progress.
constexpr int64_t kPollingSleepNs = 1000000;
// How long a wait lasts before the server's life is checked; bounds every wait on the futex.
constexpr int64_t kRecheckNs = 100000000;

std::atomic<int64_t> last_virtual{0};
std::atomic<bool> clock_lost{false};  // the server died while the machine was busy

int64_t to_ns(const timespec& time) {
  return time.tv_sec * kNsPerS + time.tv_nsec;
}
timespec to_timespec(int64_t ns) {
  return {ns / kNsPerS, ns % kNsPerS};
}

int64_t host_ns(clockid_t clock) {
  timespec now = {};
  SHIM_REAL(clock_gettime)(clock, &now);
  return to_ns(now);
}

bool virtual_time() {
  return shim::facts.active && shim::facts.virtual_clock &&
         !clock_lost.load(std::memory_order_relaxed);
}

// Clocks that measure wall time; CPU-time clocks stay the host's.
bool wall_clock(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_TAI:
      return true;
    default:
      return false;
  }
}

// Virtual CLOCK_MONOTONIC for a host reading. Never runs backwards, although another thread may
// have read the page just before the machine became busy.
int64_t virtual_monotonic(int64_t host) {
  const driver::ClockState state = driver::read_clock(*shim::facts.page);
  int64_t now = host - driver::clock_offset(state, static_cast<uint64_t>(host));
  int64_t last = last_virtual.load(std::memory_order_relaxed);
  while (now > last && !last_virtual.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
  }
  return now > last ? now : last;
}

// What a clock of the host is ahead of CLOCK_MONOTONIC, as exactly as a few tries can say: the
// process may be interrupted between looking at one and at the other.
int64_t look_ahead_of_monotonic(clockid_t clock) {
  constexpr int64_t kExact = 1000;
  int64_t best = INT64_MAX;
  int64_t ahead = 0;
  for (int tries = 0; tries < 16 && best > kExact; ++tries) {
    const int64_t before = host_ns(CLOCK_MONOTONIC);
    const int64_t seen = host_ns(clock);
    const int64_t passed = host_ns(CLOCK_MONOTONIC) - before;
    if (passed >= best) continue;
    best = passed;
    ahead = seen - before;
  }
  return ahead;
}

// The same at every call, so that all clocks go at one rate and none steps back; looked at anew
// when somebody has set the host's clock.
int64_t ahead_of_monotonic(clockid_t clock) {
  constexpr int64_t kSet = 100000000;  // far more than slewing changes between two looks
  constexpr size_t kClocks = CLOCK_TAI + 1;
  static std::atomic<int64_t> known[kClocks];
  static std::atomic<bool> looked[kClocks];
  const auto at = static_cast<size_t>(clock);
  if (looked[at].load(std::memory_order_acquire)) {
    const int64_t ahead = known[at].load(std::memory_order_relaxed);
    const int64_t moved = host_ns(clock) - host_ns(CLOCK_MONOTONIC) - ahead;
    const bool can_be_set =
        clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
    if (!can_be_set || (moved < kSet && moved > -kSet)) return ahead;
  }
  const int64_t ahead = look_ahead_of_monotonic(clock);
  known[at].store(ahead, std::memory_order_relaxed);
  looked[at].store(true, std::memory_order_release);
  return ahead;
}

int64_t clock_ns(clockid_t clock) {
  if (!virtual_time() || !wall_clock(clock)) return host_ns(clock);
  const int64_t now = virtual_monotonic(host_ns(CLOCK_MONOTONIC));
  if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) return now;
  return now + ahead_of_monotonic(clock);
}

bool machine_busy() {
  return driver::shows_busy(*shim::facts.page);
}

// Waits until the generation word differs from `seen` or `limit_ns` have passed; false on a signal.
bool wait_generation(uint32_t seen, int64_t limit_ns) {
  const int64_t bounded = limit_ns < kRecheckNs ? limit_ns : kRecheckNs;
  const timespec limit = to_timespec(bounded);
  const long result =
      syscall(SYS_futex, &shim::facts.page->generation, FUTEX_WAIT, seen, &limit, nullptr, 0);
  if (result != 0 && errno == EINTR) return false;
  // A server that died in mid-run would leave the clock standing still for ever.
  if (result != 0 && errno == ETIMEDOUT && bounded == kRecheckNs && machine_busy() &&
      !shim::server_alive()) {
    clock_lost.store(true, std::memory_order_relaxed);
  }
  return true;
}

// Sleeps for `duration` of virtual time; the rest on a signal.
int64_t sleep_virtual(int64_t duration) {
  const int64_t deadline = clock_ns(CLOCK_MONOTONIC) + duration;
  const bool polling = shim::uses_devices() && duration <= kPollingSleepNs;
  const uint32_t first = shim::facts.page->generation.load(std::memory_order_acquire);
  int64_t patience = 0;
  for (;;) {
    const uint32_t seen = shim::facts.page->generation.load(std::memory_order_acquire);
    if (polling && seen != first) return 0;
    const int64_t left = deadline - clock_ns(CLOCK_MONOTONIC);
    if (left <= 0) return 0;
    // While the machine is busy the clock stands still: its progress ends the wait, or its rest,
    // which is not announced when no simulated time has passed.
    int64_t limit = left;
    if (machine_busy() && virtual_time()) {
      patience = patience == 0 ? left : 2 * patience;
      if (patience > kRecheckNs) patience = kRecheckNs;
      limit = patience;
    }
    if (!wait_generation(seen, limit)) return left;
  }
}

// The host's deadline for a virtual one.
timespec host_deadline(clockid_t clock, const timespec& deadline) {
  return to_timespec(to_ns(deadline) + host_ns(clock) - clock_ns(clock));
}

bool valid(const timespec* time) {
  return time != nullptr && time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < kNsPerS;
}

// Runs a wait of libc with an absolute deadline, again when only the host's clock has reached it.
template <typename Wait>
int timed_wait(clockid_t clock, const timespec* deadline, bool via_errno, Wait wait) {
  if (!virtual_time() || !valid(deadline) || !wall_clock(clock)) return wait(deadline);
  for (;;) {
    timespec host = host_deadline(clock, *deadline);
    // While the clock stands still the deadline moves with the host's: look again later.
    if (machine_busy()) {
      const int64_t recheck = host_ns(clock) + kRecheckNs;
      if (to_ns(host) < recheck) host = to_timespec(recheck);
    }
    const int result = wait(&host);
    const bool timed_out = via_errno ? result != 0 && errno == ETIMEDOUT : result == ETIMEDOUT;
    if (!timed_out || clock_ns(clock) >= to_ns(*deadline)) return result;
    if (!shim::server_alive()) clock_lost.store(true, std::memory_order_relaxed);
    if (!virtual_time()) return result;
  }
}

}  // namespace

SHIM_EXPORT int clock_gettime(clockid_t clock, timespec* to) noexcept {
  if (!virtual_time() || !wall_clock(clock) || to == nullptr) {
    return SHIM_REAL(clock_gettime)(clock, to);
  }
  *to = to_timespec(clock_ns(clock));
  return 0;
}

SHIM_EXPORT int gettimeofday(timeval* to, void* zone) noexcept {
  if (!virtual_time() || to == nullptr) return SHIM_REAL(gettimeofday)(to, zone);
  const int64_t now = clock_ns(CLOCK_REALTIME);
  to->tv_sec = now / kNsPerS;
  to->tv_usec = now % kNsPerS / 1000;
  return 0;
}

SHIM_EXPORT time_t time(time_t* to) noexcept {
  if (!virtual_time()) return SHIM_REAL(time)(to);
  const time_t now = clock_ns(CLOCK_REALTIME) / kNsPerS;
  if (to != nullptr) *to = now;
  return now;
}

SHIM_EXPORT int timespec_get(timespec* to, int base) noexcept {
  if (base != TIME_UTC || !virtual_time()) return SHIM_REAL(timespec_get)(to, base);
  *to = to_timespec(clock_ns(CLOCK_REALTIME));
  return base;
}

SHIM_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* request,
                                timespec* remain) {
  if (!shim::facts.active || !valid(request) || !wall_clock(clock)) {
    return SHIM_REAL(clock_nanosleep)(clock, flags, request, remain);
  }
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  const int64_t duration = absolute ? to_ns(*request) - clock_ns(clock) : to_ns(*request);
  if (duration <= 0) return 0;
  const int saved = errno;
  const int64_t left = sleep_virtual(duration);
  errno = saved;
  if (left <= 0) return 0;
  if (!absolute && remain != nullptr) *remain = to_timespec(left);
  return EINTR;
}

SHIM_EXPORT int nanosleep(const timespec* request, timespec* remain) {
  if (!shim::facts.active || !valid(request)) return SHIM_REAL(nanosleep)(request, remain);
  const int result = clock_nanosleep(CLOCK_MONOTONIC, 0, request, remain);
  if (result == 0) return 0;
  errno = result;
  return -1;
}

SHIM_EXPORT int usleep(useconds_t duration) {
  const timespec request = to_timespec(static_cast<int64_t>(duration) * 1000);
  return nanosleep(&request, nullptr);
}

SHIM_EXPORT unsigned sleep(unsigned seconds) {
  const timespec request = {static_cast<time_t>(seconds), 0};
  timespec remain = {};
  if (nanosleep(&request, &remain) == 0) return 0;
  return static_cast<unsigned>(remain.tv_sec + (remain.tv_nsec >= kNsPerS / 2 ? 1 : 0));
}

// A yield in a polling loop gives the processor to the machine until it has made progress.
SHIM_EXPORT int sched_yield() noexcept {
  if (!shim::facts.active || !shim::uses_devices() || !machine_busy()) {
    return SHIM_REAL(sched_yield)();
  }
  const int saved = errno;
  wait_generation(shim::facts.page->generation.load(std::memory_order_acquire), kPollingSleepNs);
  errno = saved;
  return 0;
}

SHIM_EXPORT int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                       const timespec* deadline) {
  const auto real = SHIM_REAL_VERSION(pthread_cond_timedwait, "GLIBC_2.3.2");
  // The condition's clock attribute cannot be read back. Wall time has passed 500 million seconds
  // in 1985, no host has been up that long.
  const bool realtime = deadline != nullptr && deadline->tv_sec > 500000000;
  return timed_wait(realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, deadline, false,
                    [&](const timespec* host) { return real(condition, mutex, host); });
}

SHIM_EXPORT int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                       clockid_t clock, const timespec* deadline) {
  return timed_wait(clock, deadline, false, [&](const timespec* host) {
    return SHIM_REAL(pthread_cond_clockwait)(condition, mutex, clock, host);
  });
}

SHIM_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* deadline) noexcept {
  return timed_wait(CLOCK_REALTIME, deadline, false, [&](const timespec* host) {
    return SHIM_REAL(pthread_mutex_timedlock)(mutex, host);
  });
}

SHIM_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                        const timespec* deadline) noexcept {
  return timed_wait(clock, deadline, false, [&](const timespec* host) {
    return SHIM_REAL(pthread_mutex_clocklock)(mutex, clock, host);
  });
}

SHIM_EXPORT int sem_timedwait(sem_t* semaphore, const timespec* deadline) {
  return timed_wait(CLOCK_REALTIME, deadline, true, [&](const timespec* host) {
    return SHIM_REAL(sem_timedwait)(semaphore, host);
  });
}

SHIM_EXPORT int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* deadline) {
  return timed_wait(clock, deadline, true, [&](const timespec* host) {
    return SHIM_REAL(sem_clockwait)(semaphore, clock, host);
  });
}
