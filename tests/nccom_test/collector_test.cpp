// Durations of instances over TCP: order of ranks, failures, instances that end, strangers.
#include "tools/nccom-test/collector.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace nccom {
namespace {

Options job(bool ipv6 = false) {
  Options o;
  o.nodes = 2;
  o.ranks = 4;
  o.collector_host = ipv6 ? "::1" : "127.0.0.1";
  o.collector_ipv6 = ipv6;
  return o;
}

Measurement of(std::vector<uint64_t> durations) {
  Measurement m;
  m.durations_ps = std::move(durations);
  m.algorithm = "ring";
  return m;
}

using Steps = std::vector<base::Result<std::vector<Measurement>>>;

void report(const std::string& address, uint32_t rank_start, const Steps& steps) {
  auto reporter = Reporter::connect(address, rank_start);
  ASSERT_TRUE(reporter) << reporter.error().message();
  for (const auto& step : steps) EXPECT_TRUE(reporter->send(step));
}

TEST(Collector, JoinsInstancesInTheOrderOfRanks) {
  for (const bool ipv6 : {false, true}) {
    const auto collector = Collector::open(job(ipv6), 1);
    ASSERT_TRUE(collector) << collector.error().message();
    const std::string address = (*collector)->address();
    std::thread second([&] { report(address, 2, {std::vector<Measurement>{of({30, 40})}}); });
    std::thread first([&] { report(address, 0, {std::vector<Measurement>{of({10, 20})}}); });
    EXPECT_TRUE((*collector)->meet(0));
    const auto measured = (*collector)->measure({64});
    first.join();
    second.join();
    ASSERT_TRUE(measured) << measured.error().message();
    ASSERT_EQ(measured->size(), 1u);
    EXPECT_EQ((*measured)[0].size, 64u);
    EXPECT_EQ((*measured)[0].durations_ps, (std::vector<uint64_t>{10, 20, 30, 40}));
    EXPECT_EQ((*measured)[0].algorithm, "ring");
    EXPECT_FALSE((*collector)->measure({64}));  // they have ended
  }
}

TEST(Collector, AFailedSizeDoesNotStopTheNext) {
  const auto collector = Collector::open(job(), 1);
  ASSERT_TRUE(collector);
  const std::string address = (*collector)->address();
  const base::Error failure{base::Fault::kProgram, 1, "", "check failed on rank 3"};
  std::thread first([&] {
    report(address, 0, {std::vector<Measurement>{of({1})}, std::vector<Measurement>{of({2})}});
  });
  std::thread second([&] { report(address, 2, {failure, std::vector<Measurement>{of({3})}}); });
  EXPECT_TRUE((*collector)->meet(0));
  const auto failed = (*collector)->measure({64});
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("check failed on rank 3"), std::string::npos);
  const auto good = (*collector)->measure({128});
  first.join();
  second.join();
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_EQ((*good)[0].durations_ps, (std::vector<uint64_t>{2, 3}));
}

TEST(Collector, EndsWhenTheLauncherHasEnded) {
  const pid_t launcher = ::fork();
  if (launcher == 0) ::_exit(0);
  const auto collector = Collector::open(job(), 1);
  ASSERT_TRUE(collector);
  const base::Status met = (*collector)->meet(launcher);
  ASSERT_FALSE(met);
  EXPECT_NE(met.error().message().find("0 of 2 instances"), std::string::npos);
  ::waitpid(launcher, nullptr, 0);
}

TEST(Collector, StrangersAreNoInstances) {
  Options one = job();
  one.nodes = 1;
  const auto collector = Collector::open(one, 1);
  ASSERT_TRUE(collector);
  const std::string address = (*collector)->address();
  std::thread both([&] {
    report(address.substr(0, address.rfind(' ')) + " 0123", 7, {});
    report(address, 2, {std::vector<Measurement>{of({5})}});
  });
  EXPECT_TRUE((*collector)->meet(0));
  both.join();
  const auto measured = (*collector)->measure({64});
  ASSERT_TRUE(measured) << measured.error().message();
  EXPECT_EQ((*measured)[0].durations_ps, (std::vector<uint64_t>{5}));
}

TEST(Collector, APortThatWasAskedForMustBeFree) {
  const auto first = Collector::open(job(), 1);
  ASSERT_TRUE(first);
  Options same = job();
  same.collector_port = (*first)->port();
  EXPECT_FALSE(Collector::open(same, 1));
  EXPECT_TRUE(Collector::open(job(), 1));  // another one
}

}  // namespace
}  // namespace nccom
