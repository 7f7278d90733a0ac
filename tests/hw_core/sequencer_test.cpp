#include "hw/core/sequencer.h"

#include "tests/hw_core/nc_bench.h"

namespace {

using contract::EngineError;
using contract::EngineStatus;
using contract::kAct;
using contract::kDve;
using contract::kPe;
using contract::kPool;
using contract::kSp;
using contract::NqType;
using hw_test::isa::DataType;
using hw_test::isa::Opcode;
using hw_test::isa::UpdateOp;
using hw_test::isa::WaitCond;
namespace isa = hw_test::isa;
namespace reg = contract::engine;
using namespace hw_test;  // NOLINT(google-build-using-namespace): the small assembler

class SequencerTest : public ::testing::Test {
 protected:
  void expect_error(contract::Engine e, EngineError error, uint32_t pc, uint32_t info) {
    EXPECT_EQ(bench_.status(e), EngineStatus::kError);
    EXPECT_EQ(bench_.get(e, reg::kErrorCode), static_cast<uint32_t>(error));
    EXPECT_EQ(bench_.get(e, reg::kErrorPc), pc);
    EXPECT_EQ(bench_.get(e, reg::kErrorInfo), info);
    const contract::NqEntry entry = bench_.notification(e, 0);
    EXPECT_EQ(entry.type(), NqType::kError);
    EXPECT_EQ(entry.payload, static_cast<uint32_t>(error));
    EXPECT_EQ(entry.pc, pc);
    EXPECT_EQ(entry.info, info);
  }
  void run(contract::Engine e, const std::vector<isa::Instruction>& program) {
    bench_.load(e, program);
    bench_.start(e);
    bench_.queue.run_all();
  }

  NcBench bench_;
};

TEST_F(SequencerTest, ResetValues) {
  EXPECT_EQ(bench_.status(kPe), EngineStatus::kIdle);
  EXPECT_EQ(bench_.get(kPe, reg::kPc), 0u);
  EXPECT_EQ(bench_.get(kPe, reg::kContractVersion), 0x10003u);
  bench_.put(kPe, reg::kRegister + 4 * 63, 7);
  EXPECT_EQ(bench_.get(kPe, reg::kRegister + 4 * 63), 7u);
  EXPECT_EQ(bench_.get(kAct, reg::kRegister + 4 * 63), 0u);
}

TEST_F(SequencerTest, HaltsAfterItsProgram) {
  run(kSp, {op(Opcode::kNop), op(Opcode::kHalt), op(Opcode::kNop)});
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kHalted);
  EXPECT_EQ(bench_.get(kSp, reg::kPc), 2u);
  // 1 ps to react, two control instructions of 10 cycles at 1.4 GHz; HALT also lets the last
  // completion become visible.
  EXPECT_EQ(bench_.queue.now(), 1u + 2 * 7142u + base::ns(12));
}

TEST_F(SequencerTest, UpdateAndWaitBetweenEngines) {
  bench_.load(kPe, {then(op(Opcode::kNop), UpdateOp::kAdd, 5, 3), op(Opcode::kHalt)});
  bench_.load(kAct,
              {before(on(op(Opcode::kEventSemaphore), WaitCond::kGe, 5, 3), UpdateOp::kSub, 5, 3),
               then(op(Opcode::kHalt), UpdateOp::kInc, 6)});
  bench_.start(kAct);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.status(kAct), EngineStatus::kRunning);
  EXPECT_EQ(bench_.group.core(0).engine(kAct).stuck(),
            "waits for semaphore 5 >= 3, which is 0, at pc 0");
  const base::Ps start = bench_.queue.now();
  bench_.start(kPe);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.status(kAct), EngineStatus::kHalted);
  EXPECT_EQ(bench_.semaphore(5), 0u);
  EXPECT_EQ(bench_.semaphore(6), 1u);
  // Reaction, NOP at 2.8 GHz, visible after 12 ns, start after 20 ns, EVENT_SEMAPHORE at 1.4 GHz,
  // visible, HALT, visible.
  EXPECT_EQ(bench_.queue.now() - start,
            1u + 3571 + base::ns(12) + base::ns(20) + 7142 + base::ns(12) + 7142 + base::ns(12));
}

TEST_F(SequencerTest, RegistersLoopsAndBranches) {
  isa::Instruction dec = op(Opcode::kRegisterAlu);
  dec.operands.register_alu = {isa::AluOp::kSub, 1, 1, {1, false}};
  isa::Instruction back = op(Opcode::kCompareBranch);
  back.operands.compare_branch = {isa::BranchCond::kNe, 1, {0, false}, -2};
  isa::Instruction skip = op(Opcode::kBranch);
  skip.operands.branch = {2};
  isa::Instruction wait_register = op(Opcode::kNop);
  wait_register.wait = {WaitCond::kEq, true, 2, 3};  // semaphore 2 == register 3
  run(kPool, {move(1, 5), move(3, 5), then(op(Opcode::kNop), UpdateOp::kInc, 2), dec, back, skip,
              then(op(Opcode::kNop), UpdateOp::kInc, 9), wait_register, op(Opcode::kHalt)});
  EXPECT_EQ(bench_.status(kPool), EngineStatus::kHalted);
  EXPECT_EQ(bench_.semaphore(2), 5u);
  EXPECT_EQ(bench_.semaphore(9), 0u);
  EXPECT_EQ(bench_.get(kPool, reg::kRegister + 4), 0u);
}

TEST_F(SequencerTest, AluOperations) {
  const struct {
    isa::AluOp op;
    uint32_t a, b, result;
  } rows[] = {{isa::AluOp::kAdd, 0xFFFF'FFFF, 2, 1},
              {isa::AluOp::kSub, 1, 2, 0xFFFF'FFFF},
              {isa::AluOp::kMul, 0x10000, 0x10001, 0x10000},
              {isa::AluOp::kShl, 1, 33, 2},
              {isa::AluOp::kShr, 0x8000'0000, 31, 1},
              {isa::AluOp::kAnd, 6, 3, 2},
              {isa::AluOp::kOr, 6, 3, 7},
              {isa::AluOp::kXor, 6, 3, 5},
              {isa::AluOp::kMin, 0xFFFF'FFFF, 3, 3},
              {isa::AluOp::kMax, 0xFFFF'FFFF, 3, 0xFFFF'FFFF}};
  for (const auto& row : rows) {
    isa::Instruction alu = op(Opcode::kRegisterAlu);
    alu.operands.register_alu = {row.op, 2, 1, {row.b, false}};
    bench_.put(kSp, reg::kPc, 0);
    run(kSp, {move(1, row.a), alu, op(Opcode::kHalt)});
    EXPECT_EQ(bench_.get(kSp, reg::kRegister + 8), row.result) << static_cast<int>(row.op);
  }
}

TEST_F(SequencerTest, WritesReachAnyAddress) {
  isa::Instruction two = op(Opcode::kWrite);
  two.operands.write = {0x200'0000, bench_.host_address(0x100), 0x1111, 0x2222, 4, 4};
  isa::Instruction wide = op(Opcode::kWrite);
  wide.operands.write = {0x200'0008, 0, 0x3333, 0x4444, 8, 0};
  run(kSp, {two, wide, op(Opcode::kHalt)});
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kHalted);
  EXPECT_EQ(base::load<uint32_t>(bench_.fabric.direct(0x200'0000, 4)), 0x1111u);
  EXPECT_EQ(base::load<uint32_t>(&bench_.host.bytes[0x100]), 0x2222u);
  EXPECT_EQ(base::load<uint64_t>(bench_.fabric.direct(0x200'0008, 8)), 0x4444'0000'3333u);
}

TEST_F(SequencerTest, NotifyAndTrace) {
  isa::Instruction notify = op(Opcode::kNotify);
  notify.operands.notify = {isa::NotifyType::kNotify, 0xCAFE};
  notify.debug_id = 0x1234'5678'9ABC;
  notify.flags = isa::kFlagTrace;
  run(kAct, {notify, op(Opcode::kHalt)});
  EXPECT_EQ(bench_.notification(kAct, 0).type(), NqType::kNotify);
  EXPECT_EQ(bench_.notification(kAct, 0).payload, 0xCAFEu);
  EXPECT_EQ(bench_.notification(kAct, 0).debug_id, 0x1234'5678'9ABCu);
  EXPECT_EQ(bench_.notification(kAct, 0).source(), kAct);
  EXPECT_EQ(bench_.notification(kAct, 0).timestamp, 1u + base::ns(50));
  EXPECT_EQ(bench_.notification(kAct, 1).type(), NqType::kTrace);
  EXPECT_EQ(bench_.notification(kAct, 1).payload, static_cast<uint32_t>(Opcode::kNotify));
  EXPECT_EQ(bench_.notification(kAct, 2).header, 0u);
  bench_.put(kAct, reg::kTraceMask, 1);
  bench_.put(kAct, reg::kPc, 1);
  bench_.start(kAct);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.notification(kAct, 2).payload, static_cast<uint32_t>(Opcode::kHalt));
}

TEST_F(SequencerTest, RangeClear) {
  bench_.group.core(0).semaphores().set(3, 1);
  bench_.group.core(0).semaphores().set(4, 1);
  bench_.group.core(0).semaphores().set(5, 1);
  bench_.group.core(0).semaphores().set_event(4, true);
  isa::Instruction clear = op(Opcode::kEventSemaphoreRangeClear);
  clear.operands.event_semaphore_range_clear = {isa::ClearKind::kSemaphore, 3, 4};
  isa::Instruction events = op(Opcode::kEventSemaphoreRangeClear);
  events.operands.event_semaphore_range_clear = {isa::ClearKind::kEvent, 0, 255};
  run(kSp, {clear, events, op(Opcode::kHalt)});
  EXPECT_EQ(bench_.semaphore(3), 0u);
  EXPECT_EQ(bench_.semaphore(4), 0u);
  EXPECT_EQ(bench_.semaphore(5), 1u);
  EXPECT_FALSE(bench_.group.core(0).semaphores().event(4));
  EXPECT_EQ(bench_.group.core(0).semaphores().event_conflicts(), 0u);
}

TEST_F(SequencerTest, HaltControlAndContinue) {
  bench_.load(kSp, {on(op(Opcode::kNop), WaitCond::kGe, 0, 1), op(Opcode::kHalt)});
  bench_.start(kSp);
  bench_.queue.run_all();
  bench_.put(kSp, reg::kControl, 2);
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kHalted);
  EXPECT_EQ(bench_.get(kSp, reg::kPc), 0u);
  bench_.group.core(0).semaphores().add(0, 1);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.get(kSp, reg::kPc), 0u);
  bench_.start(kSp);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.get(kSp, reg::kPc), 2u);
}

TEST_F(SequencerTest, EndlessLoopCanBeHalted) {
  isa::Instruction self = op(Opcode::kBranch);
  self.operands.branch = {0};
  bench_.load(kSp, {self});
  bench_.start(kSp);
  bench_.queue.run_until(base::us(1));
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kRunning);
  bench_.put(kSp, reg::kControl, 2);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kHalted);
}

TEST_F(SequencerTest, LoopWithoutEndComesToRest) {
  isa::Instruction alu = op(Opcode::kRegisterAlu);  // counts to 5, then stays there
  alu.operands.register_alu = {isa::AluOp::kMin, 1, 1, {5, false}};
  isa::Instruction count = op(Opcode::kRegisterAlu);
  count.operands.register_alu = {isa::AluOp::kAdd, 1, 1, {1, false}};
  isa::Instruction back = op(Opcode::kCompareBranch);
  back.operands.compare_branch = {isa::BranchCond::kGe, 1, {1, false}, -2};
  bench_.load(kSp, {count, alu, back, op(Opcode::kHalt)});
  bench_.start(kSp);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kRunning);
  EXPECT_EQ(bench_.get(kSp, reg::kRegister + 4), 5u);
  EXPECT_EQ(bench_.group.core(0).engine(kSp).stuck(), "loops for ever at pc 2");
  bench_.put(kSp, reg::kRegister + 4, 100);  // another state: it goes on, to 5 again
  bench_.queue.run_all();
  EXPECT_EQ(bench_.get(kSp, reg::kRegister + 4), 5u);
  bench_.put(kSp, reg::kControl, 2);
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kHalted);
}

TEST_F(SequencerTest, WokenEngineChecksAgain) {
  // Both wait for one count; the first to start takes it.
  const auto take = before(on(op(Opcode::kNop), WaitCond::kGe, 1, 1), UpdateOp::kDec, 1);
  bench_.load(kPe, {take, op(Opcode::kHalt)});
  bench_.load(kAct, {take, op(Opcode::kHalt)});
  bench_.start(kPe);
  bench_.start(kAct);
  bench_.queue.run_all();
  bench_.group.core(0).semaphores().add(1, 1);
  bench_.queue.run_all();
  EXPECT_EQ(bench_.status(kPe), EngineStatus::kHalted);
  EXPECT_EQ(bench_.status(kAct), EngineStatus::kRunning);
  EXPECT_EQ(bench_.semaphore(1), 0u);
}

TEST_F(SequencerTest, UnsupportedInstruction) {
  std::vector<uint8_t> record(64);
  record[0] = static_cast<uint8_t>(Opcode::kDmaDirect2d);
  bench_.load_bytes(kPe, record);
  bench_.start(kPe);
  bench_.queue.run_all();
  expect_error(kPe, EngineError::kUnsupported, 0, static_cast<uint32_t>(Opcode::kDmaDirect2d));
  bench_.start(kPe);  // only a reset recovers
  bench_.queue.run_all();
  EXPECT_EQ(bench_.status(kPe), EngineStatus::kError);
  bench_.put(kPe, reg::kControl, 4);
  EXPECT_EQ(bench_.status(kPe), EngineStatus::kIdle);
  EXPECT_EQ(bench_.get(kPe, reg::kErrorCode), 0u);
}

TEST_F(SequencerTest, ResetClearsWhatAProgramLeft) {
  run(kSp, {move(1, 5), move(63, 7), op(Opcode::kHalt)});
  EXPECT_EQ(bench_.get(kSp, reg::kRegister + 4 * 63), 7u);
  bench_.put(kSp, reg::kControl, 4);
  for (const uint32_t index : {0u, 1u, 63u}) {
    EXPECT_EQ(bench_.get(kSp, reg::kRegister + 4 * index), 0u) << index;
  }
  for (const uint32_t offset : {reg::kPc, reg::kErrorCode, reg::kErrorPc, reg::kErrorInfo}) {
    EXPECT_EQ(bench_.get(kSp, offset), 0u) << offset;
  }
}

TEST_F(SequencerTest, PseudoInstructionIsUnsupported) {
  isa::Instruction trigger = op(Opcode::kPseudoDmaTrigger);
  run(kSp, {op(Opcode::kNop), trigger});
  expect_error(kSp, EngineError::kUnsupported, 1, static_cast<uint32_t>(Opcode::kPseudoDmaTrigger));
}

TEST_F(SequencerTest, UndecodableRecord) {
  std::vector<uint8_t> record(64);
  record[0] = 250;
  bench_.load_bytes(kSp, record);
  bench_.start(kSp);
  bench_.queue.run_all();
  expect_error(kSp, EngineError::kBadInstruction, 0, 250);
}

TEST_F(SequencerTest, InstructionOfAnotherEngine) {
  const auto t = tensor(DataType::kFloat32, 0, 1);
  run(kPe, {copy(t, t, 1)});
  expect_error(kPe, EngineError::kBadInstruction, 0, static_cast<uint32_t>(Opcode::kTensorCopy));
}

TEST_F(SequencerTest, ProgramCounterOutside) {
  run(kSp, {op(Opcode::kNop)});
  expect_error(kSp, EngineError::kBadPc, 1, 1);
}

TEST_F(SequencerTest, StoreToNowhere) {
  run(kSp, {write_to(0x0FFE'0000'0010, 1)});
  expect_error(kSp, EngineError::kBusError, 0, 0x10);
}

TEST_F(SequencerTest, ProgramInNowhere) {
  bench_.put(kSp, reg::kProgramHi, 0x0FFE);
  bench_.put(kSp, reg::kProgramCount, 1);
  bench_.start(kSp);
  bench_.queue.run_all();
  expect_error(kSp, EngineError::kBusError, 0, 0);
}

TEST_F(SequencerTest, OperandOutsideMemory) {
  const auto in = tensor(DataType::kFloat32, 0, 4);
  // 192 KiB per partition on v2.
  run(kDve, {add(in, in, tensor(DataType::kFloat32, 192 * 1024 - 12, 4), 1)});
  expect_error(kDve, EngineError::kBadOperand, 0, 2);
}

TEST_F(SequencerTest, TensorTimes) {
  const auto a = tensor(DataType::kFloat32, 0, 8192);
  const auto b = tensor(DataType::kFloat32, 65536, 8192);
  const auto c = tensor(DataType::kFloat32, 131072, 8192);
  run(kDve, {then(add(c, a, b, 64), UpdateOp::kInc, 0), op(Opcode::kHalt)});
  // spec/timing.md 9: 14,968 ns on trn1 (2N cycles of 1.12 GHz and 339 ns); then the semaphore.
  const base::Ps done = 1u + 16384ull * 25000 / 28 + base::ns(339);
  EXPECT_NEAR(static_cast<double>(done), 14'968e3, 14'968e3 * 0.001);
  EXPECT_EQ(bench_.queue.now(), done + base::ns(12) + 10 * 25000ull / 28);
  EXPECT_EQ(bench_.semaphore(0), 1u);
}

TEST_F(SequencerTest, DependentInstructionsWait) {
  const auto a = tensor(DataType::kFloat32, 0, 4);
  const auto b = tensor(DataType::kFloat32, 64, 4);
  const auto c = tensor(DataType::kFloat32, 128, 4);
  const base::Ps interval = 64 * 25000ull / 28;
  run(kDve, {copy(b, a, 1), copy(c, a, 1), op(Opcode::kDrain), op(Opcode::kHalt)});
  const base::Ps independent = bench_.queue.now();
  bench_.put(kDve, reg::kPc, 0);
  run(kDve, {copy(b, a, 1), copy(c, b, 1), op(Opcode::kDrain), op(Opcode::kHalt)});
  const base::Ps dependent = bench_.queue.now() - independent;
  // Done of the producer plus 30 ns, instead of one initiation interval.
  EXPECT_EQ(dependent - independent, base::ns(339) + base::ns(30));
  EXPECT_EQ(independent,
            1u + 2 * interval + base::ns(339) + 2 * (10 * 25000ull / 28) + base::ns(12));
}

isa::Instruction link(int32_t target) {
  isa::Instruction i = op(Opcode::kBranchLink);
  i.operands.branch_link = {target, 0, 0};
  return i;
}
isa::Instruction alu64(isa::AluOp what, uint8_t dst, uint8_t a, isa::Value b) {
  isa::Instruction i = op(Opcode::kRegisterAlu64);
  i.operands.register_alu64 = {what, dst, a, b};
  return i;
}
isa::Instruction increment(uint8_t r) {
  isa::Instruction i = op(Opcode::kRegisterAlu);
  i.operands.register_alu = {isa::AluOp::kAdd, r, r, {1, false}};
  return i;
}

TEST_F(SequencerTest, FunctionsReturnToWhereTheyWereCalled) {
  // 0 and 1 call 3; 3 calls 6 and counts r2; 6 counts r1.
  run(kSp, {link(3), link(2), op(Opcode::kHalt), link(3), increment(2), op(Opcode::kReturn),
            increment(1), op(Opcode::kReturn)});
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kHalted);
  EXPECT_EQ(bench_.get(kSp, reg::kRegister + 4 * 1), 2u);
  EXPECT_EQ(bench_.get(kSp, reg::kRegister + 4 * 2), 2u);
}

TEST_F(SequencerTest, TheStackOfCallsHasAnEnd) {
  run(kSp, {increment(1), link(-1)});
  expect_error(kSp, EngineError::kBadPc, 1, 1);
  EXPECT_EQ(bench_.get(kSp, reg::kRegister + 4 * 1), isa::kCallLevels + 1);
  run(kAct, {op(Opcode::kNop), op(Opcode::kReturn)});
  expect_error(kAct, EngineError::kBadPc, 1, 1);
  // A reset forgets calls that were under way.
  bench_.put(kSp, reg::kControl, reg::kControlReset.mask());
  run(kSp, {link(2), op(Opcode::kHalt), op(Opcode::kReturn)});
  EXPECT_EQ(bench_.status(kSp), EngineStatus::kHalted);
}

TEST_F(SequencerTest, RegistersInPairsHold64Bits) {
  using isa::AluOp;
  run(kSp, {move(2, 0xFFFF'FFFF), move(3, 1), move(4, 3), move(5, 0),
            alu64(AluOp::kAdd, 10, 2, {2, false}),    // 2'0000'0001
            alu64(AluOp::kMul, 12, 2, {4, true}),     // 5'FFFF'FFFD
            alu64(AluOp::kShr, 14, 12, {33, false}),  // 2
            alu64(AluOp::kSub, 16, 4, {4, false}),    // -1
            alu64(AluOp::kMin, 18, 16, {2, true}),    // unsigned
            alu64(AluOp::kShl, 20, 4, {63, false}), alu64(AluOp::kXor, 2, 2, {2, true}),
            op(Opcode::kHalt)});
  const auto pair = [&](uint32_t r) {
    return uint64_t{bench_.get(kSp, reg::kRegister + 4 * (r + 1))} << 32 |
           bench_.get(kSp, reg::kRegister + 4 * r);
  };
  EXPECT_EQ(pair(10), 0x2'0000'0001u);
  EXPECT_EQ(pair(12), 0x5'FFFF'FFFDu);
  EXPECT_EQ(pair(14), 2u);
  EXPECT_EQ(pair(16), ~uint64_t{0});
  EXPECT_EQ(pair(18), 0x1'FFFF'FFFFu);
  EXPECT_EQ(pair(20), uint64_t{1} << 63);
  EXPECT_EQ(pair(2), 0u);
}

}  // namespace
