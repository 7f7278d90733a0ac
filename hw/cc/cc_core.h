// One CC-core (TopSP): semaphores, control registers, trigger FIFO, operation table, program
// memory, and the processor that runs firmware/cc. Source of truth: docs/hardware-contract.md 5,
// data/regs/cc.json, spec/collectives.md 3.3. Times are parameters (cc.*), approximate.
// The first 128 KiB of the window are backed by pages that clients may map read-only; the control
// registers' current values are kept there as well.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/index_pool.h"
#include "firmware/cc/interpreter.h"
#include "hw/cc/barrier_hub.h"
#include "hw/check/semaphore_checks.h"
#include "hw/mem/fabric.h"
#include "hw/nq/nq_block.h"
#include "hw/reg/reg_block.h"
#include "hw/sync/semaphore_block.h"
#include "hw/time/event_queue.h"

namespace hw {

class CcCore final : public RegBlock<CcCore>,
                     private EventSink,
                     private BarrierMember,
                     private firmware::Hal,
                     private firmware::SemaphoreBank {
 public:
  struct Params {
    uint32_t chip = 0;
    uint32_t chips = 1;  // of the machine
    uint32_t topsp = 0;
    uint32_t component = 0;
    std::string name = "cc0";
  };
  struct Context {
    EventQueue& queue;
    Fabric& fabric;
    NqBlock& notifications;
    BarrierHub& barriers;
    Counters& counters;
    AccessLog& log;
    const TimingParams& timing;
    Tracer* tracer = nullptr;
    check::Checker* checker = nullptr;
  };
  CcCore(const Params& params, const Context& context);

  // The window's parts, for the fabric: the operation table and the program memory take any access.
  struct Region {
    uint64_t offset;
    uint64_t size;
    Space space;
  };
  static const Region kRegions[5];

  static const RegTable<CcCore>& table();
  std::string instance() const override { return params_.name; }
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;

  SemaphoreBlock& semaphores() { return semaphores_; }
  SharedPages& pages() { return pages_; }
  const firmware::cc::Interpreter& firmware() const { return firmware_; }
  // Why it does not go on: "waits for ...", "is halted ...", "stopped with error ..."; or empty.
  std::string stuck() const;
  // Processor, FIFO, semaphores and events; the program and the operation table stay.
  void reset();

 private:
  // Register hooks.
  void write_trigger(uint32_t, uint32_t value);
  void write_control(uint32_t, uint32_t value);
  uint32_t read_status(uint32_t, uint32_t, bool);
  uint32_t read_pc(uint32_t, uint32_t, bool);
  uint32_t read_error_code(uint32_t, uint32_t, bool);
  uint32_t read_error_pc(uint32_t, uint32_t, bool);
  uint32_t read_fifo_level(uint32_t, uint32_t, bool);
  uint32_t read_current_op(uint32_t, uint32_t, bool);
  uint32_t read_chip(uint32_t, uint32_t, bool);
  uint32_t read_arrived(uint32_t cell, uint32_t, bool);
  uint32_t read_generation(uint32_t cell, uint32_t, bool);

  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;
  void wait_satisfied();
  void stop_waiting();
  void barrier_open() override;
  void barrier_mismatch() override;

  bool read32(uint64_t address, uint32_t* value) override;
  bool write32(uint64_t address, uint32_t value) override;
  bool read(uint64_t address, void* to, size_t bytes) override;
  bool write(uint64_t address, const void* from, size_t bytes) override;
  uint64_t now() override { return context_.queue.now(); }
  void notify(contract::NqType type, uint32_t payload, uint32_t pc, uint32_t info) override;
  uint32_t value(uint32_t semaphore) const override {
    if (checks_ != nullptr) checks_->learn(semaphore);
    return semaphores_.value(semaphore);
  }
  void subtract(uint32_t semaphore, uint32_t value) override {
    semaphores_.add(semaphore, 0u - value);
  }

  enum Tag : uint32_t { kTagStep, kTagArrival };
  struct Posted {
    uint64_t address;
    uint32_t value;
  };
  bool post(uint64_t address, uint32_t value, base::Ps latency);
  void arrive_at_peer(uint64_t index);

  // One agent of the checker, with all its threads.
  struct Checks {
    check::Checker& checker;
    check::SemaphoreChecks semaphores;
    uint32_t agent;
    check::Clock clock = {};
    check::Snapshot known = {};                                    // `clock`, until it changes
    std::array<check::Snapshot, 256> seen = {};                    // of each semaphore
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> sites = {};  // by operation and record

    void learn(const check::Snapshot& what);
    void learn(uint32_t semaphore);
  };
  check::Checker::Acting acting() const;

  struct ThreadWait final : SemaphoreWaiter {
    CcCore* core = nullptr;
    void wait_satisfied() override { core->wait_satisfied(); }
  };
  void schedule(base::Ps delay);
  void step();
  void stop_processor();
  void arrive(const firmware::cc::Step& step);
  base::Ps time_of(firmware::cc::Cost cost) const;
  void publish();
  void trace_last_step();

  Params params_;
  Context context_;
  SharedPages pages_;
  std::unique_ptr<Checks> checks_;  // null: none
  SemaphoreBlock semaphores_;
  firmware::cc::Interpreter firmware_;
  firmware::cc::Step last_step_;
  bool waiting_ = false;  // in the semaphore block, all threads
  std::array<ThreadWait, firmware::cc::program::kThreads> thread_waits_;
  bool at_barrier_ = false;
  BarrierCell cell_;
  base::Ps since_ = 0;  // of last_step_
  uint32_t track_ = ~0u;
  EventQueue::Id scheduled_ = 0;
  uint32_t life_ = 0;               // counts resets of the processor
  base::IndexPool<Posted> posted_;  // on their way to other chips
};

// All CC-cores of a chip behind one socket; core t answers at t * topsp::kWindow. Made on first
// touch.
class CcCoreGroup final : public BusTarget {
 public:
  using Factory = std::function<std::unique_ptr<CcCore>(uint32_t topsp)>;
  CcCoreGroup(uint32_t count, Factory factory) : factory_(std::move(factory)), cores_(count) {}

  uint32_t count() const { return static_cast<uint32_t>(cores_.size()); }
  CcCore& core(uint32_t t);
  CcCore* touched(uint32_t t) { return cores_[t].get(); }
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;

 private:
  Factory factory_;
  std::vector<std::unique_ptr<CcCore>> cores_;
};

}  // namespace hw
