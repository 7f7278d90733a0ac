// The host's clock as clients see it: wall time in which every interval that the machine was busy
// is replaced by its simulated length (docs/architecture.md#time-and-repeatability). The page is
// written by the server and mapped read-only by clients.
#pragma once

#include <stdint.h>

#include <atomic>

namespace driver {

constexpr uint32_t kStatusMagic = 0x53544154;
constexpr uint32_t kStatusVersion = 3;

struct ClockWords {
  std::atomic<uint64_t> busy_wall_ns;   // wall time of finished busy intervals
  std::atomic<uint64_t> simulated_ns;   // their simulated length
  std::atomic<uint64_t> busy_since_ns;  // CLOCK_MONOTONIC, 0 = the machine is idle
};

struct StatusLayout {
  uint32_t magic;
  uint32_t version;
  // Futex word: changes whenever simulated time has passed, so that a client may see something new.
  std::atomic<uint32_t> generation;
  // Readers take clock[sequence & 1] while the writer changes the other one: they never wait for a
  // writer that the host has suspended, which many polling clients would keep suspended.
  std::atomic<uint32_t> sequence;
  ClockWords clock[2];
  // Counts what clients have had done: an attribute's text is as it was while this word and
  // `generation` are.
  std::atomic<uint32_t> changes;
  uint32_t reserved;
};
static_assert(sizeof(StatusLayout) == 72, "shared with client processes");

struct ClockState {
  uint64_t busy_wall_ns = 0;
  uint64_t simulated_ns = 0;
  uint64_t busy_since_ns = 0;
};

// What to subtract from a host clock that reads `host_ns` on CLOCK_MONOTONIC. While the machine is
// busy the virtual clock stands still at the instant that it became busy.
inline int64_t clock_offset(const ClockState& state, uint64_t host_ns) {
  uint64_t offset = state.busy_wall_ns - state.simulated_ns;
  if (state.busy_since_ns != 0 && host_ns > state.busy_since_ns) {
    offset += host_ns - state.busy_since_ns;
  }
  return static_cast<int64_t>(offset);
}

// A consistent copy of the page's clock words.
inline ClockState read_clock(const StatusLayout& page) {
  ClockState state;
  for (;;) {
    const uint32_t before = page.sequence.load(std::memory_order_acquire);
    const ClockWords& words = page.clock[before & 1];
    // Acquire keeps the second look at the sequence behind these.
    state.busy_wall_ns = words.busy_wall_ns.load(std::memory_order_acquire);
    state.simulated_ns = words.simulated_ns.load(std::memory_order_acquire);
    state.busy_since_ns = words.busy_since_ns.load(std::memory_order_acquire);
    if (page.sequence.load(std::memory_order_relaxed) == before) return state;
  }
}

inline bool shows_busy(const StatusLayout& page) {
  const uint32_t sequence = page.sequence.load(std::memory_order_acquire);
  return page.clock[sequence & 1].busy_since_ns.load(std::memory_order_relaxed) != 0;
}

// For the one writer. Release orders the words behind the sequence that sends readers away.
inline void write_clock(StatusLayout& page, const ClockState& state) {
  for (ClockWords& words : page.clock) {
    page.sequence.fetch_add(1, std::memory_order_acq_rel);
    words.busy_wall_ns.store(state.busy_wall_ns, std::memory_order_release);
    words.simulated_ns.store(state.simulated_ns, std::memory_order_release);
    words.busy_since_ns.store(state.busy_since_ns, std::memory_order_release);
  }
}

}  // namespace driver
