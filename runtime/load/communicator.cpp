#include "runtime/load/communicator.h"

#include <algorithm>
#include <utility>

#include "runtime/nrt/environment.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace nrt {

base::Result<std::shared_ptr<Communicator>> Communicator::create(const RankPosition& own,
                                                                 uint32_t rank, uint32_t world) {
  std::shared_ptr<Communicator> communicator(new Communicator(own, rank, world));
  if (world == 1) return communicator;
  const auto root = environment("NEURON_RT_ROOT_COMM_ID");
  if (!root) {
    return error(NRT_FAILURE,
                 "NEURON_RT_ROOT_COMM_ID is not set: collectives of more than one rank need "
                 "<address>:<port> of rank 0");
  }
  ccl::BootstrapOptions options;
  options.root_id = *root;
  options.rank = rank;
  options.world = world;
  options.record = pack(own);
  options.log = [](const std::string& text) {
    log(LogLevel::kWarn, Component::kNrt, "bootstrap", "%s", text.c_str());
  };
  auto bootstrap = ccl::Bootstrap::open(std::move(options));
  if (!bootstrap) return bootstrap.error();
  communicator->bootstrap_ = std::move(*bootstrap);
  return communicator;
}

base::Status Communicator::wait_all() {
  if (bootstrap_) {
    if (base::Status s = bootstrap_->wait_all(); !s.ok()) return s;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (table_) return {};
  const std::vector<ccl::PeerInfo> alone{{rank_, pack(own_)}};
  auto table = RankTable::make(bootstrap_ ? bootstrap_->table() : alone);
  if (!table) return table.error();
  table_ = std::move(*table);
  return {};
}

base::Result<RankPosition> Communicator::position(uint32_t rank) const {
  if (!table_ || rank >= table_->size()) {
    return error(NRT_FAILURE, "Rank " + std::to_string(rank) + " is unknown");
  }
  return (*table_)[rank];
}

base::Result<ccl::Group> Communicator::group(const std::vector<uint32_t>& ranks) const {
  const bool known =
      table_ && !ranks.empty() &&
      std::all_of(ranks.begin(), ranks.end(), [&](uint32_t rank) { return rank < table_->size(); });
  if (!known) return error(NRT_FAILURE, "A group with ranks that are unknown");
  return table_->group(ranks);
}

base::Result<std::vector<ccl::Blob>> Communicator::all_gather(ccl::Blob blob) {
  if (bootstrap_) return bootstrap_->all_gather(std::move(blob));
  std::vector<ccl::Blob> all;
  all.push_back(std::move(blob));
  return all;
}

base::Status Communicator::barrier() {
  return bootstrap_ ? bootstrap_->barrier() : base::Status();
}

}  // namespace nrt
