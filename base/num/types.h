// Element types and their scalar conversions. Codes are those of the public runtime header
// (spec/neff.md 3.6).
//
// Arithmetic rules (spec/neff.md 3.4, spec/engine-isa.md 5): narrowing floats round to nearest even
// and overflow to infinity; floats become integers by rounding to nearest even and saturating, NaN
// becomes 0; every NaN result is the canonical quiet NaN of its type, so results do not depend on
// the host's processor. 8-bit floats are IEEE-like with infinities: e5m2 (largest 57344), e4m3
// (240), and e3m4, whose range is not published and taken as 15.5; e4m3fn (448) has none, and what
// overflows becomes its largest number (spec/engine-isa.md 5.2).
#pragma once

#include <cstddef>
#include <cstdint>

namespace base::num {

enum class Type : uint8_t {
  kInvalid = 0,
  kUint64 = 1,
  kInt8 = 2,
  kUint8 = 3,
  kInt16 = 4,
  kUint16 = 5,
  kBf16 = 6,
  kFp16 = 7,
  kInt32 = 8,
  kUint32 = 9,
  kFp32 = 0xA,
  kFp32r = 0xB,  // stored as fp32
  kInt64 = 0xC,
  kFp8E3 = 0xD,
  kFp8E4 = 0xE,
  kFp8E5 = 0xF,
  kFp8E4Fn = 0x10,  // of instructions only
};
constexpr size_t kTypes = 17;

constexpr size_t size_of(Type t) {
  constexpr uint8_t sizes[kTypes] = {0, 8, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 1, 1, 1, 1};
  return static_cast<size_t>(t) < kTypes ? sizes[static_cast<size_t>(t)] : 0;
}
constexpr bool is_integer(Type t) {
  switch (t) {
    case Type::kUint64:
    case Type::kInt8:
    case Type::kUint8:
    case Type::kInt16:
    case Type::kUint16:
    case Type::kInt32:
    case Type::kUint32:
    case Type::kInt64:
      return true;
    default:
      return false;
  }
}
constexpr bool is_signed(Type t) {
  return t == Type::kInt8 || t == Type::kInt16 || t == Type::kInt32 || t == Type::kInt64;
}

// One element each; any type.
float load_float(Type type, const void* from);
void store_float(Type type, float value, void* to);

// `count` elements from one type to another: integer to integer exactly, saturating; all else
// through float32. `from` and `to` may be the same range if the sizes are equal.
void convert(Type from_type, const void* from, Type to_type, void* to, size_t count);

}  // namespace base::num
