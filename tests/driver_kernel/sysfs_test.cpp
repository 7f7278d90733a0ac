// Files below /sys: spec/driver-ioctl.md 7.
#include <set>

#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr int32_t kMe = DriverBench::kTgid;

TEST(Sysfs, FilesOfARuntimeAndALister) {
  BenchOptions options;
  options.devices = 16;
  DriverBench bench(options);
  bench.start();
  const std::string base = "/sys/class/neuron_device/neuron0/";
  const auto text = [&](const std::string& path) {
    auto value = bench.driver().sysfs_read(path);
    return value ? *value : "error " + std::to_string(value.error().code);
  };
  EXPECT_EQ(text(base + "core_count"), "2");
  EXPECT_EQ(text(base + "connected_devices"), "12, 3, 4, 1\n");
  EXPECT_EQ(text("/sys/devices/virtual/neuron_device/neuron0/core_count"), "2");
  EXPECT_EQ(text(base + "reset"), "1\n");
  EXPECT_EQ(text(base + "info/architecture/arch_type"), "NDv2\n");
  EXPECT_EQ(text(base + "neuron_core1/info/architecture/arch_type"), "NCv2\n");
  EXPECT_EQ(text(base + "info/serial_number"), "0000abcd12345678\n");
  EXPECT_EQ(text("/sys/module/neuron/version"), "2.26.5.0\n");
  EXPECT_EQ(text("/sys/class/neuron_device/node_id_4"), "-1\n");
  EXPECT_EQ(text(base + "no_such_file"), "error 2");
  // An idle device right after load (spec/driver-ioctl.md 7.3).
  EXPECT_EQ(text(base + "stats/memory_usage/host_mem/driver_memory/total"), "4796416\n");
  EXPECT_EQ(text(base + "neuron_core0/stats/memory_usage/device_mem/total"), "0\n");
  EXPECT_EQ(text(base + "neuron_core0/stats/other_info/reset_req_count/total"), "1\n");
  const int file = bench.open(kMe);
  const uint64_t handle = bench.alloc(file, 5000, false, 0, 1, uapi::kMemTensorsDevice);
  const std::string tensors = base + "neuron_core1/stats/memory_usage/device_mem/tensors/";
  EXPECT_EQ(text(tensors + "total"), "8192\n");
  uapi::mem_free request{handle};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemFree, request), 0);
  EXPECT_EQ(text(tensors + "total"), "0\n");
  EXPECT_EQ(text(tensors + "present"), "8192\n");
  EXPECT_EQ(text(tensors + "peak"), "8192\n");
  EXPECT_TRUE(bench.driver().sysfs_write(tensors + "peak", "1").ok());
  EXPECT_EQ(text(tensors + "peak"), "0\n");
  EXPECT_FALSE(bench.driver().sysfs_write(base + "core_count", "1").ok());
  std::set<std::string> paths;
  for (const driver::SysfsFile& entry : bench.driver().sysfs_files(0)) paths.insert(entry.path);
  for (const std::string& path : paths) EXPECT_EQ(path.rfind(base, 0), 0u) << path;
  EXPECT_TRUE(paths.count(base + "neuron_core0/stats/status/success/total") == 1);
  paths.clear();
  for (const driver::SysfsFile& entry : bench.driver().sysfs_files(-1)) paths.insert(entry.path);
  EXPECT_EQ(paths.count("/sys/module/neuron/version"), 1u);
  EXPECT_EQ(paths.count("/sys/class/neuron_device/node_id_4"), 1u);
  EXPECT_EQ(paths.count(base + "core_count"), 0u);
  // A reset by writing is ignored while a file is open.
  const uint64_t resets = bench.fake().resets;
  bench.task([&] { (void)bench.driver().sysfs_write(base + "reset", "1"); });
  EXPECT_EQ(bench.fake().resets, resets);
  bench.close(file, kMe);
  bench.task([&] { (void)bench.driver().sysfs_write(base + "reset", "1"); });
  EXPECT_EQ(bench.fake().resets, resets + 1);
  EXPECT_EQ(text(base + "reset"), "1\n");
}

TEST(Sysfs, DriverMemoryOfV3) {
  BenchOptions options;
  options.device_id = kTrn2;
  DriverBench bench(options);
  bench.start();
  EXPECT_EQ(*bench.driver().sysfs_read("/sys/class/neuron_device/neuron0/stats/memory_usage/"
                                       "host_mem/driver_memory/total"),
            "6393856\n");
}

}  // namespace
}  // namespace driver_test
