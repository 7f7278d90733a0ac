#include "runtime/load/collective_set.h"

#include <algorithm>
#include <cstring>

#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

base::Result<ccl::OpRequest> request_of(const neff::CollectiveOp& op) {
  ccl::OpRequest request;
  switch (op.type) {
    case neff::CollectiveType::kAllReduce:
      request.kind = ccl::OpKind::kAllReduce;
      break;
    case neff::CollectiveType::kAllGather:
      request.kind = ccl::OpKind::kAllGather;
      break;
    case neff::CollectiveType::kReduceScatter:
      request.kind = ccl::OpKind::kReduceScatter;
      break;
    default:
      return unsupported(NRT_INVALID, "Collective type " +
                                          std::to_string(static_cast<unsigned>(op.type)) +
                                          " is not supported");
  }
  request.dtype = static_cast<contract::DType>(op.dtype);
  if (op.reduce != neff::ReduceOp::kNone) {
    request.op = static_cast<contract::ReduceOp>(op.reduce);
  }
  request.input_bytes = op.source_bytes;
  request.output_bytes = op.destination_bytes;
  return request;
}

bool same_operation(const neff::CollectiveOp& a, const neff::CollectiveOp& b) {
  return a.type == b.type && a.reduce == b.reduce && a.dtype == b.dtype &&
         a.group_id == b.group_id && a.stream_id == b.stream_id && a.source == b.source &&
         a.source_offset == b.source_offset && a.source_bytes == b.source_bytes &&
         a.destination == b.destination && a.destination_offset == b.destination_offset &&
         a.destination_bytes == b.destination_bytes;
}

const char* operation_name(ccl::OpKind kind) {
  switch (kind) {
    case ccl::OpKind::kAllReduce:
      return "ALL_REDUCE";
    case ccl::OpKind::kAllGather:
      return "ALL_GATHER";
    case ccl::OpKind::kReduceScatter:
      return "REDUCE_SCATTER";
  }
  return "";
}

}  // namespace

uint32_t CollectiveSet::last_free_queue(const neff::Subgraph& subgraph) {
  uint32_t streams = 1;
  for (const neff::CollectiveOp& op : subgraph.collectives) {
    streams = std::max(streams, op.stream_id + 1);
  }
  return streams == 1 ? 13 : queue_of_stream(streams - 1) - 1;
}

// Queue 15 belongs to collectives, 14 to instruction fetch (docs/hardware-contract.md 7).
uint32_t CollectiveSet::queue_of_stream(uint32_t stream) {
  return stream == 0 ? 15 : 14 - stream;
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
    CcCore& cc = stream_core(op.op->stream_id);
    cc.operations.release(op.op_index, 1);
    if (op.records > 0) cc.records.release(op.first_record, op.records);
  }
  for (const Group& group : groups_) {
    stream_core(group.stream).semaphores.release(group.semaphore_base, group.semaphores);
  }
  if (barrier_reserved_) core_.barrier_cc().operations.release(barrier_op_, 1);
  if (barrier_records_ > 0) {
    core_.barrier_cc().records.release(barrier_first_, barrier_records_);
  }
}

CcCore& CollectiveSet::stream_core(uint32_t stream) const {
  return core_.cc_cores()[stream];
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
  for (const neff::CollectiveOp& op : sg.collectives) {
    if (base::Status s = add(op); !s.ok()) return s;
  }
  return check_order();
}

base::Status CollectiveSet::add(const neff::CollectiveOp& op) {
  if (op.stream_id >= streams_.size()) {
    return unsupported(NRT_INVALID, "Stream " + std::to_string(op.stream_id) + ": the core has " +
                                        std::to_string(streams_.size()));
  }
  auto completion = completion_of(op);
  if (!completion) return completion.error();
  Stream& stream = streams_[op.stream_id];
  stream.used = true;
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
  const auto ranks = static_cast<uint32_t>(groups_[*group].ranks.size());
  if (base::Status s = ccl::validate(operation.request, ranks); !s.ok()) return s;
  RangeAllocator& indices = stream_core(op.stream_id).operations;
  operation.op_index = indices.allocate(1);
  if (operation.op_index == indices.size()) {
    return error(NRT_RESOURCE, "The CC-core's operation table is full");
  }
  stream.sequence.push_back(static_cast<uint32_t>(operations_.size()));
  operations_.push_back(std::move(operation));
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
  Group group;
  group.stream = op.stream_id;
  group.group_id = op.group_id;
  group.ranks = groups.lists[*list];
  group.own = static_cast<uint32_t>(
      std::find(group.ranks.begin(), group.ranks.end(), communicator_->rank()) -
      group.ranks.begin());
  RangeAllocator& semaphores = stream_core(op.stream_id).semaphores;
  const uint32_t count = ccl::semaphore_count(static_cast<uint32_t>(group.ranks.size()));
  group.semaphore_base = semaphores.allocate(count);
  if (group.semaphore_base == semaphores.size()) {
    return error(NRT_RESOURCE, "The CC-core has no semaphores left for another communicator");
  }
  group.semaphores = count;
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
    trigger.value[0] = contract::cc::kTriggerOpIndex.set(0, operation.op_index) |
                       contract::cc::kTriggerStream.set(0, op.stream_id);
    std::vector<Replacement>& list = (*lists)[static_cast<size_t>(op.engine)];
    Replacement replacement{op.pc, {trigger}, true};
    const auto at = std::lower_bound(list.begin(), list.end(), op.pc,
                                     [](const Replacement& r, uint32_t pc) { return r.pc < pc; });
    list.insert(at, std::move(replacement));
  }
}

bool CollectiveSet::fixes(uint32_t variable) const {
  return finished_ && std::any_of(operations_.begin(), operations_.end(), [&](const auto& o) {
           return o.op->source == variable || o.op->destination == variable;
         });
}

CollectiveSet::Issued CollectiveSet::operation(uint32_t op_index, uint32_t stream) const {
  for (const Operation& o : operations_) {
    if (o.op->stream_id != stream || o.op_index != op_index) continue;
    return {operation_name(o.request.kind), ccl::to_string(o.lowered.algorithm),
            ccl::report_size(o.request)};
  }
  return {};
}

std::vector<CollectiveSet::Issued> CollectiveSet::issued(uint32_t stream) const {
  std::vector<Issued> list;
  for (const uint32_t i : streams_[stream].sequence) {
    list.push_back(operation(operations_[i].op_index, stream));
  }
  return list;
}

ccl::PlanOptions CollectiveSet::plan_options(uint32_t stream) const {
  ccl::PlanOptions options;
  options.algo_override = environment("NCCOM_CC_ALGO").value_or("");
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
