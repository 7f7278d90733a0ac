#include "runtime/load/collective_triggers.h"

#include <algorithm>

#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "runtime/nrt/status.h"

namespace nrt {

base::Result<CollectiveTriggers> CollectiveTriggers::take(
    Core* core, const CollectiveProgram& program, const std::vector<uint8_t>& used_semaphores) {
  int free = static_cast<int>(contract::sem::kIncCount) - 1;
  while (free >= 0 && std::find(used_semaphores.begin(), used_semaphores.end(),
                                static_cast<uint8_t>(free)) != used_semaphores.end()) {
    --free;
  }
  auto barrier_op = Claim::take(&core->barrier_cc().operations, 1);
  if (free < 0 || !barrier_op) {
    return error(NRT_RESOURCE, "No semaphore or operation is left for the execution barrier");
  }
  CollectiveTriggers triggers(core, std::move(*barrier_op), static_cast<uint8_t>(free));
  if (base::Status s = triggers.take_operations(program); !s.ok()) return s.error();
  return triggers;
}

base::Status CollectiveTriggers::take_operations(const CollectiveProgram& program) {
  streams_.resize(program.streams.size());
  for (uint32_t s = 0; s < program.streams_used; ++s) {
    streams_[s] = core_->stream_cc(s, program.streams_used);
    streams_[s].resize(std::min<size_t>(streams_[s].size(), ccl::kMaxCcCores));
  }
  for (const CollectiveProgram::Operation& operation : program.operations) {
    const uint32_t stream = operation.op->stream_id;
    std::vector<Claim>& claims = operations_.emplace_back();
    for (uint32_t cc_index = 0; cc_index < cc_count(stream); ++cc_index) {
      auto claim = Claim::take(&cc(stream, cc_index).operations, 1);
      if (!claim) return error(NRT_RESOURCE, "The CC-core's operation table is full");
      claims.push_back(std::move(*claim));
    }
  }
  return {};
}

uint32_t CollectiveTriggers::stream_of(uint32_t cc_core) const {
  const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const auto& cores) {
    return !cores.empty() && cores[0] == cc_core;
  });
  return static_cast<uint32_t>(found - streams_.begin());
}

uint32_t CollectiveTriggers::trigger_word(const CollectiveProgram& program, uint32_t operation,
                                          uint32_t cc_index) const {
  const uint32_t stream = program.operations[operation].op->stream_id;
  return contract::cc::kTriggerOpIndex.set(0, op_index(operation, cc_index)) |
         contract::cc::kTriggerStream.set(0, stream);
}

Prologue CollectiveTriggers::prologue(bool leader) const {
  Prologue prologue;
  prologue.barrier = true;
  prologue.leader = leader;
  prologue.semaphore = barrier_semaphore_;
  prologue.trigger.count = 1;
  prologue.trigger.address[0] = core_->barrier_cc().window.device + contract::cc::kTrigger;
  prologue.trigger.value[0] = contract::cc::kTriggerOpIndex.set(0, barrier_op());
  return prologue;
}

void CollectiveTriggers::add_replacements(const CollectiveProgram& program, uint32_t part,
                                          EngineReplacements* lists) const {
  for (const CollectiveProgram::Source& source : program.sources) {
    if (source.part != part) continue;
    const neff::CollectiveOp& op = *source.op;
    StorePair trigger;
    trigger.count = 1;
    trigger.address[0] = cc(op.stream_id, 0).window.device + contract::cc::kTrigger;
    trigger.value[0] = trigger_word(program, source.operation, 0);
    std::vector<Replacement>& list = (*lists)[static_cast<size_t>(op.engine)];
    Replacement replacement{op.pc, {to_instruction(trigger)}, true};
    const auto at = std::lower_bound(list.begin(), list.end(), op.pc,
                                     [](const Replacement& r, uint32_t pc) { return r.pc < pc; });
    list.insert(at, std::move(replacement));
  }
}

}  // namespace nrt
