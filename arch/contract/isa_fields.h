// Building blocks of instruction records: the fields that every record shares, and the composite
// operands. Source of truth: spec/neff.md 5.4 (requirements), data/isa/instructions.json (layouts).
// The encoding is this project's own. Freestanding: no allocation, no exceptions, no libc.
//
// Record, 64 bytes, little-endian:
//   0 opcode, 1 flags, 2 number of extension records, 3 wait condition (bit 7: the wait value is a
//   register number), 4 wait id, 5/6 read update op/id, 7/8 complete update op/id, 9..11 zero,
//   12 wait value, 16 read update value, 20 complete update value, 24 debug id, 32..63 operands.
// Extension record: 0 opcode PSEUDO_EXTENSION, 1 ordinal from 1, 2..3 zero, 4..63 operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/contract/address_map.h"
#include "arch/contract/dtype.h"

namespace contract {
namespace isa {

constexpr size_t kRecordBytes = 64;
constexpr unsigned kCallLevels = 64;  // of BRANCH_LINK (spec/neff.md 5.4 R-08)
constexpr unsigned kRegisters = 64;   // per engine, 32 bits each (spec/engine-isa.md 1)
constexpr unsigned kMaxExtensions = 15;
constexpr unsigned kPartitions = tpb::kPartitions;
constexpr uint8_t kNoRegister = 0xFF;
constexpr uint8_t kFlagTrace = 1;  // emit a TRACE notification on completion
constexpr uint8_t kWaitValueIsRegister = 0x80;

enum class Engine : uint8_t {
  kPe = contract::kPe,
  kAct = contract::kAct,
  kPool = contract::kPool,
  kDve = contract::kDve,
  kSp = contract::kSp,
};
constexpr unsigned kEngines = kEnginesPerNc;

enum class Memory : uint8_t { kSbuf = 0, kPsum = 1 };

// The types that operands can have, as the table of instructions spells them. Those behind the last
// of nrt.h are the engines' own (spec/engine-isa.md 5.1): no descriptor and no collective has them.
enum class DataType : uint8_t {
  kUint64 = static_cast<uint8_t>(DType::kUint64),
  kInt8 = static_cast<uint8_t>(DType::kInt8),
  kUint8 = static_cast<uint8_t>(DType::kUint8),
  kInt16 = static_cast<uint8_t>(DType::kInt16),
  kUint16 = static_cast<uint8_t>(DType::kUint16),
  kBfloat16 = static_cast<uint8_t>(DType::kBf16),
  kFloat16 = static_cast<uint8_t>(DType::kFp16),
  kInt32 = static_cast<uint8_t>(DType::kInt32),
  kUint32 = static_cast<uint8_t>(DType::kUint32),
  kFloat32 = static_cast<uint8_t>(DType::kFp32),
  kFloat32r = static_cast<uint8_t>(DType::kFp32r),
  kInt64 = static_cast<uint8_t>(DType::kInt64),
  kFloat8e3 = static_cast<uint8_t>(DType::kFp8E3),
  kFloat8e4 = static_cast<uint8_t>(DType::kFp8E4),
  kFloat8e5 = static_cast<uint8_t>(DType::kFp8E5),
  kFloat8e4fn = 16,  // OCP e4m3: up to 448, no infinity
  kFloat8e8 = 17,    // OCP e8m0: the scale of a group, 2^(byte - 127), 255 is NaN
  // Four numbers to an element, the first in the low bits.
  kFloat8e5x4 = 18,
  kFloat8e4fnx4 = 19,
  kFloat4e2fnx4 = 20,
};

constexpr DType dtype_of(DataType type) {
  return static_cast<DType>(type);
}
constexpr bool has_dtype(DataType type) {
  return type <= DataType::kFloat8e5;
}
// Several numbers to an element, whose scales lie elsewhere.
constexpr bool is_packed(DataType type) {
  return type >= DataType::kFloat8e5x4;
}
// Bytes of one element; 0 for a code that is not a data type.
constexpr unsigned data_type_bytes(DataType type) {
  switch (type) {
    case DataType::kFloat8e4fn:
    case DataType::kFloat8e8:
      return 1;
    case DataType::kFloat8e5x4:
    case DataType::kFloat8e4fnx4:
      return 4;
    case DataType::kFloat4e2fnx4:
      return 2;
    default:
      return has_dtype(type) ? dtype_size(dtype_of(type)) : 0;
  }
}

enum class WaitCond : uint8_t {
  kNone = 0,
  kGe = 1,
  kGt = 2,
  kEq = 3,
  kLe = 4,
  kLt = 5,
  kNe = 6,
  kEventSet = 7,
  kEventClear = 8,
};

// `semaphore id <cond> value`, compared as signed 32-bit numbers (docs/hardware-contract.md 2).
struct Wait {
  WaitCond cond;
  bool value_is_register;  // value is the number of a register, read when the wait starts
  uint8_t id;
  uint32_t value;
};

enum class UpdateOp : uint8_t {
  kNone = 0,
  kInc = 1,
  kDec = 2,
  kAdd = 3,
  kSub = 4,
  kWrite = 5,
  kEventSet = 6,
  kEventClear = 7,
};

struct Update {
  UpdateOp op;
  uint8_t id;
  uint32_t value;
};

// An immediate, or a register (then `value` is its number).
struct Value {
  uint32_t value;
  bool is_register;
};

struct PatternDim {
  int16_t step;    // elements
  uint16_t count;  // 0: dimension absent
};

// Element (p, i0..i3) lies in partition start_partition + p at
// byte_offset + value of offset_register + bytes * sum(step[j] * i[j]); dimension 0 varies fastest.
struct TensorOperand {
  Memory memory;
  DataType dtype;
  uint8_t start_partition;
  uint8_t offset_register;  // kNoRegister, or a register added to byte_offset
  uint32_t byte_offset;     // inside each partition
  PatternDim dims[4];       // present dimensions first
};

// A number for each lane: the same for all, or the one element that a tile has in each partition.
struct ScalarOperand {
  enum Kind : uint8_t { kImmediate = 0, kRegister = 1, kTile = 2 };
  Kind kind;
  uint32_t bits;  // immediate: a float32, or an integer for operators on bits; register: number
  TensorOperand tile;  // kTile
};

// offset + lane * multiplier + sum(step[j] * i[j]), in int32 arithmetic that wraps; dimension 0
// varies fastest.
struct AffineOperand {
  int32_t offset;
  int32_t multiplier;
  int32_t step[4];
  uint16_t count[4];  // present dimensions first, 0: absent
};

constexpr uint64_t element_count(const AffineOperand& a) {
  uint64_t n = 1;
  for (const uint16_t count : a.count) n *= count == 0 ? 1u : count;
  return n;
}

// One side of a transfer whose descriptors an engine has made while it runs. Element (i0..i3) lies
// at base + offset + value of offset_register * scale + sum(step[j] * i[j]), all in bytes;
// dimension 0 varies fastest. The base is that of an entry of the DGE table (spec/neff.md 3.12) or
// of a function's argument table, or of the own SBUF, where an offset is partition *
// tpb::kPartitionStride + byte (spec/neff.md 3.7).
struct SideOperand {
  uint64_t offset;
  DataType dtype;
  uint8_t offset_register;  // kNoRegister: the offset is all
  uint16_t entry;           // kSbufEntry, kFirstArgument + number, or of the DGE table
  uint32_t scale;           // bytes per unit of the register; 0 without one
  int32_t step[4];
  uint32_t count[4];  // present dimensions first, 0: absent
};
constexpr uint16_t kSbufEntry = 0xFFFF;
// Of the argument table of the function under way (spec/neff.md 3.10).
constexpr uint16_t kFirstArgument = 0x8000;
constexpr bool is_argument(const SideOperand& s) {
  return s.entry >= kFirstArgument && s.entry != kSbufEntry;
}

constexpr unsigned rank_of(const SideOperand& s) {
  unsigned n = 0;
  while (n < 4 && s.count[n] != 0) ++n;
  return n;
}
// Of its outermost dimension, the first axis.
constexpr uint32_t rows_of(const SideOperand& s) {
  return s.count[rank_of(s) - 1];
}
// At most kMostSideElements, once it has been unpacked.
constexpr uint64_t kMostSideElements = 1ull << 32;
constexpr uint64_t element_count(const SideOperand& s) {
  uint64_t n = 1;
  for (const uint32_t count : s.count) {
    if (count != 0 && n > kMostSideElements / count) return kMostSideElements + 1;
    n *= count == 0 ? 1u : count;
  }
  return n;
}

// How an instruction uses a tensor.
enum class Access : uint8_t { kRead, kWrite, kUpdate };

struct TensorUse {
  const TensorOperand* tensor;
  uint8_t partitions;
  Access access;
};

// The tensors of one instruction, in the order of its operands. As long as the instruction lives.
struct TensorUses {
  static constexpr unsigned kMost = 5;
  TensorUse uses[kMost];
  unsigned count;

  constexpr void add(const TensorOperand& tensor, uint8_t partitions, Access access) {
    uses[count++] = {&tensor, partitions, access};
  }
  constexpr void add(const ScalarOperand& scalar, uint8_t partitions, Access access) {
    if (scalar.kind == ScalarOperand::kTile) add(scalar.tile, partitions, access);
  }
  constexpr const TensorUse* begin() const { return uses; }
  constexpr const TensorUse* end() const { return uses + count; }
};

constexpr uint64_t element_count(const TensorOperand& t) {
  uint64_t n = 1;
  for (const PatternDim& d : t.dims) n *= d.count == 0 ? 1u : d.count;
  return n;
}

// [steps][counts] of a collective's tensor, in elements, innermost first; count 0: absent.
struct Pattern {
  int32_t step[2];
  uint32_t count[2];
};

struct OpInfo {
  uint8_t opcode;
  const char* name;
  uint8_t engines;  // bit per Engine
  bool supported;   // false: known, typed, not executable
  bool pseudo;      // replaced when a program is loaded; never fetched by an engine
  bool computes;    // has tensors, and runs in the engine's datapath
  uint8_t extensions;
  uint8_t max_extensions;  // more than `extensions`: a known form that is not supported

  constexpr bool runs_on(Engine engine) const {
    return ((engines >> static_cast<unsigned>(engine)) & 1u) != 0;
  }
};

enum class DecodeError : uint8_t {
  kNone = 0,
  kTruncated,  // fewer bytes than the record and its extensions need
  kUnknownOpcode,
  kUnsupported,     // known opcode or form without an implementation
  kStrayExtension,  // PSEUDO_EXTENSION without an instruction before it
  kBadExtension,    // number, opcode, ordinal of extension records
  kBadHeader,       // flags, wait or update fields
  kReservedNotZero,
  kFieldRange,  // an operand outside its range, or operands that contradict each other
};

constexpr const char* to_string(DecodeError error) {
  switch (error) {
    case DecodeError::kNone:
      return "ok";
    case DecodeError::kTruncated:
      return "truncated instruction";
    case DecodeError::kUnknownOpcode:
      return "unknown opcode";
    case DecodeError::kUnsupported:
      return "unsupported instruction";
    case DecodeError::kStrayExtension:
      return "extension record without an instruction";
    case DecodeError::kBadExtension:
      return "malformed extension record";
    case DecodeError::kBadHeader:
      return "malformed flags, wait or update";
    case DecodeError::kReservedNotZero:
      return "reserved bytes are not zero";
    case DecodeError::kFieldRange:
      return "operand out of range";
  }
  return "unknown";
}

// Byte order does not depend on the host, and the compiler makes one load of it.
constexpr uint8_t load8(const uint8_t* p) {
  return p[0];
}
constexpr uint16_t load16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | (p[1] << 8));
}
constexpr uint32_t load32(const uint8_t* p) {
  return static_cast<uint32_t>(load16(p)) | (static_cast<uint32_t>(load16(p + 2)) << 16);
}
constexpr uint64_t load64(const uint8_t* p) {
  return static_cast<uint64_t>(load32(p)) | (static_cast<uint64_t>(load32(p + 4)) << 32);
}
constexpr void store8(uint8_t* p, uint8_t v) {
  p[0] = v;
}
constexpr void store16(uint8_t* p, uint16_t v) {
  p[0] = static_cast<uint8_t>(v);
  p[1] = static_cast<uint8_t>(v >> 8);
}
constexpr void store32(uint8_t* p, uint32_t v) {
  store16(p, static_cast<uint16_t>(v));
  store16(p + 2, static_cast<uint16_t>(v >> 16));
}
constexpr void store64(uint8_t* p, uint64_t v) {
  store32(p, static_cast<uint32_t>(v));
  store32(p + 4, static_cast<uint32_t>(v >> 32));
}

// Composite operands. unpack() answers false for a value out of range; it checks reserved bytes.

// 8 bytes: 0 value, 4 kind (0 immediate, 1 register), 5..7 zero.
constexpr bool unpack(const uint8_t* p, Value* out) {
  out->value = load32(p);
  out->is_register = p[4] != 0;
  if (p[4] > 1 || p[5] != 0 || p[6] != 0 || p[7] != 0) return false;
  return !out->is_register || out->value < kRegisters;
}
constexpr void pack(const Value& in, uint8_t* p) {
  store32(p, in.value);
  store32(p + 4, in.is_register ? 1u : 0u);
}

// 24 bytes: 0 byte offset, 4 dtype, 5 memory, 6 offset register, 7 start partition, 8.. four pairs.
constexpr bool unpack(const uint8_t* p, TensorOperand* out) {
  out->byte_offset = load32(p);
  out->dtype = static_cast<DataType>(p[4]);
  out->memory = static_cast<Memory>(p[5]);
  out->offset_register = p[6];
  out->start_partition = p[7];
  bool absent = false;
  for (size_t i = 0; i < 4; ++i) {
    PatternDim& d = out->dims[i];
    d.step = static_cast<int16_t>(load16(p + 8 + 4 * i));
    d.count = load16(p + 10 + 4 * i);
    if (d.count == 0 ? (i == 0 || d.step != 0) : absent) return false;
    absent = d.count == 0;
  }
  return data_type_bytes(out->dtype) != 0 && p[5] <= 1 &&
         (p[6] == kNoRegister || p[6] < kRegisters) && p[7] < kPartitions;
}
constexpr void pack(const TensorOperand& in, uint8_t* p) {
  store32(p, in.byte_offset);
  p[4] = static_cast<uint8_t>(in.dtype);
  p[5] = static_cast<uint8_t>(in.memory);
  p[6] = in.offset_register;
  p[7] = in.start_partition;
  for (size_t i = 0; i < 4; ++i) {
    store16(p + 8 + 4 * i, static_cast<uint16_t>(in.dims[i].step));
    store16(p + 10 + 4 * i, in.dims[i].count);
  }
}

// 24 bytes: a tensor, or with dtype 0: 0 bits, 5 kind (0 immediate, 1 register), the rest zero.
constexpr bool unpack(const uint8_t* p, ScalarOperand* out) {
  if (p[4] != 0) {
    out->kind = ScalarOperand::kTile;
    return unpack(p, &out->tile);
  }
  out->kind = static_cast<ScalarOperand::Kind>(p[5]);
  out->bits = load32(p);
  for (size_t i = 6; i < 24; ++i) {
    if (p[i] != 0) return false;
  }
  return p[5] == 0 || (p[5] == ScalarOperand::kRegister && out->bits < kRegisters);
}
constexpr void pack(const ScalarOperand& in, uint8_t* p) {
  if (in.kind == ScalarOperand::kTile) return pack(in.tile, p);
  for (size_t i = 0; i < 24; ++i) p[i] = 0;
  store32(p, in.bits);
  p[5] = in.kind;
}

// 32 bytes: offset, multiplier, four steps, four 16-bit counts.
constexpr bool unpack(const uint8_t* p, AffineOperand* out) {
  out->offset = static_cast<int32_t>(load32(p));
  out->multiplier = static_cast<int32_t>(load32(p + 4));
  bool absent = false;
  for (size_t i = 0; i < 4; ++i) {
    out->step[i] = static_cast<int32_t>(load32(p + 8 + 4 * i));
    out->count[i] = load16(p + 24 + 2 * i);
    if (out->count[i] == 0 ? (i == 0 || out->step[i] != 0) : absent) return false;
    absent = out->count[i] == 0;
  }
  return true;
}
constexpr void pack(const AffineOperand& in, uint8_t* p) {
  store32(p, static_cast<uint32_t>(in.offset));
  store32(p + 4, static_cast<uint32_t>(in.multiplier));
  for (size_t i = 0; i < 4; ++i) {
    store32(p + 8 + 4 * i, static_cast<uint32_t>(in.step[i]));
    store16(p + 24 + 2 * i, in.count[i]);
  }
}

// 48 bytes: offset, dtype, register, entry, scale, four steps, four counts.
constexpr bool unpack(const uint8_t* p, SideOperand* out) {
  out->offset = load64(p);
  out->dtype = static_cast<DataType>(p[8]);
  out->offset_register = p[9];
  out->entry = load16(p + 10);
  out->scale = load32(p + 12);
  bool absent = false;
  for (size_t i = 0; i < 4; ++i) {
    out->step[i] = static_cast<int32_t>(load32(p + 16 + 4 * i));
    out->count[i] = load32(p + 32 + 4 * i);
    if (out->count[i] == 0 ? (i == 0 || out->step[i] != 0) : absent) return false;
    absent = out->count[i] == 0;
  }
  const bool dynamic = out->offset_register != kNoRegister;
  return data_type_bytes(out->dtype) != 0 && (!dynamic || out->offset_register < kRegisters) &&
         (dynamic || out->scale == 0) && element_count(*out) <= kMostSideElements;
}
constexpr void pack(const SideOperand& in, uint8_t* p) {
  store64(p, in.offset);
  p[8] = static_cast<uint8_t>(in.dtype);
  p[9] = in.offset_register;
  store16(p + 10, in.entry);
  store32(p + 12, in.scale);
  for (size_t i = 0; i < 4; ++i) {
    store32(p + 16 + 4 * i, static_cast<uint32_t>(in.step[i]));
    store32(p + 32 + 4 * i, in.count[i]);
  }
}

// 16 bytes: step0, count0, step1, count1.
constexpr bool unpack(const uint8_t* p, Pattern* out) {
  for (size_t i = 0; i < 2; ++i) {
    out->step[i] = static_cast<int32_t>(load32(p + 8 * i));
    out->count[i] = load32(p + 8 * i + 4);
    if (out->count[i] == 0 && (i == 0 || out->step[i] != 0)) return false;
  }
  return true;
}
constexpr void pack(const Pattern& in, uint8_t* p) {
  for (size_t i = 0; i < 2; ++i) {
    store32(p + 8 * i, static_cast<uint32_t>(in.step[i]));
    store32(p + 8 * i + 4, in.count[i]);
  }
}

}  // namespace isa
}  // namespace contract
