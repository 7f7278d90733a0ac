// Random legal compute instructions and the values they work on. Deterministic: one seed, one
// sequence. Shapes, steps, partitions, types, scalars and register offsets as spec/engine-isa.md 3
// allows them, all inside a small window of each partition so that operands often overlap.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/engines/reference.h"

namespace engine_reference {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();  // splitmix64
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((bits() >> 32) * n >> 32); }
  int32_t between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(below(static_cast<uint32_t>(high - low) + 1));
  }
  bool chance(uint32_t percent) { return below(100) < percent; }
  template <typename T, size_t kSize>
  const T& of(const T (&list)[kSize]) {
    return list[below(kSize)];
  }

 private:
  uint64_t state_;
};

class Generator {
 public:
  static constexpr uint32_t kWindow = 1024;

  Generator(contract::Gen gen, isa::Engine engine, uint64_t seed);

  // First byte, in every partition, of the kWindow bytes that operands lie in.
  uint32_t window(isa::Memory memory) const { return window_[static_cast<size_t>(memory)]; }
  // For the instructions to come: small offsets in even registers, any values in odd ones.
  const Registers& registers() const { return registers_; }
  void new_registers();

  // Compute instructions that it makes, and that the reference executes.
  static bool knows(isa::Opcode opcode);
  // And that this engine has.
  static bool makes(isa::Opcode opcode, isa::Engine engine, contract::Gen gen);
  // One that encodes, and that the engine executes.
  isa::Instruction next(isa::Opcode opcode);
  // Gives the inputs new values.
  void fill(const isa::Instruction& instruction, Reference* reference);

 private:
  enum class Values { kTame, kWhole, kWild, kAny };
  struct Shape {
    uint8_t partitions = 1;
    uint32_t elements = 1;
  };

  isa::Instruction attempt(isa::Opcode opcode);
  void make(isa::TensorTensor* t, const Shape& s);
  void make(isa::TensorCopy* t, const Shape& s);
  void make(isa::TensorReduce* t, const Shape& s);
  void make(isa::TensorScalar* t, const Shape& s);
  void make(isa::Memset* t, const Shape& s);
  void make(isa::Iota* t, const Shape& s);
  void make(isa::TensorScalarReduce* t, const Shape& s);
  void make(isa::ScalarTensorTensor* t, const Shape& s);
  void make(isa::TensorTensorScan* t, const Shape& s);
  void make(isa::Reciprocal* t, const Shape& s);
  void make(isa::ReadAccumulator* t, const Shape& s);
  void make(isa::AffineSelect* t, const Shape& s);
  // generator_products.cpp
  void make(isa::Ldweights* t);
  void make(isa::Matmul* t);
  // generator_search.cpp
  void make(isa::Max8* t, const Shape& s);
  void make(isa::FindIndex8* t, const Shape& s);
  void make(isa::MatchReplace8* t, const Shape& s);
  void make(isa::NGather* t, const Shape& s);
  void make(isa::LocalGather* t);
  void make(isa::SequenceBounds* t);
  void make(isa::Topk* t);
  void make(isa::NonzeroWithCount* t);
  void make(isa::PartitionReduce* t, const Shape& s);
  void make(isa::BnStats* t, const Shape& s);
  void make(isa::BnAggregate* t, const Shape& s);
  std::optional<uint64_t> searched(const isa::Instruction& in, const isa::TensorOperand* tensor,
                                   unsigned lane, size_t index);
  // generator_mx.cpp
  void make(isa::LdweightsMx* t);
  void make(isa::MatmulMx* t);
  void make(isa::QuantizeMx* t);
  isa::TensorOperand scales_of(const isa::TensorOperand& data);
  uint64_t mx_bits(isa::DataType type, bool any);
  // generator_activate.cpp
  void make(isa::Activate* t, const Shape& s);
  void make(isa::Activate2* t, const Shape& s);
  void make(isa::TensorScalarCumulative* t, const Shape& s);
  void make(isa::Exponential* t, const Shape& s);
  // generator_select.cpp
  void make(isa::CopyPredicated* t, const Shape& s);
  void make(isa::SelectReduce* t, const Shape& s);
  void make(isa::RangeSelect* t, const Shape& s);
  void make(isa::StreamShuffle* t);
  void make(isa::Transpose* t);

  Shape shape();
  isa::Memory memory();
  isa::DataType type();
  isa::DataType integer_type();
  isa::DataType float_type();
  isa::DataType byte_type();  // of the Tensor engine
  isa::TensorOp arithmetic();
  isa::TensorOp bit_operator();
  isa::TensorOp foldable();
  isa::TensorOperand tensor(isa::DataType type, isa::Memory memory, uint8_t partitions,
                            uint32_t elements);
  // No element lies on another one: what the order of writes decides is not specified.
  isa::TensorOperand apart(isa::DataType type, uint8_t partitions, uint32_t elements);
  bool place(isa::TensorOperand* t);
  // Sometimes the destination lies exactly on a source.
  isa::TensorOperand destination(const isa::TensorOperand& source, isa::DataType type,
                                 uint8_t partitions, uint32_t elements);
  isa::ScalarOperand scalar(uint8_t partitions, bool bits);
  isa::AffineOperand affine(uint32_t elements);
  uint8_t start_partition(uint8_t partitions);
  // generator_values.cpp
  uint64_t value(isa::DataType type, Values values);
  float number(Values values);

  contract::Gen gen_;
  isa::Engine engine_;
  Random random_;
  uint32_t window_[2];
  Registers registers_{};
  isa::Ldweights weights_{};  // in the array
  isa::LdweightsMx weights_mx_{};
};

}  // namespace engine_reference
