#include "firmware/mgmt/controller.h"

#include <gtest/gtest.h>

#include "base/span.h"
#include "contract/regs/misc.h"
#include "firmware/mgmt/crc32c.h"
#include "tests/firmware/fake_hal.h"

namespace {

namespace misc = contract::misc;
using contract::Gen;
using firmware::mgmt::Action;
using firmware::mgmt::Config;
using firmware::mgmt::Controller;
using firmware::mgmt::Crc32c;

uint32_t crc(const void* data, size_t bytes) {
  Crc32c c;
  c.add(data, bytes);
  return c.value();
}

TEST(Crc32cTest, PublishedValues) {
  EXPECT_EQ(crc("123456789", 9), 0xE306'9283u);
  const uint8_t example[16] = {2, 1, 16, 0, 0, 0, 0, 0, 0x24, 0x40, 0xC8, 0x06, 0x80, 0, 0, 0};
  EXPECT_EQ(crc(example, sizeof example), 0x7045'4FC8u);  // hw-registers.md 7.5
}

class Mgmt : public ::testing::Test {
 protected:
  explicit Mgmt(Config config = {Gen::kV2, 12, 0x1234'5678'9ABC'DEF0, 0, false})
      : ram_(1024, 0xFFFF'FFFF), controller_(config, ram_.data()) {
    controller_.power_on();
  }
  Action write(uint32_t offset, uint32_t value) {
    ram_[offset / 4] = value;
    return controller_.stored(offset, hal_);
  }
  uint32_t read(uint32_t offset) const { return ram_[offset / 4]; }

  static constexpr uint32_t kRequestAt = 0x100;
  static constexpr uint32_t kResponseAt = 0x2000;
  // Sends a legacy request and returns the response header word.
  uint32_t mailbox(uint8_t sequence, uint8_t command, const std::vector<uint8_t>& payload,
                   uint32_t corrupt = 0, int size = -1) {
    std::vector<uint8_t> message(8 + payload.size());
    message[0] = sequence;
    message[1] = command;
    base::store<uint16_t>(
        &message[2], static_cast<uint16_t>(size < 0 ? static_cast<int>(message.size()) : size));
    std::copy(payload.begin(), payload.end(), message.begin() + 8);
    base::store<uint32_t>(&message[4], crc(message.data(), message.size()) ^ corrupt);
    std::copy(message.begin(), message.end(), hal_.memory.begin() + kRequestAt);
    hal_.memory[kResponseAt] = 0;
    write(misc::kRequestLo, static_cast<uint32_t>(hal_.base + kRequestAt));
    write(misc::kRequestHi, static_cast<uint32_t>(hal_.base >> 32));
    write(misc::kResponseLo, static_cast<uint32_t>(hal_.base + kResponseAt));
    write(misc::kResponseHi, static_cast<uint32_t>(hal_.base >> 32));
    write(misc::kTrigger, 1);
    return base::load<uint32_t>(&hal_.memory[kResponseAt]);
  }

  std::vector<uint32_t> ram_;
  firmware_test::FakeHal hal_;
  Controller controller_;
};

TEST_F(Mgmt, PowerOnContent) {
  EXPECT_EQ(read(misc::kFwApiVersion), 0u);
  EXPECT_EQ(read(misc::kRoutingId), 12u);
  EXPECT_EQ(read(misc::kSerialLo), 0x9ABC'DEF0u);
  EXPECT_EQ(read(misc::kSerialHi), 0x1234'5678u);
  EXPECT_EQ(read(misc::kResetRequest), 0u);
  EXPECT_EQ(read(misc::kStatus), 0u);
}

TEST_F(Mgmt, DeviceResetHandshake) {
  EXPECT_FALSE(write(misc::kResetRequest, 1).reset);
  const Action action = write(misc::kTrigger, 1);
  ASSERT_TRUE(action.reset);
  EXPECT_TRUE(action.scope.device);
  EXPECT_EQ(action.scope.ncs, 3u);
  EXPECT_EQ(action.scope.topsps, 0x3Fu);
  EXPECT_EQ(read(misc::kResetRequest), 1u);
  EXPECT_EQ(read(misc::kStatus), 8u);
  // A repeated request while busy is part of the same reset.
  EXPECT_FALSE(write(misc::kTrigger, 1).reset);
  EXPECT_FALSE(controller_.reset_done().reset);
  EXPECT_EQ(read(misc::kResetRequest), 0u);
  EXPECT_EQ(read(misc::kStatus), 0u);
  EXPECT_EQ(controller_.resets(), 1u);
}

TEST_F(Mgmt, CoreResetMapV2) {
  write(misc::kResetMap, 0x3802);
  write(misc::kResetRequest, 2);
  const Action action = write(misc::kTrigger, 1);
  ASSERT_TRUE(action.reset);
  EXPECT_FALSE(action.scope.device);
  EXPECT_EQ(action.scope.ncs, 2u);
  EXPECT_EQ(action.scope.topsps, 0x38u);
  EXPECT_EQ(action.scope.host_dma, 0u);
  // A request for the other core meanwhile is served by a second reset before the acknowledge.
  write(misc::kResetMap, 0x0701);
  EXPECT_FALSE(write(misc::kTrigger, 1).reset);
  const Action second = controller_.reset_done();
  ASSERT_TRUE(second.reset);
  EXPECT_EQ(second.scope.ncs, 1u);
  EXPECT_EQ(read(misc::kResetRequest), 2u);
  EXPECT_FALSE(controller_.reset_done().reset);
  EXPECT_EQ(read(misc::kResetRequest), 0u);
}

TEST_F(Mgmt, MapOfV3) {
  const auto scope = firmware::mgmt::decode_reset_map(Gen::kV3, 0x0001'0101u << 5, 5);
  EXPECT_EQ(scope.ncs, 0x20u);
  EXPECT_EQ(scope.dma_ncs, 0x20u);
  EXPECT_EQ(scope.topsps, 3u << 10);
  EXPECT_EQ(scope.host_dma, 5u);
}

TEST_F(Mgmt, MailboxReadsRegisters) {
  hal_.registers[0x0FFF'F0FA'0024] = 77;
  std::vector<uint8_t> payload(24);
  base::store<uint64_t>(&payload[0], 0x0FFF'F0FA'0024);
  base::store<uint64_t>(&payload[8], 0x1234);  // unclaimed: reads 0
  base::store<uint64_t>(&payload[16], 0x0FFF'F0FA'0024);
  EXPECT_EQ(mailbox(2, 1, payload), 2u | 0u << 8 | 16u << 16);
  EXPECT_EQ(base::load<uint32_t>(&hal_.memory[kResponseAt + 4]), 77u);
  EXPECT_EQ(base::load<uint32_t>(&hal_.memory[kResponseAt + 8]), 0u);
  EXPECT_EQ(base::load<uint32_t>(&hal_.memory[kResponseAt + 12]), 77u);
  EXPECT_EQ(read(misc::kTrigger), 0u);
  EXPECT_EQ(hal_.single_byte_writes, 1);  // the sequence number, last
}

TEST_F(Mgmt, MailboxStoresMetric) {
  EXPECT_EQ(mailbox(9, 2, {1, 2, 3, 4, 5, 6, 7}), 9u | 4u << 16);
  EXPECT_EQ(read(misc::kData), 0x0403'0201u);
  EXPECT_EQ(read(misc::kData + 4), 0x0007'0605u);
  EXPECT_EQ(mailbox(10, 2, std::vector<uint8_t>(129)), 10u | 1u << 8 | 4u << 16);
}

TEST_F(Mgmt, MailboxRejectsBadRequests) {
  EXPECT_EQ(mailbox(3, 2, {1}, 0x10), 3u | 1u << 8 | 4u << 16);      // CRC
  EXPECT_EQ(mailbox(4, 9, {}), 4u | 2u << 8 | 4u << 16);             // unknown command
  EXPECT_EQ(mailbox(5, 1, {1, 2, 3}), 5u | 1u << 8 | 4u << 16);      // not whole addresses
  EXPECT_EQ(mailbox(6, 2, {}, 0, 7), 6u | 1u << 8 | 4u << 16);       // size below header
  EXPECT_EQ(mailbox(7, 2, {}, 0, 0xFFFF), 7u | 1u << 8 | 4u << 16);  // runs out of memory
  write(misc::kRequestHi, 0);  // request buffer nowhere: no answer
  hal_.memory[kResponseAt] = 0;
  write(misc::kTrigger, 1);
  EXPECT_EQ(hal_.memory[kResponseAt], 0);
  EXPECT_EQ(read(misc::kTrigger), 0u);
}

TEST_F(Mgmt, NewProtocolAnswersUnknown) {
  write(misc::kRequestHi, 0x0008'0305);  // sequence 5, command 3
  write(misc::kAck, 1);
  write(misc::kTrigger, 1);
  EXPECT_EQ(read(misc::kTrigger), 0u);
  EXPECT_EQ(read(misc::kAck), 0u);
  EXPECT_EQ(read(misc::kRequestHi), 5u | 2u << 8 | 8u << 16);
}

TEST_F(Mgmt, QemuRegisterNeedsQemuRevision) {
  EXPECT_FALSE(controller_.qemu_write(1).reset);
  EXPECT_EQ(controller_.qemu_read(), 0u);
}

class MgmtQemuV3 : public Mgmt {
 protected:
  MgmtQemuV3() : Mgmt({Gen::kV3, 0, 1, 0, true}) {}
};

TEST_F(MgmtQemuV3, ResetRegister) {
  Action action = controller_.qemu_write(0);
  ASSERT_TRUE(action.reset);
  EXPECT_TRUE(action.scope.device);
  EXPECT_EQ(controller_.qemu_read(), 1u);
  controller_.reset_done();
  EXPECT_EQ(controller_.qemu_read(), 0u);
  action = controller_.qemu_write(0x0001'0101);
  ASSERT_TRUE(action.reset);
  EXPECT_FALSE(action.scope.device);
  EXPECT_EQ(action.scope.ncs, 1u);
}

}  // namespace
