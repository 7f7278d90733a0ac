// Executions of a NeuronCore: what the engines did, and the chain that decided how long it took.
#include "hw/core/execution.h"

#include <numeric>

#include "contract/regs/engine.h"
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::kAct;
using contract::kDve;
using contract::kPool;
using hw::CriticalPath;
using hw::ExecutionTotals;
using hw::Stall;
using hw_test::isa::DataType;
using hw_test::isa::Opcode;
using hw_test::isa::UpdateOp;
using hw_test::isa::WaitCond;
namespace isa = hw_test::isa;
using namespace hw_test;  // NOLINT(google-build-using-namespace): the small assembler

class Executions : public ::testing::Test {
 protected:
  void start(contract::Engine e, const std::vector<isa::Instruction>& program) {
    bench_.start(e, program);
  }
  std::vector<ExecutionTotals> finish() {
    bench_.queue.run_all();
    return bench_.group.core(0).take_executions();
  }
  static base::Ps sum(const ExecutionTotals& t) {
    return std::accumulate(t.critical.begin(), t.critical.end(), base::Ps{0});
  }
  static base::Ps stalled(const ExecutionTotals& t, contract::Engine e, Stall cause) {
    return t.engines[e].stalled[static_cast<size_t>(cause)];
  }
  NcBench bench_{contract::Gen::kV3};
};

TEST_F(Executions, CountsInstructionsBytesAndTime) {
  start(kDve, {long_copy(0x8000), long_copy(0x10000)});
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 1u);
  const ExecutionTotals& t = totals[0];
  EXPECT_EQ(t.count, 1u);
  EXPECT_EQ(t.least, t.total);
  EXPECT_EQ(t.engines[kDve].instructions, 3u);
  EXPECT_EQ(t.engines[kDve].sbuf_read, 2u * 128 * 4096 * 4);
  EXPECT_EQ(t.engines[kDve].sbuf_written, 2u * 128 * 4096 * 4);
  EXPECT_EQ(t.engines[kDve].psum_read, 0u);
  EXPECT_EQ(t.engines[kPool].instructions, 0u);
  EXPECT_EQ(sum(t), t.total);
  EXPECT_NEAR(static_cast<double>(t.critical[CriticalPath::kDve]),
              static_cast<double>(t.engines[kDve].busy), 10);  // steps of the queue, of 1 ps
  EXPECT_TRUE(finish().empty());                               // taken
}

// The chain goes over the engine that was waited for, and adds up to the whole time.
TEST_F(Executions, CriticalPathFollowsSemaphores) {
  start(kAct, {on(then(long_copy(0x8000), UpdateOp::kInc, 2), WaitCond::kGe, 1, 1)});
  start(kDve, {on(long_copy(0x10000), WaitCond::kGe, 2, 1)});
  start(kPool, {then(long_copy(0x18000), UpdateOp::kInc, 1)});
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 1u);
  const ExecutionTotals& t = totals[0];
  EXPECT_EQ(sum(t), t.total);
  EXPECT_GT(t.critical[CriticalPath::kPool], base::us(3));
  EXPECT_GT(t.critical[CriticalPath::kAct], base::us(2));
  EXPECT_GT(t.critical[CriticalPath::kDve], base::us(2));
  EXPECT_EQ(t.critical[CriticalPath::kDma], 0u);
  EXPECT_GT(stalled(t, kDve, Stall::kSemaphore), base::us(6));
  EXPECT_EQ(stalled(t, kDve, Stall::kDma), 0u);
  EXPECT_EQ(t.engines[kDve].waited_for[kAct], stalled(t, kDve, Stall::kSemaphore));
  EXPECT_EQ(t.engines[kAct].waited_for[kPool], stalled(t, kAct, Stall::kSemaphore));
  EXPECT_EQ(t.engines[kPool].waited_for, decltype(t.engines[kPool].waited_for){});
}

TEST_F(Executions, WaitsForOthersCountAsDma) {
  start(kDve, {on(long_copy(0x8000), WaitCond::kGe, 1, 1)});
  struct Other final : hw::EventSink {
    explicit Other(hw::SemaphoreBlock& block) : semaphores(block) {}
    void on_event(const hw::EventKey& /*key*/, uint32_t /*tag*/, uint64_t /*argument*/) override {
      semaphores.add(1, 1);
    }
    hw::SemaphoreBlock& semaphores;
  } other(bench_.group.core(0).semaphores());
  bench_.queue.schedule({base::us(50), 0xFFFF, hw::Phase::kEffect}, other, 0);
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_GT(stalled(totals[0], kDve, Stall::kDma), base::us(49));
  EXPECT_GT(totals[0].critical[CriticalPath::kDma], base::us(49));
  EXPECT_EQ(sum(totals[0]), totals[0].total);
}

TEST_F(Executions, DependentInstructionsWaitForTheirResults) {
  start(kDve, {long_copy(0x8000), copy(tensor(DataType::kFloat32, 0x10000, 64),
                                       tensor(DataType::kFloat32, 0x8000, 64), 128)});
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_GT(stalled(totals[0], kDve, Stall::kDependency), base::ns(150));
  EXPECT_EQ(sum(totals[0]), totals[0].total);
}

// What an engine waits for before the first NOTIFY is not of the execution.
TEST_F(Executions, BeginWithTheFirstNotify) {
  isa::Instruction notify = op(Opcode::kNotify);
  notify.operands.notify.type = isa::NotifyType::kNotify;
  start(kAct, {on(op(Opcode::kEventSemaphore), WaitCond::kGe, 1, 1), notify, long_copy(0x8000)});
  start(kDve,
        {on(op(Opcode::kEventSemaphore), WaitCond::kGe, 1, 1), notify, notify, long_copy(0x10000)});
  bench_.queue.run_until(base::us(100));
  start(kPool, {then(op(Opcode::kNop), UpdateOp::kAdd, 1, 2), notify, op(Opcode::kNop)});
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 1u);
  const ExecutionTotals& t = totals[0];
  EXPECT_LT(t.total, base::us(10));
  EXPECT_EQ(sum(t), t.total);
  EXPECT_EQ(stalled(t, kDve, Stall::kDma) + stalled(t, kDve, Stall::kSemaphore), 0u);
  EXPECT_EQ(t.engines[kAct].instructions, 2u);   // copy, HALT
  EXPECT_EQ(t.engines[kDve].instructions, 3u);   // the second NOTIFY, too
  EXPECT_EQ(t.engines[kPool].instructions, 2u);  // NOP, HALT
}

TEST_F(Executions, AnotherLengthAtTheSamePlaceIsAnotherProgram) {
  start(kDve, {long_copy(0x8000)});
  bench_.queue.run_all();
  start(kDve, {long_copy(0x8000), long_copy(0x8000)});
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].count, 1u);
}

// PSUM has a bank that both want (v3), and the second one stands still for it.
TEST_F(Executions, WaitsForPsumAreCounted) {
  const auto from_psum = [](uint32_t to) {
    return copy(tensor(DataType::kFloat32, to, 512),
                tensor(DataType::kFloat32, 0, 512, isa::Memory::kPsum), 128);
  };
  start(kDve, {from_psum(0x8000)});
  start(kAct, {from_psum(0x10000)});
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 1u);
  const ExecutionTotals& t = totals[0];
  EXPECT_GT(stalled(t, kDve, Stall::kPsum) + stalled(t, kAct, Stall::kPsum), base::ns(100));
  EXPECT_EQ(stalled(t, kDve, Stall::kMemory) + stalled(t, kAct, Stall::kMemory), 0u);
  EXPECT_EQ(stalled(t, kDve, Stall::kIssue), bench_.timing.seq_fetch);
}

TEST_F(Executions, ProgramsAreToldApart) {
  for (int round = 0; round < 2; ++round) {
    start(kDve, {long_copy(0x8000)});
    bench_.queue.run_all();
    start(kAct, {});
    bench_.queue.run_all();
  }
  const auto totals = finish();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].count, 2u);
  EXPECT_EQ(totals[1].count, 2u);
  EXPECT_EQ(totals[0].total, totals[0].least + totals[0].most);
  EXPECT_GT(totals[0].total, totals[1].total);
}

}  // namespace
