#include "hw/core/operators.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/num/types.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;
using isa::DataType;
using isa::TensorOp;

namespace {

num::BitOperator bit_operator(TensorOp op) {
  switch (op) {
    case TensorOp::kNot:
      return num::BitOperator::kNot;
    case TensorOp::kAnd:
      return num::BitOperator::kAnd;
    case TensorOp::kOr:
      return num::BitOperator::kOr;
    case TensorOp::kXor:
      return num::BitOperator::kXor;
    case TensorOp::kShiftLeft:
      return num::BitOperator::kShiftLeft;
    default:
      return num::BitOperator::kShiftRight;
  }
}

}  // namespace

num::Operator num_operator(TensorOp op) {
  switch (op) {
    case TensorOp::kAdd:
      return num::Operator::kAdd;
    case TensorOp::kSubtract:
      return num::Operator::kSubtract;
    case TensorOp::kMultiply:
      return num::Operator::kMultiply;
    case TensorOp::kMin:
      return num::Operator::kMin;
    case TensorOp::kMax:
      return num::Operator::kMax;
    case TensorOp::kLogicalAnd:
      return num::Operator::kLogicalAnd;
    case TensorOp::kLogicalOr:
      return num::Operator::kLogicalOr;
    case TensorOp::kLogicalXor:
      return num::Operator::kLogicalXor;
    case TensorOp::kEqual:
      return num::Operator::kEqual;
    case TensorOp::kNotEqual:
      return num::Operator::kNotEqual;
    case TensorOp::kLess:
      return num::Operator::kLess;
    case TensorOp::kLessEqual:
      return num::Operator::kLessEqual;
    case TensorOp::kGreaterEqual:
      return num::Operator::kGreaterEqual;
    case TensorOp::kGreater:
      return num::Operator::kGreater;
    case TensorOp::kPower:
      return num::Operator::kPower;
    case TensorOp::kAbsMax:
      return num::Operator::kAbsMax;
    case TensorOp::kAbsMin:
      return num::Operator::kAbsMin;
    case TensorOp::kAbs:
      return num::Operator::kAbs;
    case TensorOp::kSquare:
      return num::Operator::kSquare;
    case TensorOp::kRelu:
      return num::Operator::kRelu;
    case TensorOp::kRsqrt:
      return num::Operator::kRsqrt;
    case TensorOp::kReciprocal:
      return num::Operator::kReciprocal;
    default:  // BYPASS; operators on bits are checked before
      return num::Operator::kBypass;
  }
}

void operate(TensorOp op, const float* a, const float* b, float* y, size_t n) {
  num::apply(num_operator(op), a, b, y, n);
}
void operate(TensorOp op, const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n) {
  if (op == TensorOp::kBypass) {
    if (y != a) std::memcpy(y, a, n * sizeof(*y));
    return;
  }
  num::apply(bit_operator(op), a, b, y, n);
}

bool on_words(DataType t) {
  return num::is_integer(num_type(t)) && isa::data_type_bytes(t) <= sizeof(uint32_t);
}
bool is_signed(DataType t) {
  return num::is_signed(num_type(t));
}

bool has_integer_form(TensorOp op) {
  return op != TensorOp::kPower && op != TensorOp::kRsqrt && op != TensorOp::kReciprocal;
}
int64_t integer_operate(TensorOp op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  const int64_t size_a = a < 0 ? -a : a;
  const int64_t size_b = b < 0 ? -b : b;
  switch (op) {
    case TensorOp::kAdd:
      return static_cast<int64_t>(x + y);
    case TensorOp::kSubtract:
      return static_cast<int64_t>(x - y);
    case TensorOp::kMultiply:
      return static_cast<int64_t>(x * y);
    case TensorOp::kMin:
      return std::min(a, b);
    case TensorOp::kMax:
      return std::max(a, b);
    case TensorOp::kLogicalAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case TensorOp::kLogicalOr:
      return a != 0 || b != 0 ? 1 : 0;
    case TensorOp::kLogicalXor:
      return (a != 0) != (b != 0) ? 1 : 0;
    case TensorOp::kEqual:
      return a == b ? 1 : 0;
    case TensorOp::kNotEqual:
      return a != b ? 1 : 0;
    case TensorOp::kLess:
      return a < b ? 1 : 0;
    case TensorOp::kLessEqual:
      return a <= b ? 1 : 0;
    case TensorOp::kGreaterEqual:
      return a >= b ? 1 : 0;
    case TensorOp::kGreater:
      return a > b ? 1 : 0;
    case TensorOp::kAbsMax:
      return size_a > size_b ? a : b;
    case TensorOp::kAbsMin:
      return size_a < size_b ? a : b;
    case TensorOp::kAbs:
      return size_a;
    case TensorOp::kSquare:
      return static_cast<int64_t>(x * x);
    case TensorOp::kRelu:
      return std::max<int64_t>(a, 0);
    default:
      return a;
  }
}

float identity(TensorOp op) {
  switch (op) {
    case TensorOp::kMultiply:
    case TensorOp::kLogicalAnd:
      return 1;
    case TensorOp::kMax:
      return -std::numeric_limits<float>::infinity();
    case TensorOp::kMin:
    case TensorOp::kAbsMin:
      return std::numeric_limits<float>::infinity();
    default:
      return 0;
  }
}
bool is_logical(TensorOp op) {
  return op == TensorOp::kLogicalAnd || op == TensorOp::kLogicalOr || op == TensorOp::kLogicalXor;
}

}  // namespace hw
