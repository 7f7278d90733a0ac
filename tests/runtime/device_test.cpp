// An opened device over the fake driver library.
#include "runtime/exec/device.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

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

}  // namespace
