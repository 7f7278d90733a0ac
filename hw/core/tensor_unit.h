// Executes tensor instructions on SBUF and PSUM of one NeuronCore: access patterns, bounds, data
// types. Source of truth: spec/engine-isa.md 3, 5 and 10, docs/hardware-contract.md 1.
// Exact: results, bit for bit: inputs convert to float32, one operation, one rounding to the
// destination type; copies of equal types move bits; GpSimd computes integers of up to 32 bits as
// integers. Stochastic rounding is not modelled.
#pragma once

#include <cstdint>

#include "contract/isa_types.h"
#include "hw/mem/fabric.h"
#include "hw/stats.h"

namespace hw {

// Bounding box of an operand: partitions x bytes within a partition.
struct TensorBox {
  contract::isa::Memory memory = contract::isa::Memory::kSbuf;
  uint32_t first_partition = 0;
  uint32_t partitions = 0;
  uint64_t begin = 0;  // lowest byte of a partition
  uint64_t end = 0;    // past the highest
  uint64_t start = 0;  // byte of element 0

  bool overlaps(const TensorBox& other) const {
    return memory == other.memory && begin < other.end && other.begin < end &&
           first_partition < other.first_partition + other.partitions &&
           other.first_partition < first_partition + partitions;
  }
};

// Destination, then sources.
struct TensorExtent {
  TensorBox operand[3];
  uint32_t count = 0;
  uint64_t elements = 0;  // per partition

  bool touches(const TensorBox& box) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (operand[i].overlaps(box)) return true;
    }
    return false;
  }
};

class TensorUnit {
 public:
  struct Params {
    uint32_t nc = 0;
    bool timing_only = false;   // elide results of more than real_bytes
    uint64_t real_bytes = 512;  // timing_only.real_bytes
  };
  TensorUnit(const Params& params, Fabric& fabric, Counters& counters)
      : params_(params), fabric_(fabric), counters_(counters) {}

  // Addresses and bounds of a tensor instruction; returns the number of the first illegal operand
  // (0 destination, 1.. sources), or -1.
  int resolve(const contract::isa::Instruction& instruction, const uint32_t* registers,
              TensorExtent* extent) const;
  // `extent` as resolved. `integer_unit`: the engine has integer arithmetic (GpSimd). False: the
  // host has no memory for SBUF or PSUM.
  bool execute(const contract::isa::Instruction& instruction, const TensorExtent& extent,
               bool integer_unit);

 private:
  bool resolve_operand(const contract::isa::TensorOperand& operand, const uint32_t* registers,
                       uint32_t partitions, TensorBox* box) const;
  uint8_t* partition(const TensorBox& box, uint32_t lane) const;
  bool elided(const TensorExtent& extent, uint64_t bytes);
  Memory& memory(const TensorBox& box) const;
  static uint64_t partition_offset(const TensorBox& box, uint32_t lane);

  Params params_;
  Fabric& fabric_;
  Counters& counters_;
};

}  // namespace hw
