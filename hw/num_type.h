// Element types of the contract as types of the host's arithmetic, which knows no hardware: the
// same numbers, one by one.
#pragma once

#include "arch/contract/descriptor.h"
#include "arch/contract/isa_fields.h"
#include "base/num/reduce.h"
#include "base/num/types.h"

namespace hw {

constexpr base::num::Type num_type(contract::DType t) {
  return static_cast<base::num::Type>(t);
}
// Not of those that only move.
constexpr base::num::Type num_type(contract::isa::DataType t) {
  return static_cast<base::num::Type>(t);
}
constexpr base::num::Reduce num_reduce(contract::ReduceOp op) {
  return static_cast<base::num::Reduce>(op);
}

namespace num_type_check {
using base::num::Reduce;
using base::num::Type;
using contract::DType;
using contract::ReduceOp;
static_assert(num_type(DType::kInvalid) == Type::kInvalid);
static_assert(num_type(DType::kUint64) == Type::kUint64);
static_assert(num_type(DType::kInt8) == Type::kInt8);
static_assert(num_type(DType::kUint8) == Type::kUint8);
static_assert(num_type(DType::kInt16) == Type::kInt16);
static_assert(num_type(DType::kUint16) == Type::kUint16);
static_assert(num_type(DType::kBf16) == Type::kBf16);
static_assert(num_type(DType::kFp16) == Type::kFp16);
static_assert(num_type(DType::kInt32) == Type::kInt32);
static_assert(num_type(DType::kUint32) == Type::kUint32);
static_assert(num_type(DType::kFp32) == Type::kFp32);
static_assert(num_type(DType::kFp32r) == Type::kFp32r);
static_assert(num_type(DType::kInt64) == Type::kInt64);
static_assert(num_type(DType::kFp8E3) == Type::kFp8E3);
static_assert(num_type(DType::kFp8E4) == Type::kFp8E4);
static_assert(num_type(DType::kFp8E5) == Type::kFp8E5);
static_assert(num_type(contract::isa::DataType::kFloat8e5) == Type::kFp8E5);
static_assert(num_type(contract::isa::DataType::kFloat8e4fn) == Type::kFp8E4Fn);
static_assert(num_reduce(ReduceOp::kAdd) == Reduce::kAdd);
static_assert(num_reduce(ReduceOp::kFma) == Reduce::kFma);
static_assert(num_reduce(ReduceOp::kMax) == Reduce::kMax);
static_assert(num_reduce(ReduceOp::kMin) == Reduce::kMin);
}  // namespace num_type_check

}  // namespace hw
