// The scrub of a stack on 16 engines: spec/driver-ioctl.md 3.15, spec/hw-registers.md 3.12. With
// the QEMU revision a stack is a quarter of BAR4, so that a small one can be filled in full.
#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr uint64_t kReserved = 16 * base::kMiB;
constexpr uint64_t kBlock = 64 * base::kKiB;
constexpr uint64_t kBlocks = 67;  // 16 engines: three of them have a block more
constexpr uint64_t kStack = kReserved + kBlocks * kBlock;
constexpr uint32_t kPattern = 0x1234'5678;

class HbmScrub : public ::testing::Test {
 protected:
  static BenchOptions options() {
    BenchOptions options;
    options.device_id = kTrn2;
    options.revision = 0xFF;
    return options;
  }
  void SetUp() override {
    bench.fake().set_bar_size(4, 4 * kStack);
    bench.start();
    file = bench.open(DriverBench::kTgid);
    ASSERT_GT(file, 0);
  }
  int start(uint32_t hbm, uint32_t nc = 0) {
    uapi::hbm_scrub_start request{nc, hbm, 0, kPattern};
    return bench.ioctl(file, uapi::kHbmScrubStart, request);
  }
  int wait(uint32_t hbm) {
    uapi::hbm_scrub_wait request{0, hbm};
    return bench.ioctl(file, uapi::kHbmScrubWait, request);
  }
  DriverBench bench{options()};
  int file = 0;
};

TEST_F(HbmScrub, FillsAStackBehindTheReservedBytes) {
  const uint64_t base = bench.fake().map().hbm_base(1);
  const uint64_t before = bench.arena().allocated_bytes();
  ASSERT_EQ(start(1), 0);
  ASSERT_EQ(wait(1), 0);
  const std::vector<uint32_t> want(kBlock / 4, kPattern);
  for (uint64_t block = 0; block < kBlocks; ++block) {
    ASSERT_EQ(std::memcmp(bench.fake().hbm(base + kReserved + block * kBlock), want.data(), kBlock),
              0)
        << "block " << block;
  }
  for (const uint64_t outside : {kReserved - 4, kStack}) {
    EXPECT_EQ(base::load<uint32_t>(bench.fake().hbm(base + outside)), 0u);
  }
  EXPECT_EQ(bench.fake().copies, kBlocks + 16 * 2);  // and one block back, one marker per engine
  EXPECT_EQ(bench.fake().ring_id_errors + bench.fake().dma_faults, 0u);
  EXPECT_EQ(bench.arena().allocated_bytes(), before) << "temporary memory goes back";
  EXPECT_EQ(wait(1), -EPERM) << "a run is collected once";
}

TEST_F(HbmScrub, UsesQueue0OfTheEnginesThatReachTheHost) {
  bench.fake().log().clear();
  ASSERT_EQ(start(3), 0);
  std::vector<uint64_t> rung;
  for (const LoggedAccess& access : bench.fake().log()) {
    if ((access.address & 0xF'FFFF) == 0x1038) rung.push_back(access.address);
  }
  std::vector<uint64_t> want;
  for (const uint32_t e :
       {4u, 5u, 6u, 7u, 12u, 13u, 14u, 15u, 20u, 21u, 22u, 23u, 28u, 29u, 30u, 31u}) {
    want.push_back(bench.fake().map().udma(96 + e).bar0 + 0x1038);
  }
  EXPECT_EQ(rung, want);
  // Engine 100 of the first: data of blocks 0, 16, 32, 48 and 64, with a barrier before each.
  const uint64_t queue = bench.fake().map().udma(100).bar0 + 0x1000;
  const uint64_t ring =
      (uint64_t{bench.fake().word(queue + 0x2C)} << 32 | bench.fake().word(queue + 0x28)) -
      bench.fake().map().host_window();
  const auto word = [&](uint32_t slot, uint32_t w) {
    return base::load<uint32_t>(bench.arena().at(ring) + slot * 16 + w * 4);
  };
  for (uint32_t slot = 0; slot < 6; ++slot) EXPECT_EQ(word(slot, 0), 0x4D00'0000u);
  EXPECT_EQ(word(6, 0), 0x4D00'0004u);
  EXPECT_EQ(word(1, 1), 0x0108'0003u);
  EXPECT_EQ(word(1, 2), static_cast<uint32_t>(kReserved));
  EXPECT_EQ(word(2, 2), static_cast<uint32_t>(kReserved + 16 * kBlock));
  EXPECT_EQ(wait(3), 0);
}

TEST_F(HbmScrub, RefusesAndTimesOut) {
  EXPECT_EQ(start(4), -EPERM);
  EXPECT_EQ(wait(4), -EPERM);
  EXPECT_EQ(start(0, 8), -EINVAL);
  EXPECT_EQ(wait(0), -EPERM) << "without a start";
  bench.fake().engines_stalled = true;
  const uint64_t before = bench.arena().allocated_bytes();
  ASSERT_EQ(start(0), 0);
  EXPECT_EQ(wait(0), -EPERM);
  EXPECT_EQ(bench.arena().allocated_bytes(), before);
}

TEST_F(HbmScrub, EndsWithItsProcess) {
  bench.fake().engines_stalled = true;
  const uint64_t before = bench.arena().allocated_bytes();
  ASSERT_EQ(start(0), 0);
  ASSERT_EQ(start(0), 0) << "replaces the first";
  bench.close(file, DriverBench::kTgid);
  EXPECT_EQ(bench.arena().allocated_bytes(), before);
}

}  // namespace
}  // namespace driver_test
