// One compute engine's sequencer: fetches records from device memory, waits on semaphores of its
// NeuronCore, executes, updates semaphores. Source of truth: docs/hardware-contract.md 3,
// data/regs/engine.json, data/isa; times: spec/engine-isa.md 6.1, spec/timing.md 2.
// Exact: order of one instruction, register values, errors, notifications. Approximate: durations.
//
// Model: instructions issue in order. A control instruction occupies the sequencer for its time and
// acts at its end. A tensor instruction acts at its start, occupies the engine for its initiation
// interval, and is done a pipeline latency later; the next one may start meanwhile unless it
// touches what is not done yet. On the Tensor engine weights are loaded under the product before
// them, and products accumulate without waiting for each other. Completions, and so semaphore
// updates, are in program order. DRAIN and HALT wait for the last completion. A transfer whose
// descriptors the block behind the Scalar engine generates is given to it while the instruction
// before it computes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "arch/contract/engine.h"
#include "contract/isa_types.h"
#include "hw/core/datapath.h"
#include "hw/core/dge.h"
#include "hw/core/engine_checks.h"
#include "hw/core/engine_timing.h"
#include "hw/core/execution.h"
#include "hw/core/instruction_trace.h"
#include "hw/core/issue.h"
#include "hw/core/pe_counters.h"
#include "hw/mem/fabric.h"
#include "hw/nq/nq_block.h"
#include "hw/reg/reg_block.h"
#include "hw/sync/semaphore_block.h"
#include "hw/time/activity_meter.h"
#include "hw/time/event_queue.h"

namespace hw {

// What the five sequencers of a NeuronCore share.
struct SequencerContext {
  EventQueue& queue;
  Fabric& fabric;
  SemaphoreBlock& semaphores;
  NqBlock& notifications;
  MemoryPorts& ports;
  PeActivity& pe_activity;
  ExecutionLog& executions;
  const CriticalPath*& updating;  // of the engine whose update is being applied; null: another's
  Counters& counters;
  AccessLog& log;
  InstructionTrace* trace = nullptr;
  CoreChecks* checks = nullptr;
};

class Sequencer final : public RegBlock<Sequencer>, private EventSink, private SemaphoreWaiter {
 public:
  struct Params {
    contract::Gen gen = contract::Gen::kV2;
    contract::Engine engine = contract::kPe;
    uint32_t component = 0;
    std::string name = "pe";  // of its trace track
    uint32_t nc = 0;
    bool timing_only = false;
    uint64_t real_bytes = 512;
  };
  Sequencer(const Params& params, const SequencerContext& context, const TimingParams& timing);

  static const RegTable<Sequencer>& table();
  std::string instance() const override { return name_; }

  contract::EngineStatus status() const { return status_; }
  uint32_t pc() const { return pc_; }
  contract::EngineError error_code() const { return error_; }
  const EngineStats& stats() const { return stats_; }
  base::Ps busy() const { return stats_.busy; }
  // Time at work by period of mgmt.power_sample_us.
  const ActivityMeter& activity() const { return activity_; }
  // Why it does not go on: "waits for semaphore 3 >= 2, which is 1, at pc 4", "stopped with error 2
  // ...", "holds transfers for queue 5, whose rings are full"; or empty.
  std::string stuck() const;
  // Reset of the core: as control.reset, and the program registers are cleared.
  void hard_reset();

 private:
  enum Tag : uint32_t { kIssue, kBegin, kFinish, kRead, kCompleted, kGenerated };
  // A tensor instruction whose results are not there yet.
  struct InFlight {
    base::Ps done;
    TensorBox destination;
  };
  // Updates and trace entry of an instruction whose completion is scheduled, oldest first.
  struct Completion {
    contract::isa::Update update;
    uint64_t debug_id;
    uint32_t pc;
    uint8_t opcode;
    bool trace;
    CriticalPath path;  // that leads to the update
    check::Release release;
  };
  struct ReadUpdate {
    contract::isa::Update update;
    CriticalPath path;
    check::Release release;
  };

  // Register hooks.
  void write_control(uint32_t, uint32_t value);
  uint32_t read_status(uint32_t, uint32_t, bool) { return static_cast<uint32_t>(status_); }
  uint32_t read_pc(uint32_t, uint32_t, bool) { return pc_; }
  void write_pc(uint32_t, uint32_t value);
  uint32_t read_error_code(uint32_t, uint32_t, bool) { return static_cast<uint32_t>(error_); }
  uint32_t read_error_pc(uint32_t, uint32_t, bool) { return error_pc_; }
  uint32_t read_error_info(uint32_t, uint32_t, bool) { return error_info_; }
  uint32_t read_register(uint32_t i, uint32_t, bool) { return registers_[i]; }
  void write_register(uint32_t i, uint32_t value);
  void write_rounding_seed(uint32_t, uint32_t value) { datapath_.seed_rounding(value); }
  void write_program(uint32_t, uint32_t value);
  void write_program_flags(uint32_t, uint32_t value);

  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;
  void wait_satisfied() override;

  void start();
  void begin_execution();
  void reset();
  void stop_waiting();
  void schedule(base::Ps time, Tag tag, EventQueue::Kind kind = EventQueue::Kind::kWork);
  void issue();
  bool fetch_records();
  bool fetch();
  void begin();
  void begin_tensor();
  bool generate();
  TransferGenerator::Params generator_params() const;
  void execute_cell();
  void execute_call();
  void begin_generation();
  void begin_control(base::Ps time);
  bool generates_next() const;
  void submit(base::Ps at, base::Ps each);
  void submit_generated();
  void finish();
  void execute_control();
  void execute_alu64();
  void check_control();
  void complete(base::Ps end);
  void fail(contract::EngineError error, uint32_t info);
  void notify(contract::NqType type, uint32_t payload, uint64_t debug_id, uint32_t pc,
              uint32_t info);
  void store(uint64_t address, uint32_t low, uint32_t high, uint32_t size);
  bool loops_for_ever();
  void stop_looping();
  bool hazard(const TensorExtent& extent, base::Ps* until);
  // Whether current_ is at work in the Tensor engine's array.
  bool in_array() const {
    return engine_ == contract::kPe && current_.opcode != contract::isa::Opcode::kLoadIndex;
  }
  base::Ps load_table(contract::isa::ActFunction function);
  base::Ps reserve_start(const TensorExtent& extent, InstructionTime* time, Stall* cause);
  void occupy(const TensorExtent& extent, base::Ps interval);
  void stall(Stall cause, base::Ps begin, base::Ps end);
  uint64_t program() const;  // address of the first record
  uint64_t identity() const;
  void apply(const contract::isa::Update& update, const CriticalPath& path,
             const check::Release& release);
  void apply(const contract::isa::Update& update, const CriticalPath& path,
             const check::Release& release, InstructionTrace::Update kind);
  // The updates and stores that follow are this engine's.
  check::Checker::Acting acting(const check::Release& release) const {
    return checks_ != nullptr ? check::Checker::Acting(checks_->checker(), release)
                              : check::Checker::Acting();
  }
  void operand_error(uint32_t tensor, uint32_t first = 0);
  CriticalPath path_at(base::Ps end, base::Ps done, base::Ps visible) const;
  void count_bytes(const TensorExtent& extent);
  void stop(contract::EngineStatus status);
  CriticalPath::Part own() const { return static_cast<CriticalPath::Part>(engine_); }
  SemaphoreWait current_wait() const;
  base::Ps control_time() const;
  uint32_t value_of(const contract::isa::Value& value) const {
    return value.is_register ? registers_[value.value] : value.value;
  }

  SequencerContext context_;
  EngineTiming timing_;
  PeSchedule array_;
  std::unique_ptr<EngineChecks> checks_;  // null: none
  Datapath datapath_;
  TransferGenerator generator_;
  DescriptorGenerator dge_;
  contract::Gen gen_;
  contract::Engine engine_;
  uint32_t component_;
  std::string name_;

  contract::EngineStatus status_ = contract::EngineStatus::kIdle;
  contract::EngineError error_ = contract::EngineError::kNone;
  uint32_t pc_ = 0;
  uint32_t error_pc_ = 0;
  uint32_t error_info_ = 0;
  uint32_t registers_[64] = {};
  struct Call {
    uint32_t next;                       // record to return to
    TransferGenerator::Table arguments;  // of the caller
  };
  std::vector<Call> calls_;  // of functions under way
  TransferGenerator::Table arguments_;

  contract::isa::Instruction current_{};
  uint32_t next_pc_ = 0;
  SemaphoreWait wait_;
  bool waiting_ = false;
  base::Ps issued_ = 0;  // when current_ was fetched
  base::Ps begun_ = 0;   // when its time began
  // Until then the engine computes, while its sequencer is ahead with transfers to generate.
  base::Ps computes_until_ = 0;
  bool halt_requested_ = false;
  // The backward branch that was taken last and the registers at that time, while nothing but
  // control flow and arithmetic has run since; kNowhere if there is none.
  static constexpr uint32_t kNowhere = ~0u;
  uint32_t anchor_pc_ = kNowhere;
  uint32_t anchor_registers_[64] = {};
  bool looping_ = false;    // stands still in a loop that only the host can end
  uint32_t epoch_ = 0;      // of the last start or reset; events of older ones are void
  base::Ps last_done_ = 0;  // completion of the youngest instruction
  std::vector<InFlight> in_flight_;
  std::deque<ReadUpdate> reads_;  // due when inputs have been read, oldest first
  base::Ps last_read_ = 0;
  std::deque<Completion> completions_;
  bool reserved_ = false;  // the time of current_ has been granted, and begins now
  InstructionTime granted_;
  TensorExtent extent_;          // of an instruction that computes, once its time is granted
  TensorExtent cell_;            // of a register load or store, or of an index
  GeneratedTransfer generated_;  // of current_
  contract::isa::ActFunction table_ = contract::isa::ActFunction::kCopy;  // of the Scalar engine

  std::vector<uint8_t> fetched_;  // records [fetched_pc_, + size / 64)
  uint32_t fetched_pc_ = 0;
  uint32_t fetched_until_ = 0;  // an instruction that begins before is complete there
  EngineStats stats_;
  base::Ps busy_until_ = 0;
  CriticalPath path_;
  Stall stall_ = Stall::kSemaphore;  // of the wait that is over
  contract::Engine released_by_ = contract::kPe;
  ActivityMeter activity_;
};

}  // namespace hw
