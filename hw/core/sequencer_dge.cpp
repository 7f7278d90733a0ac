// What uses tables of tensors in device memory: instructions whose descriptors an engine generates
// (spec/engine-isa.md 8.2), registers loaded from tensors, calls with arguments.
#include <utility>

#include "arch/contract/dge.h"
#include "contract/regs/engine.h"
#include "hw/core/sequencer.h"

namespace hw {

namespace reg = contract::engine;
namespace isa = contract::isa;
using contract::EngineError;
using isa::Opcode;

TransferGenerator::Params Sequencer::generator_params() const {
  TransferGenerator::Params params;
  params.table.address = uint64_t{value(reg::kDgeTableHi)} << 32 | value(reg::kDgeTableLo);
  params.table.entries = value(reg::kDgeEntries);
  params.arguments = arguments_;
  params.one = uint64_t{value(reg::kDgeOneHi)} << 32 | value(reg::kDgeOneLo);
  params.registers = registers_;
  return params;
}

// Makes the descriptors of current_; false if it fails.
bool Sequencer::generate() {
  const contract::dge::Transfer transfer = contract::dge::transfer_of(current_);
  if (!dge_.ready(transfer.queue, contract::dge::most_descriptors(transfer))) {
    fail(EngineError::kBadQueue, transfer.queue);
    return false;
  }
  TransferGenerator::Params params = generator_params();
  bool known = true;
  if (transfer.index != nullptr &&
      !datapath_.read_index(*transfer.index, cell_.box[0], &params.index, &known)) {
    fail(EngineError::kBusError, 0);
    return false;
  }
  if (checks_ != nullptr && transfer.index != nullptr) checks_->index(current_, cell_);
  const auto fault = generator_.generate(transfer, params, &generated_);
  generated_.placed = known;
  if (!fault) return true;
  fail(fault->error, fault->info);
  return false;
}

// GpSimd is at work for each descriptor; a hardware block takes an instruction when it is free, and
// its engine goes on.
void Sequencer::begin_generation() {
  const base::Ps now = context_.queue.now();
  const TimingParams& params = timing_.params();
  const bool software = contract::dge::transfer_of(current_).mode == isa::DgeMode::kSwdge;
  if (!software && dge_.busy_until() > now) {
    stall(Stall::kDma, now, dge_.busy_until());
    path_.advance(CriticalPath::kDma, dge_.busy_until());
    return schedule(dge_.busy_until(), kBegin);
  }
  if (dge_.full()) {
    const base::Ps again = now + params.dma_t0;
    stall(Stall::kDma, now, again);
    path_.advance(CriticalPath::kDma, again);
    return schedule(again, kBegin);
  }
  if (!generate()) return;
  ++context_.counters.generated_transfers;
  context_.counters.generated_descriptors += generated_.pairs;
  if (software) {
    const base::Ps start = timing_.cycles(params.dma_swdge_start_cycles);
    const base::Ps each = timing_.cycles(params.dma_swdge_cycles);
    const base::Ps time =
        timing_.cycles(params.dma_swdge_start_cycles + params.dma_swdge_cycles * generated_.pairs);
    submit(now + start, each);
    return begin_control(time);
  }
  dge_.occupy(now + params.seq_write + params.dma_hwdge);
  begin_control(params.seq_write);
}

// The doorbells are those of the instruction, also when the block rings them later.
void Sequencer::submit(base::Ps at, base::Ps each) {
  check::Release release;
  if (checks_ != nullptr) release = checks_->at_doorbell(generated_.placed);
  schedule(dge_.submit(std::move(generated_), at, each, std::move(release)), kGenerated);
}

void Sequencer::submit_generated() {
  const auto next = dge_.advance(context_.queue.now());
  if (!next) return;
  schedule(next->at, kGenerated,
           next->waits ? EventQueue::Kind::kBackground : EventQueue::Kind::kWork);
}

// Loads a register, or a pair, from an element in device memory, or stores it there.
void Sequencer::execute_cell() {
  const bool load = current_.opcode == Opcode::kTensorLoad;
  const isa::TensorLoad& to = current_.operands.tensor_load;
  const isa::TensorStore& from = current_.operands.tensor_store;
  const isa::SideOperand& cell = load ? to.src : from.dst;
  std::optional<uint64_t> address;
  const auto fault =
      generator_.locate(cell, load ? to.bounds : from.bounds, generator_params(), &address);
  if (fault) return fail(fault->error, fault->info);
  if (!address) return;
  const uint32_t size = isa::data_type_bytes(cell.dtype);
  if (!load) {
    if (checks_ != nullptr) checks_->stored(*address, size);
    const uint32_t high = size == 8 ? registers_[from.src + 1] : 0;
    return store(*address, registers_[from.src], high, size);
  }
  if (checks_ != nullptr) {
    checks_->read(*address, size);
    checks_->wrote_register(to.dst);
    if (size == 8) checks_->wrote_register(to.dst + 1);
  }
  uint8_t bytes[8] = {};
  if (!context_.fabric.read(*address, {bytes, size})) {
    return fail(EngineError::kBusError, static_cast<uint32_t>(*address));
  }
  uint64_t offset = 0;
  Memory* memory = context_.fabric.plain(*address, &offset);
  if (memory != nullptr && memory->elided().overlaps(offset, size)) {
    ++context_.counters.elided_reads;
  }
  const auto word = base::load<uint32_t>(bytes);
  if (cell.dtype == isa::DataType::kInt8) {
    registers_[to.dst] = static_cast<uint32_t>(static_cast<int8_t>(word));
  } else if (cell.dtype == isa::DataType::kInt16) {
    registers_[to.dst] = static_cast<uint32_t>(static_cast<int16_t>(word));
  } else {
    registers_[to.dst] = word;
  }
  if (size == sizeof bytes) registers_[to.dst + 1] = base::load<uint32_t>(bytes + 4);
}

// BRANCH_LINK and RETURN.
void Sequencer::execute_call() {
  if (current_.opcode == Opcode::kReturn) {
    if (calls_.empty()) return fail(EngineError::kBadPc, pc_);
    next_pc_ = calls_.back().next;
    arguments_ = calls_.back().arguments;
    calls_.pop_back();
    return;
  }
  const isa::BranchLink& link = current_.operands.branch_link;
  if (calls_.size() >= isa::kCallLevels) return fail(EngineError::kBadPc, pc_);
  calls_.push_back({next_pc_, arguments_});
  next_pc_ = pc_ + static_cast<uint32_t>(link.target);
  if (link.entries != 0) arguments_ = {link.table, link.entries};
}

// The next instruction is one for the hardware block of the Scalar engine, and has been fetched.
bool Sequencer::generates_next() const {
  if (engine_ != contract::kAct || next_pc_ < fetched_pc_) return false;
  const size_t at = size_t{next_pc_ - fetched_pc_} * isa::kRecordBytes;
  return at < fetched_.size() && contract::dge::generates(static_cast<isa::Opcode>(fetched_[at]));
}

}  // namespace hw
