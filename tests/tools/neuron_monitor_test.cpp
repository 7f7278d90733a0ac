// Configurations of neuron-monitor, and reports made of two samples (spec/tools.md 5).
#include <gtest/gtest.h>
#include <ndl/ndl.h>

#include "base/json.h"
#include "tools/neuron-monitor/config.h"
#include "tools/neuron-monitor/schedule.h"

namespace {

using namespace neuron_monitor;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(MonitorConfig, Periods) {
  EXPECT_EQ(parse_period("1s"), seconds(1));
  EXPECT_EQ(parse_period("500ms"), milliseconds(500));
  EXPECT_EQ(parse_period("2m"), seconds(120));
  EXPECT_EQ(parse_period("1h"), seconds(3600));
  for (const char* other : {"1.0s", "", "s", "-1s", "0s", "1", "1 s", "99999999999999999999s"}) {
    EXPECT_EQ(parse_period(other), kDefaultPeriod) << other;
  }
}

TEST(MonitorConfig, InnerPeriodsWin) {
  const auto config = parse_config(R"({"period": "1s", "neuron_runtimes": [
      {"tag_filter": "^a", "period": "2s", "metrics": [
        {"type": "memory_used"}, {"type": "execution_stats", "period": "3s"}]}],
      "system_metrics": [{"type": "vcpu_usage"}], "further": 1})");
  ASSERT_TRUE(config.ok()) << config.error().message();
  ASSERT_EQ(config->runtimes.size(), 1u);
  EXPECT_EQ(config->runtimes[0].tag_filter, "^a");
  EXPECT_EQ(config->runtimes[0].metrics[0].period, seconds(2));
  EXPECT_EQ(config->runtimes[0].metrics[1].period, seconds(3));
  EXPECT_EQ(config->system[0].period, seconds(1));
}

TEST(MonitorConfig, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "configuration"},
      {"[]", "configuration"},
      {R"({"period": 1})", "period"},
      {R"({"neuron_runtimes": {}})", "neuron_runtimes"},
      {R"({"neuron_runtimes": [1]})", "neuron_runtimes[0]"},
      {R"({"neuron_runtimes": [{"tag_filter": "("}]})", "tag_filter"},
      {R"({"neuron_runtimes": [{"metrics": [{"type": "inference_stats"}]}]})", "inference_stats"},
      {R"({"neuron_runtimes": [{"metrics": [{"type": "vcpu_usage"}]}]})", "vcpu_usage"},
      {R"({"system_metrics": [{}]})", "system_metrics[0]"},
  };
  for (const auto& [text, part] : cases) {
    const auto config = parse_config(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_NE(config.error().message().find(part), std::string::npos) << config.error().message();
  }
}

neuron_host::Devices one_device() {
  neuron_host::Devices devices;
  neuron_host::Device device;
  device.architecture = 3;
  device.cores = 8;
  devices.all.push_back(device);
  devices.has_logical = true;
  devices.logical_size = 2;
  return devices;
}

std::shared_ptr<Sample> sample_at(seconds time, uint64_t busy_us, uint64_t completed) {
  auto sample = std::make_shared<Sample>();
  sample->time = Clock::time_point(time);
  Application application;
  application.pid = 7;
  application.tag = "training";
  for (const uint32_t core : {2u, 3u}) {
    CoreCounters& counters = application.cores[core];
    counters[NDS_NC_COUNTER_TIME_IN_USE] = core == 2 ? busy_us : busy_us / 2;
    counters[NDS_NC_COUNTER_INFER_COMPLETED] = completed;
    counters[NDS_NC_COUNTER_MAC_COUNT] = completed * 1000;
  }
  sample->applications.push_back(application);
  return sample;
}

Config of_one_filter(const std::string& filter, Group group) {
  Config config;
  config.runtimes.push_back({filter, {{group, seconds(2)}}});
  return config;
}

TEST(MonitorReport, CountsOfThePeriodOnly) {
  const auto first = sample_at(seconds(10), 5'000'000, 100);
  Schedule schedule(of_one_filter(".*", Group::kExecutionStats), first);
  EXPECT_EQ(schedule.next(), Clock::time_point(seconds(12)));
  const Json early = schedule.collect(first, one_device());
  EXPECT_EQ(early["neuron_runtime_data"][0]["report"], Json::object()) << "no group is due";
  for (const int step : {1, 2}) {
    const auto now =
        sample_at(seconds(10 + 2 * step), 5'000'000, 100 + static_cast<uint64_t>(step) * 30);
    const Json report = schedule.collect(now, one_device());
    const Json& stats = report["neuron_runtime_data"][0]["report"]["execution_stats"];
    EXPECT_EQ(stats["execution_summary"]["completed"], 30) << "both cores of one execute together";
    EXPECT_EQ(stats["period"], 2.0);
    EXPECT_EQ(stats["error"], "");
    EXPECT_TRUE(stats["latency_stats"]["total_latency"].is_null());
  }
}

TEST(MonitorReport, UtilizationStaysWithinAHundred) {
  const auto first = sample_at(seconds(0), 0, 0);
  Schedule schedule(of_one_filter("^train", Group::kNeuroncoreCounters), first);
  const Json report = schedule.collect(sample_at(seconds(2), 3'000'000, 10), one_device());
  const Json& entry = report["neuron_runtime_data"][0];
  EXPECT_EQ(entry["neuron_runtime_tag"], "training");
  EXPECT_EQ(entry["pid"], 7);
  const Json& core = entry["report"]["neuroncore_counters"]["neuroncores_in_use"]["1"];
  EXPECT_EQ(core["neuroncore_utilization"], 100.0);
  EXPECT_EQ(core["v3d"]["nc_v3.3"]["neuroncore_utilization"], 75.0);
  EXPECT_EQ(core["flops"], 20'000) << "of both physical cores, per second";
  EXPECT_TRUE(core["flops"].is_number_unsigned());
}

// A machine's clock may stand while processors work: shares are of their ticks.
TEST(MonitorReport, ProcessorTimeIsAShareOfTheHosts) {
  auto first = sample_at(seconds(0), 0, 0);
  auto last = sample_at(seconds(1), 0, 0);
  first->cpus = {{"cpu", {100, 0, 100, 200, 0, 0, 0}}};
  last->cpus = {{"cpu", {300, 0, 100, 400, 0, 0, 0}}};
  first->applications[0].user_ticks = 10;
  last->applications[0].user_ticks = 110;
  last->applications[0].system_ticks = 20;
  Schedule schedule(of_one_filter(".*", Group::kRuntimeVcpuUsage), first);
  const auto usage = [](const Json& report) {
    return report["neuron_runtime_data"][0]["report"]["neuron_runtime_vcpu_usage"]["vcpu_usage"];
  };
  last->time += seconds(2);
  EXPECT_EQ(usage(schedule.collect(last, one_device())), (Json{{"user", 25.0}, {"system", 5.0}}));
  auto later = sample_at(seconds(9), 0, 0);  // ticks of the host that were read too early
  later->cpus = last->cpus;
  later->applications[0].user_ticks = 170;
  later->applications[0].system_ticks = 80;
  EXPECT_EQ(usage(schedule.collect(later, one_device())), (Json{{"user", 50.0}, {"system", 50.0}}));
}

TEST(MonitorReport, FiltersChooseByTag) {
  const auto first = sample_at(seconds(0), 0, 0);
  Schedule schedule(of_one_filter("^serving$", Group::kNeuroncoreCounters), first);
  const Json report = schedule.collect(sample_at(seconds(2), 1, 1), one_device());
  EXPECT_TRUE(report["neuron_runtime_data"].is_array());
  EXPECT_TRUE(report["neuron_runtime_data"].empty());
}

}  // namespace
