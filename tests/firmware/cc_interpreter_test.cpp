#include "firmware/cc/interpreter.h"

#include <gtest/gtest.h>

#include "tests/firmware/fake_hal.h"

namespace {

using contract::CcError;
using contract::CcStatus;
using contract::cc_program::Cond;
using contract::cc_program::Op;
using contract::cc_program::Record;
namespace flag = contract::cc_program::flag;
using firmware::cc::Cost;
using firmware::cc::Next;
using firmware::cc::Step;
using Stores = std::vector<std::pair<uint64_t, uint32_t>>;

struct Bank final : firmware::SemaphoreBank {
  uint32_t value(uint32_t s) const override { return values[s]; }
  void subtract(uint32_t s, uint32_t v) override { values[s] -= v; }
  uint32_t values[256] = {};
};

Record rec(Op op, uint32_t imm = 0, uint64_t address = 0, uint8_t a = 0, uint8_t flags = 0,
           uint8_t b = 0) {
  Record r;
  r.op = static_cast<uint8_t>(op);
  r.a = a;
  r.flags = flags;
  r.b = b;
  r.imm = imm;
  r.address = address;
  return r;
}

class CcInterpreter : public ::testing::Test {
 protected:
  void load(const std::vector<Record>& records, uint32_t at = 0) {
    std::memcpy(program_.data() + 16 * at, records.data(), 16 * records.size());
  }
  // Steps until something other than time is waited for; returns it.
  Step settle() {
    costs_.clear();
    for (int i = 0; i < 10000; ++i) {
      const Step step = core_.step({program_.data(), table_.data()}, bank_, hal_);
      if (step.next != Next::kSpend) return step;
      costs_.push_back(step.cost);
    }
    ADD_FAILURE() << "the program does not come to rest";
    return {};
  }
  void start(uint32_t op = 0) {
    core_.run();
    core_.trigger(op, hal_);
  }

  std::vector<uint8_t> program_ = std::vector<uint8_t>(0x10000);
  std::vector<uint32_t> table_ = std::vector<uint32_t>(2048);
  Bank bank_;
  std::vector<Cost> costs_;
  firmware_test::FakeHal hal_;
  firmware::cc::Interpreter core_;
};

TEST_F(CcInterpreter, RunsAnOperationFromTriggerToDone) {
  load({rec(Op::kSemAdd, 3, 0x5000), rec(Op::kDone, 1, 0x6000)});
  start();
  EXPECT_EQ(settle().next, Next::kIdle);
  EXPECT_EQ(hal_.stores, (Stores{{0x5000, 3}, {0x6000, 1}}));
  EXPECT_EQ(costs_, (std::vector<Cost>{Cost::kTrigger, Cost::kInstruction, Cost::kInstruction}));
  EXPECT_EQ(core_.status(), CcStatus::kIdle);
  EXPECT_EQ(core_.operations_done(), 1u);
}

TEST_F(CcInterpreter, AdvancesReceiverBeforeSender) {
  load({rec(Op::kDmaAdvance, 5u << 16 | 7, 0x1000), rec(Op::kDone)});
  start();
  settle();
  EXPECT_EQ(hal_.stores, (Stores{{0x2'1038, 5}, {0x1038, 7}}));
}

TEST_F(CcInterpreter, WaitBlocksAndSubtracts) {
  load({rec(Op::kSemWait, 2, 9, 0, flag::kSubtract), rec(Op::kDone)});
  start();
  EXPECT_EQ(settle().next, Next::kSemaphore);
  ASSERT_NE(core_.waits(0), nullptr);
  EXPECT_EQ(core_.waits(0)->semaphore, 9u);
  EXPECT_EQ(core_.waits(0)->value, 2u);
  EXPECT_EQ(core_.status(), CcStatus::kWaiting);
  bank_.values[9] = 5;
  EXPECT_EQ(settle().next, Next::kIdle);
  EXPECT_EQ(bank_.values[9], 3u);
}

TEST_F(CcInterpreter, RangeRingsUnitsInARow) {
  load({rec(Op::kDmaRange, 2u << 16 | 3, 0x10000, 1, 0, 4), rec(Op::kDone)});
  start();
  settle();
  EXPECT_EQ(hal_.stores,
            (Stores{{0x3'1038 - 0x1000, 2}, {0x1'0038, 3}, {0x4'0038, 2}, {0x2'0038, 3}}));
}

// Thread 1 (record 4) waits for semaphore 1, the first for semaphore 0; each goes on alone.
TEST_F(CcInterpreter, ThreadsDoNotHoldEachOtherUp) {
  load({rec(Op::kFork, 4), rec(Op::kSemWait, 1, 0, 0, flag::kSubtract), rec(Op::kSemAdd, 1, 0x5000),
        rec(Op::kDone), rec(Op::kSemWait, 1, 1, 0, flag::kSubtract), rec(Op::kSemAdd, 2, 0x6000),
        rec(Op::kEnd)});
  start();
  EXPECT_EQ(settle().next, Next::kSemaphore);
  ASSERT_NE(core_.waits(0), nullptr);
  ASSERT_NE(core_.waits(1), nullptr);
  EXPECT_EQ(core_.waits(1)->semaphore, 1u);
  bank_.values[1] = 1;
  EXPECT_EQ(settle().next, Next::kSemaphore);
  EXPECT_EQ(hal_.stores, (Stores{{0x6000, 2}}));
  EXPECT_EQ(core_.waits(1), nullptr);
  bank_.values[0] = 1;
  EXPECT_EQ(settle().next, Next::kIdle);
  EXPECT_EQ(hal_.stores, (Stores{{0x6000, 2}, {0x5000, 1}}));
  EXPECT_EQ(core_.operations_done(), 1u);
}

TEST_F(CcInterpreter, ThreadsThatAreLeftOverOrTooManyAreErrors) {
  load({rec(Op::kFork, 2), rec(Op::kDone), rec(Op::kSemWait, 1, 1)});
  start();
  EXPECT_EQ(settle().next, Next::kStopped);
  EXPECT_EQ(core_.error_code(), CcError::kBadInstruction);
  core_.reset();
  load(std::vector<Record>(firmware::cc::program::kThreads, rec(Op::kFork, 20)));
  load({rec(Op::kSemWait, 1, 1)}, 20);
  start();
  EXPECT_EQ(settle().next, Next::kStopped);
  EXPECT_EQ(core_.error_code(), CcError::kBadInstruction);
  core_.reset();
  load({rec(Op::kEnd)});
  start();
  EXPECT_EQ(settle().next, Next::kStopped);
  EXPECT_EQ(core_.error_code(), CcError::kBadInstruction);
}

TEST_F(CcInterpreter, WaitsCompareSignedAndEqual) {
  bank_.values[0] = 0xFFFF'FFFF;  // -1
  load({rec(Op::kSemWait, 0, 0), rec(Op::kDone)});
  start();
  EXPECT_EQ(settle().next, Next::kSemaphore);
  bank_.values[0] = 0;
  EXPECT_EQ(settle().next, Next::kIdle);
  load({rec(Op::kDmaWait, 4, 0, 0, static_cast<uint8_t>(Cond::kEq)), rec(Op::kDone)});
  bank_.values[0] = 5;
  core_.trigger(0, hal_);
  EXPECT_EQ(settle().next, Next::kSemaphore);
  bank_.values[0] = 4;
  EXPECT_EQ(settle().next, Next::kIdle);
}

TEST_F(CcInterpreter, LoopsWithRegistersAndArgument) {
  table_[2 * 3] = 16;
  table_[2 * 3 + 1] = 4;  // argument: iterations
  load({rec(Op::kArgument, 0, 0, 1), rec(Op::kMov, 10, 0, 2), rec(Op::kAdd, 1, 0, 2),
        rec(Op::kSemAdd, 0, 0x100, 0, flag::kFromReg, 2), rec(Op::kLoop, 18, 0, 1), rec(Op::kDone)},
       16);
  start(3);
  EXPECT_EQ(settle().next, Next::kIdle);
  EXPECT_EQ(hal_.stores, (Stores{{0x100, 11}, {0x100, 12}, {0x100, 13}, {0x100, 14}}));
}

TEST_F(CcInterpreter, NotifiesWithOperation) {
  table_[2 * 5] = 0;
  load({rec(Op::kNotify, 2u << 16), rec(Op::kDone)});
  start(5);
  settle();
  ASSERT_EQ(hal_.notifications.size(), 1u);
  EXPECT_EQ(hal_.notifications[0].payload, 2u << 16 | 5);
}

TEST_F(CcInterpreter, TakesTriggersInOrder) {
  table_[2] = 2;
  load({rec(Op::kWrite, 1, 0x10), rec(Op::kDone), rec(Op::kWrite, 2, 0x20), rec(Op::kDone)});
  core_.trigger(1, hal_);  // before run: kept
  core_.trigger(0, hal_);
  EXPECT_EQ(core_.fifo_level(), 2u);
  EXPECT_EQ(settle().next, Next::kStopped);
  core_.run();
  EXPECT_EQ(settle().next, Next::kIdle);
  EXPECT_EQ(hal_.stores, (Stores{{0x20, 2}, {0x10, 1}}));
}

TEST_F(CcInterpreter, BarrierHoldsUntilReleased) {
  load({rec(Op::kBarrier, 2, 0xABC), rec(Op::kDone)});
  start();
  const Step step = settle();
  EXPECT_EQ(step.next, Next::kBarrier);
  EXPECT_EQ(step.cell, 0xABCu);
  EXPECT_EQ(step.members, 2u);
  core_.barrier_released();
  EXPECT_EQ(settle().next, Next::kIdle);
}

TEST_F(CcInterpreter, HaltStopsAndRunContinues) {
  load({rec(Op::kSemWait, 1, 0), rec(Op::kWrite, 7, 0x30), rec(Op::kDone)});
  start();
  settle();
  core_.halt();
  bank_.values[0] = 1;
  EXPECT_EQ(settle().next, Next::kStopped);
  EXPECT_EQ(core_.status(), CcStatus::kHalted);
  EXPECT_TRUE(hal_.stores.empty());
  core_.run();
  EXPECT_EQ(settle().next, Next::kIdle);
  EXPECT_EQ(hal_.stores.size(), 1u);
}

TEST_F(CcInterpreter, FifoOverflowIsAnError) {
  for (int i = 0; i < 256; ++i) core_.trigger(0, hal_);
  EXPECT_EQ(core_.status(), CcStatus::kReset);
  core_.trigger(0, hal_);
  EXPECT_EQ(core_.status(), CcStatus::kError);
  EXPECT_EQ(core_.error_code(), CcError::kFifoOverflow);
  ASSERT_EQ(hal_.notifications.size(), 1u);
  EXPECT_EQ(hal_.notifications[0].type, contract::NqType::kError);
  core_.reset();
  EXPECT_EQ(core_.status(), CcStatus::kReset);
  EXPECT_EQ(core_.fifo_level(), 0u);
}

struct BadProgram {
  const char* name;
  Record record;
  CcError error;
};

class CcBadProgram : public CcInterpreter, public ::testing::WithParamInterface<BadProgram> {};

TEST_P(CcBadProgram, EndsInItsError) {
  hal_.unclaimed = 0x10'0000;
  load({rec(Op::kMov, 1, 0, 0), GetParam().record});
  start();
  EXPECT_EQ(settle().next, Next::kStopped);
  EXPECT_EQ(core_.status(), CcStatus::kError);
  EXPECT_EQ(core_.error_code(), GetParam().error);
  EXPECT_EQ(core_.error_pc(), GetParam().error == CcError::kBadPc ? 4096u : 1u);
  EXPECT_EQ(hal_.notifications.size(), 1u);
  core_.trigger(0, hal_);  // ignored in error
  EXPECT_EQ(core_.fifo_level(), 0u);
}

Record raw(uint8_t op, uint8_t a, uint8_t flags, uint8_t b) {
  Record r;
  r.op = op;
  r.a = a;
  r.flags = flags;
  r.b = b;
  return r;
}

INSTANTIATE_TEST_SUITE_P(
    All, CcBadProgram,
    ::testing::Values(BadProgram{"Opcode", raw(20, 0, 0, 0), CcError::kBadInstruction},
                      BadProgram{"RegisterA", raw(6, 16, 0, 0), CcError::kBadInstruction},
                      BadProgram{"RegisterB", raw(6, 0, 0, 16), CcError::kBadInstruction},
                      BadProgram{"Flags", raw(6, 0, 0x40, 0), CcError::kBadInstruction},
                      BadProgram{"Condition", raw(1, 0, 2, 0), CcError::kBadInstruction},
                      BadProgram{"HostPost", raw(5, 0, 0, 0), CcError::kBadInstruction},
                      BadProgram{"Semaphore", rec(Op::kSemWait, 0, 256), CcError::kBadInstruction},
                      BadProgram{"Store", rec(Op::kWrite, 0, 0x20'0000), CcError::kBusError},
                      BadProgram{"Doorbell", rec(Op::kDmaAdvance, 1, 0x20'0000),
                                 CcError::kBusError},
                      BadProgram{"Branch", rec(Op::kBranch, 4096), CcError::kBadPc}),
    [](const auto& info) { return info.param.name; });

TEST_F(CcInterpreter, UnknownOperations) {
  start(1024);
  settle();
  EXPECT_EQ(core_.error_code(), CcError::kBadOperation);
  core_.reset();
  start(7);  // nothing was ever written
  settle();
  EXPECT_EQ(core_.error_code(), CcError::kBadOperation);
  core_.reset();
  table_[14] = 4096;
  start(7);
  settle();
  EXPECT_EQ(core_.error_code(), CcError::kBadOperation);
}

}  // namespace
