// Where ranks run: the record that each tells the others when they meet, and the group that
// schedules are made for. Source of truth: spec/collectives.md 1.8, 2.1, 4.1; spec/platforms.md 7.
// Own: the layout of the record. The numbering of cores on nodes 1 and 3 of a Trn2 UltraServer runs
// the other way (spec/collectives.md 2.4): the driver's map of cores has that in it, so `nc` is the
// flipped one while `core` stays the number that the API uses; schedules know of cores, not of
// `nc`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/bootstrap.h"
#include "runtime/collectives/schedule/topology.h"
#include "runtime/collectives/types.h"

namespace nrt {

constexpr uint32_t kMaxNeighbours = 8;

struct RankPosition {
  contract::Gen gen = contract::Gen::kV2;
  ccl::Fabric fabric = ccl::Fabric::kSingle;
  uint32_t lnc = 1;             // physical cores per rank
  uint32_t chip = 0;            // platform-wide number, as in peer windows
  uint32_t device = 0;          // number on its host
  uint32_t devices = 1;         // of its host
  uint32_t sleds_per_rack = 0;  // switched fabrics only
  uint32_t nc = 0;              // first physical core on the chip
  uint32_t core = 0;            // logical core on the chip
  uint64_t host = 0;            // the same for ranks of one host, and for them only
  std::array<uint16_t, kMaxNeighbours> neighbours{};  // chips at the other ends of links
  uint32_t neighbour_count = 0;
};

ccl::DeviceRecord pack(const RankPosition& position);
// Checks every field.
base::Result<RankPosition> unpack(const ccl::DeviceRecord& record);

// What one host knows of its machine.
struct HostPlace {
  contract::Gen gen = contract::Gen::kV2;
  uint32_t devices = 1;
  uint32_t nodes = 1;       // of the UltraServer that it is part of
  bool open_chain = false;  // inf2.24xlarge: the only fabric that devices do not tell apart
  uint64_t identity = 0;
};
// Neighbours on the same host, by device number, tell which fabric this is; those that fit none of
// the published ones make a graph.
ccl::Fabric fabric_of(const HostPlace& host, uint32_t device, std::vector<uint32_t> neighbours);
// Racks of sleds of four chips: two as soon as there are several nodes (spec/platforms.md 7.6).
uint32_t sleds_per_rack(const HostPlace& host);

// The positions of all ranks of a world, by rank.
class RankTable {
 public:
  static base::Result<RankTable> make(const std::vector<ccl::PeerInfo>& peers);

  const RankPosition& operator[](uint32_t rank) const { return positions_[rank]; }
  uint32_t size() const { return static_cast<uint32_t>(positions_.size()); }
  // Links between chips of the world; members in the order of `ranks`, which are in the table.
  ccl::Group group(const std::vector<uint32_t>& ranks) const;

 private:
  std::vector<RankPosition> positions_;
  std::vector<uint32_t> nodes_;  // by rank: hosts in the order in which ranks name them
  std::vector<std::pair<uint32_t, uint32_t>> links_;
};

}  // namespace nrt
