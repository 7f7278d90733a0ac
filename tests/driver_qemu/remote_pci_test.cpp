#include "driver/qemu/remote_pci.h"

#include <sys/mman.h>

#include <thread>

#include "tests/driver_qemu/guest_peer.h"

namespace {

using namespace driver_test;
using driver::qemu::GuestMemory;
using driver::qemu::RemotePci;
using remote::Command;

// Remembers what it was asked.
class StubDevice final : public pcie::Device {
 public:
  struct Access {
    int bar;
    uint64_t offset;
    uint64_t value;
    size_t size;
  };
  StubDevice() {
    identity_.bar_size[0] = 0x1000;
    identity_.bar_size[4] = 0x2000;
  }
  const pcie::Identity& identity() const override { return identity_; }
  uint32_t config_read(uint32_t offset, unsigned size) override {
    uint32_t value = 0;
    for (unsigned i = 0; i < size && offset + uint64_t{i} < sizeof config; ++i) {
      value |= static_cast<uint32_t>(config[offset + i]) << (8 * i);
    }
    return value;
  }
  void config_write(uint32_t offset, unsigned size, uint32_t value) override {
    for (unsigned i = 0; i < size && offset + uint64_t{i} < sizeof config; ++i) {
      config[offset + i] = static_cast<uint8_t>(value >> (8 * i));
    }
  }
  void bar_read(int bar, uint64_t offset, base::ByteSpan to) override {
    reads.push_back({bar, offset, 0, to.size()});
    std::memset(to.data(), 0xA5, to.size());
  }
  void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) override {
    uint64_t value = 0;
    std::memcpy(&value, from.data(), from.size());
    writes.push_back({bar, offset, value, from.size()});
  }
  void reset() override { ++resets; }
  base::Result<pcie::BarMapping> bar_map(int, uint64_t, uint64_t) override {
    return base::Error{base::Fault::kUnsupported, 0, "", ""};
  }
  void place(int bar, uint32_t base, uint32_t flags = 0) {
    config_write(0x10 + 4 * static_cast<uint32_t>(bar), 4, base | flags);
  }
  pcie::Identity identity_;
  uint8_t config[256] = {};
  std::vector<Access> reads, writes;
  int resets = 0;
};

base::UniqueFd sealed_file(uint64_t size) {
  base::UniqueFd fd(::memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return fd;
}

class RemotePciTest : public ::testing::Test {
 protected:
  RemotePciTest() : RemotePciTest(socket_pair()) {}
  explicit RemotePciTest(std::pair<base::UniqueFd, base::UniqueFd> pair)
      : front_(device_, memory_, std::move(pair.first)), peer_(std::move(pair.second)) {
    device_.place(0, 0x1'0000);
    device_.place(4, 0x2'0000);
  }
  void send(const std::vector<uint8_t>& bytes, const std::vector<int>& fds = {}) {
    ASSERT_TRUE(send_with(peer_.fd(), bytes, fds));
  }
  // Serves one request and gives its reply.
  uint64_t ask(const std::vector<uint8_t>& bytes) {
    EXPECT_TRUE(send_with(peer_.fd(), bytes, {}));
    const auto stays = front_.serve();
    EXPECT_TRUE(stays.ok() && *stays);
    return peer_.reply();
  }
  // The front end refuses, closes its socket and lets the memory go.
  void expect_refused() {
    EXPECT_FALSE(front_.serve().ok());
    EXPECT_EQ(front_.poll_fd(), -1);
    EXPECT_EQ(memory_.regions(), 0u);
  }

  StubDevice device_;
  GuestMemory memory_;
  RemotePci front_;
  GuestPeer peer_;
};

TEST_F(RemotePciTest, ConfigurationSpace) {
  EXPECT_EQ(ask(config_message(true, 0x3C, 1, 0xABCD'EF12)), 0u);
  EXPECT_EQ(ask(config_message(false, 0x3C, 1)), 0x12u);
  EXPECT_EQ(ask(config_message(false, 0x3C, 4)), 0x12u);
  EXPECT_EQ(ask(config_message(false, 0x10, 2)), 0u);
  EXPECT_EQ(ask(config_message(false, 0x12, 2)), 1u);
  EXPECT_EQ(ask(config_message(false, 0xFFFF'FFFE, 4)), 0u);
}

TEST_F(RemotePciTest, BarsByGuestPhysicalAddress) {
  EXPECT_EQ(ask(bar_message(false, 0x1'0004, 4)), 0xA5A5'A5A5u);
  EXPECT_EQ(ask(bar_message(false, 0x2'1FF8, 8)), 0xA5A5'A5A5'A5A5'A5A5u);
  EXPECT_EQ(ask(bar_message(true, 0x2'0001, 2, 0xFFFF'1234)), 0u);
  ASSERT_EQ(device_.reads.size(), 2u);
  EXPECT_EQ(device_.reads[0].bar, 0);
  EXPECT_EQ(device_.reads[0].offset, 4u);
  EXPECT_EQ(device_.reads[1].bar, 4);
  EXPECT_EQ(device_.reads[1].offset, 0x1FF8u);
  ASSERT_EQ(device_.writes.size(), 1u);
  EXPECT_EQ(device_.writes[0].value, 0x1234u);
  EXPECT_EQ(device_.writes[0].size, 2u);
}

TEST_F(RemotePciTest, UnclaimedAddressesReadOnes) {
  EXPECT_EQ(ask(bar_message(false, 0x1'1000, 4)), 0xFFFF'FFFFu);
  EXPECT_EQ(ask(bar_message(false, 0x0'FFFF, 1)), 0xFFu);
  EXPECT_EQ(ask(bar_message(false, ~0ull, 8)), ~0ull);
  EXPECT_EQ(ask(bar_message(true, ~0ull, 8, 1)), 0u);
  EXPECT_EQ(ask(bar_message(false, 0x1'0000, 2, 0, 0)), 0xFFFFu);  // an I/O access
  EXPECT_TRUE(device_.reads.empty());
  EXPECT_TRUE(device_.writes.empty());
}

TEST_F(RemotePciTest, OverlappingWideAndMovedBars) {
  device_.place(4, 0x1'0000);  // over BAR 0, which wins where it is
  ask(bar_message(false, 0x1'0FFC, 4));
  ask(bar_message(false, 0x1'1000, 4));
  ask(bar_message(false, 0x1'0FFC, 8));  // over the end of BAR 0: its to answer
  ASSERT_EQ(device_.reads.size(), 3u);
  EXPECT_EQ(device_.reads[0].bar, 0);
  EXPECT_EQ(device_.reads[1].bar, 4);
  EXPECT_EQ(device_.reads[1].offset, 0x1000u);
  EXPECT_EQ(device_.reads[2].bar, 0);
  EXPECT_EQ(device_.reads[2].size, 8u);
  device_.place(4, 0x3000'0000, 0xC);  // 64 bits
  device_.config_write(0x24, 4, 0x12);
  ask(bar_message(false, 0x12'3000'0010, 4));
  EXPECT_EQ(device_.reads.back().bar, 4);
  EXPECT_EQ(device_.reads.back().offset, 0x10u);
  device_.place(0, 0xFFFF'F000);  // as far up as it goes: nothing wraps
  ask(bar_message(false, 0xFFFF'FFFF, 8));
  EXPECT_EQ(device_.reads.back().offset, 0xFFFu);
  EXPECT_EQ(ask(bar_message(false, 0x1'0000'0000, 4)), 0xFFFF'FFFFu);
}

TEST_F(RemotePciTest, Reset) {
  EXPECT_EQ(ask(message(Command::kDeviceReset, {})), 0u);
  EXPECT_EQ(device_.resets, 1);
}

TEST_F(RemotePciTest, MemoryIsReplacedAndDescriptorsClosed) {
  const base::UniqueFd file = sealed_file(0x4000);
  const size_t before = open_fds();
  send(memory_message({{0, 0x1000, 0}, {0x8000, 0x2000, 0x1000}}), {file.get(), file.get()});
  ASSERT_TRUE(front_.serve().ok());
  EXPECT_EQ(memory_.regions(), 2u);
  EXPECT_NE(memory_.direct(0x9FFF, 1), nullptr);
  EXPECT_EQ(open_fds(), before + 2);
  // A region of size 0 is unused, its descriptor is not.
  send(memory_message({{0, 0, 0}, {0x4000, 0x1000, 0}}), {file.get(), file.get()});
  ASSERT_TRUE(front_.serve().ok());
  EXPECT_EQ(memory_.regions(), 1u);
  EXPECT_EQ(memory_.direct(0x9FFF, 1), nullptr);
  EXPECT_EQ(open_fds(), before + 1);
  for (int i = 0; i < 100; ++i) {
    send(memory_message({{0x4000, 0x1000, 0}}), {file.get()});
    ASSERT_TRUE(front_.serve().ok());
  }
  EXPECT_EQ(open_fds(), before + 1);
  peer_.close();
  const auto stays = front_.serve();
  ASSERT_TRUE(stays.ok());
  EXPECT_FALSE(*stays);
  EXPECT_EQ(open_fds(), before - 2);  // both ends of the socket, and no memory
  EXPECT_EQ(memory_.regions(), 0u);
}

TEST_F(RemotePciTest, InterruptDescriptorsAreClosed) {
  const size_t before = open_fds();
  send(message(Command::kSetIrqFd, {}), {0, 1});
  const auto stays = front_.serve();
  EXPECT_TRUE(stays.ok() && *stays);
  EXPECT_EQ(open_fds(), before);
}

TEST_F(RemotePciTest, RefusesBadMemory) {
  const base::UniqueFd file = sealed_file(0x1000);
  const size_t before = open_fds();
  send(memory_message({{0, 0x1000, 0}}), {file.get()});
  ASSERT_TRUE(front_.serve().ok());
  send(memory_message({{0, 0x2000, 0}}), {file.get()});
  expect_refused();
  EXPECT_EQ(open_fds(), before - 1);
}

TEST_F(RemotePciTest, RefusesTooManyDescriptors) {
  const size_t before = open_fds();
  send(config_message(false, 0, 4), std::vector<int>(253, 0));
  expect_refused();
  EXPECT_EQ(open_fds(), before - 1);
}

TEST_F(RemotePciTest, RefusesDescriptorsThatDribbleIn) {
  const size_t before = open_fds();
  const auto bytes = memory_message({{0, 0x1000, 0}});
  for (const uint8_t byte : bytes) {
    if (!send_with(peer_.fd(), {byte}, {0})) break;
    if (!front_.serve().ok()) break;
  }
  EXPECT_EQ(front_.poll_fd(), -1);
  EXPECT_EQ(open_fds(), before - 1);
}

TEST_F(RemotePciTest, RefusesGarbage) {
  send(std::vector<uint8_t>(64, 0xFF));
  expect_refused();
}

TEST_F(RemotePciTest, RefusesAHostThatNeverReads) {
  const auto bytes = config_message(false, 0, 4);
  bool refused = false;
  for (int i = 0; i < 100'000 && !refused; ++i) {
    if (::send(peer_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
    refused = !front_.serve().ok();
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(front_.poll_fd(), -1);
}

// Every byte by itself: nothing is answered early, nothing is lost.
TEST_F(RemotePciTest, Fragments) {
  const auto bytes = bar_message(false, 0x1'0008, 4);
  for (size_t i = 0; i < bytes.size(); ++i) {
    send({bytes[i]});
    const auto stays = front_.serve();
    ASSERT_TRUE(stays.ok() && *stays);
    EXPECT_EQ(front_.requests(), i + 1 == bytes.size() ? 1u : 0u);
  }
  EXPECT_EQ(peer_.reply(), 0xA5A5'A5A5u);
  // A descriptor may come with any part of its message.
  const base::UniqueFd file = sealed_file(0x1000);
  const auto table = memory_message({{0, 0x1000, 0}});
  send({table.begin(), table.begin() + 100});
  ASSERT_TRUE(front_.serve().ok());
  send({table.begin() + 100, table.end()}, {file.get()});
  ASSERT_TRUE(front_.serve().ok());
  EXPECT_EQ(memory_.regions(), 1u);
}

TEST_F(RemotePciTest, SeveralRequestsAtOnce) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 200; ++i) {
    const auto one = config_message(true, 0x40, 4, static_cast<uint32_t>(i));
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  send(bytes);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(front_.serve().ok());
  EXPECT_EQ(front_.requests(), 200u);
  EXPECT_EQ(device_.config_read(0x40, 4), 199u);
}

TEST(RemotePci, TheHostMayGoAtEveryByte) {
  const auto bytes = bar_message(true, 0x1'0008, 4, 7);
  for (size_t n = 0; n <= bytes.size(); ++n) {
    StubDevice device;
    device.place(0, 0x1'0000);
    GuestMemory memory;
    auto [ours, theirs] = socket_pair();
    RemotePci front(device, memory, std::move(ours));
    ASSERT_TRUE(send_with(theirs.get(), {bytes.begin(), bytes.begin() + static_cast<long>(n)}, {}));
    theirs.reset();
    const auto stays = front.serve();
    ASSERT_TRUE(stays.ok()) << n;
    EXPECT_FALSE(*stays) << n;
    EXPECT_EQ(device.writes.size(), n == bytes.size() ? 1u : 0u);
    EXPECT_EQ(front.poll_fd(), -1);
  }
}

TEST(RemotePci, NoSocketAtAll) {
  StubDevice device;
  GuestMemory memory;
  RemotePci front(device, memory, sealed_file(16));
  EXPECT_FALSE(front.serve().ok());
}

}  // namespace
