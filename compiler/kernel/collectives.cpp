// Collectives (spec/neff.md 4): from views to the instruction that triggers one. Ranks execute the
// same kernel, so what one of them would be refused for is refused here, with its line.
#include <algorithm>

#include "compiler/kernel/calls.h"
#include "neff_loader/dtype.h"

namespace kernel {
namespace {

constexpr int64_t kMostOfPattern = UINT32_MAX;  // elements of a dimension
constexpr size_t kMostGroups = 16;              // spec/neff.md 4.4, rule C-14

isa::ReduceOp reduction(Op op) {
  switch (op) {
    case Op::kAdd:
      return isa::ReduceOp::kAdd;
    case Op::kMin:
      return isa::ReduceOp::kMin;
    case Op::kMax:
      return isa::ReduceOp::kMax;
    default:
      return isa::ReduceOp::kNone;
  }
}

bool reduces(isa::CollectiveType type) {
  return type == isa::CollectiveType::kAllReduce || type == isa::CollectiveType::kReduceScatter;
}

// Rule C-16.
bool sizes_fit(isa::CollectiveType type, int64_t dst, int64_t src, int64_t ranks) {
  switch (type) {
    case isa::CollectiveType::kAllGather:
      return dst == src * ranks;
    case isa::CollectiveType::kReduceScatter:
      return src == dst * ranks;
    case isa::CollectiveType::kAllToAll:
      return dst == src && src % ranks == 0;
    default:
      return dst == src;
  }
}

isa::Pattern flat(int64_t elements) {
  return {{1, 0}, {static_cast<uint32_t>(elements), 0}};
}

std::string stream_name(const Stream& stream) {
  return "stream " + std::to_string(stream.number);
}

}  // namespace

// Every rank of the world is in one list (rules C-11 and C-12).
bool Program::takes(const Call& call, const Group& group) {
  const std::string what = std::string(call.name) + ": ";
  std::vector<uint32_t> ranks;
  bool empty = group.lists.empty();
  for (const std::vector<uint32_t>& list : group.lists) {
    ranks.insert(ranks.end(), list.begin(), list.end());
    empty = empty || list.empty();
  }
  if (empty) {
    fail(base::Fault::kUsage, call.at, what + "the group or one of its lists has no ranks");
    return false;
  }
  std::sort(ranks.begin(), ranks.end());
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == i) continue;
    const bool twice = i > 0 && ranks[i] == ranks[i - 1];
    fail(base::Fault::kUsage, call.at,
         what + "rank " + std::to_string(twice ? ranks[i] : i) + " is " +
             (twice ? "twice in the group" : "not in the group, whose ranks go up to ") +
             (twice ? "" : std::to_string(ranks.back())));
    return false;
  }
  if (world_ == 0) {
    world_ = ranks.size();
    world_at_ = call.at;
  }
  if (ranks.size() == world_) return true;
  fail(base::Fault::kUsage, call.at,
       what + "the group has " + std::to_string(ranks.size()) + " ranks, that of " +
           to_string(world_at_) + " has " + std::to_string(world_));
  return false;
}

bool Program::contiguous(const Call& call, const char* name, const View& view) {
  const std::string what = std::string(call.name) + ": " + name + " (" + describe(view) + ") ";
  neff::AccessPattern p;
  if (view.space_ != Space::kHbm) {
    fail(base::Fault::kUsage, call.at, what + "is not in HBM");
  } else if (!stays(call, name, view)) {
    return false;
  } else if (!pattern(view, &p) || p.dims != 1) {
    fail(base::Fault::kUsage, call.at, what + "is not contiguous");
  } else if (view.elements() > kMostOfPattern) {
    fail(base::Fault::kUsage, call.at, what + "has 2^32 or more elements");
  }
  return ok();
}

bool Program::takes(const Call& call, const Collective& what, const Group& group) {
  const View& dst = what.dst;
  const View& src = what.src;
  if (!check(call, {{"dst", &dst, true}, {"src", &src, false}})) return false;
  if (!contiguous(call, "dst", dst) || !contiguous(call, "src", src)) return false;
  if (!takes(call, group)) return false;
  const std::string name = std::string(call.name) + ": ";
  if (reduces(what.type) && what.reduce == isa::ReduceOp::kNone) {
    fail(base::Fault::kUsage, call.at, name + "collectives fold with kAdd, kMin or kMax");
  } else if (dst.dtype_ != src.dtype_) {
    fail(base::Fault::kUsage, call.at,
         name + "dst is " + neff::to_string(data_type(dst.dtype_)) + ", src " +
             neff::to_string(data_type(src.dtype_)) + "; collectives do not convert");
  }
  for (const std::vector<uint32_t>& list : group.lists) {
    if (sizes_fit(what.type, dst.elements(), src.elements(), static_cast<int64_t>(list.size()))) {
      continue;
    }
    fail(base::Fault::kUsage, call.at,
         name + "dst (" + describe(dst) + ") of " + std::to_string(dst.elements()) + " and src (" +
             describe(src) + ") of " + std::to_string(src.elements()) + " elements do not fit " +
             std::to_string(list.size()) + " ranks");
  }
  if (!ok()) return false;
  const bool in_place =
      what.type == isa::CollectiveType::kAllReduce && footprint(dst) == footprint(src);
  return in_place || apart(call, dst, src);
}

void Program::add_collective(const Call& call, const Collective& what, const Group& group,
                             const Stream& stream) {
  const std::string name = std::string(call.name) + ": ";
  const uint32_t engine = chosen(stream.trigger, Engine::kGpSimd);
  if (ok() && stream.number >= streams.size()) {
    return fail(
        base::Fault::kUsage, call.at,
        name + stream_name(stream) + "; there are 0 to " + std::to_string(streams.size() - 1));
  }
  if (!takes(call, what, group)) return;
  if (scope() != 0) {
    return fail(base::Fault::kUsage, call.at,
                name + "in a loop; the loader has to know how many there are");
  }
  // What is alone needs nobody, and loads with nrt_load.
  if (world_ == group.lists.size()) {
    if (!(footprint(what.dst) == footprint(what.src))) {
      add_copy(call, what.dst, what.src, engine);
    }
    return;
  }
  StreamUse& use = streams[stream.number];
  if (use.operations == 0) {
    use.engine = engine;
    use.first = call.at;
  } else if (use.engine != engine) {
    return fail(base::Fault::kUsage, call.at,
                name + stream_name(stream) + " is triggered by " + engine_name(use.engine) +
                    " at " + to_string(use.first) + ", here by " + engine_name(engine));
  }
  const auto known = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& g) { return g.lists == group.lists; });
  const auto id = static_cast<uint16_t>(known - groups.begin());
  if (known == groups.end()) {
    if (groups.size() == kMostGroups) {
      return fail(base::Fault::kResource, call.at,
                  name + "more than " + std::to_string(kMostGroups) + " groups");
    }
    groups.push_back(group);
  }
  ++use.operations;
  isa::Instruction in = make(Opcode::kPseudoTriggerCollective2);
  auto& o = in.operands.pseudo_trigger_collective_2;
  o.ctype = what.type;
  o.op = what.reduce;
  o.dtype = data_type(what.src.dtype_);
  o.src0_var_id = what.src.buffer_ + 1;
  o.src0_var_offset = static_cast<uint64_t>(what.src.offset_);
  o.src0_pattern = flat(what.src.elements());
  o.group_id = id;
  o.stream_id = static_cast<uint8_t>(stream.number);
  o.dst_var_id = what.dst.buffer_ + 1;
  o.dst_var_offset = static_cast<uint64_t>(what.dst.offset_);
  o.dst_pattern = flat(what.dst.elements());
  std::vector<MemoryAccess> accesses{{footprint(what.dst), true}};
  if (changes(tensors[what.src.buffer_])) accesses.push_back({footprint(what.src), false});
  Order::Step step = order_.transfer(engine, Order::kFirstStream + stream.number, accesses);
  push({in, engine, begin_call(call), step.event, std::move(step.waits)});
}

// ---- Calls ----

void Kernel::all_reduce(const View& dst, const View& src, Op op, const Group& group,
                        const Stream& stream, Location at) {
  program_->add_collective({at, "all_reduce"},
                           {isa::CollectiveType::kAllReduce, reduction(op), dst, src}, group,
                           stream);
}

void Kernel::all_gather(const View& dst, const View& src, const Group& group, const Stream& stream,
                        Location at) {
  program_->add_collective({at, "all_gather"},
                           {isa::CollectiveType::kAllGather, isa::ReduceOp::kNone, dst, src}, group,
                           stream);
}

void Kernel::reduce_scatter(const View& dst, const View& src, Op op, const Group& group,
                            const Stream& stream, Location at) {
  program_->add_collective({at, "reduce_scatter"},
                           {isa::CollectiveType::kReduceScatter, reduction(op), dst, src}, group,
                           stream);
}

void Kernel::all_to_all(const View& dst, const View& src, const Group& group, const Stream& stream,
                        Location at) {
  program_->add_collective({at, "all_to_all"},
                           {isa::CollectiveType::kAllToAll, isa::ReduceOp::kNone, dst, src}, group,
                           stream);
}

}  // namespace kernel
