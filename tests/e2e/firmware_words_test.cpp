// What a driver shows of the firmware's words, and its calls that go through the mailboxes: our
// driver on the devices of hw/, per generation. spec/driver-ioctl.md 3.2, 3.17, 7.3.
#include "tests/e2e/cluster.h"

namespace {

using e2e::Cluster;
using e2e::ClusterOptions;
using e2e::Gen;
namespace misc = contract::misc;
namespace uapi = driver::uapi;

ClusterOptions one_device(Gen gen) {
  ClusterOptions options;
  options.gen = gen;
  options.nodes = 1;
  options.devices = 1;
  options.product = gen == Gen::kV2 ? "trn1.2xlarge" : "trn2.3xlarge";
  options.change = [gen](hw::MachineParams& p) {
    if (gen == Gen::kV2) p.chips[0].device_id = 0x7164;
    p.chips[0].health.sram_uncorrected = 4;
    p.chips[0].health.hbm[0] = {9, 3, 2};
    p.chips[0].health.hbm[1] = {0, 1, 1};
    p.chips[0].health.repair = firmware::mgmt::Health::kPending;
  };
  return options;
}

class FirmwareWords : public ::testing::TestWithParam<Gen> {
 protected:
  FirmwareWords() : cluster(one_device(GetParam())) {
    cluster.load_all();
    file = cluster.open(0, 0, O_RDWR);
    EXPECT_GT(file, 0);
  }
  std::string sysfs(const std::string& name) { return cluster.sysfs(0, "neuron0/" + name); }
  template <typename T>
  int ioctl(uint32_t request, T& arg) {
    return cluster.ioctl(0, file, request, arg);
  }

  Cluster cluster;
  int file = 0;
};
INSTANTIATE_TEST_SUITE_P(Generations, FirmwareWords,
                         ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4), [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

TEST_P(FirmwareWords, InSysfs) {
  EXPECT_EQ(sysfs("info/serial_number"), "0001000000001000\n");
  EXPECT_EQ(sysfs("stats/hardware/sram_ecc_uncorrected"), "4\n");
  const bool split = GetParam() != Gen::kV2;
  EXPECT_EQ(sysfs("stats/hardware/mem_ecc_uncorrected"), split ? "3\n" : "7\n");
  EXPECT_EQ(sysfs("stats/hardware/mem_ecc_repairable_uncorrected"), split ? "4\n" : "0\n");
  EXPECT_EQ(sysfs("stats/power/utilization"), "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00\n");
  const std::string counters = sysfs("neuron_core0/stats/tensor_engine/pe_cntrs");
  EXPECT_EQ(counters.rfind("xrow_grp,mm_active,wl_active,idle\n0,0,0,", 0), 0u);
  EXPECT_EQ(counters.find("0,0,0,0\n"), std::string::npos) << counters;  // idle cycles pass
}

TEST_P(FirmwareWords, CountersAndMetrics) {
  const contract::AddressMap map{GetParam()};
  const uint64_t ram = map.misc_ram().device;
  std::vector<uint64_t> addresses(8190, ram + misc::kSerialLo);
  addresses[1] = ram + misc::kFwApiVersion;
  std::vector<uint32_t> values(addresses.size());
  uapi::read_hw_counters read{reinterpret_cast<uint64_t>(addresses.data()),
                              reinterpret_cast<uint64_t>(values.data()), 8190};
  ASSERT_EQ(ioctl(uapi::kReadHwCounters, read), 0);
  EXPECT_EQ(values[0], 0x1000u);
  EXPECT_EQ(values[1], firmware::mgmt::advertised_api_version(GetParam()));
  EXPECT_EQ(values[8189], 0x1000u);
  char blob[] = "metrics!";
  uapi::post_metric metric{driver_test::address_of(blob), 8};
  EXPECT_EQ(ioctl(uapi::kPostMetric, metric), 0);
  EXPECT_EQ(cluster.word(0, 0, misc::kData), 0x7274'656Du);
}

// 2.26.5.0 wants API version 7: v3 has it.
TEST_P(FirmwareWords, PowerProfileAndThrottling) {
  const bool answered = GetParam() == Gen::kV3;
  const int refused = -driver::FirmwareIo::kNotSupported;
  uapi::power_profile power{8, 0, 6};
  EXPECT_EQ(ioctl(uapi::kPowerProfile, power), GetParam() == Gen::kV4 ? refused : 0);
  uapi::throttling_notifications throttle{1};
  EXPECT_EQ(ioctl(uapi::kThrottlingNotifications, throttle), answered ? 0 : refused);
  const auto& settings = cluster.machine.chip(0).management().firmware().settings();
  EXPECT_EQ(settings.power().profile, answered ? 6 : 0);
  EXPECT_EQ(settings.throttling_notifications(), answered);
}

}  // namespace
