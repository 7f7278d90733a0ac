#include "runtime/load/collective_set.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "runtime/collectives/schedule/select.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// Conventions of docs/hardware-contract.md 7; further queues are taken from below.
constexpr uint32_t kCollectiveQueue = 15;
constexpr uint32_t kFetchQueue = 14;
constexpr size_t kMaxLanes = 8;       // half of the queues stay with the program
constexpr size_t kMaxGroupSets = 16;  // collectives.md 1.8

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
  request.dtype = static_cast<contract::DType>(op.dtype);
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

// Explicit permutes are closed circles (collectives.md 1.5); a send needs no answer.
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

// As reports spell it: "ALL_REDUCE".
std::string operation_name(ccl::OpKind kind) {
  std::string name = ccl::to_string(kind);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

uint32_t streams_used(const neff::Subgraph& subgraph) {
  uint32_t streams = 1;
  for (const neff::CollectiveOp& op : subgraph.collectives) {
    streams = std::max(streams, op.stream_id + 1);
  }
  return streams;
}

}  // namespace

uint32_t CollectiveSet::last_free_queue(const neff::Subgraph& subgraph) {
  const std::vector<Lane> lanes = lanes_of(subgraph);
  if (lanes.empty()) return kFetchQueue - 1;
  uint32_t last = lanes.size() == 1 ? kFetchQueue : lanes.back().queue;
  for (const Lane& lane : lanes) last = std::min(last, lane.block_queue);
  return last - 1;
}

// A queue has one service class, and operations of one stream use their queue in their order.
std::vector<CollectiveSet::Lane> CollectiveSet::lanes_of(const neff::Subgraph& subgraph) {
  std::map<std::pair<uint32_t, uint32_t>, bool> used;  // of variable size
  for (const neff::CollectiveOp& op : subgraph.collectives) {
    bool& variable = used[{op.stream_id, op.priority}];
    variable = variable || op.metadata.has_value();
  }
  std::vector<Lane> lanes;
  for (const auto& [key, variable] : used) {
    const auto n = static_cast<uint32_t>(lanes.size());
    lanes.push_back({key.first, key.second, n == 0 ? kCollectiveQueue : kFetchQueue - n});
    if (lanes.size() == kMaxLanes) break;  // more are refused at load
  }
  // Below them a queue for the blocks of each lane that has operations of variable size.
  uint32_t queue = kFetchQueue - static_cast<uint32_t>(std::max<size_t>(lanes.size(), 1));
  for (Lane& lane : lanes) {
    if (!used[{lane.stream, lane.priority}]) continue;
    lane.block_queue = queue;
    if (queue > 1) --queue;  // too many are refused at load
  }
  return lanes;
}

const CollectiveSet::Lane& CollectiveSet::lane(const neff::CollectiveOp& op) const {
  return *std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return lane.stream == op.stream_id && lane.priority == op.priority;
  });
}

CollectiveSet::CollectiveSet(const LoadedProgram& program,
                             std::shared_ptr<Communicator> communicator)
    : program_(program), core_(program.core()), communicator_(std::move(communicator)) {}

base::Result<std::unique_ptr<CollectiveSet>> CollectiveSet::create(
    const LoadedProgram& program, std::shared_ptr<Communicator> communicator,
    const std::vector<uint8_t>& used_semaphores) {
  std::unique_ptr<CollectiveSet> set(new CollectiveSet(program, std::move(communicator)));
  if (base::Status s = set->reserve_barrier(used_semaphores); !s.ok()) return s.error();
  if (base::Status s = set->add_all(); !s.ok()) return s.error();
  return set;
}

CollectiveSet::~CollectiveSet() {
  for (const Operation& op : operations_) {
    const uint32_t stream = op.op->stream_id;
    for (uint32_t slot = 0; slot < streams_[stream].cc.size(); ++slot) {
      const Placed& placed = op.placed[slot];
      CcCore& cc = stream_core(stream, slot);
      if (placed.op_index < cc.operations.size()) cc.operations.release(placed.op_index, 1);
      if (placed.records > 0) cc.records.release(placed.first_record, placed.records);
    }
  }
  for (const Semaphores& s : semaphores_) {
    for (uint32_t slot = 0; slot < s.allocated; ++slot) {
      stream_core(s.stream, slot).semaphores.release(s.base[slot], s.count);
    }
  }
  if (barrier_reserved_) core_.barrier_cc().operations.release(barrier_op_, 1);
  if (barrier_records_ > 0) {
    core_.barrier_cc().records.release(barrier_first_, barrier_records_);
  }
}

CcCore& CollectiveSet::stream_core(uint32_t stream, uint32_t slot) const {
  return core_.cc_cores()[streams_[stream].cc[slot]];
}

uint32_t CollectiveSet::stream_of(uint32_t cc_core) const {
  for (uint32_t s = 0; s < streams_.size(); ++s) {
    if (!streams_[s].cc.empty() && streams_[s].cc[0] == cc_core) return s;
  }
  return stream_count();
}

uint32_t CollectiveSet::trigger_word(const Operation& operation, uint32_t slot) const {
  return contract::cc::kTriggerOpIndex.set(0, operation.placed[slot].op_index) |
         contract::cc::kTriggerStream.set(0, operation.op->stream_id);
}

base::Status CollectiveSet::reserve_barrier(const std::vector<uint8_t>& used_semaphores) {
  int free = 255;
  while (free >= 0 && std::find(used_semaphores.begin(), used_semaphores.end(),
                                static_cast<uint8_t>(free)) != used_semaphores.end()) {
    --free;
  }
  RangeAllocator& operations = core_.barrier_cc().operations;
  barrier_op_ = operations.allocate(1);
  if (free < 0 || barrier_op_ == operations.size()) {
    return error(NRT_RESOURCE, "No semaphore or operation is left for the execution barrier");
  }
  barrier_reserved_ = true;
  barrier_semaphore_ = static_cast<uint8_t>(free);
  return {};
}

base::Status CollectiveSet::add_all() {
  const neff::Subgraph& sg = program_.subgraph();
  streams_.resize(core_.streams());
  const uint32_t used = streams_used(sg);
  if (used > streams_.size()) {
    return unsupported(NRT_INVALID, "Stream " + std::to_string(used - 1) + ": the core has " +
                                        std::to_string(streams_.size()));
  }
  for (uint32_t s = 0; s < used; ++s) {
    streams_[s].cc = core_.stream_cc(s, used);
    streams_[s].cc.resize(std::min<size_t>(streams_[s].cc.size(), ccl::kMaxCcCores));
  }
  lanes_ = lanes_of(sg);
  for (const neff::CollectiveOp& op : sg.collectives) {
    if (base::Status s = check_lane(op); !s.ok()) return s;
    if (base::Status s = add(op); !s.ok()) return s;
  }
  return check_order();
}

base::Status CollectiveSet::check_lane(const neff::CollectiveOp& op) const {
  if (op.priority != 0 && core_.map().gen != contract::Gen::kV4) {
    return unsupported(NRT_INVALID, "Collectives have priorities on NeuronCore-v4 and later only");
  }
  const bool found = std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return lane.stream == op.stream_id && lane.priority == op.priority;
  });
  const auto blocks = std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.block_queue != Lane::kNoQueue;
  });
  if (found && lanes_.size() + static_cast<size_t>(blocks) <= kMaxLanes) return {};
  return error(NRT_RESOURCE, "The program uses more than " + std::to_string(kMaxLanes) +
                                 " combinations of stream and priority, "
                                 "those with operations of variable size twice");
}

base::Status CollectiveSet::add(const neff::CollectiveOp& op) {
  auto completion = completion_of(op);
  if (!completion) return completion.error();
  Stream& stream = streams_[op.stream_id];
  stream.pcs.push_back(op.pc);
  const neff::EngineProgram* program = program_.subgraph().program(op.engine);
  if (repeated_records(*program)[op.pc]) stream.counted = false;
  for (uint32_t i = 0; i < operations_.size(); ++i) {
    if (same_operation(*operations_[i].op, op) &&
        operations_[i].completion.address == completion->address &&
        operations_[i].completion.value == completion->value) {
      stream.sequence.push_back(i);
      return {};
    }
  }
  Operation operation;
  operation.op = &op;
  operation.completion = *completion;
  auto request = request_of(op);
  if (!request) return request.error();
  operation.request = *request;
  auto group = find_group(op);
  if (!group) return group.error();
  operation.group = *group;
  const neff::RankList& ranks = groups_[*group].ranks;
  bool full = false;
  if (op.has_pairs()) {
    auto pairs = pairs_of(op, program_.subgraph().cc.groups[op.group_id], ranks);
    if (!pairs) return pairs.error();
    operation.request.pairs = std::move(*pairs);
  }
  if (base::Status s = ccl::validate(operation.request, static_cast<uint32_t>(ranks.size()));
      !s.ok()) {
    return s;
  }
  for (uint32_t slot = 0; slot < stream.cc.size(); ++slot) {
    RangeAllocator& indices = stream_core(op.stream_id, slot).operations;
    operation.placed[slot].op_index = indices.allocate(1);
    full = full || operation.placed[slot].op_index == indices.size();
  }
  stream.sequence.push_back(static_cast<uint32_t>(operations_.size()));
  operations_.push_back(std::move(operation));
  if (full) return error(NRT_RESOURCE, "The CC-core's operation table is full");
  return {};
}

base::Result<uint32_t> CollectiveSet::find_group(const neff::CollectiveOp& op) {
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].stream == op.stream_id && groups_[i].group_id == op.group_id) return i;
  }
  const neff::ReplicaGroups& groups = program_.subgraph().cc.groups[op.group_id];
  if (base::Status s = ccl::validate_groups(groups.lists, communicator_->world()); !s.ok()) {
    return s.error();
  }
  auto list = ccl::group_of(groups.lists, communicator_->rank());
  if (!list) return list.error();
  std::set<uint32_t> sets{op.group_id};
  for (const Group& known : groups_) sets.insert(known.group_id);
  if (sets.size() > kMaxGroupSets) {
    return error(NRT_RESOURCE, "The program has more than " + std::to_string(kMaxGroupSets) +
                                   " different replica groups");
  }
  Group group;
  group.stream = op.stream_id;
  group.group_id = op.group_id;
  group.ranks = groups.lists[*list];
  group.own = static_cast<uint32_t>(
      std::find(group.ranks.begin(), group.ranks.end(), communicator_->rank()) -
      group.ranks.begin());
  groups_.push_back(std::move(group));
  return static_cast<uint32_t>(groups_.size() - 1);
}

// The @complete update of the PTC2 as a store of the CC-core (neff.md 4.5, C-5).
base::Result<ccl::Completion> CollectiveSet::completion_of(const neff::CollectiveOp& op) const {
  using contract::isa::UpdateOp;
  const neff::EngineProgram* program = program_.subgraph().program(op.engine);
  const auto step = std::find_if(program->steps.begin(), program->steps.end(),
                                 [&](const neff::ProgramStep& s) { return s.pc == op.pc; });
  const contract::isa::Update& update = step->instruction.complete_update;
  const uint64_t block = core_.map().nc_semaphores(core_.nc());
  const uint64_t at = block + 4ull * update.id;
  switch (update.op) {
    case UpdateOp::kNone:
      return ccl::Completion{0, 0};
    case UpdateOp::kInc:
      return ccl::Completion{at + contract::sem::kInc, 1};
    case UpdateOp::kDec:
      return ccl::Completion{at + contract::sem::kDec, 1};
    case UpdateOp::kAdd:
      return ccl::Completion{at + contract::sem::kInc, update.value};
    case UpdateOp::kSub:
      return ccl::Completion{at + contract::sem::kDec, update.value};
    case UpdateOp::kWrite:
      return ccl::Completion{at + contract::sem::kSet, update.value};
    case UpdateOp::kEventSet:
      return ccl::Completion{at + contract::sem::kEvent, 1};
    case UpdateOp::kEventClear:
      return ccl::Completion{at + contract::sem::kEvent, 0};
  }
  return error(NRT_INVALID, "Unknown completion update", base::Fault::kProgram);
}

base::Status CollectiveSet::check_order() const {
  for (uint32_t s = 0; s < streams_.size(); ++s) {
    const Stream& stream = streams_[s];
    const bool uniform = std::all_of(stream.sequence.begin(), stream.sequence.end(),
                                     [&](uint32_t i) { return i == stream.sequence[0]; });
    if (uniform) continue;
    const neff::Engine first = operations_[stream.sequence[0]].op->engine;
    bool one_engine = true;
    for (const neff::CollectiveOp& op : program_.subgraph().collectives) {
      if (op.stream_id == s && op.engine != first) one_engine = false;
    }
    if (!one_engine || !stream.counted) {
      return unsupported(NRT_INVALID, "Stream " + std::to_string(s) +
                                          " has operations whose order is not fixed at load");
    }
  }
  return {};
}

Prologue CollectiveSet::prologue(bool leader) const {
  Prologue prologue;
  prologue.barrier = true;
  prologue.leader = leader;
  prologue.semaphore = barrier_semaphore_;
  prologue.trigger.count = 1;
  prologue.trigger.address[0] = core_.barrier_cc().window.device + contract::cc::kTrigger;
  prologue.trigger.value[0] = contract::cc::kTriggerOpIndex.set(0, barrier_op_);
  return prologue;
}

void CollectiveSet::add_replacements(
    std::array<std::vector<Replacement>, contract::kEnginesPerNc>* lists) const {
  std::vector<size_t> next(streams_.size(), 0);
  for (const neff::CollectiveOp& op : program_.subgraph().collectives) {
    const Operation& operation = operations_[streams_[op.stream_id].sequence[next[op.stream_id]++]];
    StorePair trigger;
    trigger.count = 1;
    trigger.address[0] = stream_core(op.stream_id).window.device + contract::cc::kTrigger;
    trigger.value[0] = trigger_word(operation, 0);
    std::vector<Replacement>& list = (*lists)[static_cast<size_t>(op.engine)];
    Replacement replacement{op.pc, {trigger}, true};
    const auto at = std::lower_bound(list.begin(), list.end(), op.pc,
                                     [](const Replacement& r, uint32_t pc) { return r.pc < pc; });
    list.insert(at, std::move(replacement));
  }
}

bool CollectiveSet::fixes(uint32_t variable) const {
  return finished_ && std::any_of(operations_.begin(), operations_.end(), [&](const auto& o) {
           return o.request.kind != ccl::OpKind::kBarrier &&
                  (o.op->source == variable || o.op->destination == variable ||
                   o.op->second_source == variable || o.op->metadata == variable);
         });
}

CollectiveSet::Issued CollectiveSet::operation(uint32_t op_index, uint32_t stream) const {
  for (const Operation& o : operations_) {
    if (o.op->stream_id != stream || o.placed[0].op_index != op_index) continue;
    return {operation_name(o.request.kind), ccl::to_string(o.lowered.algorithm),
            ccl::report_size(o.request)};
  }
  return {};
}

std::vector<CollectiveSet::Issued> CollectiveSet::issued(uint32_t stream) const {
  std::vector<Issued> list;
  for (const uint32_t i : streams_[stream].sequence) {
    list.push_back(operation(operations_[i].placed[0].op_index, stream));
  }
  return list;
}

// Once for all operations: programs and tables are files.
base::Status CollectiveSet::read_overrides() {
  const std::string strict = environment("NCCOM_CC_STRICT").value_or("0");
  if (strict != "0" && strict != "1") {
    return error(NRT_INVALID, "NCCOM_CC_STRICT is '" + strict + "'; it can be 0 or 1");
  }
  strict_ = strict == "1";
  std::string text = environment("NCCOM_CC_ALGO").value_or("");
  if (const auto table = environment("NCCOM_CC_TABLE")) {
    text += (text.empty() ? "table:" : ",table:") + *table;
  }
  if (text.empty()) return {};
  auto overrides = ccl::load_overrides(text);
  if (!overrides) return overrides.error();
  overrides_ = std::make_shared<const ccl::Overrides>(std::move(*overrides));
  return {};
}

ccl::PlanOptions CollectiveSet::plan_options(uint32_t stream) const {
  ccl::PlanOptions options;
  options.overrides = overrides_;
  options.schedule.strict = strict_;
  // A comma list gives one value per stream; the last one holds for the rest.
  const std::string list = environment("NEURON_RT_DBG_CC_DMA_PACKET_SIZE").value_or("");
  size_t at = 0;
  for (uint32_t i = 0; i < stream && list.find(',', at) != std::string::npos; ++i) {
    at = list.find(',', at) + 1;
  }
  const auto bytes = parse_number(list.substr(at, list.find(',', at) - at));
  if (bytes && *bytes >= 64 && *bytes <= contract::desc::kMaxLength) {
    options.packet_bytes = static_cast<uint32_t>(*bytes);
  }
  return options;
}

}  // namespace nrt
