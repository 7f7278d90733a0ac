// Second half of CollectiveSet: exchange with the peers, lowering, loading.
#include <algorithm>
#include <cstring>

#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "driver/ndl/ndl.h"
#include "runtime/load/collective_set.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint64_t kChannelAlignment = 64;
constexpr uint32_t kBlobVersion = 1;

bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

void append(ccl::Blob* blob, uint32_t value) {
  const size_t at = blob->size();
  blob->resize(at + sizeof value);
  base::store(blob->data() + at, value);
}

}  // namespace

base::Status CollectiveSet::finish() {
  if (finished_) return {};
  if (base::Status s = communicator_->wait_all(); !s.ok()) return s;
  if (base::Status s = make_resources(); !s.ok()) return s;
  std::vector<std::vector<ccl::RankResources>> by_operation;
  if (base::Status s = exchange(&by_operation); !s.ok()) return s;
  if (base::Status s = lower(by_operation); !s.ok()) return s;
  if (base::Status s = make_rings(); !s.ok()) return s;
  if (base::Status s = load_programs(); !s.ok()) return s;
  if (base::Status s = load_barrier(); !s.ok()) return s;
  finished_ = true;
  // No host barrier: peers touch this rank's semaphores only after its arrival at the device's one.
  return {};
}

base::Status CollectiveSet::make_resources() {
  for (Operation& operation : operations_) {
    const neff::CollectiveOp& op = *operation.op;
    const Group& group = groups_[operation.group];
    ccl::RankResources& r = operation.resources;
    r = ccl::resources_of(core_.map().gen, communicator_->rank(), core_.device().chip(), core_.nc(),
                          stream_core(op.stream_id).index);
    r.semaphore_base = group.semaphore_base;
    r.queue = queue_of_stream(op.stream_id);
    r.one_word = core_.one_word();
    r.src = program_.variables()[op.source].base + op.source_offset;
    r.dst = program_.variables()[op.destination].base + op.destination_offset;
  }
  // Channel buffers: one per group, for its most demanding operation.
  for (const Operation& operation : operations_) {
    Group& group = groups_[operation.group];
    const ccl::RankResources& r = operation.resources;
    const bool in_place =
        overlap(r.src, operation.request.input_bytes, r.dst, operation.request.output_bytes);
    bool same_chip = true;
    for (const uint32_t rank : group.ranks) {
      auto position = communicator_->position(rank);
      if (!position) return position.error();
      same_chip = same_chip && position->chip == core_.device().chip();
    }
    auto bytes =
        ccl::channel_buffer_bytes(operation.request, static_cast<uint32_t>(group.ranks.size()),
                                  in_place, same_chip, plan_options(group.stream));
    if (!bytes) return bytes.error();
    group.channel_bytes = std::max(group.channel_bytes, *bytes);
  }
  for (Group& group : groups_) {
    if (group.channel_bytes == 0) continue;
    auto buffer = DeviceBuffer::allocate(
        core_.device_ptr(), group.channel_bytes,
        core_.place(NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE, kChannelAlignment));
    if (!buffer) return buffer.error();
    group.channel = std::move(*buffer);
  }
  for (Operation& operation : operations_) {
    operation.resources.channel_buffer = groups_[operation.group].channel.address();
  }
  return {};
}

base::Status CollectiveSet::exchange(std::vector<std::vector<ccl::RankResources>>* by_operation) {
  const auto count = static_cast<uint32_t>(program_.subgraph().collectives.size());
  ccl::Blob blob;
  append(&blob, kBlobVersion);
  append(&blob, count);
  append(&blob, static_cast<uint32_t>(operations_.size()));
  const size_t header = blob.size();
  for (const Operation& operation : operations_) {
    const std::vector<uint8_t> image = ccl::serialize(operation.resources);
    blob.insert(blob.end(), image.begin(), image.end());
  }
  const size_t size = blob.size();
  const size_t each = operations_.empty() ? 0 : (size - header) / operations_.size();
  auto all = communicator_->all_gather(std::move(blob));
  if (!all) return all.error();
  by_operation->assign(operations_.size(), {});
  for (uint32_t rank = 0; rank < all->size(); ++rank) {
    const ccl::Blob& theirs = (*all)[rank];
    const uint32_t received = theirs.size() >= header ? base::load<uint32_t>(theirs.data() + 4) : 0;
    if (theirs.size() != size || base::load<uint32_t>(theirs.data()) != kBlobVersion ||
        received != count) {
      return error(NRT_FAILURE, "mismatching number of cc ops, expected " + std::to_string(count) +
                                    " received " + std::to_string(received) + ". Check if ranks " +
                                    std::to_string(communicator_->rank()) + " and " +
                                    std::to_string(rank) + " are using the same neff");
    }
    for (size_t i = 0; i < operations_.size(); ++i) {
      auto resources = ccl::deserialize(theirs.data() + header + i * each, each);
      if (!resources) return resources.error();
      (*by_operation)[i].push_back(*resources);
    }
  }
  return {};
}

base::Status CollectiveSet::lower(
    const std::vector<std::vector<ccl::RankResources>>& by_operation) {
  for (size_t i = 0; i < operations_.size(); ++i) {
    Operation& operation = operations_[i];
    const Group& group = groups_[operation.group];
    std::vector<ccl::RankResources> members;
    for (const uint32_t rank : group.ranks) members.push_back(by_operation[i][rank]);
    auto lowered = ccl::plan(operation.request, members, group.own, operation.completion,
                             plan_options(group.stream));
    if (!lowered) return lowered.error();
    operation.lowered = std::move(*lowered);
  }
  return {};
}

// Per stream and engine: the operations of one execution one after the other; a stream of equal
// operations needs only one.
base::Status CollectiveSet::make_rings() {
  for (uint32_t s = 0; s < streams_.size(); ++s) {
    std::vector<uint32_t> sequence = streams_[s].sequence;
    if (sequence.empty()) continue;
    if (std::all_of(sequence.begin(), sequence.end(),
                    [&](uint32_t i) { return i == sequence[0]; })) {
      sequence.resize(1);
    }
    for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
      HardwareQueue queue;
      queue.engine = e;
      queue.queue = operations_[sequence[0]].lowered.queue;
      queue.s2m.receive = true;
      for (const uint32_t i : sequence) {
        for (const ccl::EngineRing& ring : operations_[i].lowered.rings) {
          if (ring.engine != e) continue;
          auto& m2s = queue.m2s.period.descriptors;
          auto& s2m = queue.s2m.period.descriptors;
          m2s.insert(m2s.end(), ring.m2s.begin(), ring.m2s.end());
          s2m.insert(s2m.end(), ring.s2m.begin(), ring.s2m.end());
        }
      }
      if (queue.m2s.period.descriptors.empty()) continue;
      for (Ring* ring : {&queue.m2s, &queue.s2m}) {
        const MemoryPlace place = core_.place(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE);
        if (base::Status st = ring->create(core_.device_ptr(), place); !st.ok()) return st;
        if (base::Status st = ring->upload(); !st.ok()) return st;
        ring->period = {};
      }
      queues_.push_back(std::move(queue));
    }
  }
  for (Operation& operation : operations_) operation.lowered.rings.clear();
  return {};
}

base::Status CollectiveSet::load_programs() {
  std::vector<RegisterWrite> clears;
  for (const Group& group : groups_) {
    const uint64_t block = stream_core(group.stream).window.bar0;
    for (uint32_t i = 0; i < group.semaphores; ++i) {
      clears.push_back({block + contract::sem::kSet + 4ull * (group.semaphore_base + i), 0});
    }
  }
  if (base::Status s = core_.device().write_registers(clears); !s.ok()) return s;
  for (Operation& operation : operations_) {
    if (base::Status s =
            place_program(&stream_core(operation.op->stream_id), operation.lowered.program,
                          operation.op_index, &operation.first_record);
        !s.ok()) {
      return s;
    }
    operation.records = static_cast<uint32_t>(operation.lowered.program.size());
  }
  return {};
}

base::Status CollectiveSet::place_program(CcCore* cc,
                                          std::vector<contract::cc_program::Record> records,
                                          uint32_t op_index, uint32_t* first) {
  const auto count = static_cast<uint32_t>(records.size());
  const uint32_t at = cc->records.allocate(count);
  if (count == 0 || at == cc->records.size()) {
    return error(NRT_RESOURCE, "The CC-core's program memory is full: " + std::to_string(count) +
                                   " records do not fit");
  }
  *first = at;
  ccl::relocate(&records, at);
  // Word by word: the CC-core's window takes 32-bit stores (docs/hardware-contract.md 6).
  constexpr uint32_t kWords = sizeof(contract::cc_program::Record) / sizeof(uint32_t);
  const uint64_t program =
      cc->window.bar0 + contract::topsp::kProgram + at * sizeof(contract::cc_program::Record);
  std::vector<RegisterWrite> writes;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t words[kWords];
    std::memcpy(words, &records[i], sizeof words);
    for (uint32_t w = 0; w < kWords; ++w) {
      writes.push_back({program + (i * kWords + w) * sizeof(uint32_t), words[w]});
    }
  }
  const uint64_t entry = cc->window.bar0 + contract::cc::kOp + op_index * contract::cc::kOpStride;
  writes.push_back({entry + contract::cc::kOpEntry, at});
  writes.push_back({entry + contract::cc::kOpArgument, 0});
  base::Status status = core_.device().write_registers(writes);
  if (!status.ok()) cc->records.release(at, count);
  return status;
}

base::Status CollectiveSet::load_barrier() {
  auto root = communicator_->position(0);
  if (!root) return root.error();
  const contract::AddressMap& map = core_.map();
  // The cell lives in rank 0's barrier CC-core; the number of members picks it, so that worlds of
  // different size never share one.
  const uint32_t per_nc = map.topsps_per_nc();
  uint64_t cell =
      map.topsp(root->nc * per_nc + per_nc - 1).device + contract::cc::kBarrier +
      (communicator_->world() % contract::cc_program::kBarrierCells) * contract::cc::kBarrierStride;
  if (root->chip != core_.device().chip()) cell = map.peer_address(root->chip, cell);
  ccl::Completion completion;
  completion.address =
      map.nc_semaphores(core_.nc()) + contract::sem::kInc + 4ull * barrier_semaphore_;
  std::vector<contract::cc_program::Record> records =
      ccl::barrier_program(cell, communicator_->world(), completion);
  const auto count = static_cast<uint32_t>(records.size());
  if (base::Status s =
          place_program(&core_.barrier_cc(), std::move(records), barrier_op_, &barrier_first_);
      !s.ok()) {
    return s;
  }
  barrier_records_ = count;
  return {};
}

}  // namespace nrt
