// One NeuronCore as software sees it through registers: five sequencers, semaphores and events.
// Source of truth: docs/hardware-contract.md 1 to 3, spec/hw-registers.md 4 and 6. SBUF and PSUM
// belong to the fabric. NeuronCores of a chip share one target socket; a core is made on first
// touch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hw/core/pe_counters.h"
#include "hw/core/sequencer.h"
#include "hw/sync/shared_pages.h"

namespace hw {

class NeuronCore {
 public:
  struct Params {
    contract::Gen gen = contract::Gen::kV2;
    uint32_t nc = 0;
    uint32_t component = 0;  // of engine 0; the others follow
    bool timing_only = false;
    uint64_t real_bytes = 512;
    std::string name = "nc0";
  };
  struct Context {
    EventQueue& queue;
    Fabric& fabric;
    NqBlock& notifications;
    Counters& counters;
    AccessLog& log;
    const TimingParams& timing;
    Tracer* tracer = nullptr;
    check::Checker* checker = nullptr;
  };
  NeuronCore(const Params& params, const Context& context);

  static const char* engine_name(uint32_t e);
  SemaphoreBlock& semaphores() { return semaphores_; }
  Sequencer& engine(uint32_t e) { return *engines_[e]; }
  SharedPages& semaphore_pages() { return pages_; }
  const PeActivity& pe_activity() const { return pe_activity_; }
  const std::string& name() const { return name_; }
  // What has been executed since the last call.
  std::vector<ExecutionTotals> take_executions() { return executions_.take(); }
  // The most that the Tensor engine, and the core's HBM stack, can do in `time`.
  uint64_t peak_operations(base::Ps time, PeRate rate = PeRate::kShort) const;
  uint64_t peak_hbm_bytes(base::Ps time) const;
  // Semaphores, events and engines; SBUF, PSUM and notification queues are not part of it.
  void reset();

 private:
  SharedPages pages_;
  SemaphoreBlock semaphores_;
  MemoryPorts ports_;
  PeActivity pe_activity_;
  ExecutionLog executions_;
  const CriticalPath* updating_ = nullptr;
  std::unique_ptr<CoreChecks> checks_;  // null: none
  std::string name_;
  base::Rate pe_clock_;
  uint64_t float32_factor_;
  base::Rate hbm_rate_;
  std::unique_ptr<InstructionTrace> trace_;  // null: nobody listens
  std::vector<std::unique_ptr<Sequencer>> engines_;
};

// All NeuronCores of a chip behind one socket. Core n answers at n * kStride + offset in the TPB
// window, for offsets from kFirst.
class NeuronCoreGroup final : public BusTarget {
 public:
  static constexpr uint64_t kStride = contract::tpb::kBarWindow;
  static constexpr uint64_t kFirst = contract::tpb::kEngine;

  using Factory = std::function<std::unique_ptr<NeuronCore>(uint32_t nc)>;
  NeuronCoreGroup(uint32_t count, Factory factory) : factory_(std::move(factory)), cores_(count) {}

  uint32_t count() const { return static_cast<uint32_t>(cores_.size()); }
  NeuronCore& core(uint32_t n);
  NeuronCore* touched(uint32_t n) { return cores_[n].get(); }
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;

 private:
  Factory factory_;
  std::vector<std::unique_ptr<NeuronCore>> cores_;
};

}  // namespace hw
