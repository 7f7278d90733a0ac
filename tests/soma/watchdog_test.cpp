#include "tools/soma/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>

namespace soma {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, SpeaksUpOnceWhenTheTimeIsOver) {
  std::atomic<int> calls{0};
  Watchdog watchdog([&] { ++calls; });
  watchdog.arm(milliseconds(1));
  watchdog.arm(milliseconds(0));
  for (int i = 0; i < 1000 && calls == 0; ++i) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(calls, 1);
}

TEST(Watchdog, IsSilentAboutWhatEndsInTimeOrIsNotWatched) {
  std::atomic<int> calls{0};
  {
    const Watchdog idle([&] { ++calls; });
  }
  {
    Watchdog watchdog([&] { ++calls; });
    watchdog.arm(milliseconds(60000));
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace soma
