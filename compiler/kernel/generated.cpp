// Transfers whose descriptors an engine makes while it runs (spec/engine-isa.md 8.2, 10.1), and
// those that fold several sources: from views to instructions and descriptions.
#include <algorithm>

#include "arch/contract/dge.h"
#include "arch/contract/isa_rules.h"
#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

constexpr int64_t kPitch = static_cast<int64_t>(neff::kPartitionPitch);
constexpr int64_t kBlockRows = 16;  // of a transposition by hardware

contract::Gen generation_of(Generation generation) {
  switch (generation) {
    case Generation::kV2:
      return contract::Gen::kV2;
    case Generation::kV3:
      return contract::Gen::kV3;
    case Generation::kV4:
      break;
  }
  return contract::Gen::kV4;
}

uint32_t maker(const Transfer& how) {
  return chosen(how.engine, how.generate == Generate::kSoftware ? Engine::kGpSimd : Engine::kSync);
}

template <typename Operands>
void set_sides(const isa::SideOperand& dst, const isa::SideOperand& src, const Transfer& how,
               uint32_t queue, Operands* o) {
  o->queue = queue;
  o->mode = how.generate == Generate::kSoftware ? isa::DgeMode::kSwdge : isa::DgeMode::kHwdge;
  o->bounds = how.skip ? isa::DgeBounds::kSkip : isa::DgeBounds::kError;
  o->dst = dst;
  o->src = src;
}

}  // namespace

// `rows_apart`: the first dimension is one of the result, not merged with what lies inside;
// `merge` is false where every dimension has its meaning.
isa::SideOperand Program::side(const Call& call, const char* name, const View& v, uint32_t engine,
                               bool rows_apart, bool merge) {
  isa::SideOperand out{};
  const std::string what = std::string(call.name) + ": " + name + " (" + describe(v) + ") ";
  if (v.space_ == Space::kPsum) {
    fail(base::Fault::kUsage, call.at,
         what + "is in PSUM, which transfers do not reach; copy the tile to SBUF first");
    return out;
  }
  const int64_t bytes = bytes_of(v.dtype_);
  std::vector<Dim> dims;  // in bytes, innermost first
  for (size_t i = v.dims_.size(); i > 0; --i) {
    const bool partitions = v.space_ == Space::kSbuf && i == 1;
    const Dim d{partitions ? kPitch : v.dims_[i - 1].step * bytes, v.dims_[i - 1].count};
    const bool apart = !merge || (rows_apart && i == 1);
    if (!apart && d.count == 1) continue;
    const bool joins = !apart && !dims.empty() && d.step == dims.back().step * dims.back().count;
    if (joins) {
      dims.back().count *= d.count;
    } else {
      dims.push_back(d);
    }
  }
  if (dims.empty()) dims.push_back({bytes, 1});
  constexpr int64_t kMostStep = INT32_MAX;
  const bool far = std::any_of(dims.begin(), dims.end(), [](const Dim& d) {
    return d.step > kMostStep || d.step < -kMostStep || d.count > int64_t{UINT32_MAX};
  });
  if (dims.size() > std::size(out.step) || far) {
    fail(base::Fault::kUsage, call.at,
         what + "has " + std::to_string(dims.size()) +
             " dimensions that are not contiguous, or one whose elements are 2 GiB apart; a "
             "generated transfer has up to 4");
    return out;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    out.step[i] = static_cast<int32_t>(dims[i].step);
    out.count[i] = static_cast<uint32_t>(dims[i].count);
  }
  out.dtype = data_type(v.dtype_);
  out.offset_register = isa::kNoRegister;
  out.entry = isa::kSbufEntry;
  out.offset = static_cast<uint64_t>(v.offset_ + v.start_partition_ * kPitch);
  if (v.space_ == Space::kHbm) {
    out.offset = static_cast<uint64_t>(v.offset_);
    const auto known = std::find(table.begin(), table.end(), v.buffer_);
    out.entry = static_cast<uint16_t>(known - table.begin());
    if (known == table.end()) table.push_back(v.buffer_);
  }
  int64_t reach = v.displacement_.positions * v.displacement_.bytes;
  for (const View::Move& m : v.moves_) reach += (m.turns - 1) * m.bytes;
  if (reach > int64_t{UINT32_MAX} && v.moves_.size() + (v.displacement_.positions != 0) > 1) {
    fail(base::Fault::kUsage, call.at, what + "moves by 4 GiB or more in all");
    return out;
  }
  if (v.moves_.size() == 1 && v.displacement_.positions == 0) {
    const View::Move& move = v.moves_[0];
    if (move.bytes > int64_t{UINT32_MAX}) {
      fail(base::Fault::kUsage, call.at, what + "moves by 4 GiB or more in each turn");
      return out;
    }
    out.offset_register = turn_register(find_scope(move.loop)->level);
    out.scale = static_cast<uint32_t>(move.bytes);
  } else if (v.moves_.empty() && v.displacement_.positions != 0) {
    out.offset_register = v.displacement_.by.number;
    out.scale = static_cast<uint32_t>(v.displacement_.bytes);
  } else if (moving(v)) {
    out.offset_register = displace(call, engine, v, v.space_ == Space::kHbm ? 0 : 1);
    out.scale = 1;
  }
  return out;
}

isa::Instruction Program::generated(const Call& call, const Generated& what, const Transfer& how) {
  const bool rows = what.index != nullptr;
  const bool turn = what.transpose;
  // A matrix of more than 16 rows is turned as blocks of 16, which are an axis in between.
  const bool blocks = turn && !rows && what.src.rank() == 2 && what.src.size(0) > kBlockRows &&
                      what.src.size(0) % kBlockRows == 0 && what.dst.rank() == 2;
  const uint32_t engine = maker(how);
  isa::SideOperand dst = side(call, "dst", what.dst, engine, rows && what.scatter, !turn);
  isa::SideOperand src = side(call, "src", what.src, engine, rows && !what.scatter, !turn);
  if (rows && ok()) {  // as many as there are indices, of all that the tensor has
    isa::SideOperand& indexed = what.scatter ? dst : src;
    const View& last = what.dst;
    indexed.count[isa::rank_of(indexed) - 1] =
        static_cast<uint32_t>(turn ? last.size(last.rank() - 1) : what.index->size(0));
  }
  if (blocks && ok()) {
    const auto n = static_cast<uint32_t>(what.src.size(0) / kBlockRows);
    for (isa::SideOperand* s : {&src, &dst}) {
      const bool from = s == &src;
      const int32_t row = from ? s->step[1] : s->step[0];
      const int32_t column = from ? s->step[0] : s->step[1];
      const auto columns = static_cast<uint32_t>(what.src.size(1));
      s->step[from ? 2 : 0] = row;
      s->count[from ? 2 : 0] = static_cast<uint32_t>(kBlockRows);
      s->step[1] = row * static_cast<int32_t>(kBlockRows);
      s->count[1] = n;
      s->step[from ? 0 : 2] = column;
      s->count[from ? 0 : 2] = columns;
    }
  }
  const View& hbm = what.src.space_ == Space::kHbm ? what.src : what.dst;
  if (how.offset_register >= 0 && ok()) {
    if (!is_register(call, how.offset_register)) return {};
    const bool legal = hbm.space_ == Space::kHbm && !moving(hbm) && how.dim < hbm.dims_.size() &&
                       hbm.dims_[how.dim].step >= 0 &&
                       hbm.dims_[how.dim].step * bytes_of(hbm.dtype_) <= int64_t{UINT32_MAX};
    if (!legal) {
      fail(base::Fault::kUsage, call.at,
           std::string(call.name) +
               ": a dynamic offset needs a dimension of a tensor in HBM, which does not move by "
               "itself");
    }
    isa::SideOperand& moved = what.src.space_ == Space::kHbm ? src : dst;
    moved.offset_register = static_cast<uint8_t>(how.offset_register);
    moved.scale = legal ? static_cast<uint32_t>(hbm.dims_[how.dim].step * bytes_of(hbm.dtype_)) : 0;
  }
  isa::TensorOperand index{};
  if (rows) {
    index = tensor(call, {"index", what.index, false});
    if (index.offset_register != isa::kNoRegister && ok()) {
      index.offset_register = displace(call, engine, *what.index, 2);
    }
    displaced_.clear();
  }
  const auto lanes = static_cast<uint8_t>(rows ? what.index->size(0) : 0);
  const isa::DgeOp op = how.accumulate ? isa::DgeOp::kAdd : isa::DgeOp::kNone;
  if (turn && rows) {
    isa::Instruction in = make(Opcode::kDmaGatherTranspose);
    set_sides(dst, src, how, 0, &in.operands.dma_gather_transpose);
    in.operands.dma_gather_transpose.index = index;
    in.operands.dma_gather_transpose.rows = lanes;
    return in;
  }
  if (turn) {
    isa::Instruction in = make(Opcode::kDmaTranspose);
    set_sides(dst, src, how, 0, &in.operands.dma_transpose);
    return in;
  }
  if (rows) {
    isa::Instruction in = make(Opcode::kDmaIndirect);
    isa::DmaIndirect& o = in.operands.dma_indirect;
    set_sides(dst, src, how, 0, &o);
    o.index = index;
    o.rows = lanes;
    o.direction = what.scatter ? isa::DgeDirection::kScatter : isa::DgeDirection::kGather;
    o.op = op;
    o.ordered = what.ordered ? 1 : 0;
    return in;
  }
  isa::Instruction in = make(Opcode::kDmaMemcpy);
  set_sides(dst, src, how, 0, &in.operands.dma_memcpy);
  in.operands.dma_memcpy.op = op;
  return in;
}

void Program::add_generated(const Call& call, const Generated& what, const Transfer& how) {
  if (!check(call, {{"dst", &what.dst, true}, {"src", &what.src, false}})) return;
  if (what.index != nullptr && !check(call, {{"index", what.index, false}})) return;
  const uint32_t engine = maker(how);
  isa::Instruction in = generated(call, what, how);
  if (!ok()) return;
  const isa::OpInfo* op = isa::find_op(in.opcode);
  const auto on = static_cast<isa::Engine>(engine);
  if (!op->runs_on(on) || !isa::executes(in, on, generation_of(params.generation))) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": " + op->name + " in this mode does not exist on the " +
             engine_name(engine) + " engine of this generation");
    return;
  }
  isa::Record room[1 + isa::kMaxExtensions];
  if (isa::encode(in, room[0].bytes, sizeof room) == 0) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": these operands do not go together in " + op->name);
    return;
  }
  // Where an address is known only when it runs, it may be anywhere in the tensor.
  const auto touched = [&](const View& v, bool moves) {
    if (v.space_ != Space::kHbm || !moves) return footprint(v);
    return FootprintBuilder(tensors[v.buffer_].memory, 0, tensors[v.buffer_].bytes).build();
  };
  const bool from_hbm = what.src.space_ == Space::kHbm;
  const bool dynamic = how.offset_register >= 0;
  const bool dst_moves = (what.index != nullptr && what.scatter) || (dynamic && !from_hbm);
  const bool src_moves = (what.index != nullptr && !what.scatter) || (dynamic && from_hbm);
  std::vector<MemoryAccess> accesses{{touched(what.dst, dst_moves), true}};
  if (!from_hbm || changes(tensors[what.src.buffer_])) {
    accesses.push_back({touched(what.src, src_moves), false});
  }
  if (what.index != nullptr) accesses.push_back({footprint(*what.index), false});
  if (!apart(call, what.dst, what.src)) return;
  const bool store = what.dst.space_ == Space::kHbm;
  auto queue = std::find_if(queues.begin(), queues.end(), [&](const QueueSet& q) {
    return q.engine == engine && std::string(q.type) == "dynamic" && q.store == store;
  });
  QueueSet* set = queue != queues.end() ? &*queue : nullptr;
  if (set == nullptr) {
    QueueSet fresh;
    fresh.name = std::string("q") + engine_name(engine) + "Dynamic" + (store ? "Out0" : "In0");
    fresh.type = "dynamic";
    fresh.engine = engine;
    fresh.store = store;
    set = add_queue_set(std::move(fresh), call);
    if (set == nullptr) return;
  }
  ++set->generated;
  contract::dge::set_queue(&in, static_cast<uint32_t>(set - queues.data()));
  record(call, engine, set, in, accesses);
}

void Program::add_fold(const Call& call, const View& dst, const std::vector<View>& srcs,
                       const Fold& fold, uint32_t engine) {
  std::vector<Operand> operands{{"dst", &dst, true}};
  for (const View& src : srcs) operands.push_back({"src", &src, false});
  if (!check(call, operands)) return;
  const std::string what = std::string(call.name) + ": ";
  const bool known = fold.op == Op::kAdd || fold.op == Op::kMin || fold.op == Op::kMax;
  const bool scaled = !fold.scales.empty();
  if (srcs.empty() || srcs.size() > contract::DmaCompute::kMaxSources || !known ||
      (scaled && (fold.op != Op::kAdd || fold.scales.size() != srcs.size()))) {
    fail(base::Fault::kUsage, call.at,
         what +
             "adds 1 to 16 sources, with a scale for each or none, or takes their least or "
             "largest elements");
    return;
  }
  if (!stays(call, "dst", dst)) return;
  Copy copy;
  copy.op = fold.op == Op::kMin ? "min" : fold.op == Op::kMax ? "max" : scaled ? "fma" : "add";
  copy.from_dtype = srcs[0].dtype_;
  copy.to_dtype = dst.dtype_;
  copy.to = variable(dst);
  std::vector<MemoryAccess> accesses{{footprint(dst), true}};
  Copy::Part part;
  bool simple = pattern(dst, &part.to);
  for (size_t i = 0; i < srcs.size(); ++i) {
    const View& src = srcs[i];
    Copy::Source source;
    source.variable = variable(src);
    source.scale = scaled ? fold.scales[i] : 1;
    simple = simple && pattern(src, &source.pattern);
    if (!stays(call, "src", src)) return;
    if (dst.space_ == Space::kPsum || src.space_ == Space::kPsum ||
        src.elements() != dst.elements() || src.dtype_ != srcs[0].dtype_) {
      fail(base::Fault::kUsage, call.at,
           what + "src (" + describe(src) +
               ") has another number of elements than dst, another "
               "type than the first source, or one of them is in PSUM");
      return;
    }
    // In place is right, element by element; anything else is not defined (spec/neff.md 3.4).
    const bool in_place = footprint(src) == footprint(dst) && src.dtype_ == dst.dtype_;
    if (!in_place && may_overlap(footprint(src), footprint(dst))) {
      fail(base::Fault::kUsage, call.at,
           what + "dst (" + describe(dst) + ") and src (" + describe(src) + ") overlap in part");
      return;
    }
    if (src.space_ != Space::kHbm || changes(tensors[src.buffer_])) {
      accesses.push_back({footprint(src), false});
    }
    copy.sources.push_back(std::move(source));
  }
  if (!simple) {
    fail(base::Fault::kUsage, call.at,
         what + "a side has more than 3 dimensions that are not contiguous");
    return;
  }
  copy.parts.push_back(part);
  trigger(call, dst, srcs[0], engine, std::move(copy), accesses);
}

// Axes of the description are [first, second but one, second, last] of up to four: its permutation
// exchanges the first and the last.
void Program::add_transpose(const Call& call, const View& dst, const View& src, uint32_t engine) {
  if (!check(call, {{"dst", &dst, true}, {"src", &src, false}})) return;
  const size_t rank = src.rank();
  bool alike = rank >= 2 && rank <= 4 && dst.rank() == rank && dst.dtype_ == src.dtype_ &&
               dst.space_ != Space::kPsum && src.space_ != Space::kPsum;
  for (size_t i = 0; alike && i < rank; ++i) {
    const size_t other = i == 0 ? rank - 1 : i + 1 == rank ? 0 : i;
    alike = dst.size(i) == src.size(other);
  }
  const unsigned bytes = bytes_of(src.dtype_);
  Copy copy;
  Copy::Part part;
  if (!alike || (bytes != 2 && bytes != 4) || !pattern(src, &part.from) ||
      !pattern(dst, &part.to)) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) +
             ": dst has the sizes of src with the first and the last exchanged, 2 to 4 dimensions "
             "with at most 3 that are not contiguous, and its type of 2 or 4 bytes; neither is in "
             "PSUM");
    return;
  }
  if (!stays(call, "dst", dst) || !stays(call, "src", src) || !apart(call, dst, src)) return;
  copy.op = "transpose";
  copy.from_dtype = src.dtype_;
  copy.to_dtype = dst.dtype_;
  copy.from = variable(src);
  copy.to = variable(dst);
  copy.parts.push_back(part);
  copy.shape = {src.size(0), rank == 4 ? src.size(1) : 1, rank >= 3 ? src.size(rank - 2) : 1,
                src.size(rank - 1)};
  std::vector<MemoryAccess> accesses{{footprint(dst), true}};
  if (src.space_ != Space::kHbm || changes(tensors[src.buffer_])) {
    accesses.push_back({footprint(src), false});
  }
  trigger(call, dst, src, engine, std::move(copy), accesses);
}

// ---- Calls ----

void Kernel::dma_copy(const View& dst, const View& src, const Transfer& how, Location at) {
  const Call call{at, "dma_copy"};
  const bool dynamic = how.offset_register >= 0 || how.skip;
  if (how.generate != Generate::kStatic) {
    return program_->add_generated(call, {dst, src}, how);
  }
  if (dynamic) {
    return program_->fail(base::Fault::kUsage, at,
                          "dma_copy: only generated transfers have dynamic offsets and bounds");
  }
  if (how.accumulate) {
    return program_->add_fold(call, dst, {dst, src}, {}, maker(how));
  }
  program_->add_copy(call, dst, src, maker(how));
}

void Kernel::load_rows(const View& dst, const View& tensor, const View& index, const Transfer& how,
                       Location at) {
  Transfer software = how;
  software.generate = Generate::kSoftware;
  program_->add_generated({at, "load_rows"}, {dst, tensor, &index}, software);
}

void Kernel::store_rows(const View& tensor, const View& src, const View& index, const Transfer& how,
                        bool repeated, Location at) {
  Transfer software = how;
  software.generate = Generate::kSoftware;
  program_->add_generated({at, "store_rows"}, {tensor, src, &index, true, repeated}, software);
}

void Kernel::dma_transpose(const View& dst, const View& src, const Transfer& how, Location at) {
  const Call call{at, "dma_transpose"};
  if (how.generate == Generate::kStatic) {
    return program_->add_transpose(call, dst, src, maker(how));
  }
  program_->add_generated(call, {dst, src, nullptr, false, false, true}, how);
}

void Kernel::load_rows_transposed(const View& dst, const View& tensor, const View& index,
                                  const Transfer& how, Location at) {
  Transfer software = how;
  software.generate = Generate::kSoftware;
  program_->add_generated({at, "load_rows_transposed"}, {dst, tensor, &index, false, false, true},
                          software);
}

void Kernel::dma_compute(const View& dst, const std::vector<View>& srcs, const Fold& fold,
                         Engine trigger, Location at) {
  program_->add_fold({at, "dma_compute"}, dst, srcs, fold, chosen(trigger, Engine::kSync));
}

}  // namespace kernel
