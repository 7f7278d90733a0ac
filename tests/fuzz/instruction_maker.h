// Instructions for fuzz targets, of every kind that the table of the instruction set knows: mostly
// legal ones, so that a change of a byte or two leaves most of it legal. Deterministic: one seed,
// one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/isa_operands.h"
#include "contract/isa_types.h"
#include "tests/engines/generator.h"

namespace fuzz {

class InstructionMaker {
 public:
  InstructionMaker(contract::Gen gen, contract::isa::Engine engine, uint64_t seed);

  // The records of an instruction, or of two where one needs another before it. Operands lie in a
  // small part of SBUF and PSUM; transfers use queue kQueue and the tensors 0 and 1.
  std::vector<uint8_t> make(contract::isa::Opcode opcode);

  static constexpr uint32_t kQueue = 3;

 private:
  struct Shape {
    uint8_t partitions = 1;
    uint32_t elements = 1;
    contract::isa::DataType type = contract::isa::DataType::kFloat32;
  };

  void append(const contract::isa::Instruction& in, std::vector<uint8_t>* to);
  std::vector<uint8_t> from_table(const contract::isa::OpInfo& op);
  void set_header(uint8_t* records);
  void fill(const contract::isa::OperandInfo& operand, const Shape& shape, uint8_t* at);
  uint64_t number(const Shape& shape, uint64_t most);
  contract::isa::TensorOperand tensor(const Shape& shape);
  contract::isa::ScalarOperand scalar(const Shape& shape);
  contract::isa::SideOperand side(const Shape& shape, bool destination);
  Shape shape(contract::isa::Opcode opcode);

  contract::Gen gen_;
  contract::isa::Engine engine_;
  engine_reference::Random random_;
  engine_reference::Generator generator_;
  contract::isa::Opcode opcode_ = contract::isa::Opcode::kNop;  // at work
};

}  // namespace fuzz
