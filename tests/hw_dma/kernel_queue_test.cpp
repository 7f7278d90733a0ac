// The event queue that runs ahead of the kernel: what a process of the kernel sees is what it would
// see if every event had its own turn. Each test has its own process (one elaboration per process).
#include "hw/time/kernel_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace hw {
namespace {

constexpr base::Ps kEvery = 1000;

// An event each nanosecond, a hundred times.
class Beat : public EventSink {
 public:
  explicit Beat(KernelQueue& queue) : queue_(queue) { next(kEvery); }
  void on_event(const EventKey& key, uint32_t, uint64_t) override {
    EXPECT_EQ(queue_.now(), key.time);
    kernel_times.push_back(sc_core::sc_time_stamp().value());
    if (++beats < 100) next(key.time + kEvery);
  }

  uint32_t beats = 0;
  std::vector<base::Ps> kernel_times;

 private:
  void next(base::Ps at) { queue_.schedule({at, 1, Phase::kStart}, *this, 0); }
  KernelQueue& queue_;
};

// A process that looks at the beats twice; it schedules one of its own.
struct Looker : sc_core::sc_module, EventSink {
  SC_HAS_PROCESS(Looker);
  Looker(const sc_core::sc_module_name& name, KernelQueue& q, const Beat& b)
      : sc_module(name), queue(q), beat(b) {
    SC_THREAD(look);
  }
  void look() {
    wait(sc_core::sc_time(10.5, sc_core::SC_NS));
    seen.push_back(beat.beats);
    EXPECT_EQ(queue.now(), 10'500u);
    queue.schedule({10'700, 2, Phase::kStart}, *this, 0);
    wait(sc_core::sc_time(20, sc_core::SC_NS));
    seen.push_back(beat.beats);
  }
  void on_event(const EventKey&, uint32_t, uint64_t) override { at_own = beat.beats; }

  KernelQueue& queue;
  const Beat& beat;
  std::vector<uint32_t> seen;
  uint32_t at_own = 0;
};

TEST(KernelQueue, RunsAheadUpToTheNextProcess) {
  KernelQueue queue("queue");
  Beat beat(queue);
  Looker looker("looker", queue, beat);
  queue.set_horizon(base::us(1));
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US), sc_core::SC_EXIT_ON_STARVATION);
  EXPECT_EQ(looker.seen, (std::vector<uint32_t>{10, 30}));
  EXPECT_EQ(looker.at_own, 10u);
  EXPECT_EQ(beat.beats, 100u);
  EXPECT_EQ(queue.now(), 100 * kEvery) << "the kernel catches up";
  EXPECT_EQ(beat.kernel_times[40], beat.kernel_times[90]) << "one turn for many events";
}

TEST(KernelQueue, StopsAtTheHorizon) {
  KernelQueue queue("queue");
  Beat beat(queue);
  queue.set_horizon(30 * kEvery);
  sc_core::sc_start(sc_core::sc_time(30, sc_core::SC_NS), sc_core::SC_RUN_TO_TIME);
  EXPECT_EQ(beat.beats, 30u);
  EXPECT_EQ(queue.now(), 30 * kEvery);
}

TEST(KernelQueue, WithoutHorizonEveryEventHasItsTurn) {
  KernelQueue queue("queue");
  Beat beat(queue);
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US), sc_core::SC_EXIT_ON_STARVATION);
  ASSERT_EQ(beat.beats, 100u);
  EXPECT_EQ(beat.kernel_times[40], 41 * kEvery);
}

}  // namespace
}  // namespace hw

__attribute__((visibility("default"))) int sc_main(int, char**) {
  return 0;
}
