#include "runtime/load/communicator.h"

#include <algorithm>
#include <utility>

#include "base/span.h"
#include "runtime/collectives/ccl.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint32_t kRecordVersion = 2;
constexpr uint32_t kMaxDevices = 64;  // of a node (docs/hardware-contract.md 1)
constexpr size_t kNeighbours = 32;    // offset in the record: one byte each, 0xFF ends the list

}  // namespace

ccl::DeviceRecord pack(const RankPosition& position) {
  ccl::DeviceRecord record{};
  base::store<uint32_t>(record.data(), kRecordVersion);
  base::store<uint32_t>(record.data() + 4, static_cast<uint32_t>(position.gen));
  base::store<uint32_t>(record.data() + 8, position.chip);
  base::store<uint32_t>(record.data() + 12, position.nc);
  base::store<uint32_t>(record.data() + 16, position.lnc);
  base::store<uint32_t>(record.data() + 20, position.device);
  base::store<uint32_t>(record.data() + 24, position.devices);
  for (size_t i = 0; i < RankPosition::kMaxNeighbours; ++i) {
    const bool is = i < position.neighbours.size();
    record[kNeighbours + i] = is ? static_cast<uint8_t>(position.neighbours[i]) : 0xFF;
  }
  return record;
}

base::Result<RankPosition> unpack(const ccl::DeviceRecord& record) {
  RankPosition position;
  const auto gen = base::load<uint32_t>(record.data() + 4);
  position.chip = base::load<uint32_t>(record.data() + 8);
  position.nc = base::load<uint32_t>(record.data() + 12);
  position.lnc = base::load<uint32_t>(record.data() + 16);
  position.device = base::load<uint32_t>(record.data() + 20);
  position.devices = base::load<uint32_t>(record.data() + 24);
  bool known = base::load<uint32_t>(record.data()) == kRecordVersion && gen >= 2 && gen <= 4;
  if (known) position.gen = static_cast<contract::Gen>(gen);
  for (size_t i = 0; i < RankPosition::kMaxNeighbours; ++i) {
    const uint8_t neighbour = record[kNeighbours + i];
    if (neighbour == 0xFF) break;
    known = known && neighbour < position.devices;
    position.neighbours.push_back(neighbour);
  }
  const contract::AddressMap map{position.gen};
  known = known && position.lnc >= 1 && position.lnc <= ccl::kMaxLnc && position.nc < map.ncs() &&
          position.nc % position.lnc == 0 && position.chip <= 0x3FF &&
          position.devices <= kMaxDevices && position.device < position.devices &&
          position.device <= position.chip;
  if (!known) {
    return error(NRT_FAILURE, "A peer sent a record that this runtime does not understand",
                 base::Fault::kIo);
  }
  return position;
}

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
  return bootstrap_ ? bootstrap_->wait_all() : base::Status();
}

base::Result<RankPosition> Communicator::position(uint32_t rank) const {
  if (rank == rank_) return own_;
  const std::vector<ccl::PeerInfo>& table = bootstrap_->table();
  const auto peer = std::find_if(table.begin(), table.end(),
                                 [&](const ccl::PeerInfo& p) { return p.rank == rank; });
  if (peer == table.end()) {
    return error(NRT_FAILURE, "Rank " + std::to_string(rank) + " is unknown");
  }
  return unpack(peer->record);
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
