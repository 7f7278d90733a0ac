// One NeuronCore on a fabric, and a small assembler.
#pragma once

#include "arch/contract/isa.h"
#include "contract/regs/engine.h"
#include "contract/regs/nq.h"
#include "hw/core/neuron_core.h"
#include "tests/hw_core/core_bench.h"

namespace hw_test {

namespace isa = contract::isa;

inline isa::Instruction op(isa::Opcode opcode) {
  isa::Instruction i{};
  i.opcode = opcode;
  return i;
}
inline isa::Instruction write_to(uint64_t address, uint32_t value) {
  isa::Instruction i = op(isa::Opcode::kWrite);
  i.operands.write = {address, 0, value, 0, 4, 0};
  return i;
}
inline isa::Instruction move(uint8_t dst, uint32_t value) {
  isa::Instruction i = op(isa::Opcode::kRegisterMove);
  i.operands.register_move = {dst, {value, false}};
  return i;
}
inline isa::Instruction on(isa::Instruction i, isa::WaitCond cond, uint8_t id, uint32_t value) {
  i.wait = {cond, false, id, value};
  return i;
}
inline isa::Instruction then(isa::Instruction i, isa::UpdateOp op, uint8_t id, uint32_t value = 0) {
  i.complete_update = {op, id, value};
  return i;
}
inline isa::Instruction before(isa::Instruction i, isa::UpdateOp op, uint8_t id,
                               uint32_t value = 0) {
  i.read_update = {op, id, value};
  return i;
}
inline isa::TensorOperand tensor(isa::DataType type, uint32_t byte, uint16_t n,
                                 isa::Memory memory = isa::Memory::kSbuf, int16_t step = 1) {
  isa::TensorOperand t{};
  t.byte_offset = byte;
  t.dtype = type;
  t.memory = memory;
  t.offset_register = isa::kNoRegister;
  t.dims[0] = {step, n};
  return t;
}
inline isa::Instruction add(isa::TensorOperand dst, isa::TensorOperand a, isa::TensorOperand b,
                            uint8_t partitions) {
  isa::Instruction i = op(isa::Opcode::kTensorTensor);
  i.operands.tensor_tensor = {isa::TensorOp::kAdd, dst, a, b, partitions};
  return i;
}
inline isa::Instruction copy(isa::TensorOperand dst, isa::TensorOperand src, uint8_t partitions) {
  isa::Instruction i = op(isa::Opcode::kTensorCopy);
  i.operands.tensor_copy = {dst, src, partitions};
  return i;
}

// Long enough to be told from what engines do besides.
inline isa::Instruction long_copy(uint32_t to) {
  return copy(tensor(isa::DataType::kFloat32, to, 4096), tensor(isa::DataType::kFloat32, 0, 4096),
              128);
}

struct NcBench : CoreBench {
  static constexpr uint64_t kProgram = 0x100'0000;  // HBM 0
  static constexpr uint64_t kRing = 0x4000;         // host physical, notification ring of 1 KiB

  explicit NcBench(contract::Gen gen = contract::Gen::kV2, bool timing_only = false,
                   hw::Tracer* tracer = nullptr, hw::check::Checker* checker = nullptr)
      : CoreBench(gen),
        nq({50, base::ns(50)}, queue, fabric, &counters),
        group(map().ncs(), [this, gen, timing_only, tracer, checker](uint32_t n) {
          return std::make_unique<hw::NeuronCore>(
              hw::NeuronCore::Params{gen, n, 10 * (n + 1), timing_only, 512},
              hw::NeuronCore::Context{queue, fabric, nq, counters, log, timing, tracer, checker});
        }) {
    const contract::Window window = map().nc(0);
    EXPECT_TRUE(fabric.map(window.device + group.kFirst, group.kStride - group.kFirst, group,
                           group.kFirst, "nc0"));
    const uint64_t ring = host_address(kRing);
    for (uint32_t e = 0; e < 5; ++e) {
      const uint64_t set = contract::nq::kSet + e * contract::nq::kSetStride;
      write32(nq, set + contract::nq::kSetBaseHi, static_cast<uint32_t>(ring >> 32));
      write32(nq, set + contract::nq::kSetBaseLo, static_cast<uint32_t>(ring) + 1024 * e);
      write32(nq, set + contract::nq::kSetSize, 1024);
    }
  }

  uint64_t reg(contract::Engine e, uint32_t offset) { return map().engine_block(0, e) + offset; }
  uint32_t get(contract::Engine e, uint32_t offset) {
    uint32_t value = ~0u;
    EXPECT_TRUE(fabric.read32(reg(e, offset), value));
    return value;
  }
  void put(contract::Engine e, uint32_t offset, uint32_t value) {
    EXPECT_TRUE(fabric.write32(reg(e, offset), value));
  }
  // Encodes and places a program; each engine has its own place.
  void load(contract::Engine e, const std::vector<isa::Instruction>& program) {
    std::vector<uint8_t> bytes(program.size() * 4 * isa::kRecordBytes);
    size_t used = 0;
    for (const isa::Instruction& i : program) {
      const uint32_t records = isa::encode(i, bytes.data() + used, bytes.size() - used);
      ASSERT_NE(records, 0u) << "instruction " << static_cast<int>(i.opcode);
      used += records * isa::kRecordBytes;
    }
    bytes.resize(used);
    load_bytes(e, bytes);
  }
  void load_bytes(contract::Engine e, const std::vector<uint8_t>& bytes) {
    const uint64_t at = kProgram + e * 0x10'0000ull;
    ASSERT_TRUE(fabric.write(at, bytes));
    put(e, contract::engine::kProgramLo, static_cast<uint32_t>(at));
    put(e, contract::engine::kProgramHi, static_cast<uint32_t>(at >> 32));
    put(e, contract::engine::kProgramCount,
        static_cast<uint32_t>(bytes.size() / isa::kRecordBytes));
  }
  void start(contract::Engine e) { put(e, contract::engine::kControl, 1); }
  // Runs the program, and a HALT, from its beginning.
  void start(contract::Engine e, std::vector<isa::Instruction> program) {
    program.push_back(op(isa::Opcode::kHalt));
    put(e, contract::engine::kPc, 0);
    load(e, program);
    start(e);
  }
  contract::EngineStatus status(contract::Engine e) {
    return static_cast<contract::EngineStatus>(get(e, contract::engine::kStatus));
  }
  uint32_t semaphore(uint32_t s) { return group.core(0).semaphores().value(s); }
  contract::NqEntry notification(contract::Engine e, uint32_t k) {
    return base::load<contract::NqEntry>(host.bytes.data() + kRing + 1024 * e + 32 * k);
  }
  template <typename T>
  T* sbuf(uint32_t partition, uint32_t byte) {
    return reinterpret_cast<T*>(
        fabric.sbuf(0).at(partition * contract::tpb::kPartitionStride + byte, sizeof(T)));
  }
  template <typename T>
  T* psum(uint32_t partition, uint32_t byte) {
    return reinterpret_cast<T*>(
        fabric.psum(0).at(partition * contract::tpb::kPsumStride + byte, sizeof(T)));
  }

  hw::NqBlock nq;
  hw::NeuronCoreGroup group;
};

}  // namespace hw_test
