// What steps wait for, without a machine: one channel, two engines, steps of one engine (small) or
// of both (large).
#include "runtime/collectives/step_order.h"

#include <gtest/gtest.h>

namespace ccl {
namespace {

constexpr uint64_t kSmall = 1024;
constexpr uint64_t kLarge = 8192;

class StepOrderTest : public testing::Test {
 protected:
  // From byte `from` to byte `to` of one memory.
  void add(uint64_t bytes, uint64_t from, uint64_t to, std::vector<uint32_t> after = {}) {
    Step step;
    step.bytes = bytes;
    step.sources = {{0, Buffer::kChannel, from}};
    step.destinations = {{0, Buffer::kChannel, to}};
    step.after = std::move(after);
    steps_.push_back(step);
  }
  // Admissions as text: what is waited for ("3": a step, "f2": two fan-outs), "!" for a DMB.
  std::string admit() {
    Shape shape;
    const Layout layout(shape, 2, 1);
    StepOrder order(steps_, 1, layout, [](const Range& range) { return range.offset; });
    std::string out;
    for (const Step& step : steps_) {
      const StepOrder::Admission admission = order.admit(step.bytes != 0);
      out += text(admission.waits) + (admission.barrier ? "!" : "") + ";";
    }
    return out + text(order.drain(0));
  }

  static std::string text(const std::vector<StepOrder::Over>& waits) {
    std::string out;
    for (const StepOrder::Over& over : waits) {
      out += (out.empty() ? "" : " ") + std::string(over.fan_outs ? "f" : "") +
             std::to_string(over.number);
    }
    return out;
  }

  Steps steps_;
};

// Each hazard by itself: the second step overlaps the first in one way only, in other cuts, so that
// the CC-core must wait.
TEST_F(StepOrderTest, ReadAfterWrite) {
  add(kLarge, 0, 100'000);
  add(kLarge, 100'064, 200'000, {0});
  EXPECT_EQ(admit(), ";0;1");
}
TEST_F(StepOrderTest, WriteAfterRead) {
  add(kLarge, 100'000, 0);
  add(kLarge, 200'000, 100'064, {0});
  EXPECT_EQ(admit(), ";0;1");
}
TEST_F(StepOrderTest, WriteAfterWrite) {
  add(kLarge, 0, 100'000);
  add(kLarge, 200'000, 100'064, {0});
  EXPECT_EQ(admit(), ";0;1");
}
TEST_F(StepOrderTest, ReadAfterReadAndOtherBytesNeedNothing) {
  add(kLarge, 0, 100'000);
  add(kLarge, 64, 200'000, {0});
  add(kLarge, 300'000, 100'000 + kLarge, {0});  // just behind
  EXPECT_EQ(admit(), ";;;0 1 2");
}

// The same bytes on the same engines: a DMB does, once for all that comes behind it.
TEST_F(StepOrderTest, EqualCutsNeedADmb) {
  add(kLarge, 0, 100'000);
  add(kLarge, 100'000, 200'000, {0});
  add(kLarge, 100'000, 300'000, {0});
  EXPECT_EQ(admit(), ";!;;0 1 2");
}
TEST_F(StepOrderTest, OneEngineNeedsADmbForAnyOverlap) {
  add(kSmall, 0, 100'000);
  add(kSmall, 100'064, 200'000, {0});
  EXPECT_EQ(admit(), ";!;0 1");
}
TEST_F(StepOrderTest, MoreEnginesThanBefore) {
  add(kSmall, 0, 100'000);
  add(kLarge, 100'000, 200'000, {0});
  EXPECT_EQ(admit(), ";0;1");
}

// Overlap alone orders nothing: schedules say what must follow what.
TEST_F(StepOrderTest, OnlyWhatIsSaid) {
  add(kLarge, 0, 100'000);
  add(kLarge, 100'064, 200'000);
  EXPECT_EQ(admit(), ";;0 1");
}

// A later step starts behind an earlier one, so it follows what that one follows.
TEST_F(StepOrderTest, FollowsWhatEarlierStepsFollow) {
  add(kLarge, 0, 100'000);
  add(kLarge, 300'000, 400'000, {0});  // touches nothing of it: no wait
  add(kLarge, 100'064, 200'000);
  EXPECT_EQ(admit(), ";;0;1 2");
}

TEST_F(StepOrderTest, Window) {
  for (uint32_t i = 0; i < kStepsInFlight + 2; ++i)
    add(kLarge, i * 100'000, 1'000'000 + i * kLarge);
  EXPECT_EQ(admit(), ";;;;0;1;2 3 4 5");
}

TEST_F(StepOrderTest, FanOutsAreWaitedForTogether) {
  add(kSmall, 0, 100'000);
  add(kSmall, 0, 200'000);
  steps_[0].fan_out = steps_[1].fan_out = true;
  add(0, 0, 0, {0});
  EXPECT_EQ(admit(), ";;f2;");
}

TEST_F(StepOrderTest, StepsWithoutBytesWaitForWhatTheyFollow) {
  add(kLarge, 0, 100'000);
  add(kLarge, 0, 200'000);
  add(0, 0, 0, {0});
  EXPECT_EQ(admit(), ";;0;1");
}

}  // namespace
}  // namespace ccl
