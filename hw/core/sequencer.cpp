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
       {reg::kProgramCount, nullptr, &Sequencer::write_program},
       {reg::kRoundingSeed, nullptr, &Sequencer::write_rounding_seed},
       {reg::kProgramFlags, nullptr, &Sequencer::write_program_flags},
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
      dge_(context.fabric, params.nc, timing,
           context.checks != nullptr ? &context.checks->checker : nullptr),
      gen_(params.gen),
      engine_(params.engine),
      component_(params.component),
      name_(params.name),
      activity_(timing.mgmt_power_sample) {
  if (context.checks != nullptr) {
    checks_ = std::make_unique<EngineChecks>(*context.checks, engine_, name_);
  }
}

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

void Sequencer::write_program(uint32_t, uint32_t count) {
  fetched_.clear();
  set_value(reg::kProgramCount, count);
  set_value(reg::kProgramFlags, 0);
  if (checks_ != nullptr) checks_->loaded();
}

void Sequencer::write_program_flags(uint32_t, uint32_t flags) {
  set_value(reg::kProgramFlags, flags);
  if (checks_ != nullptr) checks_->set_cleans_up(reg::kProgramFlagsSelfCleaning.get(flags) != 0);
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
  if (checks_ != nullptr) checks_->started();
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
  if (status_ == EngineStatus::kRunning) {
    context_.executions.drop();
    if (checks_ != nullptr) checks_->stopped(CoreChecks::End::kFailed);
  }
  if (context_.trace != nullptr) context_.trace->drop(engine_, context_.queue.now());
  stop_waiting();
  activity_.stop(context_.queue.now());
  ++epoch_;
  status_ = EngineStatus::kIdle;
  error_ = EngineError::kNone;
  pc_ = error_pc_ = error_info_ = 0;
  std::fill(std::begin(registers_), std::end(registers_), 0);
  calls_.clear();
  arguments_ = {};
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
void Sequencer::schedule(base::Ps time, Tag tag, EventQueue::Kind kind) {
  const base::Ps earliest = context_.queue.now() + 1;
  context_.queue.schedule({std::max(time, earliest), component_, Phase::kStart}, *this, tag, epoch_,
                          kind);
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
      return apply(read.update, read.path, read.release, InstructionTrace::Update::kRead);
    }
    case kCompleted: {
      const Completion done = completions_.front();
      completions_.pop_front();
      apply(done.update, done.path, done.release, InstructionTrace::Update::kComplete);
      if (done.trace) notify(contract::NqType::kTrace, done.opcode, done.debug_id, done.pc, 0);
      return;
    }
    case kGenerated:
      return submit_generated();
    default:
      return;
  }
}

void Sequencer::apply(const isa::Update& update, const CriticalPath& path,
                      const check::Release& release) {
  const auto acts = acting(release);
  context_.updating = &path;
  context_.semaphores.apply(update);
  context_.updating = nullptr;
}

// Of an instruction before the one at hand.
void Sequencer::apply(const isa::Update& update, const CriticalPath& path,
                      const check::Release& release, InstructionTrace::Update kind) {
  if (context_.trace != nullptr) context_.trace->apply(engine_, kind);
  apply(update, path, release);
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
  if (checks_ == nullptr) return;
  const bool ended = status == EngineStatus::kHalted && !halt_requested_;
  checks_->stopped(ended ? CoreChecks::End::kHalted : CoreChecks::End::kFailed);
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

// Brings the records from pc_ on.
bool Sequencer::fetch_records() {
  const uint32_t count = value(reg::kProgramCount);
  fetched_.clear();
  current_ = {};
  if (pc_ >= count) {
    fail(EngineError::kBadPc, pc_);
    return false;
  }
  const uint64_t address = program() + static_cast<uint64_t>(pc_) * isa::kRecordBytes;
  const uint32_t records = std::min(count - pc_, kFetchRecords);
  fetched_.resize(size_t{records} * isa::kRecordBytes);
  if (!context_.fabric.read(address, fetched_)) {
    fetched_.clear();
    fail(EngineError::kBusError, static_cast<uint32_t>(address));
    return false;
  }
  fetched_pc_ = pc_;
  // An instruction ends among them if it begins before.
  fetched_until_ = pc_ + records == count ? count : pc_ + records - isa::kMaxExtensions;
  return true;
}

// Brings the instruction at pc_ into current_.
bool Sequencer::fetch() {
  const bool here = !fetched_.empty() && pc_ >= fetched_pc_ && pc_ < fetched_until_;
  if (!here && !fetch_records()) return false;
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
  if (checks_ != nullptr) checks_->issued(program(), pc_, current_);
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
    if (checks_ != nullptr) checks_->waited(wait_.cond, wait_.id, wait_.value);
    wait_.cond = isa::WaitCond::kNone;
    path_.advance(CriticalPath::kSemaphore, context_.queue.now());
    stall(stall_, issued_, context_.queue.now());
  }
  if (computes(current_.opcode)) return begin_tensor();
  if (uses_memory(current_.opcode)) {
    const int bad = datapath_.resolve(current_, registers_, &cell_);
    const uint32_t first = contract::dge::generates(current_.opcode) ? 2 : 0;  // behind the sides
    if (bad >= 0) return operand_error(static_cast<uint32_t>(bad), first);
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
  apply(current_.read_update, path_at(now, now, now),
        checks_ != nullptr ? checks_->at_front() : check::Release());
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

base::Ps Sequencer::control_time() const {
  const bool posts = current_.opcode == Opcode::kWrite || current_.opcode == Opcode::kNotify ||
                     current_.opcode == Opcode::kTensorStore;
  if (current_.opcode == Opcode::kTensorLoad) return timing_.params().seq_load_hbm;
  if (uses_memory(current_.opcode)) return timing_.cycles(timing_.params().seq_load_sbuf_cycles);
  return posts ? timing_.params().seq_write : timing_.control();
}

// The engine works on the instruction until `end`.
void Sequencer::complete(base::Ps end) {
  const bool trace_all = reg::kTraceMaskAll.get(value(reg::kTraceMask)) != 0;
  if (!has_completion(current_, trace_all)) return;
  const base::Ps visible = last_done_ + timing_.params().sem_complete;
  completions_.push_back({current_.complete_update, current_.debug_id, pc_,
                          static_cast<uint8_t>(current_.opcode), current_.trace() || trace_all,
                          path_at(end, last_done_, visible),
                          checks_ != nullptr ? checks_->at_complete() : check::Release()});
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
    if (checks_ == nullptr) {
      execute_control();
    } else {
      check_control();
    }
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

// `first`: what the error's number begins with.
void Sequencer::operand_error(uint32_t tensor, uint32_t first) {
  if (checks_ != nullptr) checks_->out_of_bounds(current_, tensor);
  fail(EngineError::kBadOperand, first + tensor);
}

std::string Sequencer::stuck() const {
  if (status_ == EngineStatus::kError) {
    return "stopped with error " + std::to_string(static_cast<uint32_t>(error_)) + " (" +
           to_string(error_) + "), info " + std::to_string(error_info_) + ", at pc " +
           std::to_string(error_pc_);
  }
  if (looping_) return "loops for ever at pc " + std::to_string(pc_);
  if (status_ == EngineStatus::kRunning && waiting_) {
    return "waits for " + to_string(wait_, context_.semaphores) + ", at pc " + std::to_string(pc_);
  }
  const auto queue = dge_.waits_for();
  if (!queue) return {};
  return "holds transfers for queue " + std::to_string(*queue) + ", whose rings are full";
}

}  // namespace hw
