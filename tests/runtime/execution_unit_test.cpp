// Execution units by themselves: order, numbers, limits, events, what a fatal error leaves.
#include "runtime/exec/execution_unit.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/nrt/status.h"

namespace {

using nrt::ExecutionUnit;

constexpr uint16_t kId = 7;
constexpr uint64_t sequence(uint64_t number) {
  return uint64_t{kId} << ExecutionUnit::kNumberBits | number;
}

struct Results {
  std::mutex mutex;
  std::vector<std::pair<uint64_t, NRT_STATUS>> list;
  std::function<void(uint64_t, NRT_STATUS)> report() {
    return [this](uint64_t number, NRT_STATUS status) {
      const std::lock_guard<std::mutex> lock(mutex);
      list.emplace_back(number, status);
    };
  }
};

class Unit : public testing::Test {
 protected:
  // Requests that wait for open().
  ExecutionUnit::Request gated(bool fatal = false, NRT_STATUS status = NRT_SUCCESS) {
    ExecutionUnit::Request request;
    request.run = [this, fatal, status](uint64_t) -> ExecutionUnit::Outcome {
      gate_.wait();
      if (status == NRT_SUCCESS) return {base::Status(), fatal};
      return {nrt::error(status, "as told"), fatal};
    };
    request.report = results_.report();
    return request;
  }
  void open() { opening_.set_value(); }
  void wait() { ASSERT_TRUE(unit_.wait_idle(std::chrono::seconds(20))); }
  static uint64_t count(int fd) {
    uint64_t value = 0;
    return ::read(fd, &value, sizeof value) == sizeof value ? value : 0;
  }
  static int event() { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
  static base::UniqueFd copy_of(int fd) { return base::UniqueFd(::dup(fd)); }

  Results results_;
  std::promise<void> opening_;
  std::shared_future<void> gate_{opening_.get_future()};
  ExecutionUnit unit_{kId};
};

TEST_F(Unit, RequestsEndInOrderAndNumbersHaveNoGaps) {
  EXPECT_EQ(unit_.completed(), sequence(0));
  for (uint64_t n = 1; n <= 10; ++n) EXPECT_EQ(*unit_.schedule(gated()), sequence(n));
  EXPECT_EQ(unit_.completed(), sequence(0));
  EXPECT_FALSE(*unit_.is_complete(sequence(1)));
  open();
  wait();
  EXPECT_EQ(unit_.completed(), sequence(10));
  EXPECT_TRUE(*unit_.is_complete(sequence(10)));
  ASSERT_EQ(results_.list.size(), 10u);
  for (uint64_t n = 1; n <= 10; ++n) EXPECT_EQ(results_.list[n - 1].first, sequence(n));
}

TEST_F(Unit, NumbersThatWereNeverIssuedAreErrors) {
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  for (const uint64_t bad :
       {sequence(0), sequence(2), uint64_t{1}, sequence(1) + (uint64_t{1} << 48)}) {
    EXPECT_EQ(unit_.is_complete(bad).error().code, NRT_INVALID) << bad;
    EXPECT_EQ(unit_.add_event(bad, copy_of(0)).error().code, NRT_INVALID) << bad;
    EXPECT_EQ(unit_.drop_events(bad).error().code, NRT_INVALID) << bad;
  }
  open();
}

TEST_F(Unit, AFullQueueTakesNothingAndUsesNoNumber) {
  for (uint64_t n = 1; n <= ExecutionUnit::kDepth; ++n) ASSERT_TRUE(unit_.schedule(gated()).ok());
  EXPECT_EQ(unit_.schedule(gated()).error().code, NRT_QUEUE_FULL);
  open();
  wait();
  EXPECT_EQ(*unit_.schedule(gated()), sequence(ExecutionUnit::kDepth + 1));
}

TEST_F(Unit, AFatalErrorEndsWhatIsQueued) {
  ASSERT_TRUE(unit_.schedule(gated(false, NRT_INVALID)).ok());
  ASSERT_TRUE(unit_.schedule(gated(true, NRT_TIMEOUT)).ok());
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  open();
  wait();
  ASSERT_EQ(results_.list.size(), 3u);
  EXPECT_EQ(results_.list[0].second, NRT_INVALID);
  EXPECT_EQ(results_.list[1].second, NRT_TIMEOUT);
  EXPECT_EQ(results_.list[2].second, NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_EQ(unit_.completed(), sequence(3));
  EXPECT_EQ(unit_.schedule(gated()).error().code, NRT_EXEC_UNIT_UNRECOVERABLE);
}

TEST_F(Unit, EventsTellOfOneRequestOrOfAll) {
  const int one = event();
  const int other = event();
  const int dropped = event();
  const int all = event();
  unit_.set_unit_event(copy_of(all));
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  ASSERT_TRUE(unit_.add_event(sequence(2), copy_of(one)).ok());
  ASSERT_TRUE(unit_.add_event(sequence(2), copy_of(other)).ok());
  ASSERT_TRUE(unit_.add_event(sequence(1), copy_of(dropped)).ok());
  ASSERT_TRUE(unit_.drop_events(sequence(1)).ok());
  EXPECT_EQ(count(one), 0u);
  open();
  pollfd waiting{one, POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 20000), 1);
  EXPECT_EQ(unit_.completed(), sequence(2));  // no later than the event
  wait();
  EXPECT_EQ(count(one), 1u);
  EXPECT_EQ(count(other), 1u);
  EXPECT_EQ(count(dropped), 0u);
  EXPECT_EQ(count(all), 2u);
  unit_.set_unit_event(base::UniqueFd());
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  wait();
  EXPECT_EQ(count(all), 0u);
  ASSERT_TRUE(unit_.add_event(sequence(1), copy_of(one)).ok());
  EXPECT_EQ(count(one), 1u);  // it has been complete for long
  for (const int fd : {one, other, dropped, all}) ::close(fd);
}

TEST_F(Unit, WorkInTurnHasNoNumberAndComesBehindTheQueue) {
  bool ran = false;
  EXPECT_FALSE(unit_.do_in_turn([&] { ran = true; }));
  EXPECT_FALSE(ran);
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  std::thread opener([this] { open(); });
  uint64_t before = 0;
  const bool waited = unit_.do_in_turn([&] { before = unit_.completed(); });
  if (waited) {
    EXPECT_EQ(before, sequence(2));
  }
  opener.join();
  wait();
  EXPECT_EQ(*unit_.schedule(gated()), sequence(3));
}

TEST_F(Unit, ExceptionsBecomeStatuses) {
  for (const bool memory : {true, false}) {
    ExecutionUnit::Request request;
    request.run = [memory](uint64_t) -> ExecutionUnit::Outcome {
      if (memory) throw std::bad_alloc();
      throw std::runtime_error("x");
    };
    request.report = results_.report();
    ASSERT_TRUE(unit_.schedule(std::move(request)).ok());
  }
  wait();
  ASSERT_EQ(results_.list.size(), 2u);
  EXPECT_EQ(results_.list[0].second, NRT_RESOURCE);
  EXPECT_EQ(results_.list[1].second, NRT_FAILURE);
}

TEST_F(Unit, WaitingForAStuckUnitGivesUp) {
  ASSERT_TRUE(unit_.schedule(gated()).ok());
  EXPECT_FALSE(unit_.wait_idle(std::chrono::milliseconds(1)));
  open();
  wait();
}

TEST(UnitsEnd, QueuedRequestsAreDone) {
  Results results;
  {
    ExecutionUnit unit(1);
    for (int i = 0; i < 20; ++i) {
      ExecutionUnit::Request request;
      request.run = [](uint64_t) -> ExecutionUnit::Outcome { return {}; };
      request.report = results.report();
      ASSERT_TRUE(unit.schedule(std::move(request)).ok());
    }
  }
  EXPECT_EQ(results.list.size(), 20u);
}

}  // namespace
