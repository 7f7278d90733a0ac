// The values that instructions work on.
#include <cmath>
#include <limits>

#include "tests/engines/generator.h"

namespace engine_reference {

using isa::DataType;
using isa::Engine;
using isa::Instruction;

float Generator::number(Values values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kEdges[] = {0.0f,
                              -0.0f,
                              1.0f,
                              -1.0f,
                              kInfinity,
                              -kInfinity,
                              std::numeric_limits<float>::max(),
                              std::numeric_limits<float>::lowest(),
                              std::numeric_limits<float>::min(),
                              std::numeric_limits<float>::denorm_min(),
                              240.0f,
                              248.0f,  // between the largest e4m3 and infinity
                              65504.0f,
                              65520.0f,
                              127.5f,
                              -128.5f,
                              255.5f,
                              16777216.0f,
                              2147483648.0f,
                              4294967296.0f};
  switch (values == Values::kAny ? static_cast<Values>(random_.below(3)) : values) {
    case Values::kTame:
      return static_cast<float>(random_.between(-40000, 40000)) / 10000.0f;
    case Values::kWhole:  // and halves: ties
      return static_cast<float>(random_.between(-600, 600)) / 2.0f;
    default:
      if (random_.chance(40)) return random_.of(kEdges);
      if (random_.chance(10)) return canonical_nan();
      return std::ldexp(static_cast<float>(random_.between(-16777215, 16777215)),
                        random_.between(-170, 105));
  }
}

uint64_t Generator::value(DataType type, Values values) {
  if (!isa::has_dtype(type) && type != DataType::kFloat8e4fn) {
    return mx_bits(type, values == Values::kAny);
  }
  if (values == Values::kAny || (values == Values::kWild && random_.chance(25))) {
    return truncated(type, random_.bits());
  }
  if (is_integer(type) && values == Values::kTame) {
    if (random_.chance(25)) return 0;  // of predicates
    return truncated(type, static_cast<uint64_t>(int64_t{random_.between(-20, 20)}));
  }
  return from_float(type, number(values));
}

// All lanes of an operand have values of one kind, mostly tame ones: results then are numbers.
void Generator::fill(const Instruction& in, Reference* reference) {
  for (const isa::TensorUse& use : isa::tensors_of(in)) {
    if (use.access != isa::Access::kRead) continue;
    static constexpr Values kKinds[] = {Values::kTame,  Values::kTame, Values::kWhole,
                                        Values::kWhole, Values::kWild, Values::kAny};
    // One NaN of the Tensor engine's operands is in many sums.
    const bool tame = engine_ == Engine::kPe && random_.chance(85);
    const Values kind = tame ? Values::kTame : random_.of(kKinds);
    size_t index = 0;
    for (const uint32_t byte : places_of(*use.tensor, registers_)) {
      for (unsigned lane = 0; lane < use.partitions; ++lane) {
        const std::optional<uint64_t> wanted = searched(in, use.tensor, lane, index);
        store_bits(use.tensor->dtype, wanted ? *wanted : value(use.tensor->dtype, kind),
                   reference->at(use.tensor->memory, use.tensor->start_partition + lane, byte));
      }
      ++index;
    }
  }
}

}  // namespace engine_reference
