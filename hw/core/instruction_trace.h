// What the engines of a NeuronCore did, instruction by instruction, for a trace or a profile: when
// each ran, what it had waited for before, and whom its semaphore updates released. Only there when
// someone listens.
//
// An instruction is passed on once its updates have taken effect, since only then it is known whom
// they released; instructions of one engine keep their order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "arch/contract/engine.h"
#include "contract/isa_types.h"
#include "hw/core/execution.h"
#include "hw/stats.h"

namespace hw {

struct InstructionEvent {
  // It stood still; `engine`: whose update ended that, with Stall::kSemaphore.
  struct Pause {
    Stall cause = Stall::kSemaphore;
    contract::Engine engine = contract::kPe;
    base::Ps begin = 0;
    base::Ps end = 0;
  };

  contract::Engine engine = contract::kPe;
  contract::isa::Instruction instruction{};
  const std::string* core = nullptr;  // "d0.nc1"
  uint64_t program = 0;               // address of the engine's first record
  uint32_t pc = 0;
  std::vector<Pause> pauses;  // in order, before `begin`
  base::Ps begin = 0;
  base::Ps end = 0;                // the engine can begin another one
  base::Ps done = 0;               // the result is there
  uint64_t released_by = 0;        // a flow; see Tracer
  std::vector<uint64_t> releases;  // flows
};

class InstructionTrace {
 public:
  enum class Update : uint8_t { kRead, kComplete };

  // Both outlive it.
  InstructionTrace(Tracer& tracer, const std::string& core) : tracer_(tracer), core_(core) {}

  void start(contract::Engine engine, uint64_t program, base::Ps now);
  // The execution begins only now: what engines did before is not of it.
  void begin(base::Ps now) { tracer_.execution_begins(core_, program_, now); }
  void stop(contract::Engine engine, base::Ps now);
  // A reset: what has not been done never will.
  void drop(contract::Engine engine, base::Ps now);

  // The engine's next instruction.
  void issue(contract::Engine engine, const contract::isa::Instruction& instruction,
             uint64_t program, uint32_t pc);
  // It stands still, if it does.
  void pause(contract::Engine engine, Stall cause, base::Ps begin, base::Ps end,
             contract::Engine by = contract::kPe);
  // Its wait is over through the update that is being applied.
  void release(contract::Engine engine);
  void run(contract::Engine engine, base::Ps begin, base::Ps end, base::Ps done);
  // An update of the instruction that runs will be applied; those of a kind, in this order.
  void expect(contract::Engine engine, Update update);

  // Around an update: of the oldest instruction that expects one, or of the one at hand.
  void apply(contract::Engine engine, Update update);
  void apply_now(contract::Engine engine) { applying_ = &engines_[engine].current; }
  void applied(contract::Engine engine);

 private:
  static constexpr uint32_t kNoTrack = ~0u;
  struct Running {
    InstructionEvent event;
    uint32_t updates = 0;  // expected
  };
  struct EngineState {
    uint32_t track = kNoTrack;
    InstructionEvent current;
    std::deque<Running> running;
    uint64_t first = 0;                            // number of the front of `running`
    std::array<std::deque<uint64_t>, 2> expected;  // numbers, by kind of update
  };
  void pass_on(EngineState& state, bool all);
  void ended(contract::Engine engine, base::Ps now, bool complete);

  Tracer& tracer_;
  const std::string& core_;
  std::array<EngineState, contract::kEnginesPerNc> engines_;
  InstructionEvent* applying_ = nullptr;  // whose update is being applied
  uint32_t started_ = 0;                  // bit per engine
  uint64_t program_ = 0;                  // of the engine that was started first
};

}  // namespace hw
