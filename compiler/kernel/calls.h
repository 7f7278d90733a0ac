// What the calls of a kernel share on their way to instructions. Internal to this room.
#pragma once

#include <string>

#include "compiler/kernel/program.h"

namespace kernel {

using isa::Opcode;

inline isa::Instruction make(Opcode opcode) {
  isa::Instruction in{};
  in.opcode = opcode;
  return in;
}

inline isa::TensorOp table(Op op) {
  return static_cast<isa::TensorOp>(op);
}

inline uint32_t chosen(Engine engine, Engine otherwise) {
  return static_cast<uint32_t>(engine == Engine::kAuto ? otherwise : engine);
}

inline uint8_t reversal(const Step& first, bool second) {
  return static_cast<uint8_t>((first.reverse ? 1 : 0) | (second ? 2 : 0));
}

inline uint8_t lanes_of(const View& view) {
  return static_cast<uint8_t>(view.size(0));
}

// Elements in each partition.
inline int64_t free_elements(const View& view) {
  return view.elements() / (view.size(0) > 0 ? view.size(0) : 1);
}

// Keeps a mistake as the kernel's error, with the call's name before it, unless `legal`.
inline bool require(Program* p, const Call& call, bool legal, const std::string& rule) {
  if (p->ok() && !legal)
    p->fail(base::Fault::kUsage, call.at, std::string(call.name) + ": " + rule);
  return p->ok();
}

inline bool in_psum(const View& v) {
  return v.space() == Space::kPsum;
}

// The operands of one element-wise call: all have the same partitions and elements, and two inputs
// are not both in PSUM. If not, that has become the kernel's error.
bool alike(Program* p, const Call& call, const std::vector<Program::Operand>& operands);

}  // namespace kernel
