#include "runtime/load/collective_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "contract/regs/sem.h"
#include "runtime/load/translate.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr size_t kMaxStreamQueues = 8;  // half of the queues stay with the program
constexpr size_t kMaxGroupSets = 16;    // spec/collectives.md 1.8

base::Result<ccl::OpKind> kind_of(const neff::CollectiveOp& op) {
  using neff::CollectiveType;
  switch (op.type) {
    case CollectiveType::kAllReduce:
      return ccl::OpKind::kAllReduce;
    case CollectiveType::kAllGather:
      return ccl::OpKind::kAllGather;
    case CollectiveType::kReduceScatter:
      return ccl::OpKind::kReduceScatter;
    case CollectiveType::kAllToAll:
      return ccl::OpKind::kAllToAll;
    case CollectiveType::kPermute:
    case CollectiveType::kPermuteImplicit:
    case CollectiveType::kSendRecv:
      return ccl::OpKind::kPermute;
    case CollectiveType::kBroadcast:
      return ccl::OpKind::kBroadcast;
    case CollectiveType::kReduce:
      return ccl::OpKind::kReduce;
    case CollectiveType::kBarrier:
      return ccl::OpKind::kBarrier;
    case CollectiveType::kPermuteReduce:
    case CollectiveType::kPermuteReduceImplicit:
    case CollectiveType::kSendRecvCce:
      if (op.second_source) return ccl::OpKind::kPermuteReduce;
      return error(NRT_INVALID, "A permute with reduction names one source", base::Fault::kProgram);
    case CollectiveType::kAllGatherV:
      return ccl::OpKind::kAllGatherV;
    case CollectiveType::kReduceScatterV:
      return ccl::OpKind::kReduceScatterV;
    case CollectiveType::kAllToAllV:
      return ccl::OpKind::kAllToAllV;
  }
  return unsupported(
      NRT_INVALID,
      "Collective type " + std::to_string(static_cast<unsigned>(op.type)) + " is not supported");
}

// Rows of a tensor in SBUF that is made of rows of `row_bytes`.
ccl::SbufRows rows_of(const neff::SbufTensor& tensor, uint64_t row_bytes) {
  return {row_bytes, tensor.partitions, tensor.step};
}

// The long tensor of an all-gather or reduce-scatter has a row for each of the short one.
void set_rows(const neff::CollectiveOp& op, ccl::OpRequest* request) {
  if (!op.source_sbuf || !op.destination_sbuf) return;
  uint64_t in = op.source_sbuf->row_bytes;
  uint64_t out = op.destination_sbuf->row_bytes;
  if (request->kind == ccl::OpKind::kAllGather) out = in;
  if (request->kind == ccl::OpKind::kReduceScatter) in = out;
  request->input_rows = rows_of(*op.source_sbuf, in);
  request->output_rows = rows_of(*op.destination_sbuf, out);
}

base::Result<ccl::OpRequest> request_of(const neff::CollectiveOp& op) {
  auto kind = kind_of(op);
  if (!kind) return kind.error();
  ccl::OpRequest request;
  request.kind = *kind;
  request.dtype = contract::isa::dtype_of(op.dtype);
  if (op.reduce != neff::ReduceOp::kNone) {
    request.op = static_cast<contract::ReduceOp>(op.reduce);
  }
  request.root = op.root;
  request.input_bytes = op.source_bytes;
  request.output_bytes = op.destination_bytes;
  request.receive_counts_known = op.receive_counts_known;
  request.receive_displacements = op.receive_displacements;
  set_rows(op, &request);
  return request;
}

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

// Explicit permutes are closed circles (spec/collectives.md 1.5); a send needs no answer.
base::Status check_circles(const Pairs& pairs) {
  std::set<uint32_t> sources;
  std::set<uint32_t> targets;
  for (const auto& [source, target] : pairs) {
    sources.insert(source);
    targets.insert(target);
  }
  if (sources == targets) return {};
  return error(NRT_INVALID, "The source-target pairs of a permute are not a closed circle",
               base::Fault::kProgram);
}

// Pairs of this group, as indices in it.
base::Result<Pairs> pairs_of(const neff::CollectiveOp& op, const neff::ReplicaGroups& groups,
                             const neff::RankList& ranks) {
  Pairs pairs;
  for (const auto& [source, target] : groups.source_target_pairs) {
    const auto from = std::find(ranks.begin(), ranks.end(), source);
    const auto to = std::find(ranks.begin(), ranks.end(), target);
    if (from == ranks.end() && to == ranks.end()) continue;  // of another list
    if (from == ranks.end() || to == ranks.end()) {
      return error(NRT_INVALID, "A source-target pair joins ranks of different groups",
                   base::Fault::kProgram);
    }
    pairs.emplace_back(from - ranks.begin(), to - ranks.begin());
  }
  if (groups.source_target_pairs.empty()) {
    return error(NRT_INVALID, "A permute without source-target pairs", base::Fault::kProgram);
  }
  if (op.type == neff::CollectiveType::kPermute ||
      op.type == neff::CollectiveType::kPermuteReduce) {
    if (base::Status s = check_circles(pairs); !s.ok()) return s.error();
  }
  return pairs;
}

bool same_shape(const std::optional<neff::SbufTensor>& a,
                const std::optional<neff::SbufTensor>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->row_bytes == b->row_bytes && a->partitions == b->partitions && a->step == b->step;
}

bool same_operation(const neff::CollectiveOp& a, const neff::CollectiveOp& b) {
  return a.type == b.type && a.reduce == b.reduce && a.dtype == b.dtype &&
         a.group_id == b.group_id && a.channel_id == b.channel_id && a.stream_id == b.stream_id &&
         a.priority == b.priority && a.source == b.source && a.source_offset == b.source_offset &&
         a.source_bytes == b.source_bytes && a.second_source == b.second_source &&
         a.second_source_offset == b.second_source_offset && a.root == b.root &&
         a.metadata == b.metadata && a.receive_counts_known == b.receive_counts_known &&
         a.receive_displacements == b.receive_displacements && a.destination == b.destination &&
         a.destination_offset == b.destination_offset &&
         a.destination_bytes == b.destination_bytes && same_shape(a.source_sbuf, b.source_sbuf) &&
         same_shape(a.destination_sbuf, b.destination_sbuf);
}

// Fills a CollectiveProgram, which leaves this file complete or not at all.
class Reader {
 public:
  Reader(const std::vector<neff::Subgraph>& subgraphs, const CollectivePlace& place)
      : subgraphs_(subgraphs) {
    p_.place = place;
    p_.streams.resize(place.streams);
    for (uint32_t part = 0; part < subgraphs.size(); ++part) {
      for (const neff::CollectiveOp& op : subgraphs[part].collectives) {
        p_.sources.push_back({part, &op, 0});
      }
    }
  }

  base::Result<CollectiveProgram> run() {
    if (base::Status s = find_config(); !s.ok()) return s.error();
    if (base::Status s = count_streams(); !s.ok()) return s.error();
    if (base::Status s = make_stream_queues(); !s.ok()) return s.error();
    for (CollectiveProgram::Source& source : p_.sources) {
      if (base::Status s = add(&source); !s.ok()) return s.error();
    }
    for (uint32_t part = 0; part < subgraphs_.size(); ++part) {
      for (const neff::EngineProgram& program : subgraphs_[part].programs) {
        add_sequence(part, program);
      }
    }
    if (base::Status s = check_order(); !s.ok()) return s.error();
    return std::move(p_);
  }

 private:
  base::Status find_config() {
    for (const neff::Subgraph& subgraph : subgraphs_) {
      if (subgraph.collectives.empty()) continue;
      if (p_.config == nullptr) p_.config = &subgraph.cc;
      const auto same = [](const neff::ReplicaGroups& a, const neff::ReplicaGroups& b) {
        return a.lists == b.lists && a.source_target_pairs == b.source_target_pairs;
      };
      if (!std::equal(p_.config->groups.begin(), p_.config->groups.end(),
                      subgraph.cc.groups.begin(), subgraph.cc.groups.end(), same)) {
        return error(NRT_INVALID,
                     "The programs of the physical cores have different replica groups",
                     base::Fault::kProgram);
      }
    }
    return {};
  }

  base::Status count_streams() {
    for (const CollectiveProgram::Source& source : p_.sources) {
      p_.streams_used = std::max(p_.streams_used, source.op->stream_id + 1);
    }
    if (p_.streams_used <= p_.place.streams) return {};
    return unsupported(NRT_INVALID, "Stream " + std::to_string(p_.streams_used - 1) +
                                        ": the core has " + std::to_string(p_.place.streams));
  }

  // Queues from above: the first stream_queue has that of collectives, the others and then the
  // blocks of stream queues with operations of variable size have those below that of instruction
  // fetch.
  base::Status make_stream_queues() {
    std::map<std::pair<uint32_t, uint32_t>, bool> used;  // of variable size
    for (const CollectiveProgram::Source& source : p_.sources) {
      const neff::CollectiveOp& op = *source.op;
      if (op.priority != 0 && p_.place.map.gen != contract::Gen::kV4) {
        return unsupported(NRT_INVALID,
                           "Collectives have priorities on NeuronCore-v4 and later only");
      }
      bool& variable = used[{op.stream_id, op.priority}];
      variable = variable || op.metadata.has_value();
    }
    const auto blocks = std::count_if(used.begin(), used.end(),
                                      [](const auto& stream_queue) { return stream_queue.second; });
    if (used.size() + static_cast<size_t>(blocks) > kMaxStreamQueues) {
      return error(NRT_RESOURCE, "The program uses more than " + std::to_string(kMaxStreamQueues) +
                                     " combinations of stream and priority, "
                                     "those with operations of variable size twice");
    }
    uint32_t next = contract::kFetchQueue - 1;
    for (const auto& [key, variable] : used) {
      const uint32_t queue = p_.stream_queues.empty() ? contract::kCollectiveQueue : next--;
      p_.stream_queues.push_back({key.first, key.second, queue, std::nullopt});
    }
    for (StreamQueue& stream_queue : p_.stream_queues) {
      if (used[{stream_queue.stream, stream_queue.priority}]) stream_queue.block_queue = next--;
    }
    p_.last_free_queue = next;
    return {};
  }

  uint32_t stream_queue_of(const neff::CollectiveOp& op) const {
    const auto found = std::find_if(
        p_.stream_queues.begin(), p_.stream_queues.end(), [&](const StreamQueue& stream_queue) {
          return stream_queue.stream == op.stream_id && stream_queue.priority == op.priority;
        });
    return static_cast<uint32_t>(found - p_.stream_queues.begin());
  }

  base::Status add(CollectiveProgram::Source* source) {
    const neff::CollectiveOp& op = *source->op;
    auto completion = completion_of(*source);
    if (!completion) return completion.error();
    const auto known =
        std::find_if(p_.operations.begin(), p_.operations.end(), [&](const auto& other) {
          return other.part == source->part && same_operation(*other.op, op) &&
                 other.completion.address == completion->address &&
                 other.completion.value == completion->value;
        });
    source->operation = static_cast<uint32_t>(known - p_.operations.begin());
    if (known != p_.operations.end()) return {};
    auto made = make(*source, *completion);
    if (!made) return made.error();
    p_.operations.push_back(std::move(*made));
    return {};
  }

  // In the order in which the engine issues them.
  void add_sequence(uint32_t part, const neff::EngineProgram& program) {
    for (const neff::FlowStep& flow : program.flow) {
      const neff::ProgramStep& step = program.steps[flow.step];
      if (step.instruction.opcode != contract::isa::Opcode::kPseudoTriggerCollective2) continue;
      const uint32_t pc = step.pc;
      const auto source = std::find_if(p_.sources.begin(), p_.sources.end(), [&](const auto& s) {
        return s.part == part && s.op->engine == program.engine && s.op->pc == pc;
      });
      CollectiveProgram::Stream& stream = p_.streams[source->op->stream_id];
      stream.sequence.push_back(source->operation);
      if (flow.repeated) stream.counted = false;
    }
  }

  base::Result<CollectiveProgram::Operation> make(const CollectiveProgram::Source& source,
                                                  const ccl::Completion& completion) {
    const neff::CollectiveOp& op = *source.op;
    auto request = request_of(op);
    if (!request) return request.error();
    auto group = find_group(op);
    if (!group) return group.error();
    const neff::RankList& ranks = p_.groups[*group].ranks;
    if (op.has_pairs()) {
      auto pairs = pairs_of(op, p_.config->groups[op.group_id], ranks);
      if (!pairs) return pairs.error();
      request->pairs = std::move(*pairs);
    }
    base::Status s = ccl::validate(*request, static_cast<uint32_t>(ranks.size()));
    if (!s.ok()) return s.error();
    return CollectiveProgram::Operation{source.part, &op,    std::move(*request),
                                        completion,  *group, stream_queue_of(op)};
  }

  base::Result<uint32_t> find_group(const neff::CollectiveOp& op) {
    for (uint32_t i = 0; i < p_.groups.size(); ++i) {
      if (p_.groups[i].stream == op.stream_id && p_.groups[i].group_id == op.group_id) return i;
    }
    const neff::ReplicaGroups& groups = p_.config->groups[op.group_id];
    if (base::Status s = ccl::validate_groups(groups.lists, p_.place.world); !s.ok()) {
      return s.error();
    }
    auto list = ccl::group_of(groups.lists, p_.place.rank);
    if (!list) return list.error();
    std::set<uint32_t> sets{op.group_id};
    for (const CollectiveProgram::Group& known : p_.groups) sets.insert(known.group_id);
    if (sets.size() > kMaxGroupSets) {
      return error(NRT_RESOURCE, "The program has more than " + std::to_string(kMaxGroupSets) +
                                     " different replica groups");
    }
    const neff::RankList& ranks = groups.lists[*list];
    const auto own = std::find(ranks.begin(), ranks.end(), p_.place.rank);
    p_.groups.push_back(
        {op.stream_id, op.group_id, ranks, static_cast<uint32_t>(own - ranks.begin())});
    return static_cast<uint32_t>(p_.groups.size() - 1);
  }

  // The @complete update of the PTC2 as a store of the CC-core (spec/neff.md 4.5, C-5).
  base::Result<ccl::Completion> completion_of(const CollectiveProgram::Source& source) const {
    using contract::isa::UpdateOp;
    namespace sem = contract::sem;
    const neff::CollectiveOp& op = *source.op;
    const neff::EngineProgram* program = subgraphs_[source.part].program(op.engine);
    const auto step = std::find_if(program->steps.begin(), program->steps.end(),
                                   [&](const neff::ProgramStep& s) { return s.pc == op.pc; });
    const contract::isa::Update& update = step->instruction.complete_update;
    const uint64_t block = p_.place.map.nc_semaphores(p_.place.nc + source.part);
    const auto at = [&](uint32_t alias, uint32_t value) {
      return ccl::Completion{block + alias + uint64_t{sem::kIncStride} * update.id, value};
    };
    switch (update.op) {
      case UpdateOp::kNone:
        return ccl::Completion{0, 0};
      case UpdateOp::kInc:
        return at(sem::kInc, 1);
      case UpdateOp::kDec:
        return at(sem::kDec, 1);
      case UpdateOp::kAdd:
        return at(sem::kInc, update.value);
      case UpdateOp::kSub:
        return at(sem::kDec, update.value);
      case UpdateOp::kWrite:
        return at(sem::kSet, update.value);
      case UpdateOp::kEventSet:
        return at(sem::kEvent, 1);
      case UpdateOp::kEventClear:
        return at(sem::kEvent, 0);
    }
    return error(NRT_INVALID, "Unknown completion update", base::Fault::kProgram);
  }

  base::Status check_order() const {
    for (uint32_t s = 0; s < p_.streams.size(); ++s) {
      const CollectiveProgram::Stream& stream = p_.streams[s];
      const bool uniform = std::all_of(stream.sequence.begin(), stream.sequence.end(),
                                       [&](uint32_t i) { return i == stream.sequence[0]; });
      if (uniform) continue;
      const CollectiveProgram::Operation& first = p_.operations[stream.sequence[0]];
      const bool one_engine = std::all_of(p_.sources.begin(), p_.sources.end(), [&](const auto& x) {
        return x.op->stream_id != s || (x.op->engine == first.op->engine && x.part == first.part);
      });
      if (!one_engine || !stream.counted) {
        return unsupported(NRT_INVALID, "Stream " + std::to_string(s) +
                                            " has operations whose order is not fixed at load");
      }
    }
    return {};
  }

  const std::vector<neff::Subgraph>& subgraphs_;
  CollectiveProgram p_;
};

}  // namespace

base::Result<CollectiveProgram> CollectiveProgram::read(
    const std::vector<neff::Subgraph>& subgraphs, const CollectivePlace& place) {
  return Reader(subgraphs, place).run();
}

}  // namespace nrt
