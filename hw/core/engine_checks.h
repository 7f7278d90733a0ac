// What a NeuronCore and its engines tell the checker (hw/check): an engine is three agents. Its
// front is what it has read and what its sequencer has done, in program order; its results come
// later, in program order too. @read releases the front, @complete and DRAIN both; a store or
// doorbell releases the results only as far as something of the same engine has waited for them.
// The third is the block that generates descriptors: it has read an index before its engine goes
// on, while the engine itself may still be at work on the instruction before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/contract/engine.h"
#include "contract/isa_types.h"
#include "hw/check/checker.h"
#include "hw/check/semaphore_checks.h"
#include "hw/core/datapath.h"
#include "hw/mem/fabric.h"

namespace hw {

class CoreChecks {
 public:
  CoreChecks(check::Checker& checker, Fabric& fabric, uint32_t nc, const std::string& core);

  // A program has been loaded: what lies in SBUF and PSUM is not its own.
  void loaded();
  // Whether the program leaves semaphores at zero; else who starts it clears them.
  void set_cleans_up(bool cleans_up) { cleans_up_ = cleans_up; }
  // By whoever acts; what is over then. The host starts all engines of an execution at once.
  check::Snapshot started(contract::Engine engine);
  enum class End : uint8_t { kHalted, kFailed };
  void stopped(contract::Engine engine, End end);

  check::Checker& checker;
  Fabric& fabric;
  std::string name;  // "d0.nc0"
  check::Checker::Tracked& sbuf;
  check::Checker::Tracked& psum;
  check::SemaphoreChecks semaphores;
  uint32_t products = 0;  // agent: results of the Tensor engine

 private:
  uint32_t running_ = 0;    // bit per engine
  uint32_t started_ = 0;    // of these and those that have stopped, in this execution
  check::Snapshot before_;  // what was over when it began
  bool failed_ = false;
  bool cleans_up_ = false;
  uint32_t products_before_ = 0;  // epoch at the start of the execution
};

class EngineChecks {
 public:
  EngineChecks(CoreChecks& core, contract::Engine engine, std::string name);

  void loaded();
  void set_cleans_up(bool cleans_up) { core_.set_cleans_up(cleans_up); }
  // By whoever acts.
  void started();
  void stopped(CoreChecks::End end) { core_.stopped(engine_, end); }

  // The instruction at hand; everything below is about it. `program`: address of the first record.
  void issued(uint64_t program, uint32_t pc, const contract::isa::Instruction& instruction);
  // Its wait is over.
  void waited(contract::isa::WaitCond cond, uint32_t id, uint32_t value);
  // All results are there (DRAIN, HALT).
  void drained() { front_ = results_ = number_; }
  // What it reads and writes; indices of its tensors are those that the datapath has for it.
  void tensors(const contract::isa::Instruction& instruction, const TensorExtent& extent,
               const Datapath& datapath);
  // The next one, a transfer to generate, begins while this one is at work.
  void goes_ahead();
  // The index of a transfer, which has been read.
  void index(const contract::isa::Instruction& instruction, const TensorExtent& extent);
  // A register load or store.
  void cell(const contract::isa::Instruction& instruction, const TensorExtent& extent);
  void wrote_register(uint32_t number) { register_sites_[number] = site_; }
  // Device memory, by its address.
  void read(uint64_t address, uint32_t size) { plain(address, size, false); }
  void stored(uint64_t address, uint32_t size) { plain(address, size, true); }
  void out_of_bounds(const contract::isa::Instruction& instruction, uint32_t tensor);

  // What is over at its @read, at its @complete, and when its sequencer acts.
  check::Release at_read();
  check::Release at_complete();
  check::Release at_front();
  // By the doorbells of the transfer that it generates; `known`: where that reads and writes.
  check::Release at_doorbell(bool known);
  check::Checker& checker() { return core_.checker; }

 private:
  struct Known {
    uint32_t site = 0;
    uint8_t opcode = 0;
    uint64_t debug_id = 0;
  };
  void plain(uint64_t address, uint32_t size, bool write);
  check::Snapshot known();
  uint32_t front_here() const { return engine_ == contract::kPe || ahead_ ? front_ : number_; }
  check::Release release(uint32_t front, uint32_t results);
  check::View view() const { return {&clock_, {front_agent_, results_agent_, generator_}}; }
  uint32_t touch(const contract::isa::TensorOperand& operand, const TensorBox& box,
                 const check::Access& by, bool write, bool adds);
  uint32_t touch_indexed(const contract::isa::TensorOperand& operand, const TensorBox& box,
                         const Indices& indices, uint32_t first_lane, const check::Access& who,
                         bool write, bool adds);
  uint32_t touch(check::Checker::Tracked& memory, const check::Area& area, const check::Access& by,
                 bool write, bool adds);

  CoreChecks& core_;
  contract::Engine engine_;
  std::string name_;
  uint32_t front_agent_;
  uint32_t results_agent_;
  uint32_t generator_;  // agent
  check::Clock clock_;
  check::Snapshot known_;  // clock_, until it changes
  uint32_t number_ = 0;    // epoch of the instruction at hand, of all agents
  bool ahead_ = false;     // the instruction before the transfers at hand is at work
  // Of the Tensor engine, and of one that is ahead: how far its reads are known to be over.
  uint32_t front_ = 0;
  uint32_t results_ = 0;  // as far as its results are known to be there
  uint32_t site_ = 0;
  std::vector<Known> sites_;          // by record
  uint32_t register_sites_[64] = {};  // who wrote it last
};

}  // namespace hw
