#include "compiler/kernel/engine_file.h"

#include <algorithm>

#include "arch/contract/dge.h"
#include "neff_loader/debug_info.h"
#include "neff_loader/pack.h"

namespace kernel {

Signals::Signals(const Program& program)
    : rank_(program.segments.size()), dma_engines_(program.params.dma_engines) {
  for (const Entry& e : program.entries) {
    for (const Event& w : e.waits) {
      if (w.agent >= isa::kEngines) continue;
      std::vector<uint32_t>& list = rank_[e.segment][w.agent];
      if (list.size() <= w.number) list.resize(w.number + 1);
      list[w.number] = 1;
    }
  }
  for (auto& segment : rank_) {
    for (std::vector<uint32_t>& list : segment) {
      uint32_t count = 0;
      for (uint32_t& n : list) {
        if (n != 0) n = ++count;
      }
    }
  }
}

bool Signals::awaited(uint32_t segment, const Event& event) const {
  if (event.agent >= isa::kEngines) return false;
  const std::vector<uint32_t>& list = rank_[segment][event.agent];
  return event.number < list.size() && list[event.number] != 0;
}

isa::Wait Signals::wait(uint32_t segment, const Event& event) const {
  if (event.agent < isa::kEngines) {
    return {isa::WaitCond::kGe, false, agent_semaphore(event.agent),
            rank_[segment][event.agent][event.number]};
  }
  if (event.agent < Order::kFirstQueueSet) {
    return {isa::WaitCond::kGe, false, agent_semaphore(event.agent), event.number};
  }
  const uint32_t turn = (event.number - 1) / Order::kWindow + 1;
  return {isa::WaitCond::kGe, false, transfer_semaphore(event), turn * dma_engines_};
}

uint8_t Signals::transfer_semaphore(const Event& event) {
  const uint32_t set = event.agent - Order::kFirstQueueSet;
  return static_cast<uint8_t>(kFirstTransferSemaphore + Order::kWindow * set +
                              (event.number - 1) % Order::kWindow);
}

void EngineFile::add(const Entry& entry) {
  const uint64_t debug_id = neff::debug_id(0, 0, entry.call);
  const size_t waits = entry.waits.size();
  for (size_t i = 0; i + 1 < waits; ++i) {
    isa::Instruction wait{};
    wait.opcode = isa::Opcode::kEventSemaphore;
    wait.wait = signals_.wait(entry.segment, entry.waits[i]);
    wait.debug_id = debug_id;
    append(wait);
  }
  isa::Instruction in = entry.instruction;
  in.debug_id = debug_id;
  if (waits > 0) in.wait = signals_.wait(entry.segment, entry.waits.back());
  if (signals_.awaited(entry.segment, entry.event)) {
    in.complete_update = {isa::UpdateOp::kInc, agent_semaphore(engine_), 0};
  }
  if (in.opcode == isa::Opcode::kPseudoTriggerCollective2) {
    in.complete_update = {isa::UpdateOp::kInc, agent_semaphore(entry.event.agent), 0};
  }
  if (in.opcode == isa::Opcode::kPseudoDmaTrigger) {
    uint32_t& queue = in.operands.pseudo_dma_trigger.queue;
    queue = symbol(program_.queues[queue].name);
  }
  if (contract::dge::generates(in.opcode)) {
    const uint32_t set = contract::dge::transfer_of(in).queue;
    contract::dge::set_queue(&in, symbol(program_.queues[set].name));
    contract::dge::set_semaphore(&in, Signals::transfer_semaphore(entry.event));
  }
  append(in);
}

void EngineFile::begin(const Segment& segment) {
  const Turning& turning = segment.turning;
  call_ = segment.call;
  switch (turning.kind) {
    case Turning::kNone:
      break;
    case Turning::kFor:
    case Turning::kWhile:
      begin_loop(turning);
      break;
    case Turning::kBranch:
      opened_.emplace_back();
      look_at(*turning.cell, kFirstTemporary);
      go_past(branch(turning.cell->unless, kFirstTemporary, {turning.cell->value, false}));
      break;
    case Turning::kElse: {
      const Jump end{here(), branch()};
      append(end.branch);
      land();
      opened_.back().past.push_back(end);
      break;
    }
    case Turning::kEndLoop:
      end_loop(turning);
      break;
    case Turning::kEndBranch:
      land();
      opened_.pop_back();
      break;
  }
  for (size_t i = 0; i < segment.scales.size(); ++i) {
    add_scale(segment.scales[i], static_cast<uint8_t>(kFirstScaledRegister + i));
  }
}

// All engines have drained, and Sync has waited for the transfers: it clears the semaphores, and
// they go on. Those of the barrier come back to 0 by themselves.
void EngineFile::end() {
  if (engine_ != contract::kSp) append(control(isa::Opcode::kDrain));
  add_barrier();
  if (engine_ == contract::kSp) {
    clear(0, Order::kFirstQueueSet - 1);
    const size_t sets = program_.queues.size();
    if (sets != 0)
      clear(kFirstTransferSemaphore, kFirstTransferSemaphore + Order::kWindow * sets - 1);
  }
  add_barrier();
}

// A number of turns is looked at once, a condition before each turn.
void EngineFile::begin_loop(const Turning& turning) {
  const uint8_t turn = turn_register(turning.level);
  const uint8_t trips = trips_register(turning.level);
  const auto most = static_cast<uint32_t>(turning.most);
  const bool counted = turning.kind == Turning::kFor && turning.cell;
  opened_.emplace_back();
  if (counted) {
    look_at(*turning.cell, trips);
    append(alu(isa::AluOp::kMin, trips, trips, most));
  } else {
    append(set(trips, most));
  }
  append(set(turn, 0));
  if (counted) go_past(branch(isa::BranchCond::kEq, trips, {0, false}));
  opened_.back().top = here();
  if (turning.kind == Turning::kWhile) {
    look_at(*turning.cell, kFirstTemporary);
    go_past(branch(turning.cell->unless, kFirstTemporary, {turning.cell->value, false}));
  }
}

void EngineFile::end_loop(const Turning& turning) {
  const uint8_t turn = turn_register(turning.level);
  append(alu(isa::AluOp::kAdd, turn, turn, 1));
  append(branch(isa::BranchCond::kLtu, turn, {trips_register(turning.level), true},
                opened_.back().top - here()));
  land();
  opened_.pop_back();
}

// Brings the cell into a register. Where it may change, nobody goes on before all have it.
void EngineFile::look_at(const Turning::Cell& cell, uint8_t to) {
  if (cell.tensor) {
    isa::Instruction load = control(isa::Opcode::kTensorLoad);
    load.operands.tensor_load = {to, *cell.tensor, isa::DgeBounds::kError};
    append(load);
  } else {
    isa::Instruction load = control(isa::Opcode::kRegisterLoad);
    load.operands.register_load = {to, cell.tile, 1};
    append(load);
  }
  if (cell.changes) add_barrier();
}

// A branch to behind the end of what has begun last.
void EngineFile::go_past(const isa::Instruction& branch) {
  opened_.back().past.push_back({here(), branch});
  append(branch);
}

// Here is what those branches lead to.
void EngineFile::land() {
  for (Jump& jump : opened_.back().past) {
    const int32_t target = here() - jump.at;
    if (jump.branch.opcode == isa::Opcode::kBranch) {
      jump.branch.operands.branch.target = target;
    } else {
      jump.branch.operands.compare_branch.target = target;
    }
    isa::encode(jump.branch, records_.data() + static_cast<size_t>(jump.at) * isa::kRecordBytes,
                isa::kRecordBytes);
  }
  opened_.back().past.clear();
}

void EngineFile::add_scale(const Moves& moves, uint8_t to) {
  constexpr auto kProduct = static_cast<uint8_t>(kFirstTemporary + kTemporaries - 1);
  bool first = true;
  for (const auto& [level, bytes] : moves) {
    append(alu(isa::AluOp::kMul, first ? to : kProduct, turn_register(level),
               static_cast<uint32_t>(bytes)));
    if (!first) {
      isa::Instruction sum = control(isa::Opcode::kRegisterAlu);
      sum.operands.register_alu = {isa::AluOp::kAdd, to, to, {kProduct, true}};
      append(sum);
    }
    first = false;
  }
}

std::vector<uint8_t> EngineFile::finish() {
  isa::Instruction halt{};
  halt.opcode = isa::Opcode::kHalt;
  append(halt);
  isa::EngineFileHeader h;
  h.engine = static_cast<uint8_t>(engine_);
  h.arch = static_cast<uint8_t>(program_.params.generation);
  h.flags = isa::kFileSelfCleaning;
  return neff::engine_file(h, records_, {}, symbols_);
}

isa::Instruction EngineFile::control(isa::Opcode opcode) const {
  isa::Instruction in{};
  in.opcode = opcode;
  in.debug_id = neff::debug_id(0, 0, call_);
  return in;
}

isa::Instruction EngineFile::set(uint8_t r, uint32_t value) const {
  isa::Instruction in = control(isa::Opcode::kRegisterMove);
  in.operands.register_move = {r, {value, false}};
  return in;
}

isa::Instruction EngineFile::alu(isa::AluOp op, uint8_t dst, uint8_t a, uint32_t b) const {
  isa::Instruction in = control(isa::Opcode::kRegisterAlu);
  in.operands.register_alu = {op, dst, a, {b, false}};
  return in;
}

isa::Instruction EngineFile::branch() const {
  return control(isa::Opcode::kBranch);
}

isa::Instruction EngineFile::branch(isa::BranchCond cond, uint8_t a, isa::Value b,
                                    int32_t target) const {
  isa::Instruction in = control(isa::Opcode::kCompareBranch);
  in.operands.compare_branch = {cond, a, b, target};
  return in;
}

void EngineFile::add_barrier() {
  isa::Instruction barrier = control(isa::Opcode::kAllEngineBarrier);
  barrier.operands.all_engine_barrier.semaphore = kBarrierSemaphore;
  append(barrier);
}

void EngineFile::clear(size_t first, size_t last) {
  isa::Instruction in = control(isa::Opcode::kEventSemaphoreRangeClear);
  in.operands.event_semaphore_range_clear = {
      isa::ClearKind::kSemaphore, static_cast<uint8_t>(first), static_cast<uint8_t>(last)};
  append(in);
}

void EngineFile::append(const isa::Instruction& in) {
  isa::Record room[1 + isa::kMaxExtensions];
  const uint32_t n = isa::encode(in, room[0].bytes, sizeof room);
  for (uint32_t i = 0; i < n; ++i) {
    records_.insert(records_.end(), room[i].bytes, room[i].bytes + isa::kRecordBytes);
  }
}

uint32_t EngineFile::symbol(const std::string& name) {
  const auto found = std::find(symbols_.begin(), symbols_.end(), name);
  if (found == symbols_.end())
    return symbols_.push_back(name), static_cast<uint32_t>(symbols_.size() - 1);
  return static_cast<uint32_t>(found - symbols_.begin());
}

}  // namespace kernel
