// What element-wise instructions cost against memcpy: one NeuronCore of Trainium2 without the
// machine around it, operands that fill most of SBUF. Prints a line for each case: its name, how
// many times as long it takes as a memcpy of the bytes that it reads and writes (half of them in,
// half of them out), best of some rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "arch/contract/isa.h"
#include "contract/regs/engine.h"
#include "hw/core/neuron_core.h"
#include "hw/nq/nq_block.h"

namespace {

namespace isa = contract::isa;
using contract::Engine;
using Clock = std::chrono::steady_clock;

constexpr auto kGen = contract::Gen::kV3;
constexpr uint64_t kProgram = 0x100'0000;
constexpr uint32_t kColumnBytes = 32768;  // of an operand in a partition
constexpr int kRepeats = 16;
constexpr int kRounds = 7;

struct Core {
  Core()
      : fabric({"d0", contract::AddressMap{kGen}, 0}, timing, log),
        nq({50, base::ns(50)}, queue, fabric, &counters),
        group(1, [this](uint32_t n) {
          return std::make_unique<hw::NeuronCore>(
              hw::NeuronCore::Params{kGen, n, 10, false, 512},
              hw::NeuronCore::Context{queue, fabric, nq, counters, log, timing, nullptr, nullptr});
        }) {
    const contract::Window window = fabric.address_map().nc(0);
    if (!fabric.map(window.device + group.kFirst, group.kStride - group.kFirst, group, group.kFirst,
                    "nc0")) {
      std::abort();
    }
  }
  void put(Engine engine, uint32_t offset, uint32_t value) {
    if (!fabric.write32(fabric.address_map().engine_block(0, engine) + offset, value)) std::abort();
  }
  double seconds(Engine engine, const isa::Instruction& instruction) {
    std::vector<uint8_t> program;
    isa::Instruction halt{};
    halt.opcode = isa::Opcode::kHalt;
    for (int i = 0; i <= kRepeats; ++i) {
      uint8_t records[16 * isa::kRecordBytes];
      const uint32_t n = isa::encode(i < kRepeats ? instruction : halt, records, sizeof records);
      if (n == 0) std::abort();
      program.insert(program.end(), records, records + n * isa::kRecordBytes);
    }
    if (!fabric.write(kProgram, program)) std::abort();
    put(engine, contract::engine::kProgramLo, static_cast<uint32_t>(kProgram));
    put(engine, contract::engine::kProgramHi, 0);
    put(engine, contract::engine::kProgramCount,
        static_cast<uint32_t>(program.size() / isa::kRecordBytes));
    double best = 1e30;
    for (int round = 0; round < kRounds; ++round) {
      put(engine, contract::engine::kControl, 4);  // reset
      put(engine, contract::engine::kControl, 1);
      const auto begin = Clock::now();
      queue.run_all();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    uint32_t status = 0;
    (void)fabric.read32(fabric.address_map().engine_block(0, engine) + contract::engine::kStatus,
                        status);
    if (static_cast<contract::EngineStatus>(status) != contract::EngineStatus::kHalted) {
      std::abort();
    }
    return best / kRepeats;
  }

  hw::TimingParams timing;
  hw::AccessLog log;
  hw::Counters counters;
  hw::EventQueue queue;
  hw::Fabric fabric;
  hw::NqBlock nq;
  hw::NeuronCoreGroup group;
};

isa::TensorOperand operand(isa::DataType type, uint32_t number) {
  isa::TensorOperand t{};
  t.byte_offset = number * kColumnBytes;
  t.dtype = type;
  t.memory = isa::Memory::kSbuf;
  t.offset_register = isa::kNoRegister;
  t.dims[0] = {1, static_cast<uint16_t>(kColumnBytes / isa::data_type_bytes(type))};
  return t;
}

isa::Instruction copy(isa::DataType to, isa::DataType from) {
  isa::Instruction i{};
  i.opcode = isa::Opcode::kTensorCopy;
  isa::TensorOperand wide = operand(from, 0);
  isa::TensorOperand narrow = operand(to, 1);
  narrow.dims[0].count = wide.dims[0].count = std::min(narrow.dims[0].count, wide.dims[0].count);
  i.operands.tensor_copy = {narrow, wide, isa::kPartitions};
  return i;
}

isa::Instruction add(isa::DataType type) {
  isa::Instruction i{};
  i.opcode = isa::Opcode::kTensorTensor;
  i.operands.tensor_tensor = {isa::TensorOp::kAdd, operand(type, 2), operand(type, 0),
                              operand(type, 1), isa::kPartitions};
  return i;
}

double memcpy_seconds(size_t bytes) {
  std::vector<uint8_t> from(bytes, 1);
  std::vector<uint8_t> to(bytes, 2);
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < kRepeats; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");
    }
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best / kRepeats;
}

}  // namespace

int main() {
  Core core;
  const auto show = [&](const char* name, const isa::Instruction& instruction) {
    uint64_t bytes = 0;
    for (const isa::TensorUse& use : isa::tensors_of(instruction)) {
      bytes += isa::element_count(*use.tensor) * isa::data_type_bytes(use.tensor->dtype) *
               use.partitions;
    }
    const double plain = memcpy_seconds(bytes / 2);
    std::printf("%s %.3f\n", name, core.seconds(contract::kDve, instruction) / plain);
  };
  using isa::DataType;
  show("copy_fp32", copy(DataType::kFloat32, DataType::kFloat32));
  show("copy_fp32_to_bf16", copy(DataType::kBfloat16, DataType::kFloat32));
  show("add_fp32", add(DataType::kFloat32));
  show("add_bf16", add(DataType::kBfloat16));
}
