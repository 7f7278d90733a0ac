#include "hw/sync/semaphore_block.h"

#include <sys/mman.h>

#include "contract/regs/sem.h"
#include "tests/hw_core/core_bench.h"

namespace {

namespace sem = contract::sem;
using contract::isa::UpdateOp;
using contract::isa::WaitCond;
using hw_test::read32;
using hw_test::write32;

struct Waiter final : hw::SemaphoreWaiter {
  explicit Waiter(std::vector<int>& order, int id) : order(order), id(id) {}
  void wait_satisfied() override { order.push_back(id); }
  std::vector<int>& order;
  int id;
};

class Semaphores : public ::testing::Test {
 protected:
  hw::Counters counters_;
  hw::SharedPages pages_{0x2000, 0x2000};
  hw::AccessLog log_;
  hw::SemaphoreBlock block_{pages_, &counters_, &log_, "d0.nc1.semaphores"};
};

TEST_F(Semaphores, AliasesActOnOneValue) {
  write32(block_, sem::kSet + 4 * 7, 10);
  write32(block_, sem::kInc + 4 * 7, 5);
  write32(block_, sem::kDec + 4 * 7, 1);
  EXPECT_EQ(read32(block_, sem::kRead + 4 * 7), 14u);
  EXPECT_EQ(read32(block_, sem::kRead + 4 * 6), 0u);
  // Write aliases read 0; the read alias ignores writes.
  EXPECT_EQ(read32(block_, sem::kSet + 4 * 7), 0u);
  EXPECT_EQ(read32(block_, sem::kInc + 4 * 7), 0u);
  EXPECT_EQ(read32(block_, sem::kDec + 4 * 7), 0u);
  write32(block_, sem::kRead + 4 * 7, 99);
  EXPECT_EQ(block_.value(7), 14u);
  EXPECT_EQ(counters_.semaphore_updates, 3u);
  for (const uint32_t end : {0u, 255u}) {
    write32(block_, sem::kSet + 4 * end, end + 1);
    EXPECT_EQ(read32(block_, sem::kRead + 4 * end), end + 1);
  }
}

TEST_F(Semaphores, ArithmeticWraps) {
  write32(block_, sem::kDec, 1);
  EXPECT_EQ(block_.value(0), 0xFFFF'FFFFu);
  write32(block_, sem::kInc, 3);
  EXPECT_EQ(block_.value(0), 2u);
}

TEST_F(Semaphores, EventsAndGap) {
  write32(block_, sem::kEvent + 4 * 255, 5);
  EXPECT_EQ(read32(block_, sem::kEvent + 4 * 255), 1u);
  write32(block_, sem::kEvent + 4 * 255, 0);
  EXPECT_EQ(read32(block_, sem::kEvent + 4 * 255), 0u);
  // A driver's bound check is off by one: index 256 lands in the gap (spec/hw-registers.md 4).
  write32(block_, 0x400, 1);
  EXPECT_EQ(read32(block_, 0x400), 0u);
  EXPECT_EQ(block_.value(0), 0u);
}

TEST_F(Semaphores, OnlyAlignedWords) {
  write32(block_, sem::kSet + 4, 3);
  uint8_t bytes[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  EXPECT_TRUE(block_.access(sem::kSet + 2, bytes, 4, true, false));
  EXPECT_TRUE(block_.access(sem::kSet, bytes, 8, true, false));
  EXPECT_TRUE(block_.access(sem::kSet + 4, bytes, 2, true, false));
  EXPECT_EQ(block_.value(0), 0u);
  EXPECT_EQ(block_.value(1), 3u);
  EXPECT_TRUE(block_.access(sem::kRead, bytes, 8, false, false));
  EXPECT_EQ(base::load<uint64_t>(bytes), 0u);
  EXPECT_EQ(log_.total(hw::AccessLog::Kind::kPartial), 4u);
}

TEST_F(Semaphores, WhatReachesNothingIsCountedByPlace) {
  using Kind = hw::AccessLog::Kind;
  write32(block_, 0x400, 1);  // event 256
  EXPECT_EQ(read32(block_, 0x400), 0u);
  EXPECT_EQ(read32(block_, 0xFFC), 0u);
  write32(block_, sem::kRead + 4, 1);
  EXPECT_EQ(read32(block_, sem::kInc), 0u);  // a write alias reads 0, which is no error
  EXPECT_EQ(log_.total(Kind::kUnknown), 3u);
  EXPECT_EQ(log_.total(Kind::kDenied), 1u);
  EXPECT_EQ(log_.entries().count({"d0.nc1.semaphores", Kind::kUnknown, "0x00400", true}), 1u);
}

TEST_F(Semaphores, DebugWritesHaveNoEffect) {
  uint8_t bytes[4] = {1, 0, 0, 0};
  EXPECT_TRUE(block_.access(sem::kInc, bytes, 4, true, true));
  EXPECT_EQ(block_.value(0), 0u);
}

TEST_F(Semaphores, WaitersWakeInOrderAndOnce) {
  std::vector<int> order;
  Waiter a(order, 1);
  Waiter b(order, 2);
  Waiter c(order, 3);
  block_.wait({WaitCond::kGe, 4, 2}, a);
  block_.wait({WaitCond::kGe, 4, 3}, b);
  block_.wait({WaitCond::kGe, 4, 2}, c);
  block_.add(4, 1);
  block_.add(5, 100);
  EXPECT_TRUE(order.empty());
  block_.add(4, 1);
  EXPECT_EQ(order, (std::vector<int>{1, 3}));
  block_.add(4, 1);
  block_.add(4, 1);
  EXPECT_EQ(order, (std::vector<int>{1, 3, 2}));
}

// A semaphore is counted as waited for as long as somebody waits for it, and only that one.
TEST_F(Semaphores, AWaiterGoesOnToTheNextSemaphore) {
  std::vector<int> order;
  Waiter a(order, 1);
  constexpr uint8_t kIds[] = {4, 5, 3, 4};
  for (const uint8_t id : kIds) {
    const size_t woken = order.size();
    block_.wait({WaitCond::kGe, id, block_.value(id) + 1}, a);
    block_.add(id, 1);
    EXPECT_EQ(order.size(), woken + 1) << int{id};
  }
}

TEST_F(Semaphores, CancelledWaitersSleepOn) {
  std::vector<int> order;
  Waiter a(order, 1);
  block_.wait({WaitCond::kEventSet, 9, 0}, a);
  block_.cancel(a);
  block_.set_event(9, true);
  EXPECT_TRUE(order.empty());
  block_.wait({WaitCond::kEventClear, 9, 0}, a);
  block_.set_event(9, false);
  EXPECT_EQ(order, std::vector<int>{1});
}

TEST_F(Semaphores, ConditionsCompareSigned) {
  const struct {
    WaitCond cond;
    uint32_t value;
    bool met;
  } rows[] = {{WaitCond::kGe, 0xFFFF'FFFF, false},
              {WaitCond::kGe, 0, true},
              {WaitCond::kGt, 0, false},
              {WaitCond::kGt, 1, true},
              {WaitCond::kEq, 0, true},
              {WaitCond::kEq, 1, false},
              {WaitCond::kLe, 0xFFFF'FFFF, true},
              {WaitCond::kLe, 1, false},
              {WaitCond::kLt, 0, false},
              {WaitCond::kLt, 0x8000'0000, true},
              {WaitCond::kNe, 0, false},
              {WaitCond::kNe, 5, true}};
  for (const auto& row : rows) {
    block_.set(3, row.value);
    EXPECT_EQ(block_.satisfied({row.cond, 3, 0}), row.met)
        << static_cast<int>(row.cond) << " " << row.value;
  }
}

TEST_F(Semaphores, InstructionUpdates) {
  block_.apply({UpdateOp::kWrite, 1, 8});
  block_.apply({UpdateOp::kInc, 1, 0});
  block_.apply({UpdateOp::kAdd, 1, 10});
  block_.apply({UpdateOp::kSub, 1, 4});
  block_.apply({UpdateOp::kDec, 1, 0});
  EXPECT_EQ(block_.value(1), 14u);
  block_.apply({UpdateOp::kEventSet, 2, 0});
  EXPECT_TRUE(block_.event(2));
  block_.apply({UpdateOp::kEventSet, 2, 0});
  EXPECT_EQ(block_.event_conflicts(), 1u);
  block_.apply({UpdateOp::kEventClear, 2, 0});
  EXPECT_FALSE(block_.event(2));
  block_.apply({UpdateOp::kNone, 1, 0});
  EXPECT_EQ(block_.value(1), 14u);
  block_.set(2, 5);
  block_.clear_semaphores(1, 1);
  EXPECT_EQ(block_.value(1), 0u);
  EXPECT_EQ(block_.value(2), 5u);
}

TEST_F(Semaphores, SharedPageShowsLiveValues) {
  block_.set(3, 42);
  block_.set_event(5, true);
  const auto fd = pages_.share("test");
  ASSERT_TRUE(fd.ok());
  void* at = ::mmap(nullptr, 0x2000, PROT_READ, MAP_SHARED, *fd, 0);
  ASSERT_NE(at, MAP_FAILED);
  const auto* words = static_cast<const uint32_t*>(at);
  EXPECT_EQ(words[(sem::kRead + 4 * 3) / 4], 42u);
  EXPECT_EQ(words[(sem::kEvent + 4 * 5) / 4], 1u);
  block_.add(3, 1);
  EXPECT_EQ(words[(sem::kRead + 4 * 3) / 4], 43u);
  block_.reset();
  EXPECT_EQ(words[(sem::kRead + 4 * 3) / 4], 0u);
  ::munmap(at, 0x2000);
}

}  // namespace
