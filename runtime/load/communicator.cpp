#include "runtime/load/communicator.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/nrt/environment.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// Ranks of one process share the table of their world: it is long, and there may be a thousand.
base::Result<std::shared_ptr<const RankTable>> shared_table(const ccl::Bootstrap& bootstrap) {
  static std::mutex mutex;
  static std::map<uint64_t, std::weak_ptr<const RankTable>> tables;  // by cluster
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<const RankTable>& entry = tables[bootstrap.cluster_id()];
  if (auto table = entry.lock()) return table;
  auto made = RankTable::make(bootstrap.table());
  if (!made) return made.error();
  const auto table = std::make_shared<const RankTable>(std::move(*made));
  entry = table;
  for (auto it = tables.begin(); it != tables.end();) {
    it = it->second.expired() ? tables.erase(it) : std::next(it);
  }
  return table;
}

}  // namespace

base::Result<std::shared_ptr<Communicator>> Communicator::create(const RankPosition& own,
                                                                 uint32_t rank, uint32_t world,
                                                                 uint32_t local_cores) {
  std::shared_ptr<Communicator> communicator(new Communicator(own, rank, world));
  if (world == 1) return communicator;
  const auto root = environment("NEURON_RT_ROOT_COMM_ID");
  if (!root && world > local_cores) {
    return error(NRT_FAILURE, "NEURON_RT_ROOT_COMM_ID is not set: " + std::to_string(world) +
                                  " ranks do not fit into this process of " +
                                  std::to_string(local_cores) +
                                  " cores, and others are met at <address>:<port> of rank 0");
  }
  ccl::BootstrapOptions options;
  options.root_id = root.value_or("");
  options.rank = rank;
  options.world = world;
  options.record = pack(own);
  options.log = [](const std::string& text) {
    log(LogLevel::kWarn, Component::kNrt, "bootstrap", "%s", text.c_str());
  };
  // The log shows errors only unless told otherwise, and people must see why nothing happens.
  options.alarm = [alone = !root](const std::string& text) {
    log(LogLevel::kError, Component::kNrt, "bootstrap", "%s%s", text.c_str(),
        alone ? "; NEURON_RT_ROOT_COMM_ID is not set, so ranks of other processes do not come"
              : "");
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
  if (bootstrap_) {
    auto table = shared_table(*bootstrap_);
    if (!table) return table.error();
    table_ = *table;
    return {};
  }
  auto alone = RankTable::make({{rank_, pack(own_)}});
  if (!alone) return alone.error();
  table_ = std::make_shared<const RankTable>(std::move(*alone));
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

base::Result<ccl::Gathered> Communicator::all_gather(ccl::Blob blob) {
  if (bootstrap_) return bootstrap_->all_gather(std::move(blob));
  std::vector<ccl::Blob> all;
  all.push_back(std::move(blob));
  return ccl::Gathered(std::move(all));
}

base::Status Communicator::barrier() {
  return bootstrap_ ? bootstrap_->barrier() : base::Status();
}

}  // namespace nrt
