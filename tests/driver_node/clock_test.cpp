#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "driver/node/status_page.h"
#include "tests/driver_node/bench.h"

namespace {

uint64_t host_now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

TEST(VirtualClock, IdleMachineLeavesTheHostsClock) {
  EXPECT_EQ(driver::clock_offset({}, 123456), 0);
}

TEST(VirtualClock, BusyIntervalsCountWithTheirSimulatedLength) {
  // 100 ns of wall time were 7 simulated ns: the virtual clock is 93 ns behind.
  EXPECT_EQ(driver::clock_offset({100, 7, 0}, 5000), 93);
  // A simulation faster than the hardware puts it ahead.
  EXPECT_EQ(driver::clock_offset({7, 100, 0}, 5000), -93);
}

TEST(VirtualClock, StandsStillWhileTheMachineIsBusy) {
  const driver::ClockState busy = {100, 7, 5000};
  const auto virtual_at = [&](uint64_t host) {
    return static_cast<int64_t>(host) - driver::clock_offset(busy, host);
  };
  EXPECT_EQ(virtual_at(5000), 4907);
  EXPECT_EQ(virtual_at(5001), 4907);
  EXPECT_EQ(virtual_at(999999), 4907);
  // A reading taken just before the interval began.
  EXPECT_EQ(virtual_at(4990), 4897);
}

TEST(StatusPage, PublishesIntervals) {
  auto page = driver::StatusPage::create();
  ASSERT_TRUE(page.ok());
  const uint32_t first = page->generation();
  EXPECT_FALSE(page->busy());
  page->machine_busy();
  EXPECT_TRUE(page->busy());
  const uint64_t since = page->clock().busy_since_ns;
  page->machine_busy();  // nested: the interval keeps its start
  EXPECT_EQ(page->clock().busy_since_ns, since);
  EXPECT_EQ(page->generation(), first);

  page->machine_progress(1500);  // ps
  EXPECT_TRUE(page->busy());
  EXPECT_EQ(page->clock().simulated_ns, 1u);
  EXPECT_NE(page->generation(), first);
  usleep(2000);
  page->machine_idle(500);  // the halves of a nanosecond are not lost
  EXPECT_FALSE(page->busy());
  EXPECT_EQ(page->clock().simulated_ns, 2u);
  EXPECT_GE(page->clock().busy_wall_ns, 2'000'000u);
  EXPECT_LT(page->clock().busy_wall_ns, 1'000'000'000u);
}

TEST(StatusPage, WakesPollersOnlyForNews) {
  auto page = driver::StatusPage::create();
  ASSERT_TRUE(page.ok());
  const uint32_t first = page->generation();
  page->machine_busy();
  page->machine_idle(0);
  EXPECT_EQ(page->generation(), first);
  // What waits for the next request is not forgotten.
  page->machine_busy();
  page->machine_idle(base::us(1), true);
  page->machine_busy();
  page->machine_idle(base::us(1), true);
  page->machine_busy();
  page->machine_idle(0);
  const uint32_t second = page->generation();
  EXPECT_NE(second, first);
  page->machine_busy();
  page->machine_idle(0);
  EXPECT_EQ(page->generation(), second);
}

TEST(StatusPage, ShowsTheTimeOfARequestWithItsAnswer) {
  bench::BatonExecutor executor;
  auto page = driver::StatusPage::create(&executor);
  ASSERT_TRUE(page.ok());
  executor.delay(base::us(3));  // before the machine ran
  page->show_progress();        // idle: nothing to show
  EXPECT_EQ(page->clock().simulated_ns, 0u);
  page->machine_busy();
  executor.delay(base::us(5));
  page->show_progress();
  EXPECT_EQ(page->clock().simulated_ns, 5'000u);
  EXPECT_TRUE(page->busy());
  executor.delay(base::us(2));
  page->machine_progress(base::us(7));
  EXPECT_EQ(page->clock().simulated_ns, 7'000u);
  executor.delay(base::us(1));
  page->show_progress();
  page->machine_idle(base::us(1));
  EXPECT_EQ(page->clock().simulated_ns, 8'000u);
  EXPECT_FALSE(page->busy());
}

TEST(StatusPage, ClientsCannotWriteIt) {
  auto page = driver::StatusPage::create();
  ASSERT_TRUE(page.ok());
  EXPECT_FALSE(base::Mapping::map_shared(page->read_only_fd(), 0, 4096, true).ok());
  EXPECT_TRUE(base::Mapping::map_shared(page->read_only_fd(), 0, 4096, false).ok());
}

TEST(StatusPage, ReadersNeverSeeTheClockJumpBackMoreThanTheirOwnReading) {
  auto page = driver::StatusPage::create();
  ASSERT_TRUE(page.ok());
  auto mapping = base::Mapping::map_shared(page->read_only_fd(), 0, 4096, false);
  ASSERT_TRUE(mapping.ok());
  const auto* layout = reinterpret_cast<const driver::StatusLayout*>(mapping->data());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      page->machine_busy();
      page->machine_idle(3000);
    }
  });
  int64_t last = 0;
  for (int i = 0; i < 20000; ++i) {
    // The page is read first: its offset cannot be newer than the host's reading.
    const driver::ClockState state = driver::read_clock(*layout);
    const uint64_t host = host_now();
    const int64_t now = static_cast<int64_t>(host) - driver::clock_offset(state, host);
    // A reading may miss an interval that begins right after it: bounded by a scheduling delay,
    // never by the length of the run.
    EXPECT_GT(now, last - 200'000'000);
    last = now;
  }
  stop = true;
  writer.join();
}

}  // namespace
