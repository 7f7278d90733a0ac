// What one compute engine does to SBUF and PSUM of its NeuronCore: every instruction that has
// tensors. Source of truth: spec/engine-isa.md 3, 5, 7 and 10, data/isa/instructions.json.
//
// Exact, bit for bit on every host: inputs convert to float32, each operator rounds once to nearest
// even, the result rounds once to the destination's type. Copies of equal types move bits;
// operators on bits work on words of 32 bits; GpSimd computes integers of up to 32 bits as
// integers, wrapping. Folds and scans go from left to right. A lane is read completely before it is
// written, so operands may overlap in any way.
// Approximate: functions are exact to half a unit in the last place where hardware interpolates
// tables; the random bits of stochastic rounding are not those of hardware.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/contract/engine.h"
#include "base/num/random.h"
#include "contract/isa_types.h"
#include "hw/core/compute.h"
#include "hw/core/tensor_access.h"
#include "hw/stats.h"

namespace hw {

// The tensors of one instruction, in the order of its operands. As long as the instruction lives.
struct TensorExtent {
  TensorBox box[contract::isa::TensorUses::kMost];
  contract::isa::TensorUses uses{};
  uint32_t count = 0;

  bool reads(uint32_t i) const { return uses.uses[i].access != contract::isa::Access::kWrite; }
  bool writes(uint32_t i) const { return uses.uses[i].access != contract::isa::Access::kRead; }
  // Of all elements in all partitions.
  uint64_t bytes(uint32_t i) const {
    const contract::isa::TensorUse& use = uses.uses[i];
    return contract::isa::element_count(*use.tensor) *
           contract::isa::data_type_bytes(use.tensor->dtype) * use.partitions;
  }
  bool touches(const TensorBox& other) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (box[i].overlaps(other)) return true;
    }
    return false;
  }
};

// Of the moving matrix and the weights in the array.
constexpr bool is_product(contract::isa::Opcode op) {
  return op == contract::isa::Opcode::kMatmul || op == contract::isa::Opcode::kMatmulMx;
}

class Datapath {
 public:
  struct Params {
    contract::Gen gen = contract::Gen::kV2;
    contract::Engine engine = contract::kDve;
    uint32_t nc = 0;
    bool timing_only = false;   // elide results of more than real_bytes, and what comes from them
    uint64_t real_bytes = 512;  // timing_only.real_bytes
  };
  Datapath(const Params& params, Fabric& fabric, Counters& counters);

  // Addresses and bounds; returns the number of the first illegal tensor, or -1.
  int resolve(const contract::isa::Instruction& instruction, const uint32_t* registers,
              TensorExtent* extent) const;
  enum class Outcome : uint8_t {
    kDone,
    kNoMemory,    // the host has none for SBUF or PSUM
    kBadWeights,  // MATMUL: none are loaded, or they do not fit to what moves
  };
  // `extent` as resolved.
  Outcome execute(const contract::isa::Instruction& instruction, const uint32_t* registers,
                  const TensorExtent& extent);
  // REGISTER_LOAD and REGISTER_STORE; false: the host has no memory.
  bool load(const contract::isa::RegisterLoad& o, const TensorExtent& extent,
            uint32_t* value) const;
  bool store(const contract::isa::RegisterStore& o, const TensorExtent& extent,
             uint32_t value) const;
  // The elements of an index in SBUF, column by column; false: the host has no memory. `known`:
  // whether they have been computed (timing-only).
  bool read_index(const contract::isa::TensorOperand& index, const TensorBox& box,
                  std::vector<uint32_t>* to, bool* known) const;
  // That this tensor of the next instruction goes by; null: none.
  const Indices* indices_of(const contract::isa::Instruction& instruction, uint32_t tensor) const;
  // Accumulators and weights are cleared.
  void reset();
  // Whether floats that become narrower are rounded by random numbers, or to nearest even. Their
  // sequences, one per lane, go on over resets.
  void set_rounding(bool stochastic) { stochastic_ = stochastic; }
  void seed_rounding(uint32_t seed) {
    rounding_seed_ = seed;
    rounding_.clear();
  }

 private:
  bool resolve_tensor(const contract::isa::TensorUse& use, const Indices* indices,
                      const uint32_t* registers, TensorBox* box) const;
  int misplaced_indices(const contract::isa::Instruction& instruction,
                        const contract::isa::TensorUses& uses) const;
  void forget_indices();
  bool unknown(const TensorBox& box) const;
  bool elided(const contract::isa::Instruction& instruction, const TensorExtent& extent);
  base::num::Xorwow* rounding();
  Memory& memory(contract::isa::Memory memory) const;

  Params params_;
  Fabric& fabric_;
  Counters& counters_;
  EngineState state_;
  bool stochastic_ = false;
  uint32_t rounding_seed_ = 0;
  std::vector<base::num::Xorwow> rounding_;  // by lane; empty: not used yet
  bool indexed_ = false;                     // indices are loaded
  bool stale_ = false;  // timing-only: accumulators or weights come from what was left out
};

}  // namespace hw
