// CC-core firmware: takes triggers from the FIFO and interprets the operation's CC program.
// Stands for the firmware of a collective-communication core (TopSP). Source of truth:
// docs/hardware-contract.md 5, arch/contract/cc_program.h, spec/collectives.md 3.3.
// Exact: order of effects, waits, errors. Time is not kept here: every step names the class of
// time it takes, and the processor that runs the firmware knows the numbers.
// Missing: HOST_POST (network proxy) ends in an error.
#pragma once

#include <cstdint>

#include "arch/contract/cc_program.h"
#include "arch/contract/engine.h"
#include "firmware/hal/hal.h"

namespace firmware::cc {

namespace program = contract::cc_program;

// The processor's local memories, as laid out in the TopSP window.
struct LocalMemory {
  const uint8_t* program = nullptr;      // kMaxRecords records
  const uint32_t* operations = nullptr;  // kOperations x {entry, argument}
};

// What the time that passes before the next step is spent on.
enum class Cost : uint8_t { kTrigger, kInstruction, kBranch, kSemaphoreWait, kRange, kBlock };

enum class Next : uint8_t {
  kSpend,      // time of class `cost` passes, then step() again
  kIdle,       // until the next trigger
  kSemaphore,  // until the wait of one of the threads is satisfied (Interpreter::waits)
  kBarrier,    // arrive at `cell` with `members`; barrier_released() when it opens
  kStopped,    // in reset, halted or in error
};

struct Step {
  Next next = Next::kStopped;
  Cost cost = Cost::kInstruction;
  program::Op op = program::Op::kNop;  // the record that spends or waits, for traces
  program::Cond cond = program::Cond::kGe;
  uint32_t semaphore = 0;
  uint32_t value = 0;
  uint64_t cell = 0;
  uint32_t members = 0;
};

class Interpreter {
 public:
  // Control register. `run` after a halt continues where it stopped.
  void run();
  void halt();
  void reset();
  // A store to the trigger register. True: the processor was idle and has to call step().
  bool trigger(uint32_t word, Hal& hal);
  // Goes on until time passes or something has to be waited for.
  Step step(const LocalMemory& memory, SemaphoreBank& semaphores, Hal& hal);
  void barrier_released();
  // What thread `index` waits for; null if it is not waiting.
  const Step* waits(uint32_t index) const;
  // The processor found the current record to be wrong (a barrier that does not exist).
  void fail(contract::CcError error, uint32_t info, Hal& hal);

  contract::CcStatus status() const { return status_; }
  uint32_t pc() const { return threads_[current_].pc; }
  contract::CcError error_code() const { return error_; }
  uint32_t error_pc() const { return error_pc_; }
  uint32_t fifo_level() const { return fifo_level_; }
  uint32_t current_op() const { return current_op_; }
  uint32_t reg(uint32_t index) const { return threads_[current_].registers[index]; }
  uint64_t operations_done() const { return operations_done_; }

 private:
  enum class Phase : uint8_t { kBegin, kExecute, kAtBarrier, kReleased };
  struct Thread {
    bool live = false;
    bool waiting = false;
    Phase phase = Phase::kBegin;
    uint32_t pc = 0;
    Step wait;
    uint32_t registers[program::kRegisters] = {};
  };

  Step take(const LocalMemory& memory, Hal& hal);
  Thread& thread() { return threads_[current_]; }
  bool choose(const SemaphoreBank& semaphores);
  void fork(uint32_t pc, Hal& hal);
  void done(const program::Record& record, Hal& hal);
  Step begin(const program::Record& record, SemaphoreBank& semaphores, Hal& hal);
  Step wait(const program::Record& record, SemaphoreBank& semaphores, Hal& hal);
  void execute(const program::Record& record, Hal& hal);
  void advance(uint64_t queue, uint32_t value, Hal& hal);
  void store(uint64_t address, uint32_t value, Hal& hal);
  void block(const program::Record& record, Hal& hal);
  bool well_formed(const program::Record& record) const;
  bool active() const;
  uint32_t value_of(const program::Record& record) const;

  contract::CcStatus status_ = contract::CcStatus::kReset;
  contract::CcStatus resume_ = contract::CcStatus::kIdle;  // status to return to after a halt
  contract::CcError error_ = contract::CcError::kNone;
  bool in_operation_ = false;
  bool out_of_bounds_ = false;  // a block of the operation was; reported once
  uint32_t current_ = 0;        // thread
  uint32_t error_pc_ = 0;
  uint32_t current_op_ = 0;
  uint32_t argument_ = 0;
  uint32_t fifo_head_ = 0;
  uint32_t fifo_level_ = 0;
  uint64_t operations_done_ = 0;
  Thread threads_[program::kThreads];
  uint32_t fifo_[program::kFifoDepth] = {};
};

}  // namespace firmware::cc
