#include "hw/core/sequencer.h"

#include <algorithm>

#include "arch/contract/dge.h"
#include "arch/contract/isa.h"
#include "arch/contract/isa_rules.h"
#include "contract/isa_codec.h"
#include "contract/regs/engine.h"

namespace hw {

namespace reg = contract::engine;
namespace isa = contract::isa;
using contract::EngineError;
using contract::EngineStatus;
using isa::Opcode;

namespace {

constexpr uint32_t kFetchRecords =
    64;  // records fetched at once; prefetch is invisible to software

// On 32 or 64 bits.
template <typename T>
T alu(isa::AluOp op, T a, T b) {
  const T shift = b & (8 * sizeof(T) - 1);
  switch (op) {
    case isa::AluOp::kAdd:
      return a + b;
    case isa::AluOp::kSub:
      return a - b;
    case isa::AluOp::kMul:
      return a * b;
    case isa::AluOp::kShl:
      return a << shift;
    case isa::AluOp::kShr:
      return a >> shift;
    case isa::AluOp::kAnd:
      return a & b;
    case isa::AluOp::kOr:
      return a | b;
    case isa::AluOp::kXor:
      return a ^ b;
    case isa::AluOp::kMin:
      return std::min(a, b);
    case isa::AluOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

bool compare(isa::BranchCond cond, uint32_t a, uint32_t b) {
  const auto sa = static_cast<int32_t>(a);
  const auto sb = static_cast<int32_t>(b);
  switch (cond) {
    case isa::BranchCond::kLt:
      return sa < sb;
    case isa::BranchCond::kLe:
      return sa <= sb;
    case isa::BranchCond::kEq:
      return a == b;
    case isa::BranchCond::kNe:
      return a != b;
    case isa::BranchCond::kGe:
      return sa >= sb;
    case isa::BranchCond::kGt:
      return sa > sb;
    case isa::BranchCond::kLtu:
      return a < b;
    case isa::BranchCond::kLeu:
      return a <= b;
    case isa::BranchCond::kGeu:
      return a >= b;
    case isa::BranchCond::kGtu:
      return a > b;
  }
  return false;
}

const char* to_string(EngineError error) {
  switch (error) {
    case EngineError::kNone:
      return "none";
    case EngineError::kBadInstruction:
      return "bad instruction";
    case EngineError::kUnsupported:
      return "unsupported instruction";
    case EngineError::kBadPc:
      return "pc outside the program";
    case EngineError::kBadOperand:
      return "bad operand";
    case EngineError::kBusError:
      return "bus error";
    case EngineError::kOutOfBounds:
      return "transfer out of bounds";
    case EngineError::kBadQueue:
      return "queue not set up";
  }
  return "unknown";
}

bool computes(Opcode op) {
  return isa::find_op(op)->computes;
}

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

// Leaves no trace but in the registers and the program counter.
bool is_silent(const isa::Instruction& i) {
  const bool control = i.opcode == Opcode::kNop || i.opcode == Opcode::kRegisterMove ||
                       i.opcode == Opcode::kRegisterAlu || i.opcode == Opcode::kRegisterAlu64 ||
                       i.opcode == Opcode::kBranch || i.opcode == Opcode::kCompareBranch;
  return control && i.wait.cond == isa::WaitCond::kNone &&
         i.read_update.op == isa::UpdateOp::kNone && i.complete_update.op == isa::UpdateOp::kNone &&
         !i.trace();
}

// Control instructions with a tensor.
bool uses_memory(Opcode op) {
  return op == Opcode::kRegisterLoad || op == Opcode::kRegisterStore ||
         op == Opcode::kDmaIndirect || op == Opcode::kDmaGatherTranspose;
}

bool has_completion(const isa::Instruction& i, bool trace_all) {
  return i.complete_update.op != isa::UpdateOp::kNone || i.trace() || trace_all;
}

}  // namespace

const RegTable<Sequencer>& Sequencer::table() {
  static const RegTable<Sequencer> t(
      "engine", reg::kRegs, contract::tpb::kEngineBlock,
      {{reg::kControl, nullptr, &Sequencer::write_control},
       {reg::kStatus, &Sequencer::read_status, nullptr},
       {reg::kPc, &Sequencer::read_pc, &Sequencer::write_pc},
       {reg::kErrorCode, &Sequencer::read_error_code, nullptr},
       {reg::kErrorPc, &Sequencer::read_error_pc, nullptr},
       {reg::kErrorInfo, &Sequencer::read_error_info, nullptr},
       {reg::kRoundingSeed, nullptr, &Sequencer::write_rounding_seed},
       {reg::kRegister, &Sequencer::read_register, &Sequencer::write_register}});
  return t;
}

Sequencer::Sequencer(const Params& params, const SequencerContext& context,
                     const TimingParams& timing)
    : RegBlock(context.log, params.gen),
      context_(context),
      timing_(timing, params.gen, params.engine),
      array_(timing_),
      datapath_({params.gen, params.engine, params.nc, params.timing_only, params.real_bytes},
                context.fabric, context.counters),
      generator_(context.fabric, params.nc),
      dge_(context.fabric, params.nc, timing),
      gen_(params.gen),
      engine_(params.engine),
      component_(params.component),
      name_(params.name),
      activity_(timing.mgmt_power_sample) {}

void Sequencer::write_control(uint32_t, uint32_t value) {
  if (reg::kControlReset.get(value) != 0) reset();
  if (reg::kControlHalt.get(value) != 0 && status_ == EngineStatus::kRunning) {
    halt_requested_ = true;
    if (waiting_ || looping_) {
      stop_waiting();
      looping_ = false;
      stop(EngineStatus::kHalted);
    }
  }
  if (reg::kControlStart.get(value) != 0) start();
}

void Sequencer::write_pc(uint32_t, uint32_t value) {
  pc_ = value;
  stop_looping();
}

void Sequencer::write_register(uint32_t i, uint32_t value) {
  registers_[i] = value;
  stop_looping();
}

// The host has changed what the loop depends on.
void Sequencer::stop_looping() {
  anchor_pc_ = kNowhere;
  if (!looping_) return;
  looping_ = false;
  schedule(context_.queue.now(), kIssue);
}

// After a branch. A loop that comes back to the same branch with the same registers, and has done
// nothing else on its way, never ends by itself: the engine stands still in it, running, instead of
// keeping the machine from its rest. Approximate: the program counter that the host reads stays at
// the loop's branch, and a change of the program in memory is not seen by a loop of more records
// than are fetched at once.
bool Sequencer::loops_for_ever() {
  if (!is_silent(current_) || reg::kTraceMaskAll.get(value(reg::kTraceMask)) != 0) {
    anchor_pc_ = kNowhere;
    return false;
  }
  if (next_pc_ > pc_) return false;
  if (anchor_pc_ == pc_ &&
      std::equal(std::begin(registers_), std::end(registers_), anchor_registers_)) {
    return true;
  }
  anchor_pc_ = pc_;
  std::copy(std::begin(registers_), std::end(registers_), anchor_registers_);
  return false;
}

void Sequencer::start() {
  if (status_ != EngineStatus::kIdle && status_ != EngineStatus::kHalted) return;
  status_ = EngineStatus::kRunning;
  halt_requested_ = false;
  reserved_ = false;
  anchor_pc_ = kNowhere;
  fetched_.clear();  // the program may have been changed while the engine stood still
  datapath_.set_rounding(reg::kRoundingStochastic.get(value(reg::kRounding)) != 0);
  const base::Ps now = context_.queue.now();
  path_ = {};
  path_.until = context_.executions.start(engine_, identity(), now, stats_);
  path_.advance(CriticalPath::kStart, now);
  if (context_.trace != nullptr) context_.trace->start(engine_, identity(), now);
  stats_.stalled[static_cast<size_t>(Stall::kIssue)] += timing_.params().seq_fetch;
  schedule(now + timing_.params().seq_fetch, kIssue);
}

uint64_t Sequencer::program() const {
  return static_cast<uint64_t>(value(reg::kProgramHi)) << 32 | value(reg::kProgramLo);
}

// By which programs are told apart: one that takes the place of another has another length, as a
// rule.
uint64_t Sequencer::identity() const {
  constexpr unsigned kAddressBits = 48;
  return program() ^ uint64_t { value(reg::kProgramCount) } << kAddressBits;
}

void Sequencer::begin_execution() {
  const base::Ps now = context_.queue.now();
  if (!context_.executions.begin(engine_, now, stats_)) return;
  path_ = {};
  path_.until = context_.executions.begun();
  if (context_.trace != nullptr && path_.until == now) context_.trace->begin(now);
  path_.advance(CriticalPath::kStart, now);
}

void Sequencer::stop_waiting() {
  if (waiting_) context_.semaphores.cancel(*this);
  waiting_ = false;
}

void Sequencer::reset() {
  if (status_ == EngineStatus::kRunning) context_.executions.drop();
  if (context_.trace != nullptr) context_.trace->drop(engine_, context_.queue.now());
  stop_waiting();
  activity_.stop(context_.queue.now());
  ++epoch_;
  status_ = EngineStatus::kIdle;
  error_ = EngineError::kNone;
  pc_ = error_pc_ = error_info_ = 0;
  std::fill(std::begin(registers_), std::end(registers_), 0);
  calls_.clear();
  halt_requested_ = false;
  looping_ = false;
  anchor_pc_ = kNowhere;
  last_done_ = last_read_ = computes_until_ = 0;
  in_flight_.clear();
  reads_.clear();
  completions_.clear();
  reserved_ = false;
  table_ = isa::ActFunction::kCopy;
  array_.reset();
  datapath_.reset();
  dge_.reset();
  fetched_.clear();
}

void Sequencer::hard_reset() {
  reset();
  reset_registers();
  datapath_.seed_rounding(0);
}

// At least 1 ps ahead: see hw/time/event_queue.h. It also keeps endless loops from standing still.
void Sequencer::schedule(base::Ps time, Tag tag) {
  const base::Ps earliest = context_.queue.now() + 1;
  context_.queue.schedule({std::max(time, earliest), component_, Phase::kStart}, *this, tag,
                          epoch_);
}

void Sequencer::on_event(const EventKey& /*key*/, uint32_t tag, uint64_t argument) {
  if (argument != epoch_) return;
  switch (tag) {
    case kIssue:
      return issue();
    case kBegin:
      return begin();
    case kFinish:
      return finish();
    case kRead: {
      const ReadUpdate read = reads_.front();
      reads_.pop_front();
      return apply(read.update, read.path, InstructionTrace::Update::kRead);
    }
    case kCompleted: {
      const Completion done = completions_.front();
      completions_.pop_front();
      apply(done.update, done.path, InstructionTrace::Update::kComplete);
      if (done.trace) notify(contract::NqType::kTrace, done.opcode, done.debug_id, done.pc, 0);
      return;
    }
    case kGenerated:
      return submit_generated();
    default:
      return;
  }
}

void Sequencer::apply(const isa::Update& update, const CriticalPath& path) {
  context_.updating = &path;
  context_.semaphores.apply(update);
  context_.updating = nullptr;
}

// Of an instruction before the one at hand.
void Sequencer::apply(const isa::Update& update, const CriticalPath& path,
                      InstructionTrace::Update kind) {
  if (context_.trace != nullptr) context_.trace->apply(engine_, kind);
  apply(update, path);
  if (context_.trace != nullptr) context_.trace->applied(engine_);
}

void Sequencer::wait_satisfied() {
  waiting_ = false;
  stall_ = context_.updating != nullptr ? Stall::kSemaphore : Stall::kDma;
  if (context_.updating != nullptr) {
    path_ = *context_.updating;
    released_by_ = path_.engine;
  }
  if (context_.trace != nullptr) context_.trace->release(engine_);
  path_.advance(stall_ == Stall::kDma ? CriticalPath::kDma : CriticalPath::kSemaphore,
                context_.queue.now());
  schedule(context_.queue.now() + timing_.params().sem_start, kBegin);
}

void Sequencer::stop(EngineStatus status) {
  status_ = status;
  context_.executions.stop(engine_, context_.queue.now(), stats_, path_);
  if (context_.trace != nullptr) context_.trace->stop(engine_, context_.queue.now());
}

void Sequencer::fail(EngineError error, uint32_t info) {
  stop(EngineStatus::kError);
  error_ = error;
  error_pc_ = pc_;
  error_info_ = info;
  notify(contract::NqType::kError, static_cast<uint32_t>(error), current_.debug_id, pc_, info);
}

void Sequencer::notify(contract::NqType type, uint32_t payload, uint64_t debug_id, uint32_t pc,
                       uint32_t info) {
  contract::NqEntry entry;
  entry.header = contract::NqEntry::make_header(type, engine_, false);
  entry.payload = payload;
  entry.timestamp = context_.queue.now();
  entry.debug_id = debug_id;
  entry.pc = pc;
  entry.info = info;
  context_.notifications.post(engine_, entry);
}

// Brings the instruction at pc_ into current_.
bool Sequencer::fetch() {
  const uint32_t count = value(reg::kProgramCount);
  current_ = {};
  if (pc_ >= count) {
    fail(EngineError::kBadPc, pc_);
    return false;
  }
  const uint32_t have = static_cast<uint32_t>(fetched_.size() / isa::kRecordBytes);
  const uint32_t need = std::min(count - pc_, isa::kMaxExtensions + 1);
  if (pc_ < fetched_pc_ || pc_ + need > fetched_pc_ + have) {
    const uint64_t address = program() + static_cast<uint64_t>(pc_) * isa::kRecordBytes;
    fetched_.resize(size_t{std::min(count - pc_, kFetchRecords)} * isa::kRecordBytes);
    fetched_pc_ = pc_;
    if (!context_.fabric.read(address, fetched_)) {
      fetched_.clear();
      fail(EngineError::kBusError, static_cast<uint32_t>(address));
      return false;
    }
  }
  const size_t at = size_t{pc_ - fetched_pc_} * isa::kRecordBytes;
  const isa::DecodeError error = isa::decode(&fetched_[at], fetched_.size() - at, &current_);
  const auto opcode = static_cast<uint8_t>(current_.opcode);
  const isa::OpInfo* info = isa::find_op(opcode);
  if (error == isa::DecodeError::kUnsupported ||
      (error == isa::DecodeError::kNone && info->pseudo)) {
    fail(EngineError::kUnsupported, opcode);
    return false;
  }
  const auto engine = static_cast<isa::Engine>(engine_);
  if (error != isa::DecodeError::kNone || !info->runs_on(engine) ||
      !isa::executes(current_, engine, gen_)) {
    fail(EngineError::kBadInstruction, opcode);
    return false;
  }
  next_pc_ = pc_ + current_.records();
  return true;
}

SemaphoreWait Sequencer::current_wait() const {
  const isa::Wait& w = current_.wait;
  return {w.cond, w.id, w.value_is_register ? registers_[w.value] : w.value};
}

void Sequencer::issue() {
  if (halt_requested_) return stop(EngineStatus::kHalted);
  if (!fetch()) return;
  wait_ = current_wait();
  issued_ = context_.queue.now();
  if (context_.trace != nullptr) context_.trace->issue(engine_, current_, program(), pc_);
  begin();
}

void Sequencer::begin() {
  if (halt_requested_) return stop(EngineStatus::kHalted);
  if (computes_until_ > context_.queue.now() && !contract::dge::generates(current_.opcode)) {
    path_.advance(own(), computes_until_);
    return schedule(computes_until_, kBegin);
  }
  if (wait_.cond != isa::WaitCond::kNone) {
    // Also after a wake-up: another engine may have taken the value meanwhile.
    if (!context_.semaphores.satisfied(wait_)) {
      waiting_ = true;
      context_.semaphores.wait(wait_, *this);
      return;
    }
    wait_.cond = isa::WaitCond::kNone;
    path_.advance(CriticalPath::kSemaphore, context_.queue.now());
    stall(stall_, issued_, context_.queue.now());
  }
  if (computes(current_.opcode)) return begin_tensor();
  if (uses_memory(current_.opcode)) {
    const int bad = datapath_.resolve(current_, registers_, &cell_);
    const uint32_t first = contract::dge::generates(current_.opcode) ? 2 : 0;  // behind the sides
    if (bad >= 0) return fail(EngineError::kBadOperand, first + static_cast<uint32_t>(bad));
    base::Ps until = 0;
    if (hazard(cell_, &until)) {
      stall(Stall::kDependency, context_.queue.now(), until);
      path_.advance(CriticalPath::kDependency, until);
      return schedule(until, kBegin);
    }
  }
  if (contract::dge::generates(current_.opcode)) return begin_generation();
  begin_control(control_time());
}

void Sequencer::begin_control(base::Ps time) {
  ++stats_.instructions;
  const base::Ps now = context_.queue.now();
  if (context_.trace != nullptr) context_.trace->apply_now(engine_);
  apply(current_.read_update, path_at(now, now, now));
  if (context_.trace != nullptr) context_.trace->applied(engine_);
  base::Ps start = now;
  if (current_.opcode == Opcode::kDrain) start = std::max(now, last_done_);
  if (current_.opcode == Opcode::kHalt) {
    start = std::max(now, last_done_ + timing_.params().sem_complete);
  }
  stall(Stall::kDependency, now, start);
  if (current_.opcode == Opcode::kLoadActFuncSet) {
    time += load_table(current_.operands.load_act_func_set.function);
  }
  begun_ = start;
  if (computes_until_ <= now) stats_.busy += time;
  if (computes_until_ <= now && start == now) activity_.add(start, start + time);
  schedule(start + time, kFinish);
}

// The engine stands still.
void Sequencer::stall(Stall cause, base::Ps begin, base::Ps end) {
  stats_.stalled[static_cast<size_t>(cause)] += end - begin;
  if (cause == Stall::kSemaphore) stats_.waited_for[released_by_] += end - begin;
  if (context_.trace != nullptr) context_.trace->pause(engine_, cause, begin, end, released_by_);
}

// The chain to an instruction's update: the engine works until `end`, its result is there at
// `done`.
CriticalPath Sequencer::path_at(base::Ps end, base::Ps done, base::Ps visible) const {
  CriticalPath path = path_;
  path.engine = engine_;
  path.advance(own(), end);
  path.advance(CriticalPath::kDependency, done);
  path.advance(CriticalPath::kSemaphore, visible);
  return path;
}

void Sequencer::count_bytes(const TensorExtent& extent) {
  const isa::TensorUses uses = isa::tensors_of(current_);
  for (uint32_t i = 0; i < extent.count; ++i) {
    const isa::TensorUse& use = uses.uses[i];
    const uint64_t bytes =
        isa::element_count(*use.tensor) * isa::data_type_bytes(use.tensor->dtype) * use.partitions;
    const bool sbuf = use.tensor->memory == isa::Memory::kSbuf;
    if (extent.writes(i)) (sbuf ? stats_.sbuf_written : stats_.psum_written) += bytes;
    if (use.access != isa::Access::kWrite) (sbuf ? stats_.sbuf_read : stats_.psum_read) += bytes;
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

base::Ps Sequencer::control_time() const {
  const bool posts = current_.opcode == Opcode::kWrite || current_.opcode == Opcode::kNotify;
  if (uses_memory(current_.opcode)) return timing_.cycles(timing_.params().seq_load_sbuf_cycles);
  return posts ? timing_.params().seq_write : timing_.control();
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
    const base::Ps start = array_.earliest(current_, now);
    *time = array_.begin(current_, start);
    return start;
  }
  *time = timing_.of(current_);
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
void Sequencer::occupy(base::Ps interval) {
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
  const isa::TensorUse rows_of = isa::tensors_of(current_).uses[load ? 0 : 1];
  const uint32_t rows = rows_of.partitions;
  const uint32_t first = rows_of.tensor->start_partition;
  context_.pe_activity.add(first, rows, load, timing_.whole_cycles(interval),
                           timing_.whole_cycles(end - begin));
}

void Sequencer::begin_tensor() {
  TensorExtent extent;
  const int bad = datapath_.resolve(current_, registers_, &extent);
  if (bad >= 0) return fail(EngineError::kBadOperand, static_cast<uint32_t>(bad));
  if (!reserved_) {
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
  occupy(granted_.interval);
  count_bytes(extent);
  last_done_ = std::max(last_done_, end + granted_.latency);
  last_read_ = std::max(last_read_, end);
  if (context_.trace != nullptr) context_.trace->run(engine_, now, end, last_done_);
  for (uint32_t i = 0; i < extent.count; ++i) {
    if (extent.writes(i)) in_flight_.push_back({last_done_, extent.box[i]});
  }
  if (current_.read_update.op != isa::UpdateOp::kNone) {
    reads_.push_back({current_.read_update, path_at(last_read_, last_read_, last_read_)});
    schedule(last_read_, kRead);
    if (context_.trace != nullptr) {
      context_.trace->expect(engine_, InstructionTrace::Update::kRead);
    }
  }
  complete(end);
  if (generates_next()) {
    computes_until_ = end;
    return schedule(now, kFinish);
  }
  schedule(in_array() ? now + timing_.cycles(timing_.params().pe_issue_cycles) : end, kFinish);
}

// The engine works on the instruction until `end`.
void Sequencer::complete(base::Ps end) {
  const bool trace_all = reg::kTraceMaskAll.get(value(reg::kTraceMask)) != 0;
  if (!has_completion(current_, trace_all)) return;
  const base::Ps visible = last_done_ + timing_.params().sem_complete;
  completions_.push_back({current_.complete_update, current_.debug_id, pc_,
                          static_cast<uint8_t>(current_.opcode), current_.trace() || trace_all,
                          path_at(end, last_done_, visible)});
  schedule(visible, kCompleted);
  if (context_.trace != nullptr) {
    context_.trace->expect(engine_, InstructionTrace::Update::kComplete);
  }
}

// End of a control instruction's time, or of a tensor instruction's initiation interval.
void Sequencer::finish() {
  path_.advance(CriticalPath::kDependency, begun_);  // DRAIN and HALT wait for what is not done
  path_.advance(own(), context_.queue.now());
  if (!computes(current_.opcode)) {
    if (computes_until_ <= begun_) activity_.add(begun_, context_.queue.now());
    const uint32_t epoch = epoch_;
    execute_control();
    // A store may have reset this engine.
    if (status_ == EngineStatus::kError || epoch != epoch_) return;
    if (context_.trace != nullptr) {
      context_.trace->run(engine_, begun_, context_.queue.now(), context_.queue.now());
    }
    last_done_ = std::max(last_done_, context_.queue.now());
    complete(context_.queue.now());
  }
  if (loops_for_ever()) {
    looping_ = true;
    return;
  }
  pc_ = next_pc_;
  if (current_.opcode == Opcode::kHalt) return stop(EngineStatus::kHalted);
  issue();
}

void Sequencer::store(uint64_t address, uint32_t low, uint32_t high, uint32_t size) {
  if (status_ == EngineStatus::kError) return;
  uint8_t bytes[8];
  base::store(bytes, low);
  base::store(bytes + 4, high);
  if (!context_.fabric.store(address, {bytes, size})) {
    fail(EngineError::kBusError, static_cast<uint32_t>(address));
  }
}

void Sequencer::execute_control() {
  const isa::Operands& o = current_.operands;
  switch (current_.opcode) {
    case Opcode::kWrite:
      store(o.write.dst0, o.write.data0, o.write.data1, o.write.size0);
      if (o.write.size1 != 0) store(o.write.dst1, o.write.data1, 0, o.write.size1);
      return;
    case Opcode::kEventSemaphoreRangeClear: {
      const auto& c = o.event_semaphore_range_clear;
      if (c.kind == isa::ClearKind::kSemaphore) {
        context_.semaphores.clear_semaphores(c.first, c.last);
      } else {
        context_.semaphores.clear_events(c.first, c.last);
      }
      return;
    }
    case Opcode::kNotify:
      notify(static_cast<contract::NqType>(o.notify.type), o.notify.payload, current_.debug_id, pc_,
             0);
      return begin_execution();
    case Opcode::kRegisterMove:
      registers_[o.register_move.dst] = value_of(o.register_move.src);
      return;
    case Opcode::kRegisterAlu:
      registers_[o.register_alu.dst] =
          alu(o.register_alu.op, registers_[o.register_alu.a], value_of(o.register_alu.b));
      return;
    case Opcode::kRegisterAlu64:
      return execute_alu64();
    case Opcode::kRegisterLoad:
      if (!datapath_.load(o.register_load, cell_, &registers_[o.register_load.dst])) {
        fail(EngineError::kBusError, 0);
      }
      return;
    case Opcode::kRegisterStore:
      if (!datapath_.store(o.register_store, cell_, registers_[o.register_store.src])) {
        fail(EngineError::kBusError, 0);
      }
      return;
    case Opcode::kBranch:
      next_pc_ = pc_ + static_cast<uint32_t>(o.branch.target);
      return;
    case Opcode::kCompareBranch:
      if (compare(o.compare_branch.cond, registers_[o.compare_branch.a],
                  value_of(o.compare_branch.b))) {
        next_pc_ = pc_ + static_cast<uint32_t>(o.compare_branch.target);
      }
      return;
    case Opcode::kBranchLink:
      if (calls_.size() >= isa::kCallLevels) return fail(EngineError::kBadPc, pc_);
      calls_.push_back(next_pc_);
      next_pc_ = pc_ + static_cast<uint32_t>(o.branch_link.target);
      return;
    case Opcode::kReturn:
      if (calls_.empty()) return fail(EngineError::kBadPc, pc_);
      next_pc_ = calls_.back();
      calls_.pop_back();
      return;
    case Opcode::kDmaMemcpy:
    case Opcode::kDmaIndirect:
    case Opcode::kDmaTranspose:
    case Opcode::kDmaGatherTranspose:
      schedule(dge_.submit(std::move(generated_), context_.queue.now()), kGenerated);
      return;
    // NOP, DRAIN, HALT, EVENT_SEMAPHORE: their wait and updates are all. LOAD_ACT_FUNC_SET has
    // taken its time; nothing depends on hints and modes.
    default:
      return;
  }
}

void Sequencer::execute_alu64() {
  const isa::RegisterAlu64& o = current_.operands.register_alu64;
  const auto pair = [&](uint32_t r) { return uint64_t{registers_[r + 1]} << 32 | registers_[r]; };
  const uint64_t b = o.b.is_register ? pair(o.b.value) : o.b.value;
  const uint64_t result = alu(o.op, pair(o.a), b);
  registers_[o.dst] = static_cast<uint32_t>(result);
  registers_[o.dst + 1] = static_cast<uint32_t>(result >> 32);
}

std::string Sequencer::stuck() const {
  if (status_ == EngineStatus::kError) {
    return "stopped with error " + std::to_string(static_cast<uint32_t>(error_)) + " (" +
           to_string(error_) + "), info " + std::to_string(error_info_) + ", at pc " +
           std::to_string(error_pc_);
  }
  if (looping_) return "loops for ever at pc " + std::to_string(pc_);
  if (status_ != EngineStatus::kRunning || !waiting_) return {};
  return "waits for " + to_string(wait_, context_.semaphores) + ", at pc " + std::to_string(pc_);
}

}  // namespace hw
