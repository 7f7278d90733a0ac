// What assembler and disassembler share. Internal to this room.
#pragma once

#include <string>
#include <string_view>

#include "contract/isa_operands.h"
#include "contract/isa_types.h"

namespace neff::text {

namespace isa = contract::isa;

struct CondName {
  const char* name;
  isa::WaitCond cond;
};
// Longer spellings first.
constexpr CondName kConds[] = {{">=", isa::WaitCond::kGe}, {"==", isa::WaitCond::kEq},
                               {"<=", isa::WaitCond::kLe}, {"!=", isa::WaitCond::kNe},
                               {">", isa::WaitCond::kGt},  {"<", isa::WaitCond::kLt}};

inline const isa::OpOperands* operands_of(uint8_t opcode) {
  for (const isa::OpOperands& o : isa::kOpOperands) {
    if (o.opcode == opcode) return &o;
  }
  return nullptr;
}

inline const isa::OpInfo* op_named(std::string_view name) {
  for (const isa::OpInfo& op : isa::kOpTable) {
    if (name == op.name) return &op;
  }
  return nullptr;
}

// A name that needs no quotes.
inline bool plain_symbol(std::string_view s) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (s.empty() || !letter(s[0])) return false;
  for (char c : s) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '.' && c != '-') return false;
  }
  return true;
}

}  // namespace neff::text
