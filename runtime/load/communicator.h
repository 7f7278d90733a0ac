// The ranks of one world as seen by one core: rendezvous and host-side exchanges on top of the
// collectives library's bootstrap (spec/nrt-api.md 10). A world of one rank needs no peers.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/bootstrap.h"
#include "runtime/load/rank_position.h"

namespace nrt {

class Communicator {
 public:
  // Starts to meet the peers through NEURON_RT_ROOT_COMM_ID; does not wait for them. Without it all
  // ranks are of this process, so there may be no more of them than its `local_cores`.
  static base::Result<std::shared_ptr<Communicator>> create(const RankPosition& own, uint32_t rank,
                                                            uint32_t world, uint32_t local_cores);

  uint32_t rank() const { return rank_; }
  uint32_t world() const { return world_; }

  base::Status wait_all();
  // Position of a rank; after wait_all().
  base::Result<RankPosition> position(uint32_t rank) const;
  // What schedules for these ranks, in this order, are made for; after wait_all().
  base::Result<ccl::Group> group(const std::vector<uint32_t>& ranks) const;
  base::Result<ccl::Gathered> all_gather(ccl::Blob blob);
  base::Status barrier();
  // What has ended the job, or who has left, if anything or anybody has.
  base::Status health() const { return bootstrap_ ? bootstrap_->health() : base::Status(); }
  bool failed() const { return bootstrap_ && bootstrap_->failed(); }
  bool deserted() const { return bootstrap_ && bootstrap_->deserted(); }
  void begin_execution() {
    if (bootstrap_) bootstrap_->begin_execution();
  }
  // Who keeps the execution begun last from beginning everywhere; ccl::Bootstrap::missing().
  std::string missing() { return bootstrap_ ? bootstrap_->missing() : ""; }
  // A call that waits for peers fails.
  void abandon(const std::string& why) {
    if (bootstrap_) bootstrap_->abandon(why);
  }

 private:
  Communicator(const RankPosition& own, uint32_t rank, uint32_t world)
      : own_(own), rank_(rank), world_(world) {}

  RankPosition own_;
  uint32_t rank_;
  uint32_t world_;
  std::unique_ptr<ccl::Bootstrap> bootstrap_;  // null in a world of one
  std::mutex mutex_;
  std::shared_ptr<const RankTable> table_;  // once all are here
};

}  // namespace nrt
