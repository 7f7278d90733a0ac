// What each instruction with tensors does to its operands. Source of truth: spec/engine-isa.md 10,
// data/isa/instructions.json. One file per family: elementwise, reduce, select, gather, random;
// mx_operand.cpp has what quantizes.
//
// All that an instruction reads is read before it writes, lane by lane, or as a whole where lanes
// mix.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/contract/engine.h"
#include "base/num/random.h"
#include "contract/isa_types.h"
#include "hw/core/lanes.h"
#include "hw/core/pe_array.h"

namespace hw {

// What an engine keeps from one instruction to the next.
struct EngineState {
  contract::Engine engine = contract::kDve;
  contract::Gen gen = contract::Gen::kV2;
  float accumulators[contract::isa::kPartitions] = {};  // by lane
  PeArray array;                                        // of the Tensor engine
  Indices indices[contract::isa::TensorUses::kMost];    // of the next instruction's tensors
  std::vector<base::num::Xorwow> generators;            // lane by lane; empty: seeded with 0

  // Independent sequences of one lane: element i takes the next number of sequence i mod this.
  uint32_t generators_per_lane() const {
    return engine == contract::kDve && gen == contract::Gen::kV4 ? 4 : 1;
  }
  base::num::Xorwow* generators_of(uint32_t lane);
  void seed(uint32_t value);
};

void compute(const contract::isa::TensorTensor& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::TensorCopy& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::TensorScalar& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::ScalarTensorTensor& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Reciprocal& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Memset& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Iota& o, const Lanes& lanes, EngineState& state);

void compute(const contract::isa::TensorReduce& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::TensorScalarReduce& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::TensorScalarCumulative& o, const Lanes& lanes,
             EngineState& state);
void compute(const contract::isa::TensorTensorScan& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Activate& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Activate2& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Exponential& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::ReadAccumulator& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::BnStats& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::BnAggregate& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::PartitionReduce& o, const Lanes& lanes, EngineState& state);

void compute(const contract::isa::AffineSelect& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::CopyPredicated& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::SelectReduce& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::RangeSelect& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Max8& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::FindIndex8& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::MatchReplace8& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::SequenceBounds& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Topk& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::NonzeroWithCount& o, const Lanes& lanes, EngineState& state);

void compute(const contract::isa::Transpose& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::StreamShuffle& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::LoadIndex& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::LocalGather& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::NGather& o, const Lanes& lanes, EngineState& state);

void compute(const contract::isa::Dropout& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Rng& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::SetRngSeed& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::RandGetState& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::RandSetState& o, const Lanes& lanes, EngineState& state);
void compute(const contract::isa::Rand2& o, const Lanes& lanes, EngineState& state);

void compute(const contract::isa::QuantizeMx& o, const Lanes& lanes, EngineState& state);

inline void compute(const contract::isa::LdweightsMx& o, const Lanes& lanes, EngineState& state) {
  state.array.load(o, lanes[o.src], lanes[o.scale]);
}
inline void compute(const contract::isa::MatmulMx& o, const Lanes& lanes, EngineState& state) {
  state.array.multiply(o, lanes[o.moving], lanes[o.scale], lanes[o.dst]);
}
inline void compute(const contract::isa::Ldweights& o, const Lanes& lanes, EngineState& state) {
  state.array.load(o, lanes[o.src]);
}
inline void compute(const contract::isa::Matmul& o, const Lanes& lanes, EngineState& state) {
  state.array.multiply(o, lanes[o.moving], lanes[o.dst]);
}

// offset + steps for lane 0, in stream order; in int32 arithmetic that wraps.
std::vector<uint32_t> affine_row(const contract::isa::AffineOperand& pattern);

}  // namespace hw
