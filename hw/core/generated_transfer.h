// What the descriptor-generating block of an engine makes of one instruction: descriptors for the
// 16 rings of a queue, each with the completion behind them. Source of truth: spec/engine-isa.md 8
// and 10.1, spec/neff.md 3.12; docs/hardware-contract.md 3 and 6.
//
// Exact: bytes, order of the elements, bounds, completion counts. Own: which ring gets what (equal
// shares of the runs in order, so that ring e serves partitions 8e to 8e + 7 of a tile), cuts at
// 4 KiB. Missing: priorities of single transfers, mixed types of a sum.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/contract/dge.h"
#include "arch/contract/engine.h"
#include "hw/mem/fabric.h"

namespace hw {

// Descriptors of one ring; their ring ids are set when they are put there.
struct GeneratedRing {
  std::vector<contract::Descriptor> m2s;
  std::vector<contract::Descriptor> s2m;
  uint64_t pairs = 0;  // without completions: what generating them costs

  const std::vector<contract::Descriptor>& list(bool receive) const { return receive ? s2m : m2s; }
};

struct GeneratedTransfer {
  uint32_t queue = 0;
  uint64_t pairs = 0;  // of all rings
  bool placed = true;  // timing-only: its index has been computed
  std::array<GeneratedRing, contract::kDmaPerNc> rings;

  uint64_t descriptors() const {
    uint64_t sum = 0;
    for (const GeneratedRing& ring : rings) sum += ring.m2s.size() + ring.s2m.size();
    return sum;
  }
};

struct GenerationFault {
  contract::EngineError error = contract::EngineError::kNone;
  uint32_t info = 0;
};

class TransferGenerator {
 public:
  struct Table {
    uint64_t address = 0;  // in device memory
    uint32_t entries = 0;
  };
  struct Params {
    Table table;       // the DGE table
    Table arguments;   // of the function under way
    uint64_t one = 0;  // device address of a word that holds 1
    const uint32_t* registers = nullptr;
    std::vector<uint32_t> index;  // of the indexed side's rows, in their order
  };
  TransferGenerator(Fabric& fabric, uint32_t nc) : fabric_(fabric), nc_(nc) {}

  // Nothing but memory is looked at. The tensors' numbers in faults: 0 dst, 1 src.
  std::optional<GenerationFault> generate(const contract::dge::Transfer& transfer,
                                          const Params& params, GeneratedTransfer* out) const;
  // Device address of a side that is one element in device memory; none: it lies outside, which is
  // no error here. Its number in faults is 0.
  std::optional<GenerationFault> locate(const contract::isa::SideOperand& cell,
                                        contract::isa::DgeBounds bounds, const Params& params,
                                        std::optional<uint64_t>* address) const;

 private:
  // Where the elements of a side lie.
  struct Place {
    uint64_t base = 0;
    uint64_t size = 0;  // of the tensor; 0: SBUF
    int64_t offset = 0;
    bool sbuf = false;
    bool holds(int64_t at, uint64_t bytes, uint64_t partition_bytes) const;
  };
  struct Work;
  class Turn;

  std::optional<GenerationFault> place(const contract::isa::SideOperand& side, uint32_t number,
                                       const Params& params, Place* out) const;
  std::optional<GenerationFault> copy(const Work& work, GeneratedTransfer* out) const;
  // False, and a fault unless such runs are left out: a run that leaves its memory.
  bool inside(const Work& work, uint32_t number, const Place& place, int64_t at, uint64_t bytes,
              uint32_t row, std::optional<GenerationFault>* fault) const;

  Fabric& fabric_;
  uint32_t nc_;
};

}  // namespace hw
