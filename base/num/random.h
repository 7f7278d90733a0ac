// Random numbers of the compute engines, and rounding by them. Source of truth:
// spec/engine-isa.md 5.2, 10.5. The sequences are not the hardware's, which are not published.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/num/types.h"

namespace base::num {

// XORWOW (Marsaglia 2003): a shift register of 160 bits and a counter; six words as
// rand_set_state holds them.
struct Xorwow {
  uint32_t words[6] = {};

  // `lane` numbers independent sequences of one seed.
  static Xorwow seeded(uint32_t seed, uint32_t lane);
  uint32_t next() {
    uint32_t t = words[4];
    const uint32_t s = words[0];
    words[4] = words[3];
    words[3] = words[2];
    words[2] = words[1];
    words[1] = s;
    t ^= t >> 2;
    t ^= t << 1;
    t ^= s ^ (s << 4);
    words[0] = t;
    words[5] += 362437;
    return t + words[5];
  }
};

// Conversion to a floating type with stochastic rounding: to one of the two neighbours, to the
// nearer one with the larger probability (in steps of 2^-32). One random number per element,
// whatever its value. Wider types and integers round to nearest even.
void from_float_stochastic(Type type, const float* from, uint8_t* to, size_t n, Xorwow* random);

}  // namespace base::num
