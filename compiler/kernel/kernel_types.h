// Vocabulary of the kernel builder: data types, engines, operators, scalars. Numbers are those of
// the instruction table (data/isa/instructions.json), which kernel.cpp holds them against.
// Part of the installed header soma/kernel.h: nothing here names the tree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kernel {

// NeuronCore v2 (trn1, inf2), v3 (trn2), v4 (trn3).
enum class Generation : uint8_t { kV2 = 2, kV3 = 3, kV4 = 4 };

// spec/neff.md 3.6. Types behind kFloat8e5 are those of NeuronCore v4 (spec/engine-isa.md 5.1) and
// of tiles only: transfers move their bits, from and to tensors of integers of as many bytes.
enum class DType : uint8_t {
  kUint64 = 1,
  kInt8 = 2,
  kUint8 = 3,
  kInt16 = 4,
  kUint16 = 5,
  kBfloat16 = 6,
  kFloat16 = 7,
  kInt32 = 8,
  kUint32 = 9,
  kFloat32 = 10,
  kFloat32r = 11,
  kInt64 = 12,
  kFloat8e3 = 13,
  kFloat8e4 = 14,
  kFloat8e5 = 15,
  kFloat8e4fn = 16,  // largest number 448, no infinity
  kFloat8e8 = 17,    // scales of MX operands
  // Four numbers to an element.
  kFloat8e5x4 = 18,
  kFloat8e4fnx4 = 19,
  kFloat4e2fnx4 = 20,
};

// Who executes an instruction, or triggers a transfer. kAuto: docs/kernels.md says who.
enum class Engine : uint8_t {
  kTensor = 0,
  kScalar = 1,
  kGpSimd = 2,
  kVector = 3,
  kSync = 4,
  kAuto = 255,
};

// spec/engine-isa.md 5.3. kBypass gives its first operand.
enum class Op : uint8_t {
  kAdd = 0,
  kSubtract = 1,
  kMultiply = 2,
  kMin = 3,
  kMax = 4,
  kBypass = 5,
  kLogicalAnd = 6,
  kLogicalOr = 7,
  kLogicalXor = 8,
  kEqual = 9,
  kNotEqual = 10,
  kLess = 11,
  kLessEqual = 12,
  kGreaterEqual = 13,
  kGreater = 14,
  kPower = 15,
  kAbsMax = 16,
  kAbsMin = 17,
  kAbs = 18,
  kSquare = 19,
  kRelu = 20,
  kRsqrt = 21,
  kReciprocal = 22,
  kNot = 32,
  kAnd = 33,
  kOr = 34,
  kXor = 35,
  kShiftLeft = 36,
  kShiftRight = 37,
};

// spec/engine-isa.md 5.4.
enum class Function : uint8_t {
  kCopy = 0,
  kSquare = 1,
  kSigmoid = 2,
  kRelu = 3,
  kPrelu = 4,
  kGelu = 5,
  kGeluDx = 6,
  kGeluTanh = 7,
  kGeluSigmoid = 8,
  kGeluSigmoidDx = 9,
  kSilu = 10,
  kSiluDx = 11,
  kTanh = 12,
  kSoftplus = 13,
  kMish = 14,
  kErf = 15,
  kErfDx = 16,
  kExp = 17,
  kLog = 18,
  kSin = 19,
  kArctan = 20,
  kSqrt = 21,
  kRsqrt = 22,
  kReciprocal = 23,
  kSign = 24,
  kAbs = 25,
};

// What becomes of an engine's accumulators (one per lane): kReset sets them to the operator's
// identity, kReduce folds the results into them, kResetReduce does both, kLoadReduce begins with a
// value that is given.
enum class Reduce : uint8_t {
  kIdle = 0,
  kReset = 1,
  kReduce = 2,
  kResetReduce = 3,
  kLoadReduce = 4
};

// What a product does to PSUM: kStart and then kFirstWrite make a group, in which the first product
// on each element replaces it and the others add to it.
enum class Accumulate : uint8_t { kOverwrite = 0, kAdd = 1, kFirstWrite = 2, kStart = 3 };

// Of registers, on 32 or 64 bits, wrapping; shifts are logical and take the count modulo the width,
// kMin and kMax compare without signs.
enum class Alu : uint8_t {
  kAdd = 0,
  kSubtract = 1,
  kMultiply = 2,
  kShiftLeft = 3,
  kShiftRight = 4,
  kAnd = 5,
  kOr = 6,
  kXor = 7,
  kMin = 8,
  kMax = 9,
};

// A register of the engine that executes what uses it: 0 to 31, the others are the builder's.
struct Register {
  uint8_t number = 0;
};

// The line of the kernel that a call stands on; every call takes it by itself.
struct Location {
  const char* file = "";
  int line = 0;

  static constexpr Location here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace kernel
