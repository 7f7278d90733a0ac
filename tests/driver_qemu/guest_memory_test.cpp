#include "driver/qemu/guest_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <numeric>
#include <string>

#include "tests/driver_qemu/guest_peer.h"

namespace {

using driver::qemu::GuestMemory;
using driver_test::open_fds;

constexpr uint64_t kPage = 4096;

// As QEMU makes them, or without a seal.
base::UniqueFd memory_file(uint64_t size, bool sealed = true) {
  base::UniqueFd fd(::memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, sealed ? F_SEAL_SHRINK : 0), 0);
  return fd;
}
base::UniqueFd copy_of(const base::UniqueFd& fd) {
  return base::UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}
GuestMemory::Region region(uint64_t base, uint64_t size, base::UniqueFd fd, uint64_t offset = 0) {
  GuestMemory::Region r;
  r.base = base;
  r.size = size;
  r.fd = std::move(fd);
  r.fd_offset = offset;
  return r;
}
std::vector<uint8_t> pattern(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  return bytes;
}

TEST(GuestMemory, SealedFilesAreMapped) {
  const base::UniqueFd file = memory_file(4 * kPage);
  GuestMemory memory;
  ASSERT_TRUE(memory.add(region(0x10'0000, 2 * kPage, copy_of(file), kPage)).ok());
  EXPECT_TRUE(memory.mapped(0x10'0000));
  const auto bytes = pattern(5);
  ASSERT_TRUE(memory.write(0x10'0000 + 2 * kPage - 5, bytes));
  std::vector<uint8_t> seen(5);
  ASSERT_EQ(::pread(file.get(), seen.data(), 5, 3 * kPage - 5), 5);
  EXPECT_EQ(seen, bytes);
  uint8_t* at = memory.direct(0x10'0000 + 2 * kPage - 5, 5);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(at[4], 5);
  EXPECT_EQ(memory.direct(0x10'0000 + 2 * kPage - 5, 6), nullptr);
  EXPECT_EQ(memory.direct(0x10'0000, 0), nullptr);
  EXPECT_EQ(memory.direct(0xF'FFFF, 1), nullptr);
  EXPECT_EQ(memory.direct(0x10'0000, ~0ull), nullptr);
}

TEST(GuestMemory, FileOffsetsNeedNoPage) {
  GuestMemory memory;
  const base::UniqueFd file = memory_file(4 * kPage);
  ASSERT_TRUE(memory.add(region(7, 100, copy_of(file), kPage + 9)).ok());
  ASSERT_TRUE(memory.write(7, pattern(100)));
  uint8_t last = 0;
  ASSERT_EQ(::pread(file.get(), &last, 1, kPage + 9 + 99), 1);
  EXPECT_EQ(last, 100);
}

// The guest may make its file shorter at any time; only a seal keeps it from doing so.
TEST(GuestMemory, FilesThatCanShrinkAreNeverMapped) {
  const base::UniqueFd file = memory_file(4 * kPage, false);
  GuestMemory memory;
  ASSERT_TRUE(memory.add(region(0, 4 * kPage, copy_of(file))).ok());
  EXPECT_FALSE(memory.mapped(0));
  EXPECT_EQ(memory.direct(0, 1), nullptr);
  const auto bytes = pattern(300);
  ASSERT_TRUE(memory.write(3 * kPage, bytes));
  std::vector<uint8_t> back(300);
  ASSERT_TRUE(memory.read(3 * kPage, back));
  EXPECT_EQ(back, bytes);
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  EXPECT_FALSE(memory.read(3 * kPage, back));
  EXPECT_TRUE(memory.read(0, back));
}

TEST(GuestMemory, ReadOnlyDescriptorsCanBeRead) {
  const base::UniqueFd file = memory_file(kPage);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  GuestMemory memory;
  ASSERT_TRUE(
      memory.add(region(0, kPage, base::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))))
          .ok());
  uint8_t byte = 1;
  EXPECT_EQ(memory.direct(0, 1), nullptr);
  EXPECT_TRUE(memory.read(0, {&byte, 1}));
  EXPECT_FALSE(memory.write(0, {&byte, 1}));
  GuestMemory::Region readable = region(kPage, kPage, copy_of(file));
  readable.writable = false;
  ASSERT_TRUE(memory.add(std::move(readable)).ok());
  EXPECT_EQ(memory.direct(kPage, 1), nullptr);
  EXPECT_TRUE(memory.read(kPage, {&byte, 1}));
  EXPECT_FALSE(memory.write(kPage, {&byte, 1}));
}

TEST(GuestMemory, NeighboursFormOneRun) {
  const base::UniqueFd a = memory_file(kPage);
  const base::UniqueFd b = memory_file(kPage, false);
  GuestMemory memory;
  ASSERT_TRUE(memory.add(region(2 * kPage, kPage, copy_of(b))).ok());
  ASSERT_TRUE(memory.add(region(kPage, kPage, copy_of(a))).ok());
  const auto bytes = pattern(64);
  ASSERT_TRUE(memory.write(2 * kPage - 32, bytes));
  std::vector<uint8_t> back(64);
  ASSERT_TRUE(memory.read(2 * kPage - 32, back));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(memory.direct(2 * kPage - 32, 64), nullptr);
  // Half outside: nothing is transferred.
  EXPECT_FALSE(memory.write(3 * kPage - 32, bytes));
  ASSERT_TRUE(memory.read(3 * kPage - 32, {back.data(), 32}));
  EXPECT_EQ(back[0], 0);
  EXPECT_FALSE(memory.read(kPage - 1, back));
  EXPECT_TRUE(memory.read(0, {back.data(), 0}));
}

TEST(GuestMemory, RefusesBadRegions) {
  GuestMemory memory;
  const base::UniqueFd file = memory_file(4 * kPage);
  const auto add = [&](uint64_t base, uint64_t size, uint64_t offset) {
    return memory.add(region(base, size, copy_of(file), offset)).ok();
  };
  EXPECT_FALSE(add(0, 0, 0));
  EXPECT_FALSE(add(0, 5 * kPage, 0));
  EXPECT_FALSE(add(0, kPage, 4 * kPage));
  EXPECT_FALSE(add(0, 1, ~0ull));
  EXPECT_FALSE(add(0, ~0ull, 0));
  EXPECT_FALSE(add(~0ull - kPage + 1, 2 * kPage, 0));  // wraps
  EXPECT_FALSE(add(0, kPage, 1ull << 63));
  EXPECT_TRUE(add(~0ull - kPage, kPage, 0));  // up to the last address but one
  EXPECT_TRUE(add(8 * kPage, 2 * kPage, 0));
  EXPECT_FALSE(add(9 * kPage, 2 * kPage, 0));
  EXPECT_FALSE(add(7 * kPage, 2 * kPage, 0));
  EXPECT_FALSE(add(7 * kPage, 4 * kPage, 0));
  EXPECT_FALSE(add(8 * kPage, 2 * kPage, 0));
  EXPECT_TRUE(add(10 * kPage, kPage, 0));
  EXPECT_TRUE(add(7 * kPage, kPage, 0));
  EXPECT_EQ(memory.regions(), 4u);
}

TEST(GuestMemory, RefusesWhatIsNoMemoryFile) {
  GuestMemory memory;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const base::UniqueFd to(pipe[1]);
  EXPECT_FALSE(memory.add(region(0, kPage, base::UniqueFd(pipe[0]))).ok());
  EXPECT_FALSE(
      memory.add(region(0, kPage, base::UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)))).ok());
  EXPECT_FALSE(
      memory.add(region(0, kPage, base::UniqueFd(::open("/tmp", O_RDONLY | O_CLOEXEC)))).ok());
  EXPECT_FALSE(memory.add(region(0, kPage, base::UniqueFd())).ok());
  EXPECT_EQ(memory.regions(), 0u);
}

TEST(GuestMemory, ReplaceIsAllOrNothing) {
  const size_t before = open_fds();
  {
    GuestMemory memory;
    std::vector<GuestMemory::Region> first;
    first.push_back(region(0, kPage, memory_file(kPage)));
    first.push_back(region(kPage, kPage, memory_file(kPage)));
    ASSERT_TRUE(memory.replace(std::move(first)).ok());
    EXPECT_EQ(open_fds(), before + 2);
    std::vector<GuestMemory::Region> bad;
    bad.push_back(region(0, kPage, memory_file(kPage)));
    bad.push_back(region(0, kPage, memory_file(kPage)));
    EXPECT_FALSE(memory.replace(std::move(bad)).ok());
    EXPECT_EQ(memory.regions(), 2u);
    EXPECT_EQ(open_fds(), before + 2);
    std::vector<GuestMemory::Region> second;
    second.push_back(region(4 * kPage, kPage, memory_file(kPage)));
    ASSERT_TRUE(memory.replace(std::move(second)).ok());
    EXPECT_EQ(memory.direct(0, 1), nullptr);
    EXPECT_NE(memory.direct(4 * kPage, 1), nullptr);
    EXPECT_FALSE(memory.remove(4 * kPage, 1));
    EXPECT_TRUE(memory.remove(4 * kPage, kPage));
    EXPECT_EQ(memory.direct(4 * kPage, 1), nullptr);
    EXPECT_EQ(open_fds(), before);
  }
  EXPECT_EQ(open_fds(), before);
}

TEST(GuestMemory, HasALimit) {
  GuestMemory memory;
  const base::UniqueFd file = memory_file(kPage, false);
  // Descriptors run out first where the limit of open files is low; that too is only an error.
  for (size_t k = 0; k < 64; ++k) {
    ASSERT_TRUE(memory.add(region(k * kPage, kPage, copy_of(file))).ok());
  }
  memory.clear();
  EXPECT_EQ(memory.regions(), 0u);
}

}  // namespace
