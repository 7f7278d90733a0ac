// The client's memory: mapping, rights, files that change under the server, and DMA by messages.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/driver_vfio/vfio_bench.h"

namespace driver::qemu::test {
namespace {

constexpr uint64_t kBase = 0x1'0000'0000;

class Dma : public Bench {
 protected:
  Dma() { agree(); }
  uint32_t map(uint64_t address, uint64_t size, int fd = -1, uint32_t flags = 3,
               uint64_t offset = 0) {
    return error_of(Command::kDmaMap, dma_map_payload(address, size, flags, offset),
                    fd < 0 ? std::vector<int>{} : std::vector<int>{fd});
  }
  uint32_t unmap(uint64_t address, uint64_t size, uint32_t flags = 0) {
    return error_of(Command::kDmaUnmap, bytes_of(vfio::DmaUnmap{24, flags, address, size}));
  }
  // Runs `client` beside the test, as the other side of the socket.
  std::thread beside(std::function<void()> client) { return std::thread(std::move(client)); }
  // The client's side: the next message, waiting for it.
  Reply next() {
    pollfd wait{peer.get(), POLLIN, 0};
    ::poll(&wait, 1, 5000);
    Bytes header(sizeof(Header));
    EXPECT_EQ(::recv(peer.get(), header.data(), header.size(), MSG_WAITALL), 16);
    Reply reply;
    reply.header = base::load<Header>(header.data());
    reply.payload.resize(reply.header.size - sizeof(Header));
    if (!reply.payload.empty()) {
      EXPECT_EQ(::recv(peer.get(), reply.payload.data(), reply.payload.size(), MSG_WAITALL),
                static_cast<ssize_t>(reply.payload.size()));
    }
    return reply;
  }
  void answer(const Reply& to, const Bytes& payload, uint32_t flags = 0) {
    send(message(static_cast<Command>(to.header.command), payload, vfio::kTypeReply | flags,
                 to.header.id));
  }
  Bytes read(uint64_t phys, size_t size) {
    Bytes bytes(size, 0xEE);
    return memory.read(phys, bytes) ? bytes : Bytes();
  }
};

TEST_F(Dma, SealedFilesAreReachedByPointer) {
  const base::UniqueFd file = memory_file(3 * 4096);
  ASSERT_EQ(map(kBase, 2 * 4096, file.get(), 3, 4096), 0u);
  uint8_t* at = memory.direct(kBase + 100, 2 * 4096 - 100);
  ASSERT_NE(at, nullptr);
  at[0] = 0x5A;
  uint8_t seen = 0;
  ASSERT_EQ(::pread(file.get(), &seen, 1, 4096 + 100), 1);
  EXPECT_EQ(seen, 0x5A);
  EXPECT_EQ(memory.direct(kBase + 100, 2 * 4096), nullptr);
  EXPECT_EQ(memory.direct(kBase - 1, 2), nullptr);
  ASSERT_EQ(unmap(kBase, 2 * 4096), 0u);
  EXPECT_EQ(memory.direct(kBase + 100, 1), nullptr);
  EXPECT_TRUE(read(kBase, 1).empty());
}

TEST_F(Dma, AFileThatShrinksIsABusErrorNotASignal) {
  const base::UniqueFd file = memory_file(2 * 4096, false);
  ASSERT_EQ(map(kBase, 2 * 4096, file.get()), 0u);
  EXPECT_EQ(memory.direct(kBase, 1), nullptr);
  EXPECT_EQ(read(kBase + 4000, 200), Bytes(200));
  EXPECT_TRUE(memory.write(kBase + 4095, Bytes{1, 2}));
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  EXPECT_TRUE(read(kBase, 1).empty());
}

TEST_F(Dma, BadMappingsAreRefused) {
  const base::UniqueFd file = memory_file(2 * 4096);
  const int fd = file.get();
  EXPECT_EQ(map(kBase, 3 * 4096, fd), EINVAL);
  EXPECT_EQ(map(kBase, 4096, fd, 3, 2 * 4096), EINVAL);
  EXPECT_EQ(map(kBase, 4096, fd, 3, 100), EINVAL);
  EXPECT_EQ(map(kBase, 4096, fd, 3, ~0ull << 12), EINVAL);
  EXPECT_EQ(map(kBase, 0, fd), EINVAL);
  EXPECT_EQ(map(kBase, 100, fd), EINVAL);
  EXPECT_EQ(map(kBase + 1, 4096, fd), EINVAL);
  EXPECT_EQ(map(~0ull << 12, 2 * 4096, fd), EINVAL);
  EXPECT_EQ(map(~0ull << 12, 2 * 4096), EINVAL);
  EXPECT_EQ(map(kBase, 4096, fd, 4), EINVAL);
  EXPECT_EQ(map(kBase, 4096, peer.get()), EINVAL);  // no file
  const base::UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(map(kBase, 4096, directory.get()), EINVAL);
  EXPECT_EQ(error_of(Command::kDmaMap, bytes_of(vfio::DmaMap{31, 3, 0, kBase, 4096})), EINVAL);
  EXPECT_EQ(error_of(Command::kDmaMap, dma_map_payload(kBase, 4096) + Bytes(1)), EINVAL);
  EXPECT_EQ(memory.ranges(), 0u);
  EXPECT_EQ(map(~0ull << 12, 4096), 0u);  // the last page there is
}

TEST_F(Dma, NoRangeLiesOverAnother) {
  ASSERT_EQ(map(kBase, 4 * 4096), 0u);
  EXPECT_EQ(map(kBase, 4 * 4096), EEXIST);
  EXPECT_EQ(map(kBase + 4096, 4096), EEXIST);
  EXPECT_EQ(map(kBase - 4096, 2 * 4096), EEXIST);
  EXPECT_EQ(map(kBase - 4096, 16 * 4096), EEXIST);
  EXPECT_EQ(map(kBase - 4096, 4096), 0u);
  EXPECT_EQ(map(kBase + 4 * 4096, 4096), 0u);
}

TEST_F(Dma, UnmappingNamesARangeExactlyOrAll) {
  ASSERT_EQ(map(kBase, 2 * 4096), 0u);
  ASSERT_EQ(map(0, 4096), 0u);
  EXPECT_EQ(unmap(kBase, 4096), ENOENT);
  EXPECT_EQ(unmap(kBase + 4096, 4096), ENOENT);
  EXPECT_EQ(unmap(kBase, 3 * 4096), ENOENT);
  EXPECT_EQ(unmap(kBase, 2 * 4096, vfio::kUnmapDirtyBitmap), ENOTSUP);
  EXPECT_EQ(unmap(kBase, 2 * 4096, 4), EINVAL);
  EXPECT_EQ(unmap(kBase, 2 * 4096, vfio::kUnmapAll), EINVAL);
  EXPECT_EQ(error_of(Command::kDmaUnmap, bytes_of(vfio::DmaUnmap{23, 0, 0, 4096})), EINVAL);
  EXPECT_EQ(memory.ranges(), 2u);
  const Reply reply = call(Command::kDmaUnmap, bytes_of(vfio::DmaUnmap{100, 0, 0, 4096}));
  EXPECT_EQ(reply.as<vfio::DmaUnmap>().argsz, 24u);
  EXPECT_EQ(reply.as<vfio::DmaUnmap>().size, 4096u);
  EXPECT_EQ(memory.ranges(), 1u);
  EXPECT_EQ(unmap(0, 0, vfio::kUnmapAll), 0u);
  EXPECT_EQ(memory.ranges(), 0u);
}

TEST_F(Dma, RightsAreKept) {
  const base::UniqueFd file = memory_file(3 * 4096);
  ASSERT_EQ(map(0, 4096, file.get(), vfio::kDmaReadable), 0u);
  ASSERT_EQ(map(4096, 4096, file.get(), vfio::kDmaWritable, 4096), 0u);
  ASSERT_EQ(map(8192, 4096, file.get(), 0, 8192), 0u);
  EXPECT_EQ(memory.direct(0, 1), nullptr);
  EXPECT_EQ(memory.direct(4096, 1), nullptr);
  EXPECT_EQ(read(0, 4096), Bytes(4096));
  EXPECT_FALSE(memory.write(0, Bytes(1)));
  EXPECT_TRUE(read(4096, 1).empty());
  EXPECT_TRUE(memory.write(4096, Bytes(1)));
  EXPECT_TRUE(read(4095, 2).empty());
  EXPECT_FALSE(memory.write(8192, Bytes(1)));
  EXPECT_FALSE(memory.write(8191, Bytes(2)));
}

TEST_F(Dma, MappingsAndDescriptorsGoWithTheClient) {
  peer.reset();
  (void)serve();
  server.reset();
  const int before = open_descriptors();
  connect();
  agree();
  for (uint64_t i = 0; i < 10; ++i) {
    const base::UniqueFd file = memory_file(4096, i % 2 == 0);
    ASSERT_EQ(map(i * 8192, 4096, file.get()), 0u);
  }
  EXPECT_EQ(memory.ranges(), 10u);
  peer.reset();
  server.reset();
  EXPECT_EQ(memory.ranges(), 0u);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Dma, MemoryWithoutAFileIsAskedFor) {
  ASSERT_EQ(map(kBase, 8192), 0u);
  EXPECT_EQ(memory.direct(kBase, 1), nullptr);
  Bytes written;
  auto client = beside([&] {
    const Reply asked = next();
    EXPECT_EQ(asked.header.command, 11);
    EXPECT_EQ(asked.as<vfio::DmaAccess>().address, kBase + 8);
    EXPECT_EQ(asked.as<vfio::DmaAccess>().count, 3u);
    answer(asked, asked.payload + Bytes{1, 2, 3});
    for (const size_t size : {16u, 12u}) {  // both shapes of the document
      const Reply told = next();
      EXPECT_EQ(told.header.command, 12);
      written.assign(told.payload.begin() + 16, told.payload.end());
      Bytes payload = told.payload;
      payload.resize(size);
      answer(told, payload);
    }
  });
  EXPECT_EQ(read(kBase + 8, 3), (Bytes{1, 2, 3}));
  EXPECT_TRUE(memory.write(kBase, Bytes{9, 9}));
  EXPECT_TRUE(memory.write(kBase, Bytes{4, 5}));
  client.join();
  EXPECT_EQ(written, (Bytes{4, 5}));
  EXPECT_EQ(error_of(Command::kDmaUnmap, bytes_of(vfio::DmaUnmap{24, 0, kBase, 8192})), 0u);
}

TEST_F(Dma, TransfersKeepToTheClientsLimit) {
  connect();
  const Bytes limited = version_payload(R"({"capabilities":{"max_data_xfer_size":1000}})");
  ASSERT_EQ(error_of(Command::kVersion, limited), 0u);
  ASSERT_EQ(map(kBase, 8192), 0u);
  std::vector<uint64_t> counts;
  auto client = beside([&] {
    for (int i = 0; i < 3; ++i) {
      const Reply asked = next();
      const auto access = asked.as<vfio::DmaAccess>();
      counts.push_back(access.count);
      answer(asked, asked.payload + Bytes(access.count, static_cast<uint8_t>(i)));
    }
  });
  const Bytes bytes = read(kBase, 2500);
  client.join();
  EXPECT_EQ(counts, (std::vector<uint64_t>{1000, 1000, 500}));
  EXPECT_EQ(bytes[999], 0);
  EXPECT_EQ(bytes[1000], 1);
  EXPECT_EQ(bytes[2499], 2);
}

TEST_F(Dma, ARefusalIsABusErrorAndNothingMore) {
  ASSERT_EQ(map(kBase, 4096), 0u);
  auto client = beside([&] { answer(next(), {}, vfio::kFlagError); });
  EXPECT_TRUE(read(kBase, 4).empty());
  client.join();
  EXPECT_TRUE(serve().ok());
}

TEST_F(Dma, CommandsThatArriveMeanwhileComeAfterwardsInOrder) {
  ASSERT_EQ(map(kBase, 4096), 0u);
  const auto write = [](uint8_t value, uint16_t id) {
    return message(Command::kRegionWrite, bytes_of(vfio::RegionAccess{0, 7, 1}) + Bytes{value}, 0,
                   id);
  };
  auto client = beside([&] {
    const Reply asked = next();
    send(write(1, 1));
    send(write(2, 2));
    answer(asked, asked.payload + Bytes(4));
    send(write(3, 3));
  });
  EXPECT_EQ(read(kBase, 4), Bytes(4));
  client.join();
  EXPECT_TRUE(device.accesses.empty()) << "a command was executed inside a DMA";
  EXPECT_TRUE(readable());
  ASSERT_TRUE(serve().ok());
  for (uint16_t id = 1; id <= 3; ++id) EXPECT_EQ(receive()->header.id, id);
  EXPECT_EQ(device.config[0], 3);
  EXPECT_FALSE(readable());
}

TEST_F(Dma, ADoorbellThatReadsMessagesIsAnsweredAfterIt) {
  ASSERT_EQ(map(kBase, 4096), 0u);
  Bytes seen;
  device.doorbell = [&](uint64_t) { seen = read(kBase, 2); };
  auto client = beside([&] {
    const Reply asked = next();
    EXPECT_EQ(asked.header.command, 11);
    answer(asked, asked.payload + Bytes{7, 8});
  });
  send(message(Command::kRegionWrite, bytes_of(vfio::RegionAccess{0x1038, 0, 4}) + Bytes(4)));
  EXPECT_TRUE(serve().ok());
  client.join();
  EXPECT_EQ(seen, (Bytes{7, 8}));
  EXPECT_EQ(receive()->error(), 0u);
}

TEST_F(Dma, WrongAnswersEndTheConnection) {
  const Bytes right = bytes_of(vfio::DmaAccess{kBase, 4});
  struct Wrong {
    Bytes payload;
    int id = 0;
    int command = 0;
  };
  const Wrong wrongs[] = {{right + Bytes(3)},
                          {right + Bytes(5)},
                          {{}},
                          {bytes_of(vfio::DmaAccess{kBase + 4, 4}) + Bytes(4)},
                          {bytes_of(vfio::DmaAccess{kBase, 5}) + Bytes(4)},
                          {right + Bytes(4), 1},
                          {right + Bytes(4), 0, 1}};
  for (const Wrong& wrong : wrongs) {
    connect();
    agree();
    ASSERT_EQ(map(kBase, 4096), 0u);
    auto client = beside([&] {
      const Reply asked = next();
      send(message(static_cast<Command>(asked.header.command + wrong.command), wrong.payload,
                   vfio::kTypeReply, static_cast<uint16_t>(asked.header.id + wrong.id)));
    });
    EXPECT_TRUE(read(kBase, 4).empty());
    client.join();
    EXPECT_TRUE(readable());
    EXPECT_FALSE(serve().ok());
  }
}

TEST_F(Dma, AFloodInsteadOfAnAnswerEndsTheConnection) {
  ASSERT_EQ(map(kBase, 4096), 0u);
  auto client = beside([&] {
    (void)next();
    const Bytes each = message(Command::kRegionRead, bytes_of(vfio::RegionAccess{0, 7, 1}));
    for (int i = 0; i < 1000; ++i) {
      if (::send(peer.get(), each.data(), each.size(), MSG_NOSIGNAL) < 0) break;
    }
  });
  EXPECT_TRUE(read(kBase, 4).empty());
  server.reset();
  client.join();
}

TEST_F(Dma, AClientThatDoesNotAnswerHoldsTheMachineUpOnce) {
  ASSERT_EQ(map(kBase, 4096), 0u);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(read(kBase, 4).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_TRUE(readable());
  const auto served = serve();
  ASSERT_FALSE(served.ok());
  EXPECT_EQ(served.error().code, ETIMEDOUT);
}

// QEMU without share=on: a processor of its guest waits for a register and keeps it from answering.
TEST_F(Dma, AClientThatWaitsItselfIsToldWhatToDo) {
  ASSERT_EQ(map(kBase, 4096), 0u);
  auto client = beside([&] {
    (void)next();
    send(message(Command::kRegionRead, bytes_of(vfio::RegionAccess{0, 0, 4})));
  });
  EXPECT_TRUE(read(kBase, 4).empty());
  client.join();
  const auto served = serve();
  ASSERT_FALSE(served.ok());
  EXPECT_NE(served.error().message().find("share=on"), std::string::npos);
}

TEST_F(Dma, MainMemoryWithoutAFileIsRefused) {
  struct Range {
    uint64_t address, size;
    uint32_t flags;
    bool main;
  };
  constexpr uint64_t kMib = 1 << 20;
  const Range ranges[] = {{0, 640 << 10, 3, true},  // conventional memory of a PC
                          {0, 512 * kMib, 3, true},
                          {kBase, 16 * kMib, 3, false},            // a graphics adapter's
                          {0xE000000000, 256ull << 30, 3, false},  // BAR 4
                          {0xC0000, 128 << 10, 3, false},          // shadowed ROMs
                          {0xFFC00000, 4 * kMib, 1, false},
                          {0, 512 * kMib, 1, false}};
  for (const Range& range : ranges) {
    connect();
    agree();
    EXPECT_EQ(map(range.address, range.size, -1, range.flags), range.main ? EINVAL : 0u);
    EXPECT_EQ(memory.ranges(), range.main ? 0u : 1u);
    send(message(Command::kDeviceGetInfo, bytes_of(vfio::DeviceInfo{16})));
    const auto served = serve();
    EXPECT_EQ(served.ok(), !range.main) << range.address << " " << range.size;
    if (served.ok()) continue;
    EXPECT_NE(served.error().message().find("share=on"), std::string::npos);
  }
}

TEST_F(Dma, AClientThatDiesInTheMiddleIsGone) {
  ASSERT_EQ(map(kBase, 4096), 0u);
  auto client = beside([&] {
    (void)next();
    send(Bytes(3));
    peer.reset();
  });
  EXPECT_TRUE(read(kBase, 4).empty());
  client.join();
  const auto served = serve();
  ASSERT_TRUE(served.ok());
  EXPECT_FALSE(*served);
}

}  // namespace
}  // namespace driver::qemu::test
