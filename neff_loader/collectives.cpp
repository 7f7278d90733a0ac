// What programs refer to: DMA blocks and collectives (spec/neff.md 4, rules E-20, B-04, C-10 to
// C-17).
#include <algorithm>
#include <set>

#include "arch/contract/address_map.h"
#include "arch/contract/dge.h"
#include "neff_loader/flow.h"
#include "neff_loader/parse.h"

namespace neff {
namespace {

namespace isa = contract::isa;
using isa::Opcode;

constexpr size_t kMaxCommunicators = 16;  // spec/neff.md 4.4, since runtime 2.34.10
using contract::tpb::kPartitions;

std::string where_of(const EngineProgram& p, uint32_t pc) {
  return p.instr_file + " record " + std::to_string(pc);
}

// Tensors in the DGE table. Those among arguments depend on who calls: find_flow() looks at them.
void check_tensors(const Context& c, const Subgraph& sg, const EngineProgram& p,
                   const ProgramStep& step) {
  const Variable* table = sg.dge_table();
  const size_t entries = table == nullptr ? 0 : table->table_var_ids.size();
  for (const isa::SideOperand* side : contract::dge::sides_of(step.instruction)) {
    if (side == nullptr || side->entry >= isa::kFirstArgument || side->entry < entries) continue;
    c.report.fail("E-20", where_of(p, step.pc),
                  std::string(isa::find_op(step.instruction.opcode)->name) + " names tensor " +
                      std::to_string(side->entry) + " of a dge-table of " +
                      std::to_string(entries));
  }
}

void check_rank_query(const Context& c, const Subgraph& sg, const EngineProgram& p,
                      const ProgramStep& step) {
  if (step.instruction.opcode != Opcode::kGetCurProcessingRankId) return;
  const uint32_t group = step.instruction.operands.get_cur_processing_rank_id.group_id;
  if (group < sg.cc.groups.size()) return;
  c.report.fail("C-11", where_of(p, step.pc),
                "group_id " + std::to_string(group) + " is not in x_cc");
}

// The queue set of a transfer that the engine generates itself.
void check_generated(const Context& c, const Subgraph& sg, const EngineProgram& p,
                     const ProgramStep& step) {
  const contract::dge::Transfer t = contract::dge::transfer_of(step.instruction);
  const std::string where = where_of(p, step.pc);
  if (t.queue == 0 || t.queue >= p.symbols.size()) {
    return c.report.fail("B-04", where, "transfer names a symbol that the file does not have");
  }
  const std::string& name = p.symbol(t.queue);
  const QueueSet* set = sg.find_queue(name);
  if (set == nullptr || set->type != QueueType::kDynamic) {
    return c.report.fail("E-20", where, "queue set " + name + " is not one of type dynamic");
  }
  if (set->num_queues != contract::kDmaPerNc) {
    return c.report.fail("E-20", where,
                         "queue set " + name + " has " + std::to_string(set->num_queues) +
                             " queues; descriptors are generated for " +
                             std::to_string(contract::kDmaPerNc));
  }
}

// Bytes from the first to behind the last element; negative steps are refused by the caller.
std::optional<uint64_t> pattern_bytes(const isa::Pattern& p, DataType type) {
  unsigned __int128 elements = 1;
  for (size_t i = 0; i < 2; ++i) {
    if (p.count[i] == 0) continue;
    if (p.count[i] > 1 && static_cast<unsigned __int128>(p.step[i]) != elements) {
      return std::nullopt;  // not contiguous
    }
    elements *= p.count[i];
  }
  const unsigned __int128 bytes = elements * data_type_bytes(type);
  if (bytes > (1ull << 53)) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

struct Side {
  uint32_t variable = 0;
  uint64_t bytes = 0;
  std::optional<SbufTensor> sbuf;
};

// Own: dimension 0 counts elements within a partition, dimension 1 partitions.
Side resolve_sbuf(const Context& c, const Subgraph& sg, const std::string& where,
                  const std::string& name, uint64_t offset, const isa::Pattern& p, DataType type) {
  SbufTensor tensor;
  tensor.row_bytes = uint64_t{p.count[0]} * data_type_bytes(type);
  tensor.partitions = std::max(1u, p.count[1]);
  if (p.count[1] > 1) tensor.step = static_cast<uint32_t>(std::max(0, p.step[1]));
  const uint64_t first = offset / kPartitionPitch;
  const uint64_t last = first + uint64_t{tensor.partitions - 1} * tensor.step;
  if (p.count[0] == 0 || tensor.step == 0) {
    c.report.fail("C-16", where, name + "_pattern is empty or goes backwards");
  } else if (p.count[0] > 1 && p.step[0] != 1) {
    c.report.fail(violation("C-16", where, name + "_pattern has gaps within a partition",
                            status::kInvalid, base::Fault::kUnsupported));
  } else if (tensor.partitions > kPartitions || last >= kPartitions ||
             offset % kPartitionPitch + tensor.row_bytes > sbuf_partition_bytes(sg.core_version)) {
    c.report.fail("C-16", where, name + " leaves SBUF");
  }
  return {0, tensor.row_bytes * tensor.partitions, tensor};
}

Side resolve(const Context& c, const Subgraph& sg, const std::string& where, const char* name,
             uint32_t var_id, uint64_t offset, const isa::Pattern& pattern, DataType type) {
  const Variable* v = sg.find_variable(var_id);
  if (v == nullptr) {
    c.report.fail("B-04", where,
                  std::string(name) + "_var_id " + std::to_string(var_id) + " is not declared");
    return {};
  }
  if (v->type == VariableType::kStateBuffer) {
    Side side = resolve_sbuf(c, sg, where, name, offset, pattern, type);
    side.variable = static_cast<uint32_t>(v - sg.variables.data());
    return side;
  }
  const std::optional<uint64_t> bytes = pattern_bytes(pattern, type);
  if (!bytes) {
    c.report.fail("C-16", where, std::string(name) + "_pattern is not contiguous");
    return {};
  }
  if (offset > v->size || *bytes > v->size - offset) {
    c.report.fail("C-16", where, std::string(name) + " leaves variable " + v->name);
  }
  return {static_cast<uint32_t>(v - sg.variables.data()), *bytes, std::nullopt};
}

// Rule C-17, and C-16 for two tensors in SBUF: an all-gather puts the rows of the ranks into the
// partitions one after the other and then into the next column (cc_dim 0), or side by side (1); a
// reduce-scatter cuts its input that way.
void check_sbuf(const Context& c, const std::string& where, const CollectiveOp& op) {
  const bool gather = op.type == CollectiveType::kAllGather;
  const bool scatter = op.type == CollectiveType::kReduceScatter;
  if (op.cc_dim > 1 || (op.cc_dim == 1 && !(gather && op.destination_sbuf))) {
    return c.report.fail("C-16", where, "cc_dim 1 is only for an all-gather in SBUF");
  }
  if (op.source_sbuf.has_value() != op.destination_sbuf.has_value()) {
    return c.report.fail("C-17", where, "one operand in SBUF, the other in device memory");
  }
  if (!op.source_sbuf) return;
  if (op.type != CollectiveType::kAllReduce && !gather && !scatter) {
    return c.report.fail("C-17", where,
                         "only all-reduce, all-gather and reduce-scatter work in SBUF");
  }
  const SbufTensor& part = scatter ? *op.destination_sbuf : *op.source_sbuf;
  const SbufTensor& whole = scatter ? *op.source_sbuf : *op.destination_sbuf;
  if (!gather && !scatter) return;
  if (whole.row_bytes % part.row_bytes != 0) {
    return c.report.fail("C-16", where, "the rows of the long tensor are no multiple of the short");
  }
  if (op.cc_dim == 1 && whole.partitions != part.partitions) {
    c.report.fail("C-16", where, "cc_dim 1, but source and destination differ in partitions");
  }
}

bool variable_size(CollectiveType type) {
  return type == CollectiveType::kAllGatherV || type == CollectiveType::kReduceScatterV ||
         type == CollectiveType::kAllToAllV;
}

// The tensors that only some kinds have.
void add_extra_tensors(const Context& c, const Subgraph& sg, const std::string& where,
                       const isa::PseudoTriggerCollective2& t, CollectiveOp* op) {
  const bool reduced_permute = op->type == CollectiveType::kPermuteReduce ||
                               op->type == CollectiveType::kPermuteReduceImplicit ||
                               op->type == CollectiveType::kSendRecvCce;
  if (reduced_permute) {
    const Side second =
        resolve(c, sg, where, "src1", t.src1_var_id, t.src1_var_offset, t.src0_pattern, t.dtype);
    if (second.sbuf) return c.report.fail("C-17", where, "src1 in SBUF");
    op->second_source = second.variable;
    op->second_source_offset = t.src1_var_offset;
  }
  if (!variable_size(op->type)) return;
  const Variable* v = sg.find_variable(t.metadata_var_id);
  if (v == nullptr) {
    return c.report.fail(
        "B-04", where, "metadata_var_id " + std::to_string(t.metadata_var_id) + " is not declared");
  }
  if (v->type == VariableType::kStateBuffer) {
    return c.report.fail(violation("C-17", where, "a metadata tensor in SBUF is not supported",
                                   status::kInvalid, base::Fault::kUnsupported));
  }
  op->metadata = static_cast<uint32_t>(v - sg.variables.data());
  op->receive_counts_known = t.recv_counts_known != 0;
  op->receive_displacements = t.has_rdispls != 0;
}

void add_collective(const Context& c, const EngineProgram& p, const ProgramStep& step,
                    Subgraph* sg) {
  const isa::PseudoTriggerCollective2& t = step.instruction.operands.pseudo_trigger_collective_2;
  const std::string where = where_of(p, step.pc);
  if (t.stream_id >= kMaxStreams) {
    c.report.fail("C-15", where, "stream_id " + std::to_string(t.stream_id) + " is not in 0..3");
  }
  if (t.group_id >= sg->cc.groups.size()) {
    c.report.fail("C-11", where, "group_id " + std::to_string(t.group_id) + " is not in x_cc");
  }
  if (t.src0_shape_reg != 0 || t.dst_shape_reg != 0) {
    c.report.fail(violation("C-16", where, "shapes in registers are not supported",
                            status::kInvalid, base::Fault::kUnsupported));
  }
  Side from;
  Side to;
  if (t.ctype != CollectiveType::kBarrier) {  // which moves nothing
    from =
        resolve(c, *sg, where, "src0", t.src0_var_id, t.src0_var_offset, t.src0_pattern, t.dtype);
    to = resolve(c, *sg, where, "dst", t.dst_var_id, t.dst_var_offset, t.dst_pattern, t.dtype);
  }
  CollectiveOp op;
  op.engine = p.engine;
  op.pc = step.pc;
  op.type = t.ctype;
  op.reduce = t.op;
  op.dtype = t.dtype;
  op.cc_dim = t.cc_dim;
  op.group_id = t.group_id;
  op.channel_id = t.channel_id;
  op.stream_id = t.stream_id;
  op.priority = t.priority;
  op.source = from.variable;
  op.source_offset = t.src0_var_offset;
  op.source_bytes = from.bytes;
  op.destination = to.variable;
  op.destination_offset = t.dst_var_offset;
  op.destination_bytes = to.bytes;
  op.source_sbuf = from.sbuf;
  op.destination_sbuf = to.sbuf;
  op.root = t.root;
  check_sbuf(c, where, op);
  add_extra_tensors(c, *sg, where, t, &op);
  sg->collectives.push_back(op);
}

// Rule C-16 for `n` ranks.
bool sizes_agree(const CollectiveOp& op, uint64_t n) {
  if (n == 0) return false;
  switch (op.type) {
    case CollectiveType::kAllReduce:
    case CollectiveType::kPermute:
    case CollectiveType::kPermuteImplicit:
    case CollectiveType::kPermuteReduce:
    case CollectiveType::kPermuteReduceImplicit:
    case CollectiveType::kSendRecv:
    case CollectiveType::kSendRecvCce:
    case CollectiveType::kBroadcast:
    case CollectiveType::kReduce:
      return op.source_bytes == op.destination_bytes;
    case CollectiveType::kAllGather:
      return op.destination_bytes % n == 0 && op.destination_bytes / n == op.source_bytes;
    case CollectiveType::kReduceScatter:
      return op.source_bytes % n == 0 && op.source_bytes / n == op.destination_bytes;
    case CollectiveType::kAllToAll:
      return op.source_bytes == op.destination_bytes &&
             op.source_bytes % (n * std::max(1u, data_type_bytes(op.dtype))) == 0;
    case CollectiveType::kAllGatherV:
    case CollectiveType::kReduceScatterV:
    case CollectiveType::kAllToAllV:
      return true;  // given by a tensor at run time
    case CollectiveType::kBarrier:
      return true;
  }
  return false;
}

// Every rank sends at most once and receives at most once, within the own list
// (spec/collectives.md 1.5). Whether the pairs must close a circle depends on what executes them.
base::Status check_pairs(const ReplicaGroups& group, uint32_t id, const RankList& mine) {
  const std::string where = "source_target_pairs of group " + std::to_string(id);
  if (group.source_target_pairs.empty()) return violation("C-11", where, "there are none");
  std::set<uint32_t> used[2];
  for (const std::array<uint32_t, 2>& pair : group.source_target_pairs) {
    const RankList* lists[2] = {group.list_of(pair[0]), group.list_of(pair[1])};
    const std::string text = "[" + std::to_string(pair[0]) + ", " + std::to_string(pair[1]) + "]";
    if (lists[0] == nullptr || lists[0] != lists[1]) {
      return violation("C-11", where, text + " is not within one list of ranks");
    }
    if (lists[0]->data() != mine.data()) continue;
    for (size_t side = 0; side < 2; ++side) {
      if (used[side].insert(pair[side]).second) continue;
      return violation("C-11", where,
                       std::string(side == 0 ? "source " : "target ") + std::to_string(pair[side]) +
                           " occurs twice");
    }
  }
  return {};
}

// What else depends on the ranks of the own list (C-11, C-16).
base::Status check_operation(const Subgraph& sg, const CollectiveOp& op, const RankList& mine) {
  const std::string where = sg.name + " record " + std::to_string(op.pc);
  if (!sizes_agree(op, mine.size())) {
    return violation("C-16", where,
                     "source of " + std::to_string(op.source_bytes) + " and destination of " +
                         std::to_string(op.destination_bytes) + " bytes do not fit " +
                         std::to_string(mine.size()) + " ranks");
  }
  if (op.root >= mine.size()) {
    return violation("C-11", where,
                     "root " + std::to_string(op.root) + " of a group of " +
                         std::to_string(mine.size()) + " ranks");
  }
  const uint64_t needed = uint64_t{op.metadata_rows()} * mine.size() * sizeof(uint32_t);
  if (op.metadata && sg.variables[*op.metadata].size < needed) {
    return violation("C-16", where,
                     "the metadata tensor has " + std::to_string(sg.variables[*op.metadata].size) +
                         " bytes, " + std::to_string(needed) + " are needed");
  }
  if (!op.has_pairs()) return {};
  return check_pairs(sg.cc.groups[op.group_id], op.group_id, mine);
}

base::Status check_group(const ReplicaGroups& group, uint32_t id, const CollectiveContext& x) {
  const std::string where = "replica group " + std::to_string(id);
  for (const RankList& list : group.lists) {
    for (uint32_t rank : list) {
      if (rank < x.world_size) continue;
      return violation(
          "C-11", where,
          "rank " + std::to_string(rank) + " is not in a world of " + std::to_string(x.world_size));
    }
  }
  if (group.list_of(x.rank) != nullptr) return {};
  std::string text;
  for (const RankList& list : group.lists) {
    text += text.empty() ? "[" : ", [";
    for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(list[i]);
    text += "]";
  }
  return violation("C-12", where,
                   "replica groups (" + text + ") does not have myself " + std::to_string(x.rank),
                   status::kResource, base::Fault::kUsage);
}

}  // namespace

uint32_t CollectiveOp::metadata_rows() const {
  if (type == CollectiveType::kReduceScatterV) return 2;  // counts, displacements
  return variable_size(type) ? (receive_displacements ? 4 : 3) : 0;
}

bool CollectiveOp::has_pairs() const {
  return type == CollectiveType::kPermute || type == CollectiveType::kPermuteReduce ||
         type == CollectiveType::kSendRecv || type == CollectiveType::kSendRecvCce;
}

const RankList* ReplicaGroups::list_of(uint32_t rank) const {
  for (const RankList& list : lists) {
    if (std::find(list.begin(), list.end(), rank) != list.end()) return &list;
  }
  return nullptr;
}

void check_references(const Context& c, Subgraph* sg) {
  for (EngineProgram& p : sg->programs) {
    auto flow = find_flow(p, sg->queues, sg->variables);
    if (!flow) return c.report.fail(flow.error());
    p.flow = std::move(*flow);
    for (const ProgramStep& step : p.steps) {
      if (contract::dge::generates(step.instruction.opcode)) check_generated(c, *sg, p, step);
      check_tensors(c, *sg, p, step);
      check_rank_query(c, *sg, p, step);
      if (step.instruction.opcode == Opcode::kPseudoTriggerCollective2)
        add_collective(c, p, step, sg);
      if (!c.report.ok()) return;
    }
  }
  if (c.executable && sg->cc.ops != 0 && sg->cc.ops != sg->collectives.size()) {
    c.report.warn(sg->name, "x_cc announces " + std::to_string(sg->cc.ops) +
                                " operations, programs have " +
                                std::to_string(sg->collectives.size()));
  }
}

bool Neff::has_collectives() const {
  return std::any_of(subgraphs.begin(), subgraphs.end(),
                     [](const Subgraph& s) { return !s.collectives.empty(); });
}

base::Status check_context(const Neff& neff, const CollectiveContext& x) {
  if (neff.has_collectives() && !x.present) {
    return violation("C-10", neff.header.name,
                     "the NEFF has collectives: load it with nrt_load_collectives",
                     status::kInvalid, base::Fault::kUsage);
  }
  for (const Subgraph& sg : neff.subgraphs) {
    std::set<std::vector<RankList>> communicators;
    for (const CollectiveOp& op : sg.collectives) {
      const ReplicaGroups& group = sg.cc.groups[op.group_id];
      if (base::Status s = check_group(group, op.group_id, x); !s) return s;
      communicators.insert(group.lists);
      const RankList& mine = *group.list_of(x.rank);
      if (base::Status s = check_operation(sg, op, mine); !s) return s;
    }
    if (!sg.collectives.empty() && sg.cc.participants != 0 && sg.cc.participants != x.world_size) {
      return violation("C-11", sg.name,
                       "built for " + std::to_string(sg.cc.participants) +
                           " ranks, loaded in a world of " + std::to_string(x.world_size));
    }
    if (communicators.size() > kMaxCommunicators) {
      return violation("C-14", sg.name,
                       std::to_string(communicators.size()) + " communicators, 16 are supported",
                       status::kResource, base::Fault::kResource);
    }
  }
  return {};
}

}  // namespace neff
