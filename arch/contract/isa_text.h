// Vocabulary of the generated operand descriptions: what a text form, a table or a tool needs to
// name and place every operand without knowing the instruction.
#pragma once

#include "arch/contract/isa_fields.h"

namespace contract {
namespace isa {

struct EnumName {
  const char* name;
  uint8_t value;
};

struct EnumInfo {
  const char* type;
  const EnumName* names;
  size_t count;
};

enum class OperandType : uint8_t {
  kU8,
  kU16,
  kU32,
  kU64,
  kI32,
  kTarget,
  kSymbol,
  kReg,
  kPartitions,
  kEnum,
  kValue,
  kTensor,
  kScalar,
  kAffine,
  kPattern,
  kSide,
};

enum class TextForm : uint8_t {
  kKey,         // name=value
  kNumber,      // name=value, a register as a bare number
  kPositional,  // value alone
  kWrite,       // the whole of WRITE: data=a,b size=a,b dst=a,b
  kNone,        // printed by another operand
};

struct OperandInfo {
  const char* name;
  OperandType type;
  const EnumInfo* enumeration;
  TextForm form;
  uint8_t record;
  uint8_t offset;
  uint8_t bytes;
  uint8_t line;  // 1: printed on the PSEUDO_EXTENSION line
  bool optional;
  uint8_t default_value;
  uint32_t max;       // of unsigned scalars
  const char* lanes;  // of a tensor or scalar: the operand that counts its partitions
};

struct OpOperands {
  uint8_t opcode;
  const OperandInfo* operands;
  size_t count;
  bool extension_line;
};

}  // namespace isa
}  // namespace contract
