// One NeuronCore with its DMA engines on a fabric, for programs that no loader has seen.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/hw_core/dge_bench.h"

namespace fuzz {

// Guest memory that knows what the engines have posted.
class NotedPages final : public pcie::HostMemory {
 public:
  uint8_t* direct(uint64_t phys, uint64_t length) override;
  bool read(uint64_t phys, base::ByteSpan to) override;
  bool write(uint64_t phys, base::ConstByteSpan from) override;

  // Whether the entry of an error is among what has been posted.
  bool posted(uint32_t engine, uint32_t code, uint32_t pc, uint32_t info) const;
  // Something else has been written where notifications lie.
  bool disturbed() const { return disturbed_; }

 private:
  bool inside(uint64_t phys, uint64_t length) const {
    return length <= bytes_.size() && phys <= bytes_.size() - length;
  }

  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(0x1'0000);
  std::vector<contract::NqEntry> errors_;
  bool disturbed_ = false;
};

class EngineBench : public hw_test::transfers::DgeBench {
 public:
  static constexpr uint32_t kEngines = contract::kEnginesPerNc;
  using Programs = std::array<std::vector<uint8_t>, kEngines>;
  struct Options {
    bool stochastic = false;
    bool trace = false;
    bool preset = false;         // registers are not all zero
    uint32_t ring = 4096;        // descriptors
    std::vector<uint8_t> table;  // of tensors; empty: two tensors
  };
  // What an execution leaves.
  struct Outcome {
    struct Engine {
      uint32_t status, pc, code, error_pc, info;
      std::array<uint32_t, contract::isa::kRegisters> registers;
      bool stuck;
      bool operator==(const Engine& other) const;
    };
    std::array<Engine, kEngines> engines;
    std::array<uint32_t, 256> semaphores;
    base::Ps now;
    uint64_t memory;  // a digest
    bool at_rest;
    bool operator==(const Outcome& other) const;
  };

  EngineBench(contract::Gen gen, const Options& options, hw::check::Checker* checker);

  // Until all is done, or enough time has passed, or enough has been computed.
  Outcome run(const Programs& programs);
  const NotedPages& pages() const { return pages_; }
  // Resets everything; a good program on each engine then ends as it should.
  void check_reset();

 private:
  uint64_t work();
  bool step_until(base::Ps time);
  uint64_t digest();

  NotedPages pages_;
};

}  // namespace fuzz
