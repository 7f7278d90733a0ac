// What ranks tell each other of where they are, and the groups made of it.
#include "runtime/load/rank_position.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/nrt/status.h"

namespace {

using ccl::Fabric;
using nrt::RankPosition;

constexpr uint32_t kTorusRow = 4;

// Rank of a Trn2 UltraServer with logical cores of two: 4 nodes of 16 chips with 4 cores each.
RankPosition ultraserver_rank(uint32_t rank) {
  RankPosition p;
  p.gen = contract::Gen::kV3;
  p.fabric = Fabric::kTorus;
  p.lnc = 2;
  p.chip = rank / 4;
  p.device = p.chip % 16;
  p.devices = 16;
  p.core = rank % 4;
  p.nc = 6 - 2 * p.core;
  p.host = 1000 + p.chip / 16;
  const uint32_t first = p.chip - p.device;
  const uint32_t row = p.device / kTorusRow;
  const uint32_t col = p.device % kTorusRow;
  for (const uint32_t n : {(row + 1) % 4 * 4 + col, (row + 3) % 4 * 4 + col,
                           row * 4 + (col + 1) % 4, row * 4 + (col + 3) % 4}) {
    p.neighbours[p.neighbour_count++] = static_cast<uint16_t>(first + n);
  }
  return p;
}

std::vector<ccl::PeerInfo> peers(const std::vector<RankPosition>& positions) {
  std::vector<ccl::PeerInfo> list;
  for (uint32_t r = 0; r < positions.size(); ++r) list.push_back({r, nrt::pack(positions[r])});
  return list;
}

TEST(RankPosition, ComesBackAsItWas) {
  const RankPosition p = ultraserver_rank(203);
  const auto q = nrt::unpack(nrt::pack(p));
  ASSERT_TRUE(q.ok());
  EXPECT_EQ(q->gen, p.gen);
  EXPECT_EQ(q->fabric, p.fabric);
  EXPECT_EQ(q->chip, 50u);
  EXPECT_EQ(q->device, 2u);
  EXPECT_EQ(q->host, p.host);
  EXPECT_EQ(q->core, 3u);
  EXPECT_EQ(q->nc, 0u);
  EXPECT_EQ(q->neighbours, p.neighbours);
}

// Any single changed byte is either another legal position or refused; never accepted as nonsense.
TEST(RankPosition, EveryFieldIsChecked) {
  const ccl::DeviceRecord good = nrt::pack(ultraserver_rank(5));
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      ccl::DeviceRecord record = good;
      record[at] = static_cast<uint8_t>(value);
      const auto p = nrt::unpack(record);
      if (!p) {
        ++refused;
        continue;
      }
      const contract::AddressMap map{p->gen};
      EXPECT_LT(p->nc + p->lnc - 1, map.ncs()) << at;
      EXPECT_LT(p->core * p->lnc, map.ncs()) << at;
      EXPECT_LT(p->device, p->devices) << at;
      EXPECT_LE(p->neighbour_count, nrt::kMaxNeighbours) << at;
      EXPECT_LE(p->chip, 0x3FFu) << at;
    }
  }
  EXPECT_GT(refused, 24u * 255);  // the bytes behind the last field, at least
}

TEST(RankTable, AnUltraServerIsFourToriAndARingThroughThem) {
  std::vector<RankPosition> all;
  for (uint32_t r = 0; r < 256; ++r) all.push_back(ultraserver_rank(r));
  const auto table = nrt::RankTable::make(peers(all));
  ASSERT_TRUE(table.ok()) << table.error().message();
  const ccl::Group group = table->group({0, 255, 64, 7});
  EXPECT_EQ(group.topology.gen, contract::Gen::kV3);
  EXPECT_EQ(group.topology.fabric, Fabric::kTorus);
  EXPECT_EQ(group.topology.lnc, 2u);
  EXPECT_EQ(group.topology.cores, 4u);
  EXPECT_EQ(group.topology.devices_per_node, 16u);
  EXPECT_EQ(group.topology.links.size(), 2u * 192);  // spec/platforms.md 7.5
  EXPECT_TRUE(std::is_sorted(group.topology.links.begin(), group.topology.links.end()));
  ASSERT_EQ(group.ranks(), 4u);
  EXPECT_EQ(group.members[1].rank, 255u);
  EXPECT_EQ(group.members[1].node, 3u);
  EXPECT_EQ(group.members[1].chip, 63u);
  EXPECT_EQ(group.members[1].device, 15u);
  EXPECT_EQ(group.members[1].core, 3u);
  EXPECT_EQ(group.members[2].node, 1u);
  EXPECT_EQ(group.members[3].nc, 0u);
}

TEST(RankTable, DirectLinksOfASwitchedFabric) {
  std::vector<RankPosition> all;
  for (const uint32_t chip : {0u, 5u, 72u, 77u, 143u}) {
    RankPosition p;
    p.gen = contract::Gen::kV4;
    p.fabric = Fabric::kSwitched;
    p.lnc = 2;
    p.chip = chip;
    p.device = chip % 4;
    p.devices = 4;
    p.sleds_per_rack = 18;
    p.host = chip / 4;
    all.push_back(p);
  }
  const auto table = nrt::RankTable::make(peers(all));
  ASSERT_TRUE(table.ok()) << table.error().message();
  const ccl::Group group = table->group({0, 1, 2, 3, 4});
  const std::vector<std::pair<uint32_t, uint32_t>> expected = {{0, 72}, {5, 77}, {72, 0}, {77, 5}};
  EXPECT_EQ(group.topology.links, expected);
  EXPECT_EQ(group.topology.sleds_per_rack, 18u);
  EXPECT_EQ(group.members[4].node, 4u);
}

TEST(RankTable, RefusesWhatCannotBeOneMachine) {
  std::vector<RankPosition> all = {ultraserver_rank(0), ultraserver_rank(1)};
  all[1].core = all[0].core;
  all[1].nc = all[0].nc;
  EXPECT_EQ(nrt::status_of(nrt::RankTable::make(peers(all)).error()), NRT_INVALID);
  all[1] = ultraserver_rank(1);
  all[1].lnc = 1;
  EXPECT_EQ(nrt::status_of(nrt::RankTable::make(peers(all)).error()), NRT_INVALID);
  all[1] = ultraserver_rank(1);
  all[1].host = 5;  // the same chip number on another host: not one platform
  const auto far = nrt::RankTable::make(peers(all));
  EXPECT_EQ(nrt::status_of(far.error()), NRT_FAILURE);
  EXPECT_EQ(far.error().fault, base::Fault::kUnsupported);
}

TEST(Fabric, FromGenerationAndNeighbours) {
  nrt::HostPlace host;
  EXPECT_EQ(nrt::fabric_of(host, 0, {}), Fabric::kSingle);
  host.devices = 12;
  EXPECT_EQ(nrt::fabric_of(host, 0, {11, 1}), Fabric::kRing);
  EXPECT_EQ(nrt::fabric_of(host, 0, {5, 1}), Fabric::kGraph);
  host.devices = 6;
  host.open_chain = true;
  EXPECT_EQ(nrt::fabric_of(host, 0, {1}), Fabric::kChain);
  EXPECT_EQ(nrt::fabric_of(host, 3, {2, 4}), Fabric::kChain);
  host = {};
  host.devices = 16;
  EXPECT_EQ(nrt::fabric_of(host, 0, {12, 3, 4, 1}), Fabric::kTorus);
  EXPECT_EQ(nrt::fabric_of(host, 0, {15, 1}), Fabric::kRing);
  host.gen = contract::Gen::kV4;
  host.nodes = 4;
  EXPECT_EQ(nrt::fabric_of(host, 0, {1, 2, 3}), Fabric::kSwitched);
  EXPECT_EQ(nrt::sleds_per_rack(host), 8u);
  host.devices = 4;
  host.nodes = 36;
  EXPECT_EQ(nrt::sleds_per_rack(host), 18u);
  host.nodes = 1;
  EXPECT_EQ(nrt::sleds_per_rack(host), 1u);
}

}  // namespace
