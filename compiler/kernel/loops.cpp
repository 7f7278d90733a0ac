// Loops and branches: what they contain is cut into segments of straight-line code, before and
// behind which nothing is under way, so that each begins with semaphores at 0. Simple and slow:
// turns do not overlap.
#include <algorithm>

#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

// What leads past the code for which `op` must hold.
isa::BranchCond unless(Op op, bool sign) {
  switch (op) {
    case Op::kEqual:
      return isa::BranchCond::kNe;
    case Op::kNotEqual:
      return isa::BranchCond::kEq;
    case Op::kLess:
      return sign ? isa::BranchCond::kGe : isa::BranchCond::kGeu;
    case Op::kLessEqual:
      return sign ? isa::BranchCond::kGt : isa::BranchCond::kGtu;
    case Op::kGreaterEqual:
      return sign ? isa::BranchCond::kLt : isa::BranchCond::kLtu;
    default:
      return sign ? isa::BranchCond::kLe : isa::BranchCond::kLeu;
  }
}

bool compares(Op op) {
  return op >= Op::kEqual && op <= Op::kGreater;
}

}  // namespace

// Everything is waited for by Sync; the border between the segments, which make_neff() writes,
// brings the engines together there.
void Program::begin_segment(const Call& call, Turning turning) {
  std::vector<Event> waits = order_.join(contract::kSp);
  push({make(Opcode::kEventSemaphore), contract::kSp, begin_call(call), Event{}, std::move(waits)});
  segments.push_back({std::move(turning), {}, static_cast<uint32_t>(calls.size())});
  order_ = Order();
  for (size_t i = 0; i < queues.size(); ++i) order_.add_agent();
  weights.clear();
}

const Scope* Program::find_scope(uint32_t id) const {
  const auto found =
      std::find_if(scopes_.begin(), scopes_.end(), [&](const Scope& s) { return s.id == id; });
  return found == scopes_.end() ? nullptr : &*found;
}

bool Program::enter(const Call& call, Turning turning, int64_t most) {
  const auto loops = static_cast<uint32_t>(std::count_if(
      scopes_.begin(), scopes_.end(), [](const Scope& s) { return s.kind != Turning::kBranch; }));
  const bool loop = turning.kind != Turning::kBranch;
  if (!require(this, call, most >= 1 && most <= INT32_MAX,
               std::to_string(most) + " turns; from 1 to 2147483647 are possible") ||
      !require(this, call, !loop || loops < kMostLevels,
               "more than " + std::to_string(kMostLevels) + " loops in one another")) {
    return false;
  }
  turning.level = loops;
  turning.most = most;
  scopes_.push_back({++last_scope_, turning.kind, loops});
  begin_segment(call, std::move(turning));
  return true;
}

// Every engine reads it for itself.
bool Program::cell(const Call& call, const char* name, const View& view, Turning::Cell* to) {
  if (!check(call, {{name, &view, false}})) return false;
  const std::string what = std::string(name) + " (" + describe(view) + ") ";
  const bool hbm = view.space_ == Space::kHbm;
  const bool one = view.elements() == 1 && is_integer(view.dtype_) && bytes_of(view.dtype_) <= 4 &&
                   view.space_ != Space::kPsum && !view.index_;
  if (!require(this, call, one,
               what + "is not one integer of up to 32 bits of a tensor, or of a tile in SBUF") ||
      !require(this, call, view.displacement_.positions == 0 && view.moves_.size() <= (hbm ? 1 : 0),
               what + "moves by more than one loop around this one, or in a tile")) {
    return false;
  }
  to->changes = !hbm || changes(tensors[view.buffer_]);
  if (hbm) {
    to->tensor = side(call, name, view, contract::kSp, false, true);
  } else {
    to->tile = tensor(call, {name, &view, false});
  }
  return ok();
}

bool Program::begin_for(const Call& call, const Trips& trips) {
  if (!check(call, {})) return false;
  Turning turning;
  turning.kind = Turning::kFor;
  if (trips.counted) {
    turning.cell.emplace();
    if (!cell(call, "the number of turns", trips.cell, &*turning.cell) ||
        !require(this, call, trips.cell.dtype_ == DType::kUint32,
                 "the number of turns (" + describe(trips.cell) + ") is not one uint32")) {
      return false;
    }
  }
  return enter(call, std::move(turning), trips.most);
}

bool Program::look_at(const Call& call, const Condition& condition, Turning* turning) {
  if (!check(call, {})) return false;
  turning->cell.emplace();
  if (!cell(call, "the condition", condition.cell, &*turning->cell)) return false;
  const DType type = condition.cell.dtype_;
  const bool sign = type == DType::kInt32 || type == DType::kInt16 || type == DType::kInt8;
  const int64_t least = sign ? INT32_MIN : 0;
  const int64_t most = sign ? INT32_MAX : int64_t{UINT32_MAX};
  turning->cell->unless = unless(condition.compare, sign);
  turning->cell->value = static_cast<uint32_t>(condition.value);
  return require(this, call, compares(condition.compare),
                 "a condition is an operator that compares") &&
         require(this, call, condition.value >= least && condition.value <= most,
                 std::to_string(condition.value) +
                     " is no number of 32 bits, with a sign if the "
                     "condition's type has one");
}

bool Program::begin_while(const Call& call, const Condition& condition, int64_t most) {
  Turning turning;
  turning.kind = Turning::kWhile;
  return look_at(call, condition, &turning) && enter(call, std::move(turning), most);
}

bool Program::begin_branch(const Call& call, const Condition& condition) {
  Turning turning;
  turning.kind = Turning::kBranch;
  return look_at(call, condition, &turning) && enter(call, std::move(turning), 1);
}

void Program::begin_else(const Call& call) {
  if (!ok()) return;
  Turning turning;
  turning.kind = Turning::kElse;
  begin_segment(call, std::move(turning));
}

void Program::end_scope(const Call& call) {
  if (!ok()) return;
  const Scope scope = scopes_.back();
  scopes_.pop_back();
  Turning turning;
  turning.kind = scope.kind == Turning::kBranch ? Turning::kEndBranch : Turning::kEndLoop;
  turning.level = scope.level;
  begin_segment(call, std::move(turning));
}

Moves Program::moves_of(const View& view) const {
  Moves moves;
  for (const View::Move& m : view.moves_) moves[find_scope(m.loop)->level] += m.bytes;
  return moves;
}

// The register that holds the sum of turns times bytes, in this segment.
uint8_t Program::scaled(const Call& call, const Moves& moves) {
  std::vector<Moves>& scales = segments.back().scales;
  const auto known = std::find(scales.begin(), scales.end(), moves);
  const auto number = static_cast<size_t>(known - scales.begin());
  if (number == kMostScaledRegisters) {
    fail(base::Fault::kResource, call.at,
         std::string(call.name) + ": tiles move by more than " +
             std::to_string(kMostScaledRegisters) + " different distances in this loop");
    return isa::kNoRegister;
  }
  if (known == scales.end()) scales.push_back(moves);
  return static_cast<uint8_t>(kFirstScaledRegister + number);
}

void Kernel::for_loop(const Trips& trips, const std::function<void(Index)>& body, Location at) {
  const Call call{at, "for_loop"};
  if (!program_->begin_for(call, trips)) return;
  body(Index(program_->scope(), trips.most));
  program_->end_scope(call);
}

void Kernel::while_loop(const Condition& condition, int64_t most,
                        const std::function<void(Index)>& body, Location at) {
  const Call call{at, "while_loop"};
  if (!program_->begin_while(call, condition, most)) return;
  body(Index(program_->scope(), most));
  program_->end_scope(call);
}

void Kernel::branch(const Condition& condition, const std::function<void()>& then,
                    const std::function<void()>& otherwise, Location at) {
  const Call call{at, "branch"};
  if (!program_->begin_branch(call, condition)) return;
  then();
  if (otherwise) {
    program_->begin_else(call);
    otherwise();
  }
  program_->end_scope(call);
}

}  // namespace kernel
