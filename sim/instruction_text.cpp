#include "sim/instruction_text.h"

#include "contract/isa_operands.h"
#include "hw/core/neuron_core.h"

namespace sim {

namespace isa = contract::isa;

namespace {

std::string short_name(isa::DataType type) {
  for (size_t i = 0; i < isa::kDataTypeShortInfo.count; ++i) {
    const isa::EnumName& each = isa::kDataTypeShortInfo.names[i];
    if (each.value == static_cast<uint8_t>(type)) return each.name;
  }
  return "?";
}

}  // namespace

const char* name_of(const isa::Instruction& instruction) {
  const isa::OpInfo* info = isa::find_op(instruction.opcode);
  return info == nullptr ? "?" : info->name;
}

std::string operands_of(const isa::Instruction& instruction) {
  std::string out;
  const isa::TensorUses uses = isa::tensors_of(instruction);
  for (const isa::TensorUse& use : uses) {
    const isa::TensorOperand& t = *use.tensor;
    out += out.empty() ? "" : ", ";
    out += use.access == isa::Access::kWrite  ? "writes "
           : use.access == isa::Access::kRead ? "reads "
                                              : "updates ";
    out += t.memory == isa::Memory::kPsum ? "psum " : "";
    out += short_name(t.dtype) + " " + std::to_string(use.partitions) + " x " +
           std::to_string(isa::element_count(t)) + " @" + std::to_string(t.byte_offset);
  }
  return out;
}

const char* wait_name(const hw::InstructionEvent::Pause& pause) {
  return pause.cause == hw::Stall::kSemaphore ? hw::NeuronCore::engine_name(pause.engine)
                                              : hw::name_of(pause.cause);
}

}  // namespace sim
