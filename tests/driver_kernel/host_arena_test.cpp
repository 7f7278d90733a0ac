// Host physical memory and the first-fit pool under it.
#include "driver/kernel/host_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "driver/kernel/firmware_io.h"
#include "driver/kernel/first_fit_pool.h"
#include "driver/uapi/layout.h"
#include "driver/uapi/requests.h"

namespace driver {
namespace {

TEST(FirstFitPool, LowestFitWinsAndNeighboursMerge) {
  FirstFitPool pool(0x1000, 0x1000);
  EXPECT_EQ(*pool.allocate(0x100, 1), 0x1000u);
  EXPECT_EQ(*pool.allocate(0x100, 0x400), 0x1400u);
  EXPECT_EQ(*pool.allocate(0x300, 1), 0x1100u);
  EXPECT_FALSE(pool.allocate(0xB01, 1));
  EXPECT_EQ(*pool.allocate(0xB00, 1), 0x1500u);
  EXPECT_EQ(pool.free_bytes(), 0u);
  pool.free(0x1100, 0x300);
  pool.free(0x1500, 0xB00);
  pool.free(0x1400, 0x100);
  EXPECT_FALSE(pool.allocate_at(0x1080, 0x100));
  EXPECT_TRUE(pool.allocate_at(0x1200, 0xE00));
  EXPECT_FALSE(pool.allocate(0, 1));
}

TEST(HostArena, OnlyLiveAllocationsAreHostMemory) {
  auto arena = std::move(*HostArena::create(64 * base::kMiB));
  const uint64_t a = *arena->allocate(5000);
  const uint64_t b = *arena->allocate(base::kMiB);
  EXPECT_EQ(a, HostArena::kPhysBase);
  EXPECT_EQ(b, a + 8192);
  EXPECT_NE(arena->direct(a, 8192 + base::kMiB), nullptr) << "neighbours are one run";
  EXPECT_EQ(arena->direct(a, 8193 + base::kMiB), nullptr);
  EXPECT_EQ(arena->direct(0, 1), nullptr);
  uint8_t byte = 9;
  EXPECT_TRUE(arena->write(b + base::kMiB - 1, {&byte, 1}));
  EXPECT_FALSE(arena->write(b + base::kMiB, {&byte, 1}));
  arena->free(a);
  EXPECT_FALSE(arena->read(a, {&byte, 1}));
  EXPECT_TRUE(arena->read(b + base::kMiB - 1, {&byte, 1}));
  EXPECT_EQ(byte, 9);
  arena->free(b);
  arena->free(b);
  EXPECT_EQ(arena->allocated_bytes(), 0u);
  EXPECT_FALSE(arena->allocate(65 * base::kMiB));
}

TEST(HostArena, MemoryComesZeroed) {
  auto arena = std::move(*HostArena::create(64 * base::kMiB));
  for (const uint64_t size : {uint64_t{4096}, base::kMiB}) {
    const uint64_t a = *arena->allocate(size);
    std::memset(arena->at(a), 0xFF, size);
    arena->free(a);
    const uint64_t b = *arena->allocate(size);
    ASSERT_EQ(a, b);
    for (uint64_t i = 0; i < size; i += 511) ASSERT_EQ(arena->at(b)[i], 0);
    arena->free(b);
  }
}

// Rings that a reset allocates anew were mostly never used.
TEST(HostArena, ClearingTouchesOnlyWhatWasWritten) {
  auto arena = std::move(*HostArena::create(base::kMiB));
  constexpr size_t kPages = 32;
  const uint64_t a = *arena->allocate(kPages * 4096);
  *arena->at(a + 3 * 4096 + 7) = 1;
  *arena->at(a + 31 * 4096) = 2;
  arena->free(a);
  const uint64_t b = *arena->allocate(kPages * 4096);
  ASSERT_EQ(a, b);
  unsigned char resident[kPages];
  ASSERT_EQ(::mincore(arena->at(b), sizeof resident * 4096, resident), 0);
  for (size_t i = 0; i < kPages; ++i) EXPECT_EQ(resident[i] & 1, i == 3 || i == 31) << i;
  EXPECT_EQ(*arena->at(b + 3 * 4096 + 7), 0);
  EXPECT_EQ(*arena->at(b + 31 * 4096), 0);
}

// spec/hw-registers.md 7.5.
TEST(FirmwareIo, Crc32c) {
  const uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32c({digits, sizeof digits}), 0xE3069283u);
  const uint8_t message[] = {2, 1, 16, 0, 0, 0, 0, 0, 0x24, 0x40, 0xC8, 0x06, 0x80, 0, 0, 0};
  EXPECT_EQ(crc32c({message, sizeof message}), 0x70454FC8u);
}

// spec/driver-ioctl.md 2.1; sizes and offsets are asserted where layout.h is compiled.
TEST(Uapi, RequestValues) {
  EXPECT_EQ(uapi::kDeviceReset, 0x00004e01u);
  EXPECT_EQ(uapi::kMemCopy64, 0x80284e17u);
  EXPECT_EQ(uapi::kMemBufCopy64, 0xc0284e18u);
  EXPECT_EQ(uapi::kMemAllocV2Mt64, 0x80384e66u);
  EXPECT_EQ(uapi::kDmaQueueInitBatch, 0xb0084e85u);
  EXPECT_EQ(uapi::kCrwlNcRangeMarkExt0, 0xc0504e55u);
  EXPECT_EQ(uapi::kPodStatusV2, 0xc1144e7au);
  EXPECT_EQ(uapi::kDriverInfoSet, 0x40184e6eu);
  EXPECT_EQ(uapi::kMemBufZerocopy64, 0xc0304e7cu);
  EXPECT_EQ(uapi::kDeviceResetStatus, 0x80014e6au);
}

}  // namespace
}  // namespace driver
