// Simulated time and exact rates. Time is integer picoseconds everywhere; rates are rationals, so
// that a transfer cut into packets ends at the same picosecond as the uncut one.
#pragma once

#include <cstdint>

namespace base {

using Ps = uint64_t;  // picoseconds of simulated time

constexpr Ps kPsPerNs = 1000;
constexpr Ps kPsPerUs = 1000 * kPsPerNs;
constexpr Ps kPsPerMs = 1000 * kPsPerUs;
constexpr Ps kPsPerS = 1000 * kPsPerMs;

constexpr Ps ns(uint64_t n) {
  return n * kPsPerNs;
}
constexpr Ps us(uint64_t n) {
  return n * kPsPerUs;
}
constexpr Ps ms(uint64_t n) {
  return n * kPsPerMs;
}

// `bytes` move in `ps` picoseconds. 17 GB/s (decimal) is {17, 1000}: 17 bytes per nanosecond.
struct Rate {
  uint64_t bytes = 1;
  uint64_t ps = 1;

  // Picoseconds for `n` bytes since the start of a busy period, rounded down; exact in 128 bits.
  constexpr Ps time_for(uint64_t n) const {
    return static_cast<Ps>(static_cast<unsigned __int128>(n) * ps / bytes);
  }
  // The fewest bytes that take at least `time`.
  constexpr uint64_t bytes_in(Ps time) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(time) * bytes + ps - 1) / ps);
  }
};

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

}  // namespace base
