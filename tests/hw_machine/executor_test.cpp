#include "hw/machine/executor.h"

#include <stdexcept>

#include "tests/hw_machine/machine_bench.h"

namespace {

using hw::RunOutcome;
using hw_test::MachineBench;
using pcie::HostExecutor;

TEST(Executor, TasksRunInOrderAndTakeTime) {
  MachineBench b;
  HostExecutor& executor = b.machine.executor();
  std::vector<std::string> order;
  for (const char* name : {"a", "b"}) {
    executor.spawn(name, [&, name] {
      order.push_back(name);
      executor.delay(base::us(1));
      order.push_back(std::string(name) + std::to_string(executor.now() / base::kPsPerUs));
    });
  }
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "a1", "b1"}));
}

TEST(Executor, WakeAndTimeOut) {
  MachineBench b;
  HostExecutor& executor = b.machine.executor();
  int channel = 0;
  int other = 0;
  bool woken = false;
  bool timed_out = false;
  executor.spawn("waiter", [&] { woken = executor.wait(&channel, base::us(10)); });
  executor.spawn("late", [&] {
    timed_out = !executor.wait(&other, base::us(5));
    EXPECT_EQ(executor.now(), base::us(5));
  });
  executor.spawn("waker", [&] {
    executor.delay(base::us(2));
    executor.wake(&channel);
    executor.wake(&channel);
  });
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_TRUE(woken);
  EXPECT_TRUE(timed_out);
  EXPECT_EQ(b.machine.now(), base::us(5));  // the time-out of a woken waiter does not run on
}

TEST(Executor, WaitingForeverIsRest) {
  MachineBench b;
  HostExecutor& executor = b.machine.executor();
  int channel = 0;
  bool done = false;
  executor.spawn("sleeper", [&] {
    EXPECT_TRUE(executor.wait(&channel, HostExecutor::kForever));
    done = true;
  });
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_FALSE(done);
  EXPECT_TRUE(b.machine.who_waits().empty());
  executor.wake(&channel);  // from outside, while the machine rests
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_TRUE(done);
}

TEST(Executor, WorkersAreReused) {
  MachineBench b;
  auto& executor = static_cast<hw::Executor&>(b.machine.executor());
  int runs = 0;
  for (int k = 0; k < 100; ++k) {
    executor.spawn("t", [&] {
      executor.delay(1);
      ++runs;
    });
    EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  }
  EXPECT_EQ(runs, 100);
  EXPECT_EQ(executor.active(), 0u);
  // A task may start others.
  executor.spawn("outer", [&] { executor.spawn("inner", [&] { ++runs; }); });
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(runs, 101);
}

TEST(Executor, ExceptionsEndTheMachine) {
  MachineBench b;
  b.machine.executor().spawn("bad", [] { throw std::runtime_error("defect"); });
  EXPECT_EQ(b.run(), RunOutcome::kError);
  ASSERT_TRUE(b.machine.error().has_value());
  EXPECT_EQ(b.machine.error()->fault, base::Fault::kInternal);
  EXPECT_EQ(b.machine.error()->message(), "task bad: defect");
  EXPECT_EQ(b.run(), RunOutcome::kError);
}

}  // namespace
