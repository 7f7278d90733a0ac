// What a sequencer does by itself: registers, branches, stores, and loops that it stands still in.
#include <algorithm>
#include <iterator>

#include "arch/contract/isa_rules.h"
#include "contract/regs/engine.h"
#include "hw/core/sequencer.h"

namespace hw {

namespace reg = contract::engine;
namespace isa = contract::isa;
using contract::EngineError;
using contract::EngineStatus;
using isa::Opcode;

namespace {

// On 32 or 64 bits.
template <typename T>
T alu(isa::AluOp op, T a, T b) {
  const T shift = b & (8 * sizeof(T) - 1);
  switch (op) {
    case isa::AluOp::kAdd:
      return a + b;
    case isa::AluOp::kSub:
      return a - b;
    case isa::AluOp::kMul:
      return a * b;
    case isa::AluOp::kShl:
      return a << shift;
    case isa::AluOp::kShr:
      return a >> shift;
    case isa::AluOp::kAnd:
      return a & b;
    case isa::AluOp::kOr:
      return a | b;
    case isa::AluOp::kXor:
      return a ^ b;
    case isa::AluOp::kMin:
      return std::min(a, b);
    case isa::AluOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

bool compare(isa::BranchCond cond, uint32_t a, uint32_t b) {
  const auto sa = static_cast<int32_t>(a);
  const auto sb = static_cast<int32_t>(b);
  switch (cond) {
    case isa::BranchCond::kLt:
      return sa < sb;
    case isa::BranchCond::kLe:
      return sa <= sb;
    case isa::BranchCond::kEq:
      return a == b;
    case isa::BranchCond::kNe:
      return a != b;
    case isa::BranchCond::kGe:
      return sa >= sb;
    case isa::BranchCond::kGt:
      return sa > sb;
    case isa::BranchCond::kLtu:
      return a < b;
    case isa::BranchCond::kLeu:
      return a <= b;
    case isa::BranchCond::kGeu:
      return a >= b;
    case isa::BranchCond::kGtu:
      return a > b;
  }
  return false;
}

// Leaves no trace but in the registers and the program counter.
bool is_silent(const isa::Instruction& i) {
  const bool control = i.opcode == Opcode::kNop || i.opcode == Opcode::kRegisterMove ||
                       i.opcode == Opcode::kRegisterAlu || i.opcode == Opcode::kRegisterAlu64 ||
                       i.opcode == Opcode::kBranch || i.opcode == Opcode::kCompareBranch;
  return control && i.wait.cond == isa::WaitCond::kNone &&
         i.read_update.op == isa::UpdateOp::kNone && i.complete_update.op == isa::UpdateOp::kNone &&
         !i.trace();
}

}  // namespace

// The host has changed what the loop depends on.
void Sequencer::stop_looping() {
  anchor_pc_ = kNowhere;
  if (!looping_) return;
  looping_ = false;
  schedule(context_.queue.now(), kIssue);
}

// After a branch. A loop that comes back to the same branch with the same registers, and has done
// nothing else on its way, never ends by itself: the engine stands still in it, running, instead of
// keeping the machine from its rest. Approximate: the program counter that the host reads stays at
// the loop's branch, and a change of the program in memory is not seen by a loop of more records
// than are fetched at once.
bool Sequencer::loops_for_ever() {
  if (!is_silent(current_) || reg::kTraceMaskAll.get(value(reg::kTraceMask)) != 0) {
    anchor_pc_ = kNowhere;
    return false;
  }
  if (next_pc_ > pc_) return false;
  if (anchor_pc_ == pc_ &&
      std::equal(std::begin(registers_), std::end(registers_), anchor_registers_)) {
    return true;
  }
  anchor_pc_ = pc_;
  std::copy(std::begin(registers_), std::end(registers_), anchor_registers_);
  return false;
}

void Sequencer::check_control() {
  const isa::Operands& o = current_.operands;
  switch (current_.opcode) {
    case Opcode::kDrain:
    case Opcode::kHalt:
      checks_->drained();
      break;
    case Opcode::kWrite:
      checks_->stored(o.write.dst0, o.write.size0);
      if (o.write.size1 != 0) checks_->stored(o.write.dst1, o.write.size1);
      break;
    case Opcode::kRegisterMove:
      checks_->wrote_register(o.register_move.dst);
      break;
    case Opcode::kRegisterAlu:
      checks_->wrote_register(o.register_alu.dst);
      break;
    case Opcode::kRegisterAlu64:
      checks_->wrote_register(o.register_alu64.dst);
      checks_->wrote_register(o.register_alu64.dst + 1);
      break;
    case Opcode::kRegisterLoad:
      checks_->wrote_register(o.register_load.dst);
      checks_->cell(current_, cell_);
      break;
    case Opcode::kRegisterStore:
      checks_->cell(current_, cell_);
      break;
    default:
      break;
  }
  const auto acts = acting(checks_->at_front());
  execute_control();
}

void Sequencer::store(uint64_t address, uint32_t low, uint32_t high, uint32_t size) {
  if (status_ == EngineStatus::kError) return;
  uint8_t bytes[8];
  base::store(bytes, low);
  base::store(bytes + 4, high);
  if (!context_.fabric.store(address, {bytes, size})) {
    fail(EngineError::kBusError, static_cast<uint32_t>(address));
  }
}

void Sequencer::execute_control() {
  const isa::Operands& o = current_.operands;
  switch (current_.opcode) {
    case Opcode::kWrite:
      store(o.write.dst0, o.write.data0, o.write.data1, o.write.size0);
      if (o.write.size1 != 0) store(o.write.dst1, o.write.data1, 0, o.write.size1);
      return;
    case Opcode::kEventSemaphoreRangeClear: {
      const auto& c = o.event_semaphore_range_clear;
      if (c.kind == isa::ClearKind::kSemaphore) {
        context_.semaphores.clear_semaphores(c.first, c.last);
      } else {
        context_.semaphores.clear_events(c.first, c.last);
      }
      return;
    }
    case Opcode::kNotify:
      notify(static_cast<contract::NqType>(o.notify.type), o.notify.payload, current_.debug_id, pc_,
             0);
      return begin_execution();
    case Opcode::kRegisterMove:
      registers_[o.register_move.dst] = value_of(o.register_move.src);
      return;
    case Opcode::kRegisterAlu:
      registers_[o.register_alu.dst] =
          alu(o.register_alu.op, registers_[o.register_alu.a], value_of(o.register_alu.b));
      return;
    case Opcode::kRegisterAlu64:
      return execute_alu64();
    case Opcode::kRegisterLoad:
      if (!datapath_.load(o.register_load, cell_, &registers_[o.register_load.dst])) {
        fail(EngineError::kBusError, 0);
      }
      return;
    case Opcode::kRegisterStore:
      if (!datapath_.store(o.register_store, cell_, registers_[o.register_store.src])) {
        fail(EngineError::kBusError, 0);
      }
      return;
    case Opcode::kBranch:
      next_pc_ = pc_ + static_cast<uint32_t>(o.branch.target);
      return;
    case Opcode::kCompareBranch:
      if (compare(o.compare_branch.cond, registers_[o.compare_branch.a],
                  value_of(o.compare_branch.b))) {
        next_pc_ = pc_ + static_cast<uint32_t>(o.compare_branch.target);
      }
      return;
    case Opcode::kBranchLink:
    case Opcode::kReturn:
      return execute_call();
    case Opcode::kTensorLoad:
    case Opcode::kTensorStore:
      return execute_cell();
    case Opcode::kDmaMemcpy:
    case Opcode::kDmaIndirect:
    case Opcode::kDmaTranspose:
    case Opcode::kDmaGatherTranspose:
      if (contract::dge::transfer_of(current_).mode == isa::DgeMode::kHwdge) {
        submit(context_.queue.now(), 0);
      }
      return;
    // NOP, DRAIN, HALT, EVENT_SEMAPHORE: their wait and updates are all. LOAD_ACT_FUNC_SET has
    // taken its time; nothing depends on hints and modes.
    default:
      return;
  }
}

void Sequencer::execute_alu64() {
  const isa::RegisterAlu64& o = current_.operands.register_alu64;
  const auto pair = [&](uint32_t r) { return uint64_t{registers_[r + 1]} << 32 | registers_[r]; };
  const uint64_t b = o.b.is_register ? pair(o.b.value) : o.b.value;
  const uint64_t result = alu(o.op, pair(o.a), b);
  registers_[o.dst] = static_cast<uint32_t>(result);
  registers_[o.dst + 1] = static_cast<uint32_t>(result >> 32);
}

}  // namespace hw
