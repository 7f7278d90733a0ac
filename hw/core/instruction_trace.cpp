#include "hw/core/instruction_trace.h"

#include "hw/core/neuron_core.h"

namespace hw {

void InstructionTrace::start(contract::Engine engine, uint64_t program, base::Ps now) {
  if (started_ == 0) {
    program_ = program;
    begin(now);
  }
  started_ |= 1u << engine;
}

void InstructionTrace::stop(contract::Engine engine, base::Ps now) {
  pass_on(engines_[engine], false);
  ended(engine, now, true);
}

void InstructionTrace::drop(contract::Engine engine, base::Ps now) {
  EngineState& state = engines_[engine];
  pass_on(state, true);
  for (auto& numbers : state.expected) numbers.clear();
  if ((started_ >> engine & 1) != 0) ended(engine, now, false);
}

// As in the log of executions, a reset of one engine ends the execution of all.
void InstructionTrace::ended(contract::Engine engine, base::Ps now, bool complete) {
  const uint32_t before = started_;
  started_ = complete ? started_ & ~(1u << engine) : 0;
  if (before == 0 || started_ != 0) return;
  for (EngineState& state : engines_) pass_on(state, false);
  tracer_.execution_ends(core_, now, complete);
}

void InstructionTrace::issue(contract::Engine engine, const contract::isa::Instruction& instruction,
                             uint64_t program, uint32_t pc) {
  EngineState& state = engines_[engine];
  pass_on(state, false);
  state.current = {};
  state.current.engine = engine;
  state.current.instruction = instruction;
  state.current.core = &core_;
  state.current.program = program;
  state.current.pc = pc;
}

void InstructionTrace::pause(contract::Engine engine, Stall cause, base::Ps begin, base::Ps end,
                             contract::Engine by) {
  if (begin < end) engines_[engine].current.pauses.push_back({cause, by, begin, end});
}

void InstructionTrace::release(contract::Engine engine) {
  uint64_t flow = 0;
  if (applying_ != nullptr) {
    flow = tracer_.new_flow();
    applying_->releases.push_back(flow);
  } else {
    flow = tracer_.take_applying();
  }
  engines_[engine].current.released_by = flow;
}

void InstructionTrace::run(contract::Engine engine, base::Ps begin, base::Ps end, base::Ps done) {
  EngineState& state = engines_[engine];
  state.current.begin = begin;
  state.current.end = end;
  state.current.done = done;
  state.running.push_back({std::move(state.current), 0});
}

void InstructionTrace::expect(contract::Engine engine, Update update) {
  EngineState& state = engines_[engine];
  ++state.running.back().updates;
  state.expected[static_cast<size_t>(update)].push_back(state.first + state.running.size() - 1);
}

void InstructionTrace::apply(contract::Engine engine, Update update) {
  EngineState& state = engines_[engine];
  std::deque<uint64_t>& numbers = state.expected[static_cast<size_t>(update)];
  Running& running = state.running[numbers.front() - state.first];
  numbers.pop_front();
  --running.updates;
  applying_ = &running.event;
}

void InstructionTrace::applied(contract::Engine engine) {
  applying_ = nullptr;
  pass_on(engines_[engine], false);
}

void InstructionTrace::pass_on(EngineState& state, bool all) {
  while (!state.running.empty() && (all || state.running.front().updates == 0)) {
    const InstructionEvent& event = state.running.front().event;
    if (state.track == kNoTrack) {
      state.track = tracer_.track(core_ + "." + NeuronCore::engine_name(event.engine));
    }
    tracer_.instruction(state.track, event);
    state.running.pop_front();
    ++state.first;
  }
}

}  // namespace hw
