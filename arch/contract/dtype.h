// Element types: the one place of their numbers, those of nrt.h (spec/neff.md 3.6), which
// descriptors, instructions and collectives share. Other spellings of the list (isa::DataType,
// base::num::Type, nrt_dtype_t) are made of these numbers or held against them.
#pragma once

#include <cstdint>

namespace contract {

enum class DType : uint8_t {
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
  kFp32r = 0xB,
  kInt64 = 0xC,
  kFp8E3 = 0xD,
  kFp8E4 = 0xE,
  kFp8E5 = 0xF,
};

constexpr bool dtype_is_integer(DType t) {
  switch (t) {
    case DType::kUint64:
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt16:
    case DType::kUint16:
    case DType::kInt32:
    case DType::kUint32:
    case DType::kInt64:
      return true;
    default:
      return false;
  }
}

// Bytes of one element; 0 for a code that is not an element type.
constexpr uint32_t dtype_size(DType t) {
  switch (t) {
    case DType::kInt8:
    case DType::kUint8:
    case DType::kFp8E3:
    case DType::kFp8E4:
    case DType::kFp8E5:
      return 1;
    case DType::kInt16:
    case DType::kUint16:
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFp32:
    case DType::kFp32r:
      return 4;
    case DType::kUint64:
    case DType::kInt64:
      return 8;
    case DType::kInvalid:
      return 0;
  }
  return 0;
}

}  // namespace contract
