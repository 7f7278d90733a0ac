// When a wait for a semaphore or an event is over, on compute engines and CC-cores alike
// (docs/hardware-contract.md 2): semaphores compare as signed 32-bit numbers.
#pragma once

#include <cstdint>

#include "arch/contract/cc_program.h"
#include "arch/contract/isa_fields.h"

namespace contract {

// `value` is that of the semaphore, or 1 of an event that is set.
constexpr bool meets(isa::WaitCond cond, uint32_t value, uint32_t against) {
  const auto a = static_cast<int32_t>(value);
  const auto b = static_cast<int32_t>(against);
  switch (cond) {
    case isa::WaitCond::kNone:
      return true;
    case isa::WaitCond::kGe:
      return a >= b;
    case isa::WaitCond::kGt:
      return a > b;
    case isa::WaitCond::kEq:
      return a == b;
    case isa::WaitCond::kLe:
      return a <= b;
    case isa::WaitCond::kLt:
      return a < b;
    case isa::WaitCond::kNe:
      return a != b;
    case isa::WaitCond::kEventSet:
      return value != 0;
    case isa::WaitCond::kEventClear:
      return value == 0;
  }
  return false;
}

constexpr bool meets(cc_program::Cond cond, uint32_t value, uint32_t against) {
  const bool equal = cond == cc_program::Cond::kEq;
  return meets(equal ? isa::WaitCond::kEq : isa::WaitCond::kGe, value, against);
}

}  // namespace contract
