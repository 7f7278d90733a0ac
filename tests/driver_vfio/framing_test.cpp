// The stream of messages: pieces, garbage, truncation, sizes, descriptors, back pressure.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "tests/driver_vfio/vfio_bench.h"

namespace driver::qemu::test {
namespace {

class Framing : public Bench {
 protected:
  // The connection is over because the client broke the rules.
  void expect_broken() {
    const auto served = serve();
    ASSERT_FALSE(served.ok());
    EXPECT_EQ(served.error().fault, base::Fault::kUsage);
  }
};

Bytes region_read(uint32_t region, uint64_t offset, uint32_t count) {
  return bytes_of(vfio::RegionAccess{offset, region, count});
}

TEST_F(Framing, MessagesArriveByteByByte) {
  for (const uint8_t byte : message(Command::kVersion, version_payload("{}"))) {
    EXPECT_FALSE(receive().has_value());
    send({byte});
    ASSERT_TRUE(serve().ok());
  }
  const auto reply = receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->error(), 0u);
}

TEST_F(Framing, ManyMessagesInOnePacketAreAnsweredInOrder) {
  agree();
  Bytes all;
  for (uint16_t id = 0; id < 50; ++id) {
    all = all + message(Command::kRegionRead, region_read(7, id, 1), 0, id);
  }
  send(all);
  ASSERT_TRUE(serve().ok());
  for (uint16_t id = 0; id < 50; ++id) {
    const auto reply = receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.id, id);
    EXPECT_EQ(reply->as<vfio::RegionAccess>().offset, id);
  }
}

TEST_F(Framing, OneCallTakesABoundedNumberAndAsksForAnother) {
  agree();
  Bytes all;
  for (int i = 0; i < 100; ++i) all = all + message(Command::kRegionRead, region_read(7, 0, 1));
  send(all);
  ASSERT_TRUE(serve().ok());
  int answered = 0;
  while (receive()) ++answered;
  EXPECT_LT(answered, 100);
  EXPECT_TRUE(readable());
  ASSERT_TRUE(serve().ok());
  while (receive()) ++answered;
  EXPECT_EQ(answered, 100);
  EXPECT_FALSE(readable());
}

TEST_F(Framing, EveryTruncationOfEveryCommandEndsTheConnectionOnly) {
  const Bytes payloads[] = {version_payload("{}"),
                            dma_map_payload(0, 4096),
                            bytes_of(vfio::DmaUnmap{24, 0, 0, 4096}),
                            bytes_of(vfio::DeviceInfo{16, 0, 0, 0}),
                            bytes_of(vfio::RegionInfo{32, 0, 4, 0, 0, 0}),
                            bytes_of(vfio::IndexInfo{16, 0, 0, 0}),
                            bytes_of(vfio::IndexInfo{16, 0, 0, 0}),
                            bytes_of(vfio::IrqSet{20, 0x21, 0, 0, 0}),
                            region_read(7, 0, 4),
                            region_read(7, 0, 4) + Bytes(4)};
  for (size_t command = 1; command <= std::size(payloads); ++command) {
    const Bytes whole = message(static_cast<Command>(command), payloads[command - 1]);
    for (size_t size = 0; size < whole.size(); ++size) {
      connect();
      if (command != 1) agree();
      if (size != 0) send(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
      ASSERT_TRUE(serve().ok() && *serve());
      EXPECT_FALSE(receive().has_value());
      peer.reset();
      const auto served = serve();
      ASSERT_TRUE(served.ok());
      EXPECT_FALSE(*served);
    }
  }
  connect();
  agree();
}

TEST_F(Framing, ShortPayloadsOfEveryCommandAreRefused) {
  agree();
  for (uint16_t command = 2; command < 40; ++command) {
    for (const size_t size : {0u, 1u, 7u, 8u, 15u}) {
      const auto kind = static_cast<Command>(command);
      if (kind == Command::kDeviceReset && size == 0) continue;
      const uint32_t error = error_of(kind, Bytes(size, 0xFF));
      EXPECT_TRUE(error == EINVAL || error == ENOTSUP) << command << " with " << size;
    }
  }
  EXPECT_EQ(device.resets, 0);
}

TEST_F(Framing, ImpossibleSizesEndTheConnection) {
  for (const uint32_t size : {0u, 15u, (1u << 20) + 33, 0xFFFFFFFFu}) {
    connect();
    agree();
    Header header;
    header.command = 9;
    header.size = size;
    send(bytes_of(header));
    expect_broken();
  }
}

TEST_F(Framing, TypesOtherThanCommandAndReplyEndTheConnection) {
  for (const uint32_t type : {2u, 15u}) {
    connect();
    send(message(Command::kVersion, version_payload("{}"), type));
    expect_broken();
  }
}

TEST_F(Framing, AReplyToNothingEndsTheConnection) {
  agree();
  send(message(Command::kDmaRead, Bytes(16), vfio::kTypeReply));
  expect_broken();
}

TEST_F(Framing, UnknownFlagsOfACommandAreRefused) {
  agree();
  for (const uint32_t flag : {vfio::kFlagError, 1u << 6, 1u << 31}) {
    EXPECT_EQ(call(Command::kRegionRead, region_read(7, 0, 4), {}, flag).error(), EINVAL);
  }
}

TEST_F(Framing, GarbageNeverDoesAnythingButEndConnections) {
  std::mt19937 random(1);  // NOLINT: the same every time
  for (int round = 0; round < 300; ++round) {
    connect();
    if (round % 2 == 0) agree();
    Bytes bytes(random() % 200);
    for (uint8_t& each : bytes) each = static_cast<uint8_t>(random());
    // Half of them with a header that promises what follows.
    if (round % 4 < 2 && bytes.size() >= sizeof(Header)) {
      Header header;
      header.command = static_cast<uint16_t>(random() % 20);
      header.size = static_cast<uint32_t>(bytes.size());
      base::store(bytes.data(), header);
    }
    if (!bytes.empty()) send(bytes);
    for (int i = 0; i < 3; ++i) (void)serve();
  }
  connect();
  agree();
}

TEST_F(Framing, NoReplyMeansNone) {
  agree();
  send(message(Command::kRegionWrite, region_read(7, 16, 2) + Bytes{0xAB, 0xCD},
               vfio::kFlagNoReply));
  send(message(Command::kRegionWrite, region_read(6, 0, 2) + Bytes{0xAB, 0xCD},
               vfio::kFlagNoReply));  // refused, in silence
  const Reply reply = call(Command::kRegionRead, region_read(7, 16, 2));
  EXPECT_EQ(reply.payload[16], 0xAB);
  EXPECT_EQ(reply.payload[17], 0xCD);
}

TEST_F(Framing, DescriptorsBelongToTheMessageWithWhichTheyCame) {
  agree();
  const base::UniqueFd file = memory_file(8192);
  // Glued to the message before, and with the last byte of their own.
  const Bytes map = message(Command::kDmaMap, dma_map_payload(0x10000, 8192));
  send(message(Command::kRegionRead, region_read(7, 0, 4)));
  send(Bytes(map.begin(), map.end() - 1));
  send({map.back()}, {file.get()});
  send(message(Command::kRegionRead, region_read(7, 0, 4)));
  ASSERT_TRUE(serve().ok());
  for (int i = 0; i < 3; ++i) {
    const auto reply = receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->error(), 0u) << i;
  }
  EXPECT_NE(memory.direct(0x10000, 8192), nullptr);
}

TEST_F(Framing, DescriptorsInWrongPlacesAreClosed) {
  const base::UniqueFd file = memory_file(4096);
  const int before = open_descriptors();
  EXPECT_EQ(error_of(Command::kVersion, version_payload("{}"), {file.get()}), EINVAL);
  agree();
  EXPECT_EQ(error_of(Command::kRegionRead, region_read(7, 0, 4), {file.get()}), EINVAL);
  EXPECT_EQ(error_of(Command::kDeviceReset, {}, {file.get(), file.get()}), EINVAL);
  EXPECT_EQ(error_of(Command::kDmaMap, dma_map_payload(0, 4096), {file.get(), file.get()}), EINVAL);
  EXPECT_EQ(
      error_of(Command::kDeviceSetIrqs, bytes_of(vfio::IrqSet{20, 0x24, 0, 0, 1}), {file.get()}),
      EINVAL);
  EXPECT_EQ(error_of(static_cast<Command>(99), {}, {file.get()}), EINVAL);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(memory.ranges(), 0u);
  // With a message that never ends.
  send(Bytes(5), {file.get(), file.get()});
  (void)serve();
  connect();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Framing, DescriptorsBeyondTheAgreedNumberAreNotKept) {
  agree();
  const base::UniqueFd file = memory_file(4096);
  const int before = open_descriptors();
  const std::vector<int> many(200, file.get());
  const Bytes map = message(Command::kDmaMap, dma_map_payload(0, 4096));
  for (const uint8_t byte : map) {
    send({byte}, many);
    ASSERT_TRUE(serve().ok());
    EXPECT_LE(open_descriptors(), before + 2);
  }
  EXPECT_EQ(receive()->error(), EINVAL);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Framing, AnswersThatNobodyFetchesStopCommandsNotTheServer) {
  agree();
  constexpr uint32_t kCount = 1 << 20;
  constexpr int kReads = 30;
  for (int i = 0; i < kReads; ++i) {
    send(message(Command::kRegionRead, region_read(0, 0, kCount), 0, static_cast<uint16_t>(i)));
  }
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(serve().ok());
  EXPECT_FALSE(readable()) << "a reason to spin while nothing can be done";
  for (int i = 0; i < kReads; ++i) {
    (void)serve();
    const auto reply = receive();
    ASSERT_TRUE(reply.has_value()) << i;
    EXPECT_EQ(reply->header.id, i);
    EXPECT_EQ(reply->payload.size(), 16 + kCount);
  }
  EXPECT_EQ(error_of(Command::kRegionRead, region_read(7, 0, 4)), 0u);
}

TEST_F(Framing, AClientThatLeavesWithoutFetchingIsGone) {
  agree();
  send(message(Command::kRegionRead, region_read(0, 0, 1 << 20)));
  ASSERT_TRUE(serve().ok());
  peer.reset();
  const auto served = serve();
  ASSERT_TRUE(served.ok());
  EXPECT_FALSE(*served);
}

}  // namespace
}  // namespace driver::qemu::test
