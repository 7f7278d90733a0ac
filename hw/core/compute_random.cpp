#include "hw/core/compute.h"

#include <algorithm>
#include <cstring>

#include "arch/contract/isa_checks.h"
#include "hw/core/operators.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;
using isa::TensorOp;

namespace {

constexpr size_t kWords = std::size(num::Xorwow{}.words);

// Calls `each(element, bits)` with the next n numbers of a lane.
template <typename Each>
void each_number(EngineState& state, uint32_t lane, size_t n, Each&& each) {
  num::Xorwow* generators = state.generators_of(lane);
  const uint32_t count = state.generators_per_lane();
  for (size_t i = 0; i < n; ++i) each(i, generators[i % count].next());
}

// In [0, 1), in steps of 2^-24.
float unit(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24F;
}

}  // namespace

base::num::Xorwow* EngineState::generators_of(uint32_t lane) {
  if (generators.empty()) seed(0);
  return &generators[lane * generators_per_lane()];
}

void EngineState::seed(uint32_t value) {
  generators.clear();
  for (uint32_t i = 0; i < isa::kPartitions * generators_per_lane(); ++i) {
    generators.push_back(num::Xorwow::seeded(value, i));
  }
}

void compute(const isa::Rng& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const size_t bytes = isa::data_type_bytes(to.type());
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    uint8_t* y = room<uint8_t>(kFirst, n * bytes);
    each_number(state, lane, n, [&](size_t i, uint32_t bits) {
      const uint64_t wide = bits;
      std::memcpy(y + i * bytes, &wide, bytes);
    });
    to.write(lane, y);
  }
}

void compute(const isa::Rand2& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    const auto low = lanes.value<float>(o.minimum, lane);
    const auto high = lanes.value<float>(o.maximum, lane);
    float* y = room<float>(kFirst, n);
    each_number(state, lane, n, [&](size_t i, uint32_t bits) {
      const float value = low + unit(bits) * (high - low);
      y[i] = value < high ? value : low;  // rounding may reach the end
    });
    to.write(lane, y);
  }
}

void compute(const isa::Dropout& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const size_t bytes = isa::data_type_bytes(to.type());
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    uint8_t* x = room<uint8_t>(kFirst, n * bytes);
    from.read(lane, x);
    const auto probability = lanes.value<float>(o.probability, lane);
    each_number(state, lane, n, [&](size_t i, uint32_t bits) {
      const bool hit = unit(bits) < probability;
      if (hit != (o.keep != 0)) std::memset(x + i * bytes, 0, bytes);
    });
    to.write(lane, x);
  }
}

void compute(const isa::SetRngSeed& o, const Lanes& lanes, EngineState& state) {
  uint8_t bytes[4] = {};
  lanes[o.src].read(0, bytes);
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  state.seed(value);
}

void compute(const isa::RandGetState& o, const Lanes& lanes, EngineState& state) {
  const size_t count = lanes[o.dst].elements() / kWords;
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    uint32_t words[4 * kWords] = {};
    const num::Xorwow* generators = state.generators_of(lane);
    for (size_t i = 0; i < std::min<size_t>(count, state.generators_per_lane()); ++i) {
      std::copy_n(generators[i].words, kWords, words + i * kWords);
    }
    lanes[o.dst].write(lane, words);
  }
}

void compute(const isa::RandSetState& o, const Lanes& lanes, EngineState& state) {
  const size_t count = lanes[o.src].elements() / kWords;
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    uint32_t words[4 * kWords] = {};
    lanes[o.src].read(lane, words);
    num::Xorwow* generators = state.generators_of(lane);
    for (size_t i = 0; i < std::min<size_t>(count, state.generators_per_lane()); ++i) {
      std::copy_n(words + i * kWords, kWords, generators[i].words);
    }
  }
}

}  // namespace hw
