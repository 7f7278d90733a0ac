// The event queue that runs ahead of the kernel: what a process of the kernel sees is what it would
// see if every event had its own turn. Each test has its own process (one elaboration per process).
#include "hw/time/kernel_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "hw/dma/dma.h"
#include "tests/hw_dma/bench.h"

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

// Processes that wake at the very time of a beat, one of each kind.
struct Punctual : sc_core::sc_module {
  SC_HAS_PROCESS(Punctual);
  Punctual(const sc_core::sc_module_name& name, const Beat& b) : sc_module(name), beat(b) {
    SC_THREAD(thread);
    SC_METHOD(method);
    dont_initialize();
    sensitive << due;
    due.notify(sc_core::sc_time(60, sc_core::SC_NS));
  }
  void thread() {
    wait(sc_core::sc_time(40, sc_core::SC_NS));
    by_thread = beat.beats;
  }
  void method() { by_method = beat.beats; }

  const Beat& beat;
  sc_core::sc_event due;
  uint32_t by_thread = 0;
  uint32_t by_method = 0;
};

// Events of the time at which a process is due have their turn at that time, not ahead of it; a
// method that was notified before sees none of them. As without a horizon, so with one.
void expect_events_in_time(base::Ps horizon) {
  KernelQueue queue("queue");
  Beat beat(queue);
  Punctual punctual("punctual", beat);
  queue.set_horizon(horizon);
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US), sc_core::SC_EXIT_ON_STARVATION);
  ASSERT_EQ(beat.beats, 100u);
  EXPECT_EQ(punctual.by_method, 59u);
  EXPECT_LE(punctual.by_thread, 40u);
  EXPECT_EQ(beat.kernel_times[39], 40 * kEvery);
  EXPECT_EQ(beat.kernel_times[59], 60 * kEvery);
}
TEST(KernelQueue, EventsOfTheTimeOfAProcessAreNotAhead) {
  expect_events_in_time(base::us(1));
}
TEST(KernelQueue, NorAreTheyWithoutAHorizon) {
  expect_events_in_time(0);
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

// An event that wakes a process some time later, among beats that run ahead.
struct Caller : sc_core::sc_module, EventSink {
  SC_HAS_PROCESS(Caller);
  Caller(const sc_core::sc_module_name& name, KernelQueue& q, const Beat& b, base::Ps delay)
      : sc_module(name), queue(q), beat(b), later(delay) {
    SC_THREAD(serve);
    queue.schedule({10'500, 2, Phase::kStart}, *this, 0);
  }
  void on_event(const EventKey& key, uint32_t, uint64_t) override {
    queue.notify(called, key.time + later);
  }
  void serve() {
    wait(called);
    at = sc_core::sc_time_stamp().value();
    EXPECT_EQ(queue.now(), at);
    seen = beat.beats;
  }

  KernelQueue& queue;
  const Beat& beat;
  base::Ps later;
  sc_core::sc_event called;
  base::Ps at = 0;
  uint32_t seen = 0;
};

TEST(KernelQueue, DoesNotPassWhatAnEventNotifies) {
  KernelQueue queue("queue");
  Beat beat(queue);
  Caller now("now", queue, beat, 0);
  Caller later("later", queue, beat, 20'000);
  Caller with("with", queue, beat, 30'500);  // at the time of beat 41
  queue.set_horizon(base::us(1));
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US), sc_core::SC_EXIT_ON_STARVATION);
  EXPECT_EQ(now.at, 10'500u);
  EXPECT_EQ(now.seen, 10u);
  EXPECT_EQ(later.at, 30'500u);
  EXPECT_EQ(later.seen, 30u);
  EXPECT_EQ(with.at, 41'000u);
  EXPECT_EQ(with.seen, 41u) << "events of a time come before its processes";
  EXPECT_EQ(beat.beats, 100u);
}

TEST(KernelQueue, BackgroundIsNoWork) {
  KernelQueue queue("queue");
  Beat beat(queue);
  uint32_t settled = 0;
  queue.set_when_settled([&] {
    ++settled;
    sc_core::sc_pause();
  });
  struct Endless : EventSink {
    explicit Endless(KernelQueue& q) : queue(q) { next(0); }
    void on_event(const EventKey& key, uint32_t, uint64_t) override { next(key.time); }
    void next(base::Ps from) {
      queue.schedule({from + 700, 3, Phase::kStart}, *this, 0, 0, EventQueue::Kind::kBackground);
    }
    KernelQueue& queue;
  } endless(queue);
  queue.set_horizon(base::us(1));
  EXPECT_FALSE(queue.settled());
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US), sc_core::SC_EXIT_ON_STARVATION);
  EXPECT_EQ(settled, 1u);
  EXPECT_EQ(beat.beats, 100u);
  EXPECT_TRUE(queue.settled());
  EXPECT_FALSE(queue.empty());
  EXPECT_GE(queue.now(), 100 * kEvery);
}

// DMA engines between register writes and the kernel's time.
TEST(KernelQueue, CopyInKernelTime) {
  TimingParams timing;
  AccessLog log;
  Counters counters;
  KernelQueue queue("events");
  Fabric fabric({"d0", {}, 0}, timing, log);
  Dma dma(fabric, queue, timing, counters, log, {});
  ASSERT_TRUE(dma.map_windows());
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  EXPECT_FALSE(sc_core::sc_pending_activity()) << "an idle machine schedules nothing";
  const uint64_t unit = fabric.address_map().udma(0).device;
  const Descriptor tx = desc::tx_copy(0x10'0000, 1700, 1);
  const Descriptor rx = desc::rx(0x20'0000, 1700, 1);
  std::memcpy(fabric.direct(0x30'0000, 16), &tx, 16);
  std::memcpy(fabric.direct(0x31'0000, 16), &rx, 16);
  std::memset(fabric.direct(0x10'0000, 1700), 0x77, 1700);
  for (const Half h : {kS2m, kM2s}) {
    const auto put = [&](uint32_t r, uint32_t value) {
      EXPECT_TRUE(fabric.write32(unit + (h == kM2s ? 0x1000u : 0x2'1000u) + r, value));
    };
    put(udma::kM2sQRingBaseLo, h == kM2s ? 0x30'0000 : 0x31'0000);
    put(udma::kM2sQRingLength, 64);
    put(udma::kM2sQCfg, 0x0303'0000);
    put(udma::kM2sQTailInc, 1);
  }
  // 770 ns to fetch, 1700 B at 17 B/ns, 1 ns for the buffer; sc_start stops short of its end time.
  sc_core::sc_start(sc_core::sc_time(871, sc_core::SC_NS));
  EXPECT_EQ(*fabric.direct(0x20'0000, 1), 0);
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_PS));
  EXPECT_EQ(std::memcmp(fabric.direct(0x10'0000, 1700), fabric.direct(0x20'0000, 1700), 1700), 0);
  EXPECT_FALSE(sc_core::sc_pending_activity());
  EXPECT_EQ(queue.now(), 871'001u);
}

}  // namespace
}  // namespace hw

__attribute__((visibility("default"))) int sc_main(int, char**) {
  return 0;
}

// SystemC protects a page of the stack of each of its threads; the leak checker faults when it
// reads there.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0";
}
