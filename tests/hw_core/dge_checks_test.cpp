// Checks (hw/check) of transfers whose descriptors engines make.
#include <map>
#include <tuple>
#include <utility>

#include "tests/hw_core/dge_bench.h"

namespace {

using contract::kAct;
using contract::kDve;
using contract::kPool;
using contract::kSp;
using hw::check::Finding;
using hw::check::Kind;
using hw_test::isa::DataType;
using hw_test::isa::Opcode;
using hw_test::isa::UpdateOp;
using hw_test::isa::WaitCond;
namespace isa = hw_test::isa;
namespace reg = contract::engine;
using namespace hw_test;             // NOLINT(google-build-using-namespace): the small assembler
using namespace hw_test::transfers;  // NOLINT(google-build-using-namespace): its transfers

constexpr uint32_t kFirst = 0;  // tiles, by their byte
constexpr uint32_t kSecond = 512;
constexpr uint32_t kIndexTile = 8192;
constexpr uint16_t kColumns = 32;
constexpr uint8_t kReady = 1;  // semaphores
constexpr uint8_t kMade = 2;

class CheckedTransfers : public ::testing::Test {
 protected:
  using Programs = std::map<contract::Engine, std::vector<isa::Instruction>>;
  // Kind, first and second instruction.
  using Found = std::vector<std::tuple<Kind, std::string, std::string>>;

  Found run(const Programs& programs) {
    for (const uint8_t s : {kReady, kMade, kSemaphore}) bench_.group.core(0).semaphores().set(s, 0);
    for (const auto& [engine, program] : programs) {
      std::vector<isa::Instruction> all = program;
      all.push_back(op(Opcode::kHalt));
      bench_.load(engine, all);
      bench_.put(engine, reg::kPc, 0);
    }
    for (const auto& each : programs) bench_.start(each.first);
    bench_.queue.run_all();
    for (const auto& each : programs) {
      EXPECT_EQ(bench_.status(each.first), contract::EngineStatus::kHalted);
    }
    EXPECT_EQ(bench_.counters.dma_errors, 0u);
    uint64_t more = 0;
    Found found;
    all_ = checker_.take(&more);
    for (const Finding& f : all_) {
      found.emplace_back(f.kind, f.first.operation, f.second.operation);
    }
    return found;
  }

  static isa::TensorOperand at(uint32_t byte) { return tensor(DataType::kFloat32, byte, kColumns); }
  static isa::SideOperand side_at(uint32_t byte) {
    return tile(byte, DataType::kFloat32, kColumns, 128);
  }
  static isa::SideOperand in_hbm(uint16_t entry, uint32_t rows = 128) {
    return tensor_rows(entry, DataType::kFloat32, kColumns, rows);
  }
  static isa::Instruction fill(const isa::TensorOperand& dst) {
    isa::Instruction i = op(Opcode::kMemset);
    i.operands.memset = {dst, 0, 128};
    return i;
  }
  static isa::Instruction zero_index() { return fill(tensor(DataType::kUint32, kIndexTile, 1)); }
  static isa::Instruction signal(const isa::Instruction& i, uint8_t id) {
    return then(i, UpdateOp::kInc, id);
  }
  static isa::Instruction after(const isa::Instruction& i, uint8_t id, uint32_t value = 1) {
    return on(i, WaitCond::kGe, id, value);
  }
  // 16 rows of a tile to the rows of a tensor that the index names, all of them the first.
  static isa::Instruction scatter(bool ordered) {
    isa::Instruction i = indirect(isa::DgeDirection::kScatter, in_hbm(1, 16),
                                  tile(kFirst, DataType::kFloat32, kColumns, 16), kIndexTile, 16);
    i.operands.dma_indirect.ordered = ordered ? 1 : 0;
    return i;
  }

  hw::check::Checker checker_;
  DgeBench bench_{contract::Gen::kV3, 4096, &checker_};
  std::vector<Finding> all_;
};

TEST_F(CheckedTransfers, CompletionsOfAllRingsOrder) {
  const auto load = memcpy_op(isa::DgeMode::kHwdge, side_at(kFirst), in_hbm(0));
  const auto run_with = [&](uint32_t completions) {
    return run({{kSp, {load}},
                {kDve, {after(copy(at(kSecond), at(kFirst), 128), kSemaphore, completions)}}});
  };
  EXPECT_EQ(run_with(16), Found{});
  EXPECT_EQ(run_with(15), (Found{{Kind::kReadAfterWrite, "DMA_MEMCPY", "TENSOR_COPY"}}));
  EXPECT_EQ(all_[0].count, 8u);  // partitions: a ring's share
  EXPECT_NE(all_[0].first.by.find("queue 3"), std::string::npos);
}

TEST_F(CheckedTransfers, ReadWhatWasNeverWritten) {
  EXPECT_EQ(run({{kSp, {memcpy_op(isa::DgeMode::kHwdge, in_hbm(1), side_at(kFirst))}}}),
            (Found{{Kind::kReadUnwritten, "DMA_MEMCPY", ""}}));
}

// The block is given a transfer while the instruction before it is at work.
TEST_F(CheckedTransfers, WaitForNothingOfTheirEngine) {
  const auto run_with = [&](const isa::SideOperand& dst, const isa::SideOperand& src, bool drain) {
    std::vector<isa::Instruction> program = {after(copy(at(kSecond), at(kFirst), 128), kReady),
                                             memcpy_op(isa::DgeMode::kHwdge, dst, src)};
    if (drain) program.insert(program.begin() + 1, op(Opcode::kDrain));
    return run({{kDve, {signal(fill(at(kFirst)), kReady)}}, {kAct, program}});
  };
  EXPECT_EQ(run_with(in_hbm(1), side_at(kSecond), false),
            (Found{{Kind::kReadAfterWrite, "TENSOR_COPY", "DMA_MEMCPY"}}));
  EXPECT_EQ(run_with(in_hbm(1), side_at(kSecond), true), Found{});
  EXPECT_EQ(run_with(side_at(kFirst), in_hbm(0), false),
            (Found{{Kind::kWriteAfterRead, "TENSOR_COPY", "DMA_MEMCPY"}}));
  EXPECT_EQ(run_with(side_at(kFirst), in_hbm(0), true), Found{});
}

// Rows that the rings write in any order race, if an index names a row twice.
TEST_F(CheckedTransfers, RowsOfAScatter) {
  const std::vector<isa::Instruction> inputs = {fill(at(kFirst)), signal(zero_index(), kReady)};
  EXPECT_EQ(run({{kDve, inputs}, {kPool, {after(scatter(true), kReady)}}}), Found{});
  EXPECT_EQ(run({{kDve, inputs}, {kPool, {after(scatter(false), kReady)}}}),
            (Found{{Kind::kWriteAfterWrite, "DMA_INDIRECT", "DMA_INDIRECT"}}));
}

TEST_F(CheckedTransfers, IndicesAreReadWhenTheInstructionBegins) {
  std::vector<isa::Instruction> late(400, op(Opcode::kNop));
  late.push_back(after(scatter(true), kReady));
  EXPECT_EQ(run({{kDve, {signal(fill(at(kFirst)), kReady), zero_index()}}, {kPool, late}}),
            (Found{{Kind::kReadAfterWrite, "MEMSET", "DMA_INDIRECT"}}));
  // Its own completion says that descriptors are made: the index may go, the rows not yet.
  const auto run_with = [&](const isa::Instruction& next) {
    return run({{kDve, {fill(at(kFirst)), signal(zero_index(), kReady), next}},
                {kPool, {signal(after(scatter(true), kReady), kMade)}}});
  };
  EXPECT_EQ(run_with(after(zero_index(), kMade)), Found{});
  EXPECT_EQ(run_with(after(zero_index(), kSemaphore, 16)), Found{});
  EXPECT_EQ(run_with(after(fill(at(kFirst)), kSemaphore, 16)), Found{});
  EXPECT_EQ(run_with(after(fill(at(kFirst)), kMade)),
            (Found{{Kind::kReadAfterWrite, "MEMSET", "DMA_INDIRECT"}}));
}

}  // namespace
