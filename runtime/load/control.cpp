#include "runtime/load/control.h"

#include <algorithm>
#include <map>

#include "contract/regs/sem.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

using contract::isa::Instruction;
using contract::isa::Opcode;
using contract::isa::UpdateOp;
using contract::isa::WaitCond;

Instruction signal(uint32_t semaphore) {
  Instruction i{};
  i.opcode = Opcode::kEventSemaphore;
  i.complete_update = {UpdateOp::kInc, static_cast<uint8_t>(semaphore), 0};
  return i;
}

// Waits for so many signals and takes them back.
Instruction take(uint32_t semaphore, uint32_t count) {
  Instruction i{};
  i.opcode = Opcode::kEventSemaphore;
  i.wait = {WaitCond::kGe, false, static_cast<uint8_t>(semaphore), count};
  i.read_update = {UpdateOp::kSub, static_cast<uint8_t>(semaphore), count};
  return i;
}

// Engines whose programs name a semaphore in a barrier of engines, in their order.
using Meetings = std::map<uint8_t, std::vector<neff::Engine>>;

Meetings meetings_of(const neff::Subgraph& subgraph) {
  Meetings meetings;
  for (const neff::EngineProgram& program : subgraph.programs) {
    for (const neff::ProgramStep& step : program.steps) {
      if (step.instruction.opcode != Opcode::kAllEngineBarrier) continue;
      std::vector<neff::Engine>& engines =
          meetings[step.instruction.operands.all_engine_barrier.semaphore];
      if (engines.empty() || engines.back() != program.engine) engines.push_back(program.engine);
    }
  }
  return meetings;
}

std::vector<Instruction> engine_barrier(const std::vector<neff::Engine>& engines,
                                        neff::Engine engine, uint8_t semaphore) {
  const auto others = static_cast<uint32_t>(engines.size() - 1);
  if (others == 0) return {};
  const auto position =
      static_cast<uint32_t>(std::find(engines.begin(), engines.end(), engine) - engines.begin());
  if (position != 0) return {signal(semaphore), take(semaphore + position, 1)};
  std::vector<Instruction> list{take(semaphore, others)};
  for (uint32_t i = 1; i <= others; ++i) list.push_back(signal(semaphore + i));
  return list;
}

std::vector<Instruction> core_barrier(uint64_t peer_increment, uint8_t semaphore) {
  StorePair signal;
  signal.count = 1;
  signal.address[0] = peer_increment + uint64_t{contract::sem::kIncStride} * semaphore;
  signal.value[0] = 1;
  return {to_instruction(signal), take(semaphore, 1)};
}

// The table has been made for the instruction.
Instruction read_rank_table(const contract::isa::GetCurProcessingRankId& query,
                            const std::vector<NamedRankTable>& tables) {
  const auto table = std::find_if(tables.begin(), tables.end(), [&](const NamedRankTable& t) {
    return t.group_id == query.group_id && t.channel_id == query.channel_id;
  });
  constexpr uint32_t kWord = sizeof(uint32_t);
  Instruction load{};
  load.opcode = Opcode::kTensorLoad;
  load.operands.tensor_load.dst = query.dst;
  contract::isa::SideOperand& src = load.operands.tensor_load.src;
  src.entry = table->entry;
  src.dtype = contract::isa::DataType::kUint32;
  src.step[0] = kWord;
  src.count[0] = 1;
  src.offset_register = contract::isa::kNoRegister;
  if (query.iteration.is_register) {
    src.offset_register = static_cast<uint8_t>(query.iteration.value);
    src.scale = kWord;
  } else {
    src.offset = uint64_t{query.iteration.value % table->iterations} * kWord;
  }
  return load;
}

base::Status add_control(const Meetings& meetings, const neff::EngineProgram& program,
                         const neff::ProgramStep& step, const ControlPlace& place,
                         std::vector<Replacement>* list) {
  const Instruction& in = step.instruction;
  switch (in.opcode) {
    case Opcode::kSwitchQueueInstance:  // neff::find_flow has followed it
      list->push_back({step.pc, {}, false});
      return {};
    case Opcode::kAllEngineBarrier: {
      const uint8_t semaphore = in.operands.all_engine_barrier.semaphore;
      list->push_back(
          {step.pc, engine_barrier(meetings.at(semaphore), program.engine, semaphore), false});
      return {};
    }
    case Opcode::kPseudoCoreBarrier:
      if (!place.peer_increment) {
        return error(NRT_INVALID, "A core barrier in a program for one physical core",
                     base::Fault::kProgram);
      }
      list->push_back(
          {step.pc, core_barrier(*place.peer_increment, in.operands.pseudo_core_barrier.semaphore),
           false});
      return {};
    case Opcode::kGetGlobalRankId: {
      Instruction move{};
      move.opcode = Opcode::kRegisterMove;
      move.operands.register_move.dst = in.operands.get_global_rank_id.dst;
      move.operands.register_move.src.value = place.rank;
      list->push_back({step.pc, {move}, false});
      return {};
    }
    case Opcode::kGetCurProcessingRankId:
      list->push_back({step.pc,
                       {read_rank_table(in.operands.get_cur_processing_rank_id, place.rank_tables)},
                       false});
      return {};
    default:
      return {};
  }
}

}  // namespace

base::Status add_controls(const neff::Subgraph& subgraph, const ControlPlace& place,
                          EngineReplacements* lists) {
  const Meetings meetings = meetings_of(subgraph);
  for (const neff::EngineProgram& program : subgraph.programs) {
    std::vector<Replacement>* list = &(*lists)[static_cast<size_t>(program.engine)];
    for (const neff::ProgramStep& step : program.steps) {
      if (base::Status s = add_control(meetings, program, step, place, list); !s.ok()) return s;
    }
  }
  return {};
}

base::Status check_core_barriers(const std::vector<neff::Subgraph>& subgraphs) {
  std::map<uint32_t, std::vector<uint32_t>> counts;  // id -> by subgraph
  for (size_t i = 0; i < subgraphs.size(); ++i) {
    for (const neff::EngineProgram& program : subgraphs[i].programs) {
      for (const neff::ProgramStep& step : program.steps) {
        if (step.instruction.opcode != Opcode::kPseudoCoreBarrier) continue;
        std::vector<uint32_t>& count = counts[step.instruction.operands.pseudo_core_barrier.id];
        count.resize(subgraphs.size());
        ++count[i];
      }
    }
  }
  for (const auto& [id, count] : counts) {
    if (std::equal(count.begin() + 1, count.end(), count.begin())) continue;
    return error(NRT_INVALID,
                 "Core barrier " + std::to_string(id) + " stands " + std::to_string(count[0]) +
                     " times in the program of the first physical core and " +
                     std::to_string(count[1]) + " times in that of the second",
                 base::Fault::kProgram);
  }
  return {};
}

std::vector<uint8_t> barrier_semaphores(const neff::EngineProgram& program) {
  std::vector<uint8_t> list;
  for (const neff::ProgramStep& step : program.steps) {
    const Instruction& in = step.instruction;
    if (in.opcode == Opcode::kPseudoCoreBarrier) {
      list.push_back(in.operands.pseudo_core_barrier.semaphore);
    }
    if (in.opcode != Opcode::kAllEngineBarrier) continue;
    for (unsigned i = 0; i < contract::isa::kEngines; ++i) {
      list.push_back(static_cast<uint8_t>(in.operands.all_engine_barrier.semaphore + i));
    }
  }
  return list;
}

}  // namespace nrt
