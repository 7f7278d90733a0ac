#include "driver/kernel/core_locks.h"

#include <algorithm>
#include <cerrno>

namespace driver {
namespace {

// 50,000 and 200,000 polls of 10 to 20 us (spec/driver-ioctl.md 3.10.1), taken in the middle.
constexpr uint64_t kReaderWaitUs = 750'000;
constexpr uint64_t kWriterWaitUs = 3'000'000;
// Core init by another process: 10 x 500 ms (3.11).
constexpr uint64_t kInitStepUs = 500'000;
constexpr int kInitSteps = 10;

}  // namespace

bool CrwlLocks::wait_free(State& state, bool also_readers, uint64_t limit_us) {
  while (state.writer || (also_readers && state.readers > 0)) {
    if (!context_.client_wait(&state, limit_us)) {
      return !state.writer && !(also_readers && state.readers > 0);
    }
  }
  return true;
}

int CrwlLocks::reader_enter(uint32_t nc, const Uuid& uuid, int32_t caller) {
  State& state = states_[nc];
  if (!wait_free(state, false, kReaderWaitUs)) return -EBUSY;
  if (!matches(state, uuid, caller)) return -ENOENT;
  ++state.readers;
  return 0;
}

int CrwlLocks::reader_exit(uint32_t nc, const Uuid& uuid, int32_t caller) {
  State& state = states_[nc];
  if (!matches(state, uuid, caller)) return -ENOENT;
  if (state.readers == 0) return -EINVAL;
  --state.readers;
  context_.executor.wake(&state);
  return 0;
}

int CrwlLocks::writer_enter(uint32_t nc, const Uuid& uuid, int32_t caller) {
  State& state = states_[nc];
  if (!wait_free(state, true, kWriterWaitUs)) return -EBUSY;
  state.writer = true;  // stays set with EALREADY: the caller must still downgrade
  if (matches(state, uuid, caller)) return -EALREADY;
  state.owner = caller;
  state.uuid = uuid;
  return 0;
}

int CrwlLocks::writer_downgrade(uint32_t nc, const Uuid& uuid, int32_t caller) {
  State& state = states_[nc];
  if (!state.writer) return -EINVAL;
  if (!matches(state, uuid, caller)) return -ENOENT;
  state.writer = false;
  state.readers = 1;
  context_.executor.wake(&state);
  return 0;
}

void CrwlLocks::release_process(int32_t tgid) {
  for (State& state : states_) {
    if (state.owner != tgid) continue;
    state = {};
    context_.executor.wake(&state);
  }
}

int RangeMarks::mark(uapi::crwl_nc_map_ext& request, uint32_t offset, int32_t caller) {
  const uint64_t start = uint64_t{request.start_nc_index} + offset;
  const uint64_t end = uint64_t{request.end_nc_index} + offset;
  constexpr uint64_t kMarks = uapi::kMaxNcRangeMarks;
  std::fill(std::begin(request.bitmap), std::end(request.bitmap), uint64_t{0});
  request.max_nc_available = 0;
  if (start > end || start >= kMarks || end >= kMarks) return -EINVAL;
  for (uint64_t i = start; i <= end; ++i) {
    if (owners_[i] != 0) continue;
    uint64_t run = 0;
    while (run < request.nc_count && i + run <= end && owners_[i + run] == 0) ++run;
    if (run == request.nc_count) {
      for (uint64_t n = 0; n < run; ++n) {
        owners_[i + n] = caller;
        const uint64_t bit = i + n - offset;
        request.bitmap[bit / 64] |= uint64_t{1} << (bit % 64);
      }
      return 0;
    }
    request.max_nc_available = std::max(request.max_nc_available, static_cast<uint32_t>(run));
    // The mark behind the blocker is never tried as a start (spec/driver-ioctl.md 3.10.2): it is at
    // i + run, the loop goes on at i + run + 2.
    i += run + 1;
  }
  return -EBUSY;
}

void RangeMarks::unmark(const uint64_t bitmap[8], uint32_t offset, int32_t caller) {
  for (uint32_t bit = 0; bit < owners_.size(); ++bit) {
    if ((bitmap[bit / 64] >> (bit % 64) & 1) == 0) continue;
    const uint64_t index = uint64_t{bit} + offset;
    if (index < owners_.size() && owners_[index] == caller) owners_[index] = 0;
  }
}

bool RangeMarks::any() const {
  return std::any_of(owners_.begin(), owners_.end(), [](int32_t owner) { return owner != 0; });
}

void RangeMarks::release_process(int32_t tgid) {
  for (int32_t& owner : owners_) {
    if (owner == tgid) owner = 0;
  }
}

uint32_t CoreInitStates::set(uint32_t nc, uint32_t requested) {
  uint32_t& state = states_[nc];
  if (requested == uapi::kCinitStarted) {
    if (state == uapi::kCinitInvalid) {
      state = uapi::kCinitStarted;
    } else if (state == uapi::kCinitStarted) {
      for (int step = 0; step < kInitSteps && state == uapi::kCinitStarted; ++step) {
        (void)context_.client_wait(&state, kInitStepUs);
      }
    }
  } else if (requested == uapi::kCinitCompleted && state == uapi::kCinitStarted) {
    state = uapi::kCinitCompleted;
    context_.executor.wake(&state);
  }
  return state;
}

void CoreInitStates::invalidate(uint32_t nc) {
  states_[nc] = uapi::kCinitInvalid;
  context_.executor.wake(&states_[nc]);
}

}  // namespace driver
