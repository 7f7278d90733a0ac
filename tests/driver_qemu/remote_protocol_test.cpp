#include "driver/qemu/remote_protocol.h"

#include "tests/driver_qemu/guest_peer.h"

namespace {

using namespace driver_test;
using remote::Command;

base::Result<remote::Header> header_of(int32_t command, uint64_t size) {
  std::vector<uint8_t> bytes;
  append(bytes, command);
  append(bytes, uint32_t{0xFFFF'FFFF});  // nobody defines these
  append(bytes, size);
  return remote::decode_header(bytes);
}

base::Result<remote::Request> decode(const std::vector<uint8_t>& bytes, size_t fds = 0) {
  const auto header = remote::decode_header({bytes.data(), remote::kHeaderBytes});
  if (!header) return header.error();
  return remote::decode_payload(
      *header, {bytes.data() + remote::kHeaderBytes, bytes.size() - remote::kHeaderBytes}, fds);
}

TEST(RemoteProtocol, EveryCommandHasOnePayloadSize) {
  const int64_t sizes[] = {192, -1, 12, 12, 24, 24, 0, 0};
  for (int32_t command = -2; command < 12; ++command) {
    const int64_t right = command >= 0 && command < 8 ? sizes[command] : -1;
    for (const uint64_t size : {0, 1, 8, 11, 12, 13, 16, 24, 25, 191, 192, 193}) {
      EXPECT_EQ(header_of(command, size).ok(), right == static_cast<int64_t>(size))
          << command << " with " << size;
    }
    EXPECT_FALSE(header_of(command, ~0ull).ok());
    EXPECT_FALSE(header_of(command, 1ull << 32 | 12).ok());
  }
  EXPECT_FALSE(remote::decode_header(std::vector<uint8_t>(15)).ok());
}

TEST(RemoteProtocol, ConfigAccess) {
  const auto request = decode(config_message(true, 0xFFFF'FFFF, 2, 0x1234'5678));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->command, Command::kConfigWrite);
  EXPECT_EQ(request->address, 0xFFFF'FFFFu);
  EXPECT_EQ(request->value, 0x1234'5678u);
  EXPECT_EQ(request->size, 2u);
  for (const int32_t bad : {0, 3, 5, 8, -1, -4, INT32_MIN, INT32_MAX}) {
    EXPECT_FALSE(decode(config_message(false, 0, bad)).ok()) << bad;
  }
  EXPECT_FALSE(decode(config_message(false, 0, 4), 1).ok());
}

TEST(RemoteProtocol, BarAccess) {
  const auto request = decode(bar_message(true, 0x8000'0004, 8, 0x1122'3344'5566'7788));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->address, 0x8000'0004u);
  EXPECT_EQ(request->value, 0x1122'3344'5566'7788u);
  EXPECT_EQ(request->size, 8u);
  EXPECT_TRUE(request->is_memory);
  EXPECT_FALSE(decode(bar_message(false, 0, 4, 0, 0))->is_memory);
  for (const uint32_t bad : {0u, 3u, 5u, 16u, 0x100u, ~0u}) {
    EXPECT_FALSE(decode(bar_message(false, 0, bad)).ok()) << bad;
  }
  EXPECT_FALSE(decode(bar_message(false, 0, 4), 1).ok());
}

TEST(RemoteProtocol, Memory) {
  const auto request = decode(memory_message({{0x1000, 0x2000, 0x3000}, {1, 0, 9}}), 1);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->memory[0].base, 0x1000u);
  EXPECT_EQ(request->memory[0].size, 0x2000u);
  EXPECT_EQ(request->memory[0].fd_offset, 0x3000u);
  EXPECT_EQ(request->memory[1].size, 0u);
  EXPECT_TRUE(decode(memory_message({}), 0).ok());
  EXPECT_FALSE(decode(memory_message({{0, 1, 0}}), 0).ok());           // without descriptor
  EXPECT_FALSE(decode(memory_message({{0, 1, 1ull << 63}}), 1).ok());  // negative offset
  EXPECT_FALSE(decode(memory_message({}), 9).ok());
}

TEST(RemoteProtocol, InterruptsAndReset) {
  EXPECT_TRUE(decode(message(Command::kSetIrqFd, {}), 2).ok());
  EXPECT_FALSE(decode(message(Command::kSetIrqFd, {}), 1).ok());
  EXPECT_TRUE(decode(message(Command::kDeviceReset, {})).ok());
  EXPECT_FALSE(decode(message(Command::kDeviceReset, {}), 1).ok());
  EXPECT_FALSE(decode(message(Command::kReply, std::vector<uint8_t>(8))).ok());
}

TEST(RemoteProtocol, Reply) {
  const auto bytes = remote::encode_reply(0xDEAD'BEEF'0123'4567);
  EXPECT_EQ(base::load<int32_t>(bytes.data()), 1);
  EXPECT_EQ(base::load<uint64_t>(bytes.data() + 8), 8u);
  EXPECT_EQ(base::load<uint64_t>(bytes.data() + 16), 0xDEAD'BEEF'0123'4567u);
}

}  // namespace
