// Hand-written cases: rows of values in partition 0 (or in each of some), one instruction, the
// values expected. Every case runs on the reference as well, so that both are held against the
// literals.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/engines/bench.h"

namespace engine_reference {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// A signalling NaN with a sign and a payload: everything but a copy makes 0x7FC00000 of it.
constexpr uint32_t kOddNan = 0xFFA1'2345;

class SpecialTest : public ::testing::Test {
 protected:
  static isa::TensorOperand sbuf(isa::DataType type, uint32_t byte, uint16_t n) {
    return hw_test::tensor(type, byte, n);
  }
  static isa::TensorOperand psum(isa::DataType type, uint32_t byte, uint16_t n) {
    return hw_test::tensor(type, byte, n, isa::Memory::kPsum);
  }
  static isa::ScalarOperand immediate(float value) {
    return {isa::ScalarOperand::kImmediate, bits_of(value), {}};
  }
  static isa::ScalarOperand word(uint32_t value) {
    return {isa::ScalarOperand::kImmediate, value, {}};
  }
  static isa::ScalarOperand tile(isa::TensorOperand tensor) {
    return {isa::ScalarOperand::kTile, 0, tensor};
  }
  template <typename T>
  void put(const isa::TensorOperand& t, const std::vector<T>& values, uint32_t lane = 0) {
    bench_->write(t.memory, t.start_partition + lane, t.byte_offset, values.data(),
                  values.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> get(const isa::TensorOperand& t, size_t n, uint32_t lane = 0) {
    std::vector<T> values(n);
    std::memcpy(values.data(), bench_->machine(t.memory, t.start_partition + lane, t.byte_offset),
                n * sizeof(T));
    return values;
  }
  // Bits of the first n elements.
  std::vector<uint64_t> bits(const isa::TensorOperand& t, size_t n, uint32_t lane = 0) {
    std::vector<uint64_t> result;
    for (size_t i = 0; i < n; ++i) {
      const auto byte = static_cast<uint32_t>(t.byte_offset + i * isa::data_type_bytes(t.dtype));
      result.push_back(
          load_bits(t.dtype, bench_->machine(t.memory, t.start_partition + lane, byte)));
    }
    return result;
  }
  void use(contract::Gen gen) { bench_ = std::make_unique<Bench>(gen); }
  template <typename Operands>
  void run(isa::Engine engine, isa::Opcode opcode, Operands isa::Operands::*member,
           const Operands& operands) {
    isa::Instruction in{};
    in.opcode = opcode;
    in.operands.*member = operands;
    std::string message;
    EXPECT_TRUE(bench_->run(engine, in, registers_, &message)) << message;
  }
  void set_register(isa::Engine engine, size_t number, uint32_t value) {
    registers_[number] = value;
    bench_->set_registers(engine, registers_);
  }

  void copy(isa::Engine engine, const isa::TensorOperand& dst, const isa::TensorOperand& src) {
    run(engine, isa::Opcode::kTensorCopy, &isa::Operands::tensor_copy,
        isa::TensorCopy{dst, src, 1});
  }
  void combine(isa::Engine engine, isa::TensorOp op, const isa::TensorOperand& dst,
               const isa::TensorOperand& src0, const isa::TensorOperand& src1) {
    run(engine, isa::Opcode::kTensorTensor, &isa::Operands::tensor_tensor,
        isa::TensorTensor{op, dst, src0, src1, 1});
  }
  // Pairs of float32, combined on the Vector engine.
  std::vector<uint64_t> pairs(isa::TensorOp op, const std::vector<float>& a,
                              const std::vector<float>& b) {
    const auto n = static_cast<uint16_t>(a.size());
    const isa::TensorOperand src0 = sbuf(isa::DataType::kFloat32, 0, n);
    const isa::TensorOperand src1 = sbuf(isa::DataType::kFloat32, 256, n);
    const isa::TensorOperand dst = sbuf(isa::DataType::kFloat32, 512, n);
    put(src0, a);
    put(src1, b);
    combine(op == isa::TensorOp::kPower ? isa::Engine::kPool : isa::Engine::kDve, op, dst, src0,
            src1);
    return bits(dst, n);
  }

  std::unique_ptr<Bench> bench_ = std::make_unique<Bench>(contract::Gen::kV4);
  Registers registers_{};
};

}  // namespace engine_reference
