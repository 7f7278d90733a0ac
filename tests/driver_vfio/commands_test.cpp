// Each command of the client: what it does, and what it refuses.
#include <sys/stat.h>

#include <cerrno>

#include "tests/driver_vfio/vfio_bench.h"

namespace driver::qemu::test {
namespace {

class Commands : public Bench {
 protected:
  // The reply to a proposal on a fresh connection; nothing if it was refused and closed.
  std::optional<std::string> propose(const Bytes& payload) {
    connect();
    send(message(Command::kVersion, payload));
    const auto served = serve();
    const auto reply = receive();
    if (!reply || reply->error() != 0) {
      EXPECT_FALSE(served.ok()) << "refused, but not closed";
      return std::nullopt;
    }
    EXPECT_TRUE(served.ok());
    EXPECT_EQ(reply->as<vfio::Version>().major, 0);
    minor = reply->as<vfio::Version>().minor;
    EXPECT_EQ(reply->payload.back(), 0);
    return std::string(reply->payload.begin() + 4, reply->payload.end() - 1);
  }
  Reply read(uint32_t region, uint64_t offset, uint32_t count) {
    return call(Command::kRegionRead, bytes_of(vfio::RegionAccess{offset, region, count}));
  }
  uint32_t write(uint32_t region, uint64_t offset, const Bytes& data) {
    const vfio::RegionAccess access{offset, region, static_cast<uint32_t>(data.size())};
    return error_of(Command::kRegionWrite, bytes_of(access) + data);
  }
  Reply region(uint32_t index, uint32_t argsz = 32) {
    return call(Command::kDeviceGetRegionInfo, bytes_of(vfio::RegionInfo{argsz, 0, index}));
  }
  int minor = -1;
};

using Version = Commands;

TEST_F(Version, AnswersASubsetOfWhatIsProposed) {
  EXPECT_EQ(propose(version_payload("")), R"({"capabilities":{}})");
  EXPECT_EQ(propose(version_payload("{}")), R"({"capabilities":{}})");
  EXPECT_EQ(propose(version_payload(R"({"capabilities":{"max_msg_fds":8,"new":[1]},"x":0})")),
            R"({"capabilities":{"max_msg_fds":1}})");
  EXPECT_EQ(propose(version_payload(
                R"({"capabilities":{"max_msg_fds":8,"max_data_xfer_size":4194304,"pgsizes":4096,)"
                R"("max_dma_maps":65535,"twin_socket":{"supported":true},)"
                R"("write_multiple":true}})")),
            R"({"capabilities":{"max_msg_fds":1,"max_data_xfer_size":1048576,)"
            R"("max_dma_maps":4096,"pgsizes":4096,"write_multiple":true}})");
  EXPECT_EQ(propose(version_payload(R"({"capabilities":{"write_multiple":false}})")),
            R"({"capabilities":{}})");
}

TEST_F(Version, MinorNumberIsTheLowerOne) {
  ASSERT_TRUE(propose(version_payload("", 0, 0)).has_value());
  EXPECT_EQ(minor, 0);
  ASSERT_TRUE(propose(version_payload("", 0, 500)).has_value());
  EXPECT_EQ(minor, 1);
}

TEST_F(Version, WhatCannotBeAgreedOnEndsTheConnection) {
  EXPECT_FALSE(propose({}).has_value());
  EXPECT_FALSE(propose({0, 0, 1}).has_value());
  EXPECT_FALSE(propose(version_payload("", 1)).has_value());
  EXPECT_FALSE(propose(version_payload("", 0xFFFF)).has_value());
  for (const char* json :
       {"[]", "1", "{", "nonsense", "{\"capabilities\":[]}", "{\"capabilities\":null}",
        R"({"capabilities":{"max_msg_fds":-1}})", R"({"capabilities":{"max_msg_fds":"8"}})",
        R"({"capabilities":{"max_data_xfer_size":0}})",
        R"({"capabilities":{"max_data_xfer_size":1.5}})",
        R"({"capabilities":{"max_data_xfer_size":1e30}})",
        R"({"capabilities":{"pgsizes":18446744073709551616}})",
        R"({"capabilities":{"write_multiple":1}})"}) {
    EXPECT_FALSE(propose(version_payload(json)).has_value()) << json;
  }
  Bytes open_end = version_payload("{}");
  open_end.pop_back();
  EXPECT_FALSE(propose(open_end).has_value());
  EXPECT_FALSE(propose(version_payload(std::string(5000, ' ') + "{}")).has_value());
  EXPECT_FALSE(propose(version_payload(std::string(4000, '['))).has_value());
}

TEST_F(Version, ComesFirstAndOnce) {
  send(message(Command::kDeviceGetInfo, bytes_of(vfio::DeviceInfo{16})));
  EXPECT_FALSE(serve().ok());
  EXPECT_EQ(receive()->error(), EINVAL);
  connect();
  agree();
  EXPECT_EQ(error_of(Command::kVersion, version_payload("")), EINVAL);
  EXPECT_EQ(read(7, 0, 4).error(), 0u);
}

TEST_F(Commands, DeviceHasResetNineRegionsAndNoInterrupts) {
  agree();
  const auto info =
      call(Command::kDeviceGetInfo, bytes_of(vfio::DeviceInfo{100})).as<vfio::DeviceInfo>();
  EXPECT_EQ(info.argsz, 16u);
  EXPECT_EQ(info.flags, vfio::kDeviceReset | vfio::kDevicePci);
  EXPECT_EQ(info.num_regions, 9u);
  EXPECT_EQ(info.num_irqs, 5u);
  EXPECT_EQ(error_of(Command::kDeviceGetInfo, bytes_of(vfio::DeviceInfo{15})), EINVAL);
  for (const uint32_t index : {0u, 1u, 2u, 4u}) {
    const auto irq = call(Command::kDeviceGetIrqInfo, bytes_of(vfio::IndexInfo{16, 0, index, 0}))
                         .as<vfio::IndexInfo>();
    EXPECT_EQ(irq.index, index);
    EXPECT_EQ(irq.count, 0u);
  }
  EXPECT_EQ(error_of(Command::kDeviceGetIrqInfo, bytes_of(vfio::IndexInfo{16, 0, 3, 0})), EINVAL);
  EXPECT_EQ(error_of(Command::kDeviceGetIrqInfo, bytes_of(vfio::IndexInfo{16, 0, 5, 0})), EINVAL);
  EXPECT_EQ(error_of(Command::kDeviceGetIrqInfo, bytes_of(vfio::IndexInfo{8, 0, 0, 0})), EINVAL);
}

TEST_F(Commands, InterruptsCanOnlyBeDisabled) {
  agree();
  const auto set = [&](const vfio::IrqSet& irqs, const Bytes& data = {}) {
    return error_of(Command::kDeviceSetIrqs, bytes_of(irqs) + data);
  };
  EXPECT_EQ(set({20, 0x21, 0, 0, 0}), 0u);
  EXPECT_EQ(set({20, 0x21, 2, 0, 0}), 0u);
  EXPECT_EQ(set({20, 0x21, 5, 0, 0}), EINVAL);
  EXPECT_EQ(set({20, 0x21, 0, 0, 1}), EINVAL);
  EXPECT_EQ(set({20, 0x21, 0, 1, 0}), EINVAL);
  EXPECT_EQ(set({20, 0x24, 0, 0, 1}), EINVAL);
  EXPECT_EQ(set({20, 0x22, 0, 0, 1}, {1}), EINVAL);
  EXPECT_EQ(set({20, 0x21, 0, 0, 0}, {1}), EINVAL);
  EXPECT_EQ(set({19, 0x21, 0, 0, 0}), EINVAL);
}

TEST_F(Commands, RegionsAreTheBarsAndConfigurationSpace) {
  agree();
  for (uint32_t index = 0; index < 9; ++index) {
    const auto info = region(index).as<vfio::RegionInfo>();
    const uint64_t size = index == 0   ? 4ull << 30
                          : index == 4 ? 256ull << 30
                          : index == 7 ? 4096
                                       : 0;
    EXPECT_EQ(info.size, size) << index;
    EXPECT_EQ(info.flags, size != 0 ? 3u : 0u);
    EXPECT_EQ(info.argsz, 32u);
    EXPECT_EQ(info.index, index);
  }
  EXPECT_EQ(region(9).error(), EINVAL);
  EXPECT_EQ(region(0, 31).error(), EINVAL);
  const auto fds = call(Command::kDeviceGetRegionIoFds, bytes_of(vfio::IndexInfo{16, 0, 4, 0}));
  EXPECT_EQ(fds.as<vfio::IndexInfo>().count, 0u);
  EXPECT_EQ(error_of(Command::kDeviceGetRegionIoFds, bytes_of(vfio::IndexInfo{16, 1, 4, 0})),
            EINVAL);
  EXPECT_EQ(error_of(Command::kDeviceGetRegionIoFds, bytes_of(vfio::IndexInfo{16, 0, 9, 0})),
            EINVAL);
}

TEST_F(Commands, TheFileBehindABarCanBeMapped) {
  device.hbm = memory_file(4 << 20);
  device.areas = {{0, 1 << 20}, {2 << 20, 1 << 20}};
  agree();
  for (const uint32_t room : {32u, 79u}) {
    const Reply small = region(4, room);
    EXPECT_EQ(small.as<vfio::RegionInfo>().argsz, 80u);
    EXPECT_EQ(small.as<vfio::RegionInfo>().flags & vfio::kRegionMmap, 0u);
    EXPECT_EQ(small.as<vfio::RegionInfo>().cap_offset, 32u);
    EXPECT_TRUE(small.fds.empty());
  }
  const Reply full = region(4, 80);
  const auto info = full.as<vfio::RegionInfo>();
  EXPECT_EQ(info.flags, 0xFu);
  EXPECT_EQ(info.offset, 4096u);
  ASSERT_EQ(full.fds.size(), 1u);
  struct stat ours {
  }, theirs{};
  ASSERT_EQ(::fstat(device.hbm.get(), &ours), 0);
  ASSERT_EQ(::fstat(full.fds[0].get(), &theirs), 0);
  EXPECT_EQ(ours.st_ino, theirs.st_ino);
  ASSERT_EQ(full.payload.size(), 80u);
  const auto sparse = base::load<vfio::SparseMmap>(full.payload.data() + info.cap_offset);
  EXPECT_EQ(sparse.id, 1);
  ASSERT_EQ(sparse.nr_areas, 2u);
  for (size_t i = 0; i < 2; ++i) {
    const auto area = base::load<vfio::SparseArea>(full.payload.data() + 48 + 16 * i);
    EXPECT_EQ(area.offset, device.areas[i].offset);
    EXPECT_EQ(area.size, 1u << 20);
  }
  EXPECT_TRUE(region(0, 80).fds.empty());
}

TEST_F(Commands, ConfigurationSpaceIsAccessedInAlignedPieces) {
  agree();
  EXPECT_EQ(write(7, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 0u);
  EXPECT_EQ(device.accesses, (std::vector<std::string>{"w1@3", "w4@4", "w4@8"}));
  device.accesses.clear();
  EXPECT_EQ(write(7, 13, {1, 2, 3, 4, 5}), 0u);
  EXPECT_EQ(device.accesses, (std::vector<std::string>{"w1@13", "w2@14", "w2@16"}));
  device.accesses.clear();
  const Reply reply = read(7, 3, 9);
  EXPECT_EQ(Bytes(reply.payload.begin() + 16, reply.payload.end()),
            (Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(read(7, 0, 4096).error(), 0u);
  EXPECT_EQ(read(7, 4093, 4).error(), EINVAL);
}

TEST_F(Commands, BarsTakeAnySizeAtAnyOffsetInside) {
  agree();
  EXPECT_EQ(write(4, (256ull << 30) - 3, {7, 8, 9}), 0u);
  const Reply reply = read(4, (256ull << 30) - 4, 4);
  EXPECT_EQ(reply.as<vfio::RegionAccess>().count, 4u);
  EXPECT_EQ(Bytes(reply.payload.begin() + 16, reply.payload.end()), (Bytes{0, 7, 8, 9}));
  EXPECT_EQ(read(4, 256ull << 30, 0).error(), 0u);
  EXPECT_EQ(read(4, 256ull << 30, 1).error(), EINVAL);
  EXPECT_EQ(read(4, (256ull << 30) + 1, 0).error(), EINVAL);
  EXPECT_EQ(read(4, ~0ull, 2).error(), EINVAL);
  EXPECT_EQ(read(0, 0, 1 << 20).error(), 0u);
  EXPECT_EQ(read(0, 0, (1 << 20) + 1).error(), EINVAL);
  for (const uint32_t absent : {1u, 2u, 3u, 5u, 6u, 8u, 9u, 0xFFFFFFFFu}) {
    EXPECT_EQ(read(absent, 0, 1).error(), EINVAL) << absent;
    EXPECT_EQ(write(absent, 0, {1}), EINVAL) << absent;
  }
}

TEST_F(Commands, CountAndPayloadMustAgree) {
  agree();
  const auto access = bytes_of(vfio::RegionAccess{0, 0, 4});
  EXPECT_EQ(error_of(Command::kRegionWrite, access + Bytes(3)), EINVAL);
  EXPECT_EQ(error_of(Command::kRegionWrite, access + Bytes(5)), EINVAL);
  EXPECT_EQ(error_of(Command::kRegionRead, access + Bytes(4)), EINVAL);
  EXPECT_TRUE(device.bytes[0].empty());
}

TEST_F(Commands, SeveralWritesAreAllDoneOrNone) {
  connect();
  ASSERT_EQ(
      error_of(Command::kVersion, version_payload(R"({"capabilities":{"write_multiple":true}})")),
      0u);
  const auto writes = [](uint64_t count, const std::vector<vfio::SingleWrite>& list) {
    Bytes payload = bytes_of(count);
    for (const auto& each : list) payload = payload + bytes_of(each);
    return payload;
  };
  const vfio::SingleWrite good{0x100, 0, 4, {1, 2, 3, 4, 5}};
  const vfio::SingleWrite eight{0x200, 0, 8, {1, 2, 3, 4, 5, 6, 7, 8}};
  const vfio::SingleWrite nine{0x200, 0, 9, {}};
  const vfio::SingleWrite outside{4ull << 30, 0, 1, {}};
  for (const Bytes& bad :
       {writes(2, {good, nine}), writes(2, {good, outside}), writes(2, {good}), writes(0, {good}),
        writes(1ull << 61, {}), writes(~0ull, {good}), writes(1, {good}) + Bytes(1)}) {
    EXPECT_EQ(error_of(Command::kRegionWriteMulti, bad), EINVAL);
  }
  EXPECT_TRUE(device.bytes[0].empty());
  EXPECT_EQ(call(Command::kRegionWriteMulti, writes(0, {})).as<uint64_t>(), 0u);
  EXPECT_EQ(call(Command::kRegionWriteMulti, writes(2, {good, eight})).as<uint64_t>(), 2u);
  EXPECT_EQ(device.bytes[0].size(), 12u);
  connect();
  agree();  // did not ask for them
  EXPECT_EQ(error_of(Command::kRegionWriteMulti, writes(1, {good})), EINVAL);
}

TEST_F(Commands, ResetReachesTheDevice) {
  agree();
  EXPECT_EQ(error_of(Command::kDeviceReset), 0u);
  EXPECT_EQ(device.resets, 1);
  EXPECT_EQ(error_of(Command::kDeviceReset, {0}), EINVAL);
  EXPECT_EQ(device.resets, 1);
}

TEST_F(Commands, WhatIsNotThereIsNotSupported) {
  agree();
  for (const int command : {0, 11, 12, 14, 16, 17, 18, 19, 0xFFFF}) {
    EXPECT_EQ(error_of(static_cast<Command>(command), Bytes(24)), ENOTSUP) << command;
  }
}

}  // namespace
}  // namespace driver::qemu::test
