// When an instruction with tensors may start: what the engines of a NeuronCore share, and the two
// halves of the Tensor engine. Source of truth: spec/engine-isa.md 4 and 7.
//
// A start is granted once, in the order of requests, and the time that the instruction takes is
// reserved with it: nobody is passed over by an engine that asks again and again.
#pragma once

#include <array>
#include <cstdint>

#include "arch/contract/engine.h"
#include "base/units.h"
#include "hw/core/datapath.h"
#include "hw/core/engine_timing.h"

namespace hw {

// Memories that two engines cannot use at the same time. v2: Vector and GpSimd exclude each other
// from SBUF, Vector and Scalar from PSUM. v3, v4: Vector and Scalar from a bank of PSUM.
class MemoryPorts {
 public:
  explicit MemoryPorts(contract::Gen gen) : gen_(gen) {}
  // The first time from `at` on at which `engine` may use what it touches for `interval`, which is
  // then reserved. `psum`: it is PSUM that it waits for.
  base::Ps reserve(contract::Engine engine, const TensorExtent& extent, base::Ps at,
                   base::Ps interval, bool* psum);
  void reset() { *this = MemoryPorts(gen_); }

 private:
  static constexpr size_t kBanks =
      contract::tpb::kPsumPartitionBytes / contract::tpb::kPsumBankBytes;
  // Until when each side has it: Vector, and the other.
  using Shared = std::array<base::Ps, 2>;

  contract::Gen gen_;
  Shared sbuf_{};
  std::array<Shared, kBanks> psum_{};
};

// The array holds the weights at work and the next ones: a load runs under the product before it.
// Tiles of the array work on their own.
//
// Two limits of power space products, each of a part of the array for its share of the whole: those
// that go on for long, so that the array works no more than throttle.activity_limit of the time;
// and, with throttle.enable, those after a rest, to throttle.initial_limit of the time at first.
class PeSchedule {
 public:
  explicit PeSchedule(const EngineTiming& timing) : timing_(timing) {}
  // From `at` on, when the array is free for it.
  base::Ps earliest(const contract::isa::Instruction& instruction, base::Ps at) const;
  // From `at` on, when limits of power allow it.
  base::Ps allowed(const contract::isa::Instruction& instruction, base::Ps at) const;
  InstructionTime begin(const contract::isa::Instruction& instruction, base::Ps at);
  void reset() {
    cells_ = {};
    paced_ = 0;
    start_ = {};
  }

 private:
  // The smallest part of the array that works on its own.
  static constexpr uint32_t kSide = 32;
  static constexpr uint32_t kCells = contract::isa::kPartitions / kSide;
  struct Cell {
    base::Ps load_end = 0;
    base::Ps product_end = 0;
    uint64_t columns = 0;
    bool wide = false;
    bool onezero = false;
    bool fresh = false;  // loaded and not used yet
  };
  struct Area {
    uint32_t first_row, rows, first_column, columns;
  };
  static Area area(const contract::isa::Instruction& instruction);
  bool limited() const {
    return timing_.params().pe_activity_num < timing_.params().pe_activity_den;
  }
  void pace(const Area& area, base::Ps at, base::Ps interval);
  template <typename Each>
  static void each_cell(const Area& area, Each&& each);

  // The start after a rest. Windows follow each other while the array works.
  struct Start {
    base::Ps window = 0;   // when the present one began
    base::Ps worked = 0;   // in it
    base::Ps climbed = 0;  // since the last rest
    base::Ps next = 0;     // when the limit allows more
  };
  void pace_start(base::Ps at, base::Ps work);

  const EngineTiming& timing_;
  std::array<std::array<Cell, kCells>, kCells> cells_{};
  base::Ps paced_ = 0;  // when what has been done would be through at the limit
  Start start_;
};

}  // namespace hw
