// Threads that wait together: each gets what it waits for, whoever looks.
#include "runtime/exec/poll_group.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::hours kNever{1};

// Who finds at the first look what it waits for neither sleeps nor looks again.
TEST(PollGroup, ReadyAtOnce) {
  nrt::PollGroup group;
  int looks = 0;
  group.wait([&] { return ++looks > 0; }, Clock::now() + kNever);
  EXPECT_EQ(looks, 1);
  // Also when the time is up: the last look counts.
  group.wait([&] { return ++looks > 0; }, Clock::now());
  EXPECT_EQ(looks, 2);
}

TEST(PollGroup, EndsAtTheDeadline) {
  nrt::PollGroup group;
  const auto deadline = Clock::now() + std::chrono::milliseconds(2);
  group.wait([] { return false; }, deadline);
  EXPECT_GE(Clock::now(), deadline);
}

TEST(PollGroup, AFollowerEndsAtItsOwnDeadline) {
  nrt::PollGroup group;
  std::atomic<bool> end{false};
  std::thread leader([&] { group.wait([&] { return end.load(); }, Clock::now() + kNever); });
  const auto deadline = Clock::now() + std::chrono::milliseconds(2);
  group.wait([] { return false; }, deadline);
  EXPECT_GE(Clock::now(), deadline);
  end = true;
  leader.join();
}

// Whoever leads leaves first or last; somebody else goes on looking.
TEST(PollGroup, EveryOneIsWokenInAnyOrder) {
  constexpr size_t kThreads = 8;
  for (const bool forward : {true, false}) {
    nrt::PollGroup group;
    std::array<std::atomic<bool>, kThreads> ready{};
    std::array<std::atomic<bool>, kThreads> done{};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        group.wait([&, i] { return ready[i].load(); }, Clock::now() + kNever);
        done[i] = true;
      });
    }
    for (size_t n = 0; n < kThreads; ++n) {
      const size_t i = forward ? n : kThreads - 1 - n;
      EXPECT_FALSE(done[i]);
      ready[i] = true;
      while (!done[i]) std::this_thread::yield();
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
