#include "sim/main_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "driver/node/request_queue.h"
#include "driver/node/status_page.h"

namespace sim {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// Tasks run when the machine runs; each adds work, a simulated time after which it is at rest.
class FakeHardware final : public Hardware, public pcie::HostExecutor {
 public:
  pcie::Device& device(size_t) override { std::abort(); }
  pcie::HostExecutor& executor() override { return *this; }
  base::Ps now() const override { return now_; }
  bool run(base::Ps limit) override {
    while (!tasks_.empty()) {
      auto task = std::move(tasks_.front());
      tasks_.erase(tasks_.begin());
      task();
    }
    const base::Ps step = std::min(limit, work);
    now_ += step;
    work -= step;
    return work == 0;
  }
  std::vector<base::Ps> take_released() override { return std::exchange(released, {}); }
  std::optional<base::Error> failure() const override { return failed; }
  void collect(Report&) override {}
  uint64_t progress() const override { return progressed; }
  std::vector<std::string> waiting() const override { return {}; }
  base::Status set_link(const std::string&, bool) override { return {}; }
  base::Status plan_link(const std::string&, bool, base::Ps) override { return {}; }

  void spawn(std::string, std::function<void()> task) override {
    tasks_.push_back(std::move(task));
  }
  void delay(base::Ps) override {}
  bool wait(const void* channel, base::Ps) override {
    waited.push_back(channel);
    if (during_wait) during_wait();
    return true;
  }
  void wake(const void* channel) override { woken.push_back(channel); }

  base::Ps work = 0;
  uint64_t progressed = 0;
  std::vector<base::Ps> released;
  std::optional<base::Error> failed;
  std::vector<const void*> waited, woken;
  std::function<void()> during_wait;

 private:
  std::vector<std::function<void()>> tasks_;
  base::Ps now_ = 0;
};

class MainLoopTest : public ::testing::Test {
 protected:
  MainLoop make(Policy policy, base::Ps slice = base::us(100)) {
    return MainLoop({&hardware_, &requests_, &status_, policy, slice, {}});
  }
  void push(const std::string& name, base::Ps work) {
    requests_.push(name, [this, name, work] {
      notes_.push_back(name + "@" + std::to_string(hardware_.now()) +
                       (hardware_.work > 0 ? " busy" : ""));
      hardware_.work += work;
    });
  }
  bool none_left() const { return requests_.pending() == 0; }

  FakeHardware hardware_;
  driver::RequestQueue requests_{hardware_};
  driver::StatusPage status_ = std::move(driver::StatusPage::create().value());
  std::vector<std::string> notes_;
};

TEST_F(MainLoopTest, EpochAdmitsOnlyAtRest) {
  MainLoop loop = make(Policy::kEpoch);
  push("a", 5000);
  push("b", 7000);
  EXPECT_TRUE(loop.drain([&] { return none_left(); }, milliseconds(60'000)));
  EXPECT_THAT(notes_, ElementsAre("a@0", "b@5000"));
  const MainLoop::Activities activities = loop.take_activities();
  EXPECT_EQ(activities.active, 12000u);
  EXPECT_EQ(activities.requests, (Durations{2, 12000, 5000, 7000}));
  EXPECT_EQ(activities.releases.count, 0u);
  EXPECT_EQ(loop.take_activities().active, 0u);
  EXPECT_EQ(loop.take_slices(), 0u);
  EXPECT_FALSE(status_.busy());
}

// Two members arrive; whichever is last, the report is the same.
TEST_F(MainLoopTest, WhatABarrierReleasesIsCountedApart) {
  std::vector<MainLoop::Activities> seen;
  for (const bool swapped : {false, true}) {
    MainLoop loop = make(Policy::kEpoch);
    push("first", swapped ? 200 : 100);
    requests_.push("last", [&] {
      hardware_.work += (swapped ? 100 : 200) + 5000;
      hardware_.released = {5000};
    });
    push("poll", 0);
    EXPECT_TRUE(loop.drain([&] { return none_left(); }, milliseconds(60'000)));
    seen.push_back(loop.take_activities());
  }
  EXPECT_EQ(seen[0].requests, (Durations{2, 300, 100, 200}));
  EXPECT_EQ(seen[0].releases, (Durations{1, 5000, 5000, 5000}));
  EXPECT_EQ(seen[0].active, 5300u);
  EXPECT_EQ(seen[1].requests, seen[0].requests);
  EXPECT_EQ(seen[1].releases, seen[0].releases);
}

TEST_F(MainLoopTest, ALoopingProgramDoesNotLockOthersOut) {
  MainLoop loop = make(Policy::kEpoch, base::us(100));
  push("looping", base::us(250));
  push("other", 0);
  EXPECT_TRUE(loop.drain([&] { return none_left(); }, milliseconds(60'000)));
  EXPECT_THAT(notes_, ElementsAre("looping@0", "other@100000000 busy"));
  EXPECT_EQ(loop.take_slices(), 2u);
}

// A client needs many requests to find out that its time is over.
TEST_F(MainLoopTest, AfterASliceRequestsNeedNotWaitForAnother) {
  MainLoop loop = make(Policy::kEpoch, base::ms(5));
  push("looping", base::ms(9));
  for (const char* name : {"b", "c", "d"}) push(name, 0);
  EXPECT_TRUE(loop.drain([&] { return none_left(); }, milliseconds(60'000)));
  EXPECT_THAT(notes_, ElementsAre("looping@0", "b@5000000000 busy", "c@5000000000 busy",
                                  "d@5000000000 busy"));
  EXPECT_EQ(loop.take_slices(), 1u);
}

// What may come at any time does not wait for rest, and the machine goes on with what it causes.
TEST_F(MainLoopTest, PostedTasksRunBetweenSteps) {
  MainLoop loop = make(Policy::kEpoch, base::us(100));
  const auto note = [this](bool at_rest) {
    notes_.push_back((at_rest ? "rest@" : "work@") + std::to_string(hardware_.now()));
    hardware_.work += 1000;
  };
  requests_.push("long", [&] {
    hardware_.work += base::us(250);
    loop.post(note);
  });
  EXPECT_TRUE(loop.drain([&] { return none_left(); }, milliseconds(60'000)));
  loop.post(note);
  EXPECT_TRUE(loop.drain([&] { return notes_.size() == 2; }, milliseconds(60'000)));
  EXPECT_THAT(notes_, ElementsAre("work@100000000", "rest@250001000"));
  EXPECT_EQ(hardware_.now(), base::us(250) + 2000);
  EXPECT_EQ(hardware_.work, 0u);
}

TEST_F(MainLoopTest, OverlapAdmitsWhatIsThere) {
  MainLoop loop = make(Policy::kOverlap);
  push("a", base::us(15));
  push("b", 7000);
  EXPECT_TRUE(loop.drain([&] { return none_left(); }, milliseconds(60'000)));
  EXPECT_THAT(notes_, ElementsAre("a@0", "b@0 busy"));
  EXPECT_EQ(loop.take_activities().active, base::us(15) + 7000);
}

TEST_F(MainLoopTest, StopEndsRunAndItMayRunAgain) {
  MainLoop loop = make(Policy::kEpoch);
  for (int round = 0; round < 2; ++round) {
    std::thread stopper([&] {
      std::this_thread::sleep_for(milliseconds(5));
      loop.stop();
    });
    EXPECT_TRUE(loop.run().ok());
    stopper.join();
  }
  push("after", 0);
  loop.stop();
  EXPECT_TRUE(loop.run().ok());  // a stop that came early counts
  EXPECT_TRUE(notes_.empty());
}

TEST_F(MainLoopTest, AFailureOfTheMachineEndsRun) {
  MainLoop loop = make(Policy::kEpoch);
  requests_.push("bad", [&] { hardware_.failed = {base::Fault::kInternal, 0, "m0", "broken"}; });
  const base::Status status = loop.run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().what, "broken");
  EXPECT_FALSE(loop.drain([] { return false; }, milliseconds(1000)));
}

TEST_F(MainLoopTest, DrainGivesUpInTime) {
  MainLoop loop = make(Policy::kEpoch);
  EXPECT_FALSE(loop.drain([] { return false; }, milliseconds(10)));
}

TEST_F(MainLoopTest, ClientWaitEndsWithWallTime) {
  MainLoop loop = make(Policy::kEpoch);
  const int channel = 0;
  // While the task waits, the loop goes on as it would between coroutines.
  hardware_.during_wait = [&] {
    hardware_.during_wait = nullptr;
    EXPECT_TRUE(loop.drain([&] { return !hardware_.woken.empty(); }, milliseconds(60'000)));
  };
  EXPECT_FALSE(loop.client_wait(&channel, 3000));
  EXPECT_THAT(hardware_.waited, ElementsAre(&channel));
  EXPECT_THAT(hardware_.woken, ElementsAre(&channel));
  EXPECT_TRUE(loop.client_wait(&channel, 1000000));  // woken by someone at once
}

}  // namespace
}  // namespace sim
