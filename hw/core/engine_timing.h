// How long a compute-engine instruction occupies its engine (initiation interval) and how long its
// result takes. Source of truth: spec/timing.md 1 to 4, spec/engine-isa.md 6 and 7. Approximate by
// nature; each number is a parameter of hw/params.h.
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"
#include "arch/contract/engine.h"
#include "base/units.h"
#include "contract/isa_types.h"
#include "hw/params.h"

namespace hw {

struct InstructionTime {
  base::Ps interval = 0;  // start to start of the next independent instruction
  base::Ps latency = 0;   // end of the interval to done
};

class EngineTiming {
 public:
  EngineTiming(const TimingParams& params, contract::Gen gen, contract::Engine engine);

  base::Ps cycles(uint64_t n) const {
    uint64_t scaled = 0;  // mostly short enough for one division of the processor
    if (!__builtin_mul_overflow(n, clock_.ps, &scaled)) return scaled / clock_.bytes;
    return clock_.time_for(n);
  }
  uint64_t whole_cycles(base::Ps time) const {
    uint64_t low = 0;
    if (!__builtin_mul_overflow(time, clock_.bytes, &low) &&
        !__builtin_add_overflow(low, clock_.ps / 2, &low)) {
      return low / clock_.ps;
    }
    const auto scaled = static_cast<unsigned __int128>(time) * clock_.bytes;
    return static_cast<uint64_t>((scaled + clock_.ps / 2) / clock_.ps);
  }
  base::Ps control() const { return cycles(params_.seq_alu_cycles); }
  // Of an instruction with tensors, but for those of the Tensor engine.
  InstructionTime of(const contract::isa::Instruction& instruction) const {
    return of(instruction, contract::isa::tensors_of(instruction));
  }
  InstructionTime of(const contract::isa::Instruction& instruction,
                     const contract::isa::TensorUses& uses) const;
  // `columns` of weights, in so many passes.
  InstructionTime load_weights(uint64_t columns, uint64_t passes) const;
  // `fresh`: with weights that no product has used yet.
  InstructionTime multiply(uint64_t moving, uint64_t columns, uint64_t passes, bool fresh) const;
  const TimingParams& params() const { return params_; }

 private:
  uint64_t cycles_of(const contract::isa::Instruction& instruction,
                     const contract::isa::TensorUses& uses) const;
  uint64_t cost(const contract::isa::TensorTensor& op) const;
  uint64_t cost(const contract::isa::TensorReduce& op) const;
  uint64_t cost(const contract::isa::TensorScalar& op) const;
  uint64_t cost(const contract::isa::ScalarTensorTensor& op) const;
  uint64_t cost(const contract::isa::Memset& op) const;
  uint64_t cost(const contract::isa::TensorOperand& dst,
                const contract::isa::TensorOperand& predicate,
                const contract::isa::TensorOperand* src) const;
  uint64_t cost(const contract::isa::LocalGather& op) const;
  uint64_t cost(const contract::isa::NGather& op) const;
  uint64_t moved(const contract::isa::TensorOperand& dst,
                 const contract::isa::TensorOperand& src) const;
  bool is_narrow(contract::isa::DataType type) const;
  InstructionTime in_array(uint64_t cycles, base::Ps latency) const;

  const TimingParams& params_;
  contract::Gen gen_;
  contract::Engine engine_;
  base::Rate clock_;  // cycles per picosecond
  base::Ps latency_;
};

}  // namespace hw
