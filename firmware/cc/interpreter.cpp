#include "firmware/cc/interpreter.h"

#include "arch/contract/address_map.h"
#include "arch/contract/semaphore.h"
#include "contract/regs/cc.h"
#include "contract/regs/udma.h"
#include "firmware/cc/block_mover.h"

namespace firmware::cc {

using contract::CcError;
using contract::CcStatus;
using program::Op;
using program::Record;

namespace {

// Records are read byte by byte: the window is plain memory of any alignment.
Record load_record(const uint8_t* program, uint32_t index) {
  const uint8_t* p = program + static_cast<size_t>(index) * sizeof(Record);
  Record r;
  r.op = p[0];
  r.a = p[1];
  r.flags = p[2];
  r.b = p[3];
  for (int i = 3; i >= 0; --i) r.imm = r.imm << 8 | p[4 + i];
  for (int i = 7; i >= 0; --i) r.address = r.address << 8 | p[8 + i];
  return r;
}

bool blank(const Record& r) {
  return r.op == 0 && r.a == 0 && r.flags == 0 && r.b == 0 && r.imm == 0 && r.address == 0;
}

bool is_wait(Op op) {
  return op == Op::kSemWait || op == Op::kDmaWait;
}

bool is_control(Op op) {
  return op == Op::kNop || op == Op::kMov || op == Op::kAdd || op == Op::kBranch ||
         op == Op::kLoop || op == Op::kArgument || op == Op::kFork || op == Op::kEnd ||
         op == Op::kBranchLess;
}

Step spend(Cost cost, Op op = Op::kNop) {
  Step step;
  step.next = Next::kSpend;
  step.cost = cost;
  step.op = op;
  return step;
}

Step until(Next next, Op op = Op::kNop) {
  Step step;
  step.next = next;
  step.op = op;
  return step;
}

}  // namespace

void Interpreter::run() {
  if (status_ == CcStatus::kReset) status_ = CcStatus::kIdle;
  if (status_ == CcStatus::kHalted) status_ = resume_;
}

void Interpreter::halt() {
  if (!active()) return;
  resume_ = status_;
  status_ = CcStatus::kHalted;
}

void Interpreter::reset() {
  *this = Interpreter{};
}

bool Interpreter::active() const {
  return status_ == CcStatus::kIdle || status_ == CcStatus::kRunning ||
         status_ == CcStatus::kWaiting;
}

bool Interpreter::trigger(uint32_t word, Hal& hal) {
  if (status_ == CcStatus::kError) return false;
  if (fifo_level_ == program::kFifoDepth) {
    fail(CcError::kFifoOverflow, word, hal);
    return false;
  }
  fifo_[(fifo_head_ + fifo_level_) % program::kFifoDepth] = word;
  ++fifo_level_;
  return status_ == CcStatus::kIdle && fifo_level_ == 1;
}

void Interpreter::fail(CcError error, uint32_t info, Hal& hal) {
  status_ = CcStatus::kError;
  error_ = error;
  error_pc_ = pc();
  hal.notify(contract::NqType::kError, static_cast<uint32_t>(error), pc(), info);
}

void Interpreter::barrier_released() {
  // Also while halted: the release is remembered and takes effect with the next run.
  if (threads_[0].phase == Phase::kAtBarrier) threads_[0].phase = Phase::kReleased;
}

uint32_t Interpreter::value_of(const Record& record) const {
  return (record.flags & program::flag::kFromReg) != 0 ? threads_[current_].registers[record.b]
                                                       : record.imm;
}

bool Interpreter::well_formed(const Record& record) const {
  constexpr uint8_t kKnown =
      program::flag::kCondMask | program::flag::kSubtract | program::flag::kFromReg;
  const uint8_t cond = record.flags & program::flag::kCondMask;
  const bool imm_only = record.op == static_cast<uint8_t>(Op::kDmaRange) ||
                        record.op == static_cast<uint8_t>(Op::kBlock);
  if (imm_only && record.flags != 0) return false;
  return name(static_cast<Op>(record.op)) != nullptr && record.a < program::kRegisters &&
         record.b < program::kRegisters && (record.flags & ~kKnown) == 0 &&
         cond <= static_cast<uint8_t>(program::Cond::kEq);
}

Step Interpreter::step(const LocalMemory& memory, SemaphoreBank& semaphores, Hal& hal) {
  while (active()) {
    if (!in_operation_) {
      if (fifo_level_ == 0) {
        status_ = CcStatus::kIdle;
        return until(Next::kIdle);
      }
      const Step step = take(memory, hal);
      if (active()) return step;
      break;
    }
    const uint32_t before = current_;
    if (!choose(semaphores)) {
      status_ = CcStatus::kWaiting;
      return until(Next::kSemaphore, thread().wait.op);
    }
    if (current_ != before) return spend(Cost::kBranch);
    if (pc() >= program::kMaxRecords) {
      fail(CcError::kBadPc, pc(), hal);
      break;
    }
    const Record record = load_record(memory.program, pc());
    if (thread().phase == Phase::kExecute) {
      thread().phase = Phase::kBegin;
      execute(record, hal);
      continue;
    }
    const Step step = begin(record, semaphores, hal);
    if (step.next == Next::kSemaphore) {
      thread().waiting = true;
      thread().wait = step;
      continue;
    }
    if (active()) return step;
  }
  return until(Next::kStopped);
}

// The current thread goes on if it can, else the next one in turn; false if all wait.
bool Interpreter::choose(const SemaphoreBank& semaphores) {
  for (uint32_t i = 0; i < program::kThreads; ++i) {
    const uint32_t index = (current_ + i) % program::kThreads;
    Thread& t = threads_[index];
    if (!t.live) continue;
    if (t.waiting &&
        !contract::meets(t.wait.cond, semaphores.value(t.wait.semaphore), t.wait.value)) {
      continue;
    }
    t.waiting = false;
    current_ = index;
    return true;
  }
  // A thread that has ended may be the current one; the status names one that waits.
  while (!threads_[current_].live) current_ = (current_ + 1) % program::kThreads;
  return false;
}

const Step* Interpreter::waits(uint32_t index) const {
  const Thread& t = threads_[index];
  return t.live && t.waiting ? &t.wait : nullptr;
}

void Interpreter::fork(uint32_t at, Hal& hal) {
  for (Thread& t : threads_) {
    if (t.live) continue;
    t = Thread{};
    t.live = true;
    t.pc = at;
    return;
  }
  fail(CcError::kBadInstruction, at, hal);
}

void Interpreter::done(const Record& record, Hal& hal) {
  for (uint32_t i = 1; i < program::kThreads; ++i) {
    if (!threads_[i].live) continue;
    fail(CcError::kBadInstruction, i, hal);
    return;
  }
  if (record.address != 0) store(record.address, value_of(record), hal);
  if (!active()) return;
  ++operations_done_;
  in_operation_ = false;
}

// The next trigger: {op_index, stream}; its operation table entry names the first record.
Step Interpreter::take(const LocalMemory& memory, Hal& hal) {
  const uint32_t word = fifo_[fifo_head_];
  fifo_head_ = (fifo_head_ + 1) % program::kFifoDepth;
  --fifo_level_;
  current_op_ = contract::cc::kTriggerOpIndex.get(word);
  status_ = CcStatus::kRunning;
  in_operation_ = true;
  out_of_bounds_ = false;
  current_ = 0;
  for (Thread& t : threads_) t.live = t.waiting = false;
  threads_[0].live = true;
  threads_[0].phase = Phase::kBegin;
  if (current_op_ >= program::kOperations) {
    fail(CcError::kBadOperation, current_op_, hal);
    return {};
  }
  threads_[0].pc = memory.operations[2 * current_op_];
  argument_ = memory.operations[2 * current_op_ + 1];
  // A first record that was never written is an operation without a program.
  if (pc() >= program::kMaxRecords || blank(load_record(memory.program, pc()))) {
    fail(CcError::kBadOperation, current_op_, hal);
    return {};
  }
  return spend(Cost::kTrigger);
}

// The part of a record before its time passes. Waits act here and take their time afterwards;
// everything else takes its time first and acts at its end.
Step Interpreter::begin(const Record& record, SemaphoreBank& semaphores, Hal& hal) {
  if (!well_formed(record)) {
    fail(CcError::kBadInstruction, record.op, hal);
    return {};
  }
  status_ = CcStatus::kRunning;
  const Op op = static_cast<Op>(record.op);
  if (is_wait(op)) return wait(record, semaphores, hal);
  const bool first_only = op == Op::kBarrier || op == Op::kDone;
  if (op == Op::kHostPost || (first_only && current_ != 0) || (op == Op::kEnd && current_ == 0)) {
    fail(CcError::kBadInstruction, record.op, hal);
    return {};
  }
  if (op == Op::kBarrier) {
    if (thread().phase == Phase::kReleased) {
      thread().phase = Phase::kBegin;
      ++thread().pc;
      return spend(Cost::kInstruction, op);
    }
    status_ = CcStatus::kWaiting;
    Step step = until(Next::kBarrier, op);
    step.cell = record.address;
    step.members = value_of(record);
    thread().phase = Phase::kAtBarrier;
    return step;
  }
  thread().phase = Phase::kExecute;
  const Cost cost = op == Op::kBlock      ? Cost::kBlock
                    : op == Op::kDmaRange ? Cost::kRange
                    : is_control(op)      ? Cost::kBranch
                                          : Cost::kInstruction;
  return spend(cost, op);
}

Step Interpreter::wait(const Record& record, SemaphoreBank& semaphores, Hal& hal) {
  if (record.address > 0xFF) {
    fail(CcError::kBadInstruction, record.op, hal);
    return {};
  }
  const Op op = static_cast<Op>(record.op);
  Step step = until(Next::kSemaphore, op);
  step.semaphore = static_cast<uint32_t>(record.address);
  step.cond = static_cast<program::Cond>(record.flags & program::flag::kCondMask);
  step.value = value_of(record);
  if (!contract::meets(step.cond, semaphores.value(step.semaphore), step.value)) {
    return step;
  }
  if ((record.flags & program::flag::kSubtract) != 0) {
    semaphores.subtract(step.semaphore, step.value);
  }
  ++thread().pc;
  return spend(Cost::kSemaphoreWait, op);
}

void Interpreter::store(uint64_t address, uint32_t value, Hal& hal) {
  if (!hal.write32(address, value)) {
    fail(CcError::kBusError, static_cast<uint32_t>(address), hal);
  }
}

// Doorbells of one prebuilt ring pair: the receiving side first, as drivers do
// (spec/hw-registers.md 0.2 rule 7), so that data never arrives without a place to go.
void Interpreter::advance(uint64_t queue, uint32_t value, Hal& hal) {
  const uint64_t tail = queue + contract::udma::kM2sQTailInc;
  if (active() && (value >> 16) != 0) store(tail + contract::kS2mOffset, value >> 16, hal);
  if (active() && (value & 0xFFFF) != 0) store(tail, value & 0xFFFF, hal);
}

void Interpreter::block(const Record& record, Hal& hal) {
  uint32_t* registers = thread().registers;
  const BlockResult result = move_block(record, registers[record.a], hal);
  if (result.error != CcError::kNone) return fail(result.error, result.info, hal);
  if (result.out_of_bounds && !out_of_bounds_) {
    out_of_bounds_ = true;
    hal.notify(contract::NqType::kNotify, contract::cc_notify::kOutOfBounds | current_op_, pc(), 0);
  }
  if (result.tiles > registers[record.b]) registers[record.b] = result.tiles;
}

void Interpreter::execute(const Record& record, Hal& hal) {
  const uint32_t value = value_of(record);
  uint32_t next = pc() + 1;
  switch (static_cast<Op>(record.op)) {
    case Op::kSemAdd:
    case Op::kWrite:
      store(record.address, value, hal);
      break;
    case Op::kDmaAdvance:
      advance(record.address, value, hal);
      break;
    case Op::kDmaRange:
      for (uint64_t i = 0; i <= record.a; ++i) {
        advance(record.address + (i << (record.b + program::kRangeShift)), record.imm, hal);
      }
      break;
    case Op::kMov:
      thread().registers[record.a] = value;
      break;
    case Op::kAdd:
      thread().registers[record.a] += value;
      break;
    case Op::kBranch:
      next = record.imm;
      break;
    case Op::kLoop:
      if (--thread().registers[record.a] != 0) next = record.imm;
      break;
    case Op::kBranchLess:
      if (thread().registers[record.a] < thread().registers[record.b]) next = record.imm;
      break;
    case Op::kBlock:
      block(record, hal);
      break;
    case Op::kNotify:
      hal.notify(contract::NqType::kNotify, value | current_op_, pc(), 0);
      break;
    case Op::kArgument:
      thread().registers[record.a] = argument_;
      break;
    case Op::kDone:
      done(record, hal);
      break;
    case Op::kFork:
      fork(value, hal);
      break;
    case Op::kEnd:
      thread().live = false;
      return;
    default:  // NOP; waits, barriers and HOST_POST never get here
      break;
  }
  if (active()) thread().pc = next;
}

}  // namespace firmware::cc
