// How long a compute-engine instruction occupies its engine (initiation interval) and how long its
// result takes. Source of truth: spec/timing.md 1 to 4, spec/engine-isa.md 6. Approximate by
// nature; each number is a parameter of hw/params.h.
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"
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

  base::Ps cycles(uint64_t n) const { return clock_.time_for(n); }
  base::Ps control() const { return cycles(params_.seq_alu_cycles); }
  InstructionTime tensor_copy(const contract::isa::TensorCopy& op) const;
  InstructionTime tensor_tensor(const contract::isa::TensorTensor& op) const;
  const TimingParams& params() const { return params_; }

 private:
  uint64_t strided(const contract::isa::TensorOperand& operand, uint64_t cycles) const;
  InstructionTime finish(uint64_t cycles, bool dynamic) const;

  const TimingParams& params_;
  contract::Gen gen_;
  contract::Engine engine_;
  base::Rate clock_;  // cycles per picosecond
  base::Ps latency_;
};

}  // namespace hw
