// The ranks of one world as seen by one core: rendezvous and host-side exchanges on top of the
// collectives library's bootstrap (nrt-api.md 10). A world of one rank needs no peers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"
#include "base/error.h"
#include "runtime/collectives/bootstrap.h"

namespace nrt {

// Where a rank runs; exchanged by the bootstrap.
struct RankPosition {
  contract::Gen gen = contract::Gen::kV2;
  uint32_t chip = 0;     // platform-wide number
  uint32_t nc = 0;       // first physical core
  uint32_t lnc = 1;      // physical cores
  uint32_t device = 0;   // number of the chip on its node
  uint32_t devices = 1;  // chips of the node
  // Chips of the node that a link joins to this one, by number on the node; the first few.
  static constexpr size_t kMaxNeighbours = 8;
  std::vector<uint32_t> neighbours;
};

ccl::DeviceRecord pack(const RankPosition& position);
base::Result<RankPosition> unpack(const ccl::DeviceRecord& record);

class Communicator {
 public:
  // Starts to meet the peers through NEURON_RT_ROOT_COMM_ID; does not wait for them.
  static base::Result<std::shared_ptr<Communicator>> create(const RankPosition& own, uint32_t rank,
                                                            uint32_t world);

  uint32_t rank() const { return rank_; }
  uint32_t world() const { return world_; }

  base::Status wait_all();
  // Position of a rank; after wait_all().
  base::Result<RankPosition> position(uint32_t rank) const;
  base::Result<std::vector<ccl::Blob>> all_gather(ccl::Blob blob);
  base::Status barrier();

 private:
  Communicator(const RankPosition& own, uint32_t rank, uint32_t world)
      : own_(own), rank_(rank), world_(world) {}

  RankPosition own_;
  uint32_t rank_;
  uint32_t world_;
  std::unique_ptr<ccl::Bootstrap> bootstrap_;  // null in a world of one
};

}  // namespace nrt
