// A NeuronCore and the reference side by side: the same memory, the same instruction, then a
// comparison of every byte.
#pragma once

#include <memory>
#include <string>

#include "tests/engines/reference.h"
#include "tests/hw_core/nc_bench.h"

namespace engine_reference {

class Bench {
 public:
  explicit Bench(contract::Gen gen);

  Reference& reference() { return reference_; }
  uint8_t* machine(isa::Memory memory, uint32_t partition, uint32_t byte) {
    return places_[static_cast<size_t>(memory)][partition] + byte;
  }
  // In both.
  void write(isa::Memory memory, uint32_t partition, uint32_t byte, const void* from, size_t size);
  void set_registers(isa::Engine engine, const Registers& registers);

  // Both execute; the inputs are those of the reference. False, and a message, where the machine's
  // results are not legal or it fails. Legal results are taken over by the reference.
  [[nodiscard]] bool run(isa::Engine engine, const isa::Instruction& in, const Registers& registers,
                         std::string* message);
  // Whether `size` bytes of each of some partitions are equal.
  [[nodiscard]] bool equal(isa::Memory memory, uint32_t first_partition, uint32_t partitions,
                           uint32_t byte, uint32_t size, std::string* message);
  [[nodiscard]] bool all_equal(std::string* message);

 private:
  bool check(const isa::Instruction& in, std::string* message);

  hw_test::NcBench bench_;
  Reference reference_;
  uint8_t* places_[2][isa::kPartitions];
};

std::string text_of(const isa::Instruction& in);

}  // namespace engine_reference
