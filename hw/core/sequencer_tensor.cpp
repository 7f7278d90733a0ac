// Instructions with tensors: when they begin, how long they take, what they move.
#include <algorithm>
#include <utility>

#include "hw/core/sequencer.h"

namespace hw {

namespace isa = contract::isa;
using contract::EngineError;
using isa::Opcode;

namespace {

// Functions that need no table of their own (spec/engine-isa.md 6.2).
bool needs_table(isa::ActFunction f) {
  switch (f) {
    case isa::ActFunction::kCopy:
    case isa::ActFunction::kSquare:
    case isa::ActFunction::kRelu:
    case isa::ActFunction::kPrelu:
    case isa::ActFunction::kSign:
    case isa::ActFunction::kAbs:
      return false;
    default:
      return true;
  }
}

}  // namespace

void Sequencer::count_bytes(const TensorExtent& extent) {
  for (uint32_t i = 0; i < extent.count; ++i) {
    const uint64_t bytes = extent.bytes(i);
    const bool sbuf = extent.box[i].memory == isa::Memory::kSbuf;
    if (extent.writes(i)) (sbuf ? stats_.sbuf_written : stats_.psum_written) += bytes;
    if (extent.reads(i)) (sbuf ? stats_.sbuf_read : stats_.psum_read) += bytes;
  }
  const auto count = [&](PeRate rate, uint64_t multiplications) {
    stats_.multiplications[static_cast<size_t>(rate)] += multiplications;
  };
  if (current_.opcode == Opcode::kMatmul) {
    const isa::Matmul& o = current_.operands.matmul;
    count(o.double_row != 0                           ? PeRate::kDoubleRow
          : o.moving.dtype == isa::DataType::kFloat32 ? PeRate::kFloat32
                                                      : PeRate::kShort,
          isa::element_count(o.moving) * o.rows * o.columns);
  } else if (current_.opcode == Opcode::kMatmulMx) {
    const isa::MatmulMx& o = current_.operands.matmul_mx;
    constexpr uint64_t kNumbers = 4;  // in an element
    count(PeRate::kMx, kNumbers * isa::element_count(o.moving) * o.rows * o.columns);
  }
}

// Read after write and write after write on one engine: the next instruction starts when the
// results are there, plus dep.same_engine_ns.
bool Sequencer::hazard(const TensorExtent& extent, base::Ps* until) {
  // The Tensor engine reads what it never writes, and its sums are formed beside PSUM, in order.
  if (engine_ == contract::kPe) return false;
  const base::Ps now = context_.queue.now();
  const base::Ps gap = timing_.params().dep_same_engine;
  in_flight_.erase(std::remove_if(in_flight_.begin(), in_flight_.end(),
                                  [&](const InFlight& f) { return f.done + gap <= now; }),
                   in_flight_.end());
  *until = 0;
  for (const InFlight& f : in_flight_) {
    if (extent.touches(f.destination)) *until = std::max(*until, f.done + gap);
  }
  return *until > now;
}

// The time it takes to have the function's table.
base::Ps Sequencer::load_table(isa::ActFunction function) {
  if (!needs_table(function) || function == table_) return 0;
  table_ = function;
  return timing_.params().act_table_load;
}

// When current_ starts and how long it takes; its time is reserved where engines share.
base::Ps Sequencer::reserve_start(const TensorExtent& extent, InstructionTime* time, Stall* cause) {
  const base::Ps now = context_.queue.now();
  if (in_array()) {
    const base::Ps free = array_.earliest(current_, now);
    const base::Ps start = array_.allowed(current_, free);
    *time = array_.begin(current_, start);
    if (start > free) {
      *cause = Stall::kThrottle;
      stall(Stall::kThrottle, free, start);
      path_.advance(own(), free);
      path_.advance(CriticalPath::kThrottle, start);
    }
    return start;
  }
  *time = timing_.of(current_, extent.uses);
  const bool activate2 = current_.opcode == Opcode::kActivate2;
  if (activate2 || current_.opcode == Opcode::kActivate) {
    time->interval += load_table(activate2 ? current_.operands.activate2.function
                                           : current_.operands.activate.function);
  }
  bool psum = false;
  const base::Ps start = context_.ports.reserve(engine_, extent, now, time->interval, &psum);
  *cause = psum ? Stall::kPsum : Stall::kMemory;
  return start;
}

// The engine works for so long from now on. Intervals overlap where weights are loaded under a
// product.
void Sequencer::occupy(const TensorExtent& extent, base::Ps interval) {
  const base::Ps now = context_.queue.now();
  const base::Ps begin = std::max(now, busy_until_);
  const base::Ps end = std::max(begin, now + interval);
  busy_until_ = end;
  stats_.busy += end - begin;
  if (end > begin) activity_.add(begin, end);
  if (!in_array()) return;
  const bool load =
      current_.opcode == Opcode::kLdweights || current_.opcode == Opcode::kLdweightsMx;
  // The matrix with one row per row of the array: the weights, or what moves behind the result.
  const TensorBox& rows_of = extent.box[load ? 0 : 1];
  context_.pe_activity.add(rows_of.first_partition, rows_of.partitions, load,
                           timing_.whole_cycles(interval), timing_.whole_cycles(end - begin));
}

void Sequencer::begin_tensor() {
  TensorExtent& extent = extent_;
  if (!reserved_) {
    const int bad = datapath_.resolve(current_, registers_, &extent);
    if (bad >= 0) return operand_error(static_cast<uint32_t>(bad));
    const base::Ps now = context_.queue.now();
    base::Ps until = 0;
    if (hazard(extent, &until)) {
      stall(Stall::kDependency, now, until);
      path_.advance(CriticalPath::kDependency, until);
      return schedule(until, kBegin);
    }
    Stall cause = Stall::kMemory;
    const base::Ps start = reserve_start(extent, &granted_, &cause);
    reserved_ = true;
    if (start > now) {
      // The array is at work until then; other engines wait for a memory.
      const bool array = in_array();
      if (!array) stall(cause, now, start);
      path_.advance(array ? own() : CriticalPath::kMemory, start);
      return schedule(start, kBegin);
    }
  }
  reserved_ = false;
  ++stats_.instructions;
  if (checks_ != nullptr) checks_->tensors(current_, extent, datapath_);
  switch (datapath_.execute(current_, registers_, extent)) {
    case Datapath::Outcome::kDone:
      break;
    case Datapath::Outcome::kNoMemory:
      return fail(EngineError::kBusError, 0);
    case Datapath::Outcome::kBadWeights:
      return fail(EngineError::kBadOperand, extent.count);
  }
  const base::Ps now = context_.queue.now();
  const base::Ps end = now + granted_.interval;
  occupy(extent, granted_.interval);
  count_bytes(extent);
  last_done_ = std::max(last_done_, end + granted_.latency);
  last_read_ = std::max(last_read_, end);
  if (context_.trace != nullptr) context_.trace->run(engine_, now, end, last_done_);
  // Of the Tensor engine nothing waits for its results (hazard).
  for (uint32_t i = 0; i < extent.count && engine_ != contract::kPe; ++i) {
    if (extent.writes(i)) in_flight_.push_back({last_done_, extent.box[i]});
  }
  if (current_.read_update.op != isa::UpdateOp::kNone) {
    reads_.push_back({current_.read_update, path_at(last_read_, last_read_, last_read_),
                      checks_ != nullptr ? checks_->at_read() : check::Release()});
    schedule(last_read_, kRead);
    if (context_.trace != nullptr) {
      context_.trace->expect(engine_, InstructionTrace::Update::kRead);
    }
  }
  complete(end);
  if (generates_next()) {
    computes_until_ = end;
    if (checks_ != nullptr) checks_->goes_ahead();
    return schedule(now, kFinish);
  }
  schedule(in_array() ? now + timing_.cycles(timing_.params().pe_issue_cycles) : end, kFinish);
}

}  // namespace hw
