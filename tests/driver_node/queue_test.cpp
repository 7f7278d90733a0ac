#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "driver/node/client_launch.h"
#include "driver/node/request_queue.h"
#include "tests/driver_node/bench.h"

namespace {

using std::chrono::milliseconds;

bool readable(int fd) {
  pollfd watched = {fd, POLLIN, 0};
  return poll(&watched, 1, 0) == 1;
}

TEST(RequestQueue, AdmitsOneAtATimeInOrder) {
  bench::BatonExecutor executor;
  driver::RequestQueue queue(executor);
  std::string order;
  EXPECT_FALSE(queue.wait_for_request(milliseconds(1)));
  EXPECT_FALSE(queue.admit_one());
  for (const char name : {'a', 'b', 'c', 'd'}) queue.push("t", [&order, name] { order += name; });
  EXPECT_TRUE(readable(queue.event_fd()));
  EXPECT_TRUE(queue.wait_for_request(milliseconds(0)));
  EXPECT_TRUE(queue.admit_one());
  EXPECT_EQ(order, "a");
  EXPECT_EQ(queue.pending(), 3u);
  EXPECT_EQ(queue.admit_all(), 3u);
  EXPECT_EQ(order, "abcd");
  EXPECT_FALSE(readable(queue.event_fd()));
}

TEST(RequestQueue, AdmitAllLeavesWhatArrivesMeanwhile) {
  bench::BatonExecutor executor;
  driver::RequestQueue queue(executor);
  queue.push("first", [&] { queue.push("second", [] {}); });
  EXPECT_EQ(queue.admit_all(), 1u);
  EXPECT_EQ(queue.pending(), 1u);
}

TEST(RequestQueue, ProducersOnManyThreads) {
  bench::BatonExecutor executor;
  driver::RequestQueue queue(executor);
  std::atomic<int> done{0};
  std::vector<std::thread> producers;
  for (int i = 0; i < 4; ++i) {
    producers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) queue.push("t", [&] { ++done; });
    });
  }
  while (done < 200) {
    if (queue.wait_for_request(milliseconds(100))) queue.admit_one();
  }
  for (auto& producer : producers) producer.join();
  EXPECT_EQ(queue.pending(), 0u);
}

TEST(RequestQueue, InterruptWakesWithoutARequest) {
  bench::BatonExecutor executor;
  driver::RequestQueue queue(executor);
  std::thread waker([&] { queue.interrupt(); });
  EXPECT_FALSE(queue.wait_for_request(milliseconds(60'000)));
  waker.join();
}

TEST(ClientLaunch, ExtendsAndOverrides) {
  driver::ClientLaunch launch;
  launch.socket_path = "/run/x/socket";
  launch.shim_path = "/lib/shim.so";
  launch.library_dirs = {"/a", "/b"};
  launch.clock = driver::ClientClock::kHost;
  launch.node = 2;
  launch.sdk = "/run/x/sdk";
  const auto environment = driver::client_environment(
      launch, {"PATH=/bin", "LD_PRELOAD=other.so", "SOMA_SOCKET=stale", "SOMA_SOCKETS=kept"});
  const std::vector<std::string> expected = {"PATH=/bin",
                                             "LD_PRELOAD=/lib/shim.so:other.so",
                                             "SOMA_SOCKET=/run/x/socket",
                                             "SOMA_SOCKETS=kept",
                                             "LD_LIBRARY_PATH=/a:/b",
                                             "SOMA_CLOCK=host",
                                             "SOMA_NODE=2",
                                             "SOMA_SDK=/run/x/sdk"};
  EXPECT_EQ(environment, expected);
}

}  // namespace
