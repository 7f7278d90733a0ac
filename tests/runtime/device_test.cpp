// An opened device over the fake driver library.
#include "runtime/exec/device.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "driver/ndl/ndl.h"
#include "driver/ndl/nrt/nds/neuron_ds.h"
#include "runtime/nrt/version.h"
#include "tests/runtime/fake_ndl.h"

namespace {

// More than one request holds, in both directions (spec/driver-ioctl.md 3.2.1).
TEST(Device, ManyRegistersInSeveralRequests) {
  fake::reset();
  auto device = nrt::Device::open(0);
  ASSERT_TRUE(device.ok());
  std::vector<nrt::RegisterWrite> writes;
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < 1100; ++i) {
    offsets.push_back(uint64_t{4} * i);
    values.push_back(i + 1);
    writes.push_back({offsets.back(), values.back()});
  }
  ASSERT_TRUE((*device)->write_registers(writes));
  ASSERT_EQ(fake::writes().size(), writes.size());
  for (uint32_t i = 0; i < writes.size(); ++i) {
    EXPECT_EQ(fake::writes()[i], std::make_pair(offsets[i], values[i]));
  }
  EXPECT_EQ(*(*device)->read_registers(offsets), values);
}

// What tools show of a process (spec/ndl-api.md 6.3, 6.6; spec/tools.md 5.2).
TEST(Device, TellsToolsWhoUsesIt) {
  fake::reset();
  unsetenv("NEURON_PROCESS_TAG");
  auto device = nrt::Device::open(0);
  ASSERT_TRUE(device.ok());
  const uint64_t version = nrt::kVersion[0] << 40 | nrt::kVersion[1] << 32 | nrt::kVersion[2];
  EXPECT_EQ(fake::device_counter(NDS_ND_COUNTER_RUNTIME_VERSION), version);
  EXPECT_EQ(fake::label(OBJECT_TYPE_PROCESS_INFO), std::to_string(getpid()));
  EXPECT_EQ(fake::label(OBJECT_TYPE_PROCESS_INFO_EXT), std::to_string(getpid()));
  (*device)->close();
  EXPECT_EQ(fake::label(OBJECT_TYPE_PROCESS_INFO), "");
  EXPECT_EQ(fake::label(OBJECT_TYPE_PROCESS_INFO_EXT), "");
}

TEST(Device, ALabelIsCutWhereItDoesNotFit) {
  fake::reset();
  setenv("NEURON_PROCESS_TAG", std::string(300, 't').c_str(), 1);
  auto device = nrt::Device::open(0);
  unsetenv("NEURON_PROCESS_TAG");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(fake::label(OBJECT_TYPE_PROCESS_INFO), std::string(31, 't'));
  EXPECT_EQ(fake::label(OBJECT_TYPE_PROCESS_INFO_EXT), std::string(255, 't'));
}

}  // namespace
