// One NeuronCore with its DMA engines, and instructions that make transfers: two tensors in HBM, a
// queue with rings.
#pragma once

#include <vector>

#include "arch/contract/dge.h"
#include "contract/regs/udma.h"
#include "hw/check/checker.h"
#include "hw/dma/dma.h"
#include "tests/hw_core/nc_bench.h"

namespace hw_test::transfers {

inline constexpr uint32_t kQueue = 3;
inline constexpr uint8_t kSemaphore = 20;
inline constexpr uint64_t kTable = 0x200'0000;  // in HBM 0
inline constexpr uint64_t kOne = 0x200'1000;
inline constexpr uint64_t kRings = 0x300'0000;
inline constexpr uint64_t kTensor = 0x400'0000;  // entry 0
inline constexpr uint64_t kTensorBytes = 0x1'0000;
inline constexpr uint64_t kOther = 0x500'0000;  // entry 1, as large
inline constexpr int32_t kPitch = static_cast<int32_t>(contract::tpb::kPartitionStride);
inline constexpr uint32_t kFarPartition = 64;

struct Dim {
  int32_t step;
  uint32_t count;
};

inline isa::SideOperand side(uint16_t entry, uint64_t offset, isa::DataType type,
                             std::vector<Dim> dims) {
  isa::SideOperand s{};
  s.entry = entry;
  s.offset = offset;
  s.dtype = type;
  s.offset_register = isa::kNoRegister;
  for (size_t i = 0; i < dims.size(); ++i) {
    s.step[i] = dims[i].step;
    s.count[i] = dims[i].count;
  }
  return s;
}
inline isa::SideOperand tile(uint64_t byte, isa::DataType type, uint32_t columns,
                             uint32_t partitions) {
  const auto bytes = static_cast<int32_t>(isa::data_type_bytes(type));
  return side(isa::kSbufEntry, byte, type, {{bytes, columns}, {kPitch, partitions}});
}
inline isa::SideOperand tensor_rows(uint16_t entry, isa::DataType type, uint32_t columns,
                                    uint32_t rows, uint64_t offset = 0) {
  const auto bytes = static_cast<int32_t>(isa::data_type_bytes(type));
  return side(entry, offset, type,
              {{bytes, columns}, {bytes * static_cast<int32_t>(columns), rows}});
}

// What transfers of any kind say.
template <typename Transfer>
Transfer& set_transfer(Transfer& o, isa::DgeMode mode, const isa::SideOperand& dst,
                       const isa::SideOperand& src) {
  o.mode = mode;
  o.semaphore = kSemaphore;
  o.queue = kQueue;
  o.dst = dst;
  o.src = src;
  return o;
}
inline isa::Instruction memcpy_op(isa::DgeMode mode, isa::SideOperand dst, isa::SideOperand src) {
  isa::Instruction i = op(isa::Opcode::kDmaMemcpy);
  set_transfer(i.operands.dma_memcpy, mode, dst, src);
  return i;
}
inline isa::Instruction indirect(isa::DgeDirection direction, isa::SideOperand dst,
                                 isa::SideOperand src, uint32_t index_byte, uint8_t rows) {
  isa::Instruction i = op(isa::Opcode::kDmaIndirect);
  isa::DmaIndirect& o = set_transfer(i.operands.dma_indirect, isa::DgeMode::kSwdge, dst, src);
  o.direction = direction;
  o.index = tensor(isa::DataType::kUint32, index_byte, 1);
  o.rows = rows;
  return i;
}
inline isa::Instruction transpose(isa::SideOperand dst, isa::SideOperand src) {
  isa::Instruction i = op(isa::Opcode::kDmaTranspose);
  set_transfer(i.operands.dma_transpose, isa::DgeMode::kHwdge, dst, src);
  return i;
}

class DgeBench : public NcBench {
 public:
  explicit DgeBench(contract::Gen gen = contract::Gen::kV3, uint32_t ring = 4096,
                    hw::check::Checker* checker = nullptr)
      : NcBench(gen, false, nullptr, checker),
        dma(fabric, queue, timing, counters, log, checked_by(checker)) {
    EXPECT_TRUE(dma.map_windows());
    if (checker != nullptr) {
      checker->add_memory(fabric.hbm(0), 0);
      checker->add_memory(fabric.sbuf(0), contract::tpb::kPartitionStride);
      checker->add_memory(fabric.psum(0), contract::tpb::kPsumStride);
    }
    for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
      for (const bool receive : {false, true}) {
        const uint64_t at = map().udma(e).device + contract::udma::kM2sQ +
                            kQueue * contract::udma::kM2sQStride +
                            (receive ? contract::kS2mOffset : 0);
        const uint64_t base = hbm(kRings) + (2 * e + (receive ? 1 : 0)) * 0x1'0000ull;
        store32(at + contract::udma::kM2sQRingBaseLo, static_cast<uint32_t>(base));
        store32(at + contract::udma::kM2sQRingBaseHi, static_cast<uint32_t>(base >> 32));
        store32(at + contract::udma::kM2sQRingLength, ring);
        store32(at + contract::udma::kM2sQCfg, 0x0303'0000);
      }
    }
    const uint64_t entries[] = {hbm(kTensor), kTensorBytes, hbm(kOther), kTensorBytes};
    std::memcpy(bytes(kTable, sizeof entries), entries, sizeof entries);
    base::store<uint32_t>(bytes(kOne, 4), 1);
    for (const contract::Engine e : {contract::kAct, contract::kPool, contract::kSp}) {
      put(e, contract::engine::kDgeTableLo, static_cast<uint32_t>(hbm(kTable)));
      put(e, contract::engine::kDgeTableHi, static_cast<uint32_t>(hbm(kTable) >> 32));
      put(e, contract::engine::kDgeEntries, 2);
      put(e, contract::engine::kDgeOneLo, static_cast<uint32_t>(hbm(kOne)));
      put(e, contract::engine::kDgeOneHi, static_cast<uint32_t>(hbm(kOne) >> 32));
    }
    uint8_t* tensor_bytes = bytes(kTensor, kTensorBytes);
    for (uint32_t i = 0; i < kTensorBytes; ++i) tensor_bytes[i] = pattern(i);
  }

  static uint8_t pattern(uint32_t i) { return static_cast<uint8_t>(i * 7 + (i >> 8) * 13); }
  uint64_t hbm(uint64_t offset) const { return map().hbm_base(0) + offset; }
  uint8_t* bytes(uint64_t offset, uint64_t length) { return fabric.direct(hbm(offset), length); }
  void store32(uint64_t at, uint32_t value) { EXPECT_TRUE(fabric.write32(at, value)); }
  void set_index(uint32_t byte, const std::vector<uint32_t>& index) {
    for (uint32_t p = 0; p < index.size(); ++p) *sbuf<uint32_t>(p, byte) = index[p];
  }
  // Ends with a HALT.
  void run(contract::Engine e, std::vector<isa::Instruction> program) {
    program.push_back(op(isa::Opcode::kHalt));
    load(e, program);
    start(e);
    queue.run_all();
  }
  void expect_done(contract::Engine e, uint32_t transfers = 1) {
    EXPECT_EQ(status(e), contract::EngineStatus::kHalted) << get(e, contract::engine::kErrorCode);
    EXPECT_EQ(semaphore(kSemaphore), 16 * transfers);
    EXPECT_EQ(counters.dma_errors, 0u);
    EXPECT_EQ(counters.bad_doorbells, 0u);
  }
  void expect_error(contract::Engine e, contract::EngineError error, uint32_t info) {
    EXPECT_EQ(status(e), contract::EngineStatus::kError);
    EXPECT_EQ(get(e, contract::engine::kErrorCode), static_cast<uint32_t>(error));
    EXPECT_EQ(get(e, contract::engine::kErrorInfo), info);
    EXPECT_EQ(get(e, contract::engine::kErrorPc), 0u);
    EXPECT_EQ(notification(e, 0).type(), contract::NqType::kError);
    EXPECT_EQ(semaphore(kSemaphore), 0u);
  }

  hw::Dma dma;

 private:
  static hw::Dma::Options checked_by(hw::check::Checker* checker) {
    hw::Dma::Options options;
    options.checker = checker;
    return options;
  }
};

}  // namespace hw_test::transfers
