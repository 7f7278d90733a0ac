#include "runtime/load/collective_offer.h"

#include <algorithm>

#include "driver/ndl/ndl.h"
#include "runtime/collectives/schedule/cycles.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint64_t kChannelAlignment = 64;

base::Result<DeviceBuffer> allocate(const Core& core, uint64_t bytes) {
  return DeviceBuffer::allocate(
      core.device_ptr(), bytes,
      core.place(NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE, kChannelAlignment));
}

// Implicit permutes go along the ring of their channel.
base::Result<ccl::OpRequest> complete(const CollectiveProgram::Operation& operation,
                                      const ccl::Group& group) {
  ccl::OpRequest request = operation.request;
  if (operation.op->type == neff::CollectiveType::kPermuteImplicit ||
      operation.op->type == neff::CollectiveType::kPermuteReduceImplicit) {
    auto pairs = ccl::ring_pairs(group, operation.op->channel_id);
    if (!pairs) return pairs.error();
    request.pairs = std::move(*pairs);
  }
  return request;
}

// Where the rank, its CC-cores and the tensors are. Semaphores and buffers come later.
base::Result<ccl::RankResources> place_of(const CollectiveContext& c,
                                          const CollectiveProgram::Operation& operation) {
  const neff::CollectiveOp& op = *operation.op;
  const StreamQueue& stream_queue = c.program.stream_queues[operation.stream_queue];
  ccl::RankResources r;
  r.gen = c.core.map().gen;
  r.global_rank = c.communicator.rank();
  r.chip = c.core.device().chip();
  r.nc = c.core.nc();
  r.lnc = c.core.lnc();
  r.cc_count = c.triggers.cc_count(op.stream_id);
  for (uint32_t cc_index = 0; cc_index < r.cc_count; ++cc_index) {
    r.cc[cc_index].index = c.triggers.cc(op.stream_id, cc_index).index;
  }
  r.queue = stream_queue.queue;
  r.weights = c.core.weights();
  if (operation.request.kind == ccl::OpKind::kBarrier) return r;
  const std::vector<VariableAddress>& variables = *c.variables[operation.part];
  if (op.second_source) r.second = variables[*op.second_source].base + op.second_source_offset;
  r.src = variables[op.source].base + op.source_offset;
  r.dst = variables[op.destination].base + op.destination_offset;
  if (op.metadata) {
    r.metadata = variables[*op.metadata].base;
    r.block_queue = *stream_queue.block_queue;
    if (r.metadata % sizeof(uint32_t) != 0) {
      return error(NRT_INVALID, "The metadata tensor of a collective is not aligned to its words");
    }
  }
  if (op.type == neff::CollectiveType::kSendRecv &&
      ccl::overlap(r.src, op.source_bytes, r.dst, op.destination_bytes)) {
    return error(NRT_INVALID, "Source and destination of SEND_RECV overlap");
  }
  return r;
}

// What the operation needs, the same on all ranks: they run one program, so buffers overlap on all
// or none, except inputs and outputs, which each rank binds as it likes.
base::Result<ccl::Needs> needs_of(const CollectiveContext& c,
                                  const CollectiveProgram::Operation& operation,
                                  const ccl::OpRequest& request, const ccl::RankResources& r,
                                  const ccl::Group& group, const ccl::PlanOptions& options) {
  const bool in_place = ccl::tensors_overlap(request, r);
  auto needs = ccl::needs(request, group, in_place, r.cc_count, options);
  if (!needs) return needs.error();
  if (request.kind == ccl::OpKind::kBarrier) return needs;
  const std::vector<VariableAddress>& variables = *c.variables[operation.part];
  if (!variables[operation.op->source].io || !variables[operation.op->destination].io) return needs;
  const auto other = ccl::needs(request, group, !in_place, r.cc_count, options);
  if (!other) return needs;
  ccl::Needs both = std::move(*needs);
  both.channel_bytes = std::max(both.channel_bytes, other->channel_bytes);
  both.signals = std::max(both.signals, other->signals);
  both.completions = std::max(both.completions, other->completions);
  both.signature =
      in_place ? other->signature + "|" + both.signature : both.signature + "|" + other->signature;
  return both;
}

}  // namespace

// Fills a CollectiveOffer, which leaves this file complete or not at all.
class CollectiveOffer::Maker {
 public:
  Maker(const CollectiveContext& context, CollectiveOptions options, std::vector<ccl::Group> groups)
      : c_(context), offer_(std::move(options), std::move(groups)) {}

  base::Result<CollectiveOffer> run() {
    for (const CollectiveProgram::Operation& operation : c_.program.operations) {
      if (base::Status s = add(operation); !s.ok()) return s.error();
    }
    if (base::Status s = take_semaphores(); !s.ok()) return s.error();
    if (base::Status s = allocate_channels(); !s.ok()) return s.error();
    if (base::Status s = allocate_blocks(); !s.ok()) return s.error();
    return std::move(offer_);
  }

 private:
  base::Status add(const CollectiveProgram::Operation& operation) {
    const ccl::Group& group = offer_.groups_[operation.group];
    auto request = complete(operation, group);
    if (!request) return request.error();
    auto resources = place_of(c_, operation);
    if (!resources) return resources.error();
    auto needs = needs_of(c_, operation, *request, *resources, group,
                          offer_.options_.of_stream(operation.op->stream_id));
    if (!needs) return needs.error();
    offer_.operations_.push_back({std::move(*request), std::move(*needs), *resources, {}});
    return {};
  }

  // Index in the offer's semaphores: of signals.
  size_t semaphores_of(size_t operation) {
    const CollectiveProgram::Operation& known = c_.program.operations[operation];
    const std::string& signature = offer_.operations_[operation].needs.signature;
    std::vector<Semaphores>& all = offer_.semaphores_;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Semaphores& s) {
      return s.group == known.group && s.signature == signature;
    });
    if (found != all.end()) return static_cast<size_t>(found - all.begin());
    all.push_back({known.group, signature, known.op->stream_id, 0, {}});
    return all.size() - 1;
  }

  base::Status take(Semaphores* semaphores) const {
    const uint32_t cores = semaphores->count == 0 ? 0 : c_.triggers.cc_count(semaphores->stream);
    for (uint32_t cc_index = 0; cc_index < cores; ++cc_index) {
      CcCore& cc = c_.triggers.cc(semaphores->stream, cc_index);
      auto claim = Claim::take(&cc.semaphores, semaphores->count);
      if (!claim) {
        return error(NRT_RESOURCE, "The CC-core has no semaphores left for another communicator");
      }
      semaphores->claims.push_back(std::move(*claim));
    }
    return {};
  }

  // First the signals, then the completions of each stream.
  base::Status take_semaphores() {
    std::vector<size_t> signals;  // by operation
    std::vector<uint32_t> completions(c_.program.streams.size(), 0);
    for (size_t i = 0; i < offer_.operations_.size(); ++i) {
      const ccl::Needs& needs = offer_.operations_[i].needs;
      signals.push_back(semaphores_of(i));
      uint32_t& shared = offer_.semaphores_[signals[i]].count;
      shared = std::max(shared, needs.signals);
      uint32_t& count = completions[c_.program.operations[i].op->stream_id];
      count = std::max(count, needs.completions);
    }
    const size_t first = offer_.semaphores_.size();
    for (uint32_t s = 0; s < completions.size(); ++s) {
      offer_.semaphores_.push_back({0, "", s, completions[s], {}});
    }
    for (Semaphores& s : offer_.semaphores_) {
      if (base::Status status = take(&s); !status.ok()) return status;
    }
    for (size_t i = 0; i < offer_.operations_.size(); ++i) {
      ccl::RankResources& r = offer_.operations_[i].resources;
      const Semaphores& own = offer_.semaphores_[signals[i]];
      const uint32_t stream = c_.program.operations[i].op->stream_id;
      r.signals = own.count;
      for (uint32_t cc_index = 0; cc_index < r.cc_count; ++cc_index) {
        r.cc[cc_index].signal_base = own.base(cc_index);
        r.cc[cc_index].completion_base = offer_.semaphores_[first + stream].base(cc_index);
      }
    }
    return {};
  }

  // One per group, for its most demanding operation.
  base::Status allocate_channels() {
    std::vector<uint64_t> bytes(c_.program.groups.size(), 0);
    for (size_t i = 0; i < offer_.operations_.size(); ++i) {
      uint64_t& most = bytes[c_.program.operations[i].group];
      most = std::max(most, offer_.operations_[i].needs.channel_bytes);
    }
    offer_.channels_.resize(bytes.size());
    for (size_t g = 0; g < bytes.size(); ++g) {
      if (bytes[g] == 0) continue;
      auto buffer = allocate(c_.core, bytes[g]);
      if (!buffer) return buffer.error();
      offer_.channels_[g] = std::move(*buffer);
    }
    for (size_t i = 0; i < offer_.operations_.size(); ++i) {
      const uint32_t group = c_.program.operations[i].group;
      offer_.operations_[i].resources.channel_buffer = offer_.channels_[group].address();
      offer_.operations_[i].resources.channel_bytes = bytes[group];
    }
    return {};
  }

  base::Status allocate_blocks() {
    for (Operation& operation : offer_.operations_) {
      if (operation.needs.blocks == 0) continue;
      auto buffer = allocate(c_.core, operation.needs.blocks * sizeof(contract::cc_program::Block));
      if (!buffer) return buffer.error();
      operation.blocks = std::move(*buffer);
      operation.resources.blocks = operation.blocks.address();
    }
    return {};
  }

  const CollectiveContext& c_;
  CollectiveOffer offer_;
};

base::Result<CollectiveOffer> CollectiveOffer::make(const CollectiveContext& context) {
  std::vector<ccl::Group> groups;
  for (const CollectiveProgram::Group& group : context.program.groups) {
    auto members = context.communicator.group(group.ranks);
    if (!members) return members.error();
    groups.push_back(std::move(*members));
  }
  auto options = CollectiveOptions::from_environment();
  if (!options) return options.error();
  return Maker(context, std::move(*options), std::move(groups)).run();
}

}  // namespace nrt
