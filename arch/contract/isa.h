// The instruction set: records, decoding, encoding. What it stands for: the private instruction
// format of an engine's sequencer. Source of truth: data/isa/instructions.json, spec/neff.md 5.4.
// Used by the machine, by the runtime that rewrites programs, and by the assembler.
// Exact: nothing here is public; the encoding is this project's contract, see
// docs/hardware-contract.md. The program counter counts records; extension records count.
#pragma once

#include "contract/isa_codec.h"

namespace contract {
namespace isa {

// One record as it lies in memory.
struct Record {
  uint8_t bytes[kRecordBytes];
};
static_assert(sizeof(Record) == kRecordBytes, "records are stored back to back");

namespace detail {

constexpr bool is_event(UpdateOp op) {
  return op == UpdateOp::kEventSet || op == UpdateOp::kEventClear;
}

constexpr bool takes_value(UpdateOp op) {
  return op == UpdateOp::kAdd || op == UpdateOp::kSub || op == UpdateOp::kWrite;
}

constexpr bool valid(const Update& u) {
  if (static_cast<uint8_t>(u.op) > static_cast<uint8_t>(UpdateOp::kEventClear)) return false;
  if (u.op == UpdateOp::kNone && u.id != 0) return false;
  return takes_value(u.op) || u.value == 0;
}

constexpr bool valid(const Wait& w) {
  if (static_cast<uint8_t>(w.cond) > static_cast<uint8_t>(WaitCond::kEventClear)) return false;
  if (w.cond == WaitCond::kNone && w.id != 0) return false;
  if (w.cond == WaitCond::kNone || w.cond == WaitCond::kEventSet ||
      w.cond == WaitCond::kEventClear) {
    return w.value == 0 && !w.value_is_register;
  }
  return !w.value_is_register || w.value < kRegisters;
}

inline DecodeError unpack_header(const uint8_t* r, Instruction* out) {
  out->flags = r[1];
  out->wait.cond = static_cast<WaitCond>(r[3] & 0x7F);
  out->wait.value_is_register = (r[3] & kWaitValueIsRegister) != 0;
  out->wait.id = r[4];
  out->wait.value = load32(r + 12);
  out->read_update = {static_cast<UpdateOp>(r[5]), r[6], load32(r + 16)};
  out->complete_update = {static_cast<UpdateOp>(r[7]), r[8], load32(r + 20)};
  out->debug_id = load64(r + 24);
  const bool ok = (out->flags & ~kFlagTrace) == 0 && valid(out->wait) && valid(out->read_update) &&
                  valid(out->complete_update);
  if (!ok) return DecodeError::kBadHeader;
  return r[9] == 0 && r[10] == 0 && r[11] == 0 ? DecodeError::kNone : DecodeError::kReservedNotZero;
}

inline DecodeError check_extensions(const uint8_t* records, unsigned count) {
  for (unsigned i = 1; i <= count; ++i) {
    const uint8_t* r = records + i * kRecordBytes;
    if (r[0] != static_cast<uint8_t>(Opcode::kPseudoExtension) || r[1] != i || r[2] != 0 ||
        r[3] != 0) {
      return DecodeError::kBadExtension;
    }
  }
  return DecodeError::kNone;
}

// A byte of ones for each bit, the lowest first.
constexpr uint64_t byte_mask(uint64_t bits) {
  const uint64_t picked = (bits * 0x0101'0101'0101'0101) & 0x8040'2010'0804'0201;
  return ((picked + 0x7F7F'7F7F'7F7F'7F7F) >> 7 & 0x0101'0101'0101'0101) * 0xFF;
}

inline bool reserved_zero(const uint8_t* records, Opcode opcode, unsigned count) {
  for (unsigned record = 0; record <= count; ++record, records += kRecordBytes) {
    const uint64_t reserved = ~used_bytes(opcode, record);
    uint64_t found = 0;
    for (unsigned i = 0; i < kRecordBytes; i += 8) {
      found |= load64(records + i) & byte_mask(reserved >> i & 0xFF);
    }
    if (found != 0) return false;
  }
  return true;
}

}  // namespace detail

// Decodes the instruction that starts at `records`, of which `available` bytes may be read. On an
// error `out` holds what was understood; its opcode is always the raw byte (if there was one).
inline DecodeError decode(const uint8_t* records, size_t available, Instruction* out) {
  *out = Instruction{};
  if (available < kRecordBytes) return DecodeError::kTruncated;
  out->opcode = static_cast<Opcode>(records[0]);
  out->ext_records = records[2];
  const OpInfo* op = find_op(records[0]);
  if (op == nullptr) return DecodeError::kUnknownOpcode;
  if (out->opcode == Opcode::kPseudoExtension) return DecodeError::kStrayExtension;
  if (!op->supported) return DecodeError::kUnsupported;
  if (DecodeError e = detail::unpack_header(records, out); e != DecodeError::kNone) return e;
  if (out->ext_records != op->extensions) {
    const bool known_form =
        out->ext_records > op->extensions && out->ext_records <= op->max_extensions;
    return known_form ? DecodeError::kUnsupported : DecodeError::kBadExtension;
  }
  if (available < kRecordBytes * out->records()) return DecodeError::kTruncated;
  if (DecodeError e = detail::check_extensions(records, out->ext_records);
      e != DecodeError::kNone) {
    return e;
  }
  if (!detail::reserved_zero(records, out->opcode, out->ext_records)) {
    return DecodeError::kReservedNotZero;
  }
  return unpack_operands(records, out);
}

// Writes the instruction and its extension records into `room` bytes and returns the number of
// records, or 0 if it is not encodable: unknown or unsupported opcode, field out of range, no room.
inline uint32_t encode(const Instruction& in, uint8_t* records, size_t room) {
  const OpInfo* op = find_op(in.opcode);
  if (op == nullptr || !op->supported || in.opcode == Opcode::kPseudoExtension) return 0;
  const uint32_t count = 1u + op->extensions;
  if (room < count * kRecordBytes) return 0;
  for (size_t i = 0; i < count * kRecordBytes; ++i) records[i] = 0;
  records[0] = static_cast<uint8_t>(in.opcode);
  records[1] = in.flags;
  records[2] = op->extensions;
  records[3] = static_cast<uint8_t>(static_cast<uint8_t>(in.wait.cond) |
                                    (in.wait.value_is_register ? kWaitValueIsRegister : 0));
  records[4] = in.wait.id;
  records[5] = static_cast<uint8_t>(in.read_update.op);
  records[6] = in.read_update.id;
  records[7] = static_cast<uint8_t>(in.complete_update.op);
  records[8] = in.complete_update.id;
  store32(records + 12, in.wait.value);
  store32(records + 16, in.read_update.value);
  store32(records + 20, in.complete_update.value);
  store64(records + 24, in.debug_id);
  for (uint32_t i = 1; i < count; ++i) {
    records[i * kRecordBytes] = static_cast<uint8_t>(Opcode::kPseudoExtension);
    records[i * kRecordBytes + 1] = static_cast<uint8_t>(i);
  }
  pack_operands(in, records);
  Instruction check;
  return decode(records, count * kRecordBytes, &check) == DecodeError::kNone ? count : 0;
}

}  // namespace isa
}  // namespace contract
