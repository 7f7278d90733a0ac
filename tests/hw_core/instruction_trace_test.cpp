// What a tracer hears of the engines of a NeuronCore.
#include "hw/core/instruction_trace.h"

#include "contract/regs/engine.h"
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::kAct;
using contract::kDve;
using contract::kPool;
using hw::InstructionEvent;
using hw::Stall;
using hw_test::isa::DataType;
using hw_test::isa::Opcode;
using hw_test::isa::UpdateOp;
using hw_test::isa::WaitCond;
namespace isa = hw_test::isa;
using namespace hw_test;  // NOLINT(google-build-using-namespace): the small assembler

class Listener final : public hw::Tracer {
 public:
  uint32_t track(const std::string& name) override {
    names.push_back(name);
    return static_cast<uint32_t>(names.size() - 1);
  }
  void span(uint32_t, base::Ps, base::Ps, const char*, uint64_t, uint64_t) override {}
  void instruction(uint32_t track, const InstructionEvent& event) override {
    EXPECT_EQ(names[track], *event.core + "." + hw::NeuronCore::engine_name(event.engine));
    events[event.engine].push_back(event);
  }
  void execution_begins(const std::string& core, uint64_t, base::Ps) override {
    executions += core + " begins ";
  }
  void execution_ends(const std::string&, base::Ps, bool complete) override {
    executions += complete ? "ends " : "is dropped ";
  }

  std::vector<std::string> names;
  std::map<uint32_t, std::vector<InstructionEvent>> events;
  std::string executions;
};

class InstructionTraces : public ::testing::Test {
 protected:
  void start(contract::Engine e, const std::vector<isa::Instruction>& program) {
    bench_.start(e, program);
  }
  const InstructionEvent& event(contract::Engine e, size_t i) { return listener_.events[e].at(i); }

  Listener listener_;
  NcBench bench_{contract::Gen::kV3, false, &listener_};
};

TEST_F(InstructionTraces, ArrowsLeadFromUpdatesToThoseThatWaited) {
  isa::Instruction first = then(long_copy(0x18000), UpdateOp::kInc, 1);
  first.debug_id = 42;
  start(kPool, {first, long_copy(0x20000)});
  start(kAct, {on(long_copy(0x8000), WaitCond::kGe, 1, 1)});
  start(kDve, {op(Opcode::kNop), on(long_copy(0x10000), WaitCond::kGe, 1, 1)});
  bench_.queue.run_all();
  ASSERT_EQ(listener_.events[kPool].size(), 3u);
  const InstructionEvent& cause = event(kPool, 0);
  EXPECT_EQ(cause.instruction.debug_id, 42u);
  EXPECT_EQ(cause.program, NcBench::kProgram + kPool * 0x10'0000ull);
  EXPECT_EQ(cause.released_by, 0u);
  EXPECT_TRUE(cause.pauses.empty());
  ASSERT_EQ(cause.releases.size(), 2u);  // an arrow for each
  EXPECT_NE(cause.releases[0], cause.releases[1]);
  const InstructionEvent& act = event(kAct, 0);
  const InstructionEvent& dve = event(kDve, 1);
  EXPECT_EQ((std::set<uint64_t>{act.released_by, dve.released_by}),
            (std::set<uint64_t>(cause.releases.begin(), cause.releases.end())));
  EXPECT_EQ(event(kDve, 0).instruction.opcode, Opcode::kNop);
  EXPECT_EQ(dve.pc, 1u);
  ASSERT_EQ(act.pauses.size(), 1u);
  EXPECT_EQ(act.pauses[0].cause, Stall::kSemaphore);
  EXPECT_EQ(act.pauses[0].engine, kPool);
  EXPECT_LT(act.pauses[0].begin, cause.end);
  EXPECT_EQ(act.pauses[0].end, act.begin);
  EXPECT_GT(act.begin, cause.done);
  EXPECT_GT(act.end, act.begin);
  EXPECT_GT(act.done, act.end);
  EXPECT_EQ(listener_.executions, "nc0 begins ends ");
}

TEST_F(InstructionTraces, UpdatesAtTheReadOfInputsHaveArrowsToo) {
  start(kPool, {before(long_copy(0x18000), UpdateOp::kInc, 1),
                before(op(Opcode::kEventSemaphore), UpdateOp::kInc, 1)});
  start(kAct,
        {on(long_copy(0x8000), WaitCond::kGe, 1, 1), on(long_copy(0x10000), WaitCond::kGe, 1, 2)});
  bench_.queue.run_all();
  ASSERT_EQ(event(kPool, 0).releases.size(), 1u);
  EXPECT_EQ(event(kPool, 0).releases[0], event(kAct, 0).released_by);
}

TEST_F(InstructionTraces, FirstWaiterTakesTheArrowOfATransfer) {
  start(kAct, {on(long_copy(0x8000), WaitCond::kGe, 1, 1)});
  start(kDve, {on(long_copy(0x10000), WaitCond::kGe, 1, 1)});
  struct Transfer final : hw::EventSink {
    Transfer(hw::SemaphoreBlock& block, hw::Tracer& tracer) : semaphores(block), tracer(tracer) {}
    void on_event(const hw::EventKey& /*key*/, uint32_t /*tag*/, uint64_t /*argument*/) override {
      tracer.set_applying(77);
      semaphores.add(1, 1);
      tracer.set_applying(0);
    }
    hw::SemaphoreBlock& semaphores;
    hw::Tracer& tracer;
  } transfer(bench_.group.core(0).semaphores(), listener_);
  bench_.queue.schedule({base::us(50), 0xFFFF, hw::Phase::kEffect}, transfer, 0);
  bench_.queue.run_all();
  EXPECT_EQ(event(kAct, 0).released_by + event(kDve, 0).released_by, 77u);
  EXPECT_EQ(event(kAct, 0).pauses.at(0).cause, Stall::kDma);
}

TEST_F(InstructionTraces, ResultsThatAreWaitedForAreAPause) {
  start(kDve, {long_copy(0x8000), copy(tensor(DataType::kFloat32, 0x10000, 64),
                                       tensor(DataType::kFloat32, 0x8000, 64), 128)});
  bench_.queue.run_all();
  ASSERT_EQ(event(kDve, 1).pauses.size(), 1u);
  EXPECT_EQ(event(kDve, 1).pauses[0].cause, Stall::kDependency);
  EXPECT_EQ(event(kDve, 1).pauses[0].end, event(kDve, 1).begin);
}

TEST_F(InstructionTraces, ResetEndsAnExecution) {
  start(kDve, {then(long_copy(0x8000), UpdateOp::kInc, 1)});
  bench_.queue.run_until(base::us(2));  // the copy is at work, its update expected
  bench_.put(kDve, contract::engine::kControl, contract::engine::kControlReset.mask());
  EXPECT_EQ(listener_.events[kDve].size(), 1u);
  EXPECT_EQ(listener_.executions, "nc0 begins is dropped ");
  start(kDve, {long_copy(0x8000)});
  bench_.queue.run_all();
  EXPECT_EQ(listener_.events[kDve].size(), 3u);
}

}  // namespace
