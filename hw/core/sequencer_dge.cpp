// Instructions whose descriptors an engine generates (spec/engine-isa.md 8.2).
#include <utility>

#include "arch/contract/dge.h"
#include "contract/regs/engine.h"
#include "hw/core/sequencer.h"

namespace hw {

namespace reg = contract::engine;
namespace isa = contract::isa;
using contract::EngineError;

// Makes the descriptors of current_; false if it fails.
bool Sequencer::generate() {
  const contract::dge::Transfer transfer = contract::dge::transfer_of(current_);
  if (!dge_.ready(transfer.queue, contract::dge::most_descriptors(transfer))) {
    fail(EngineError::kBadQueue, transfer.queue);
    return false;
  }
  TransferGenerator::Params params;
  params.table = uint64_t{value(reg::kDgeTableHi)} << 32 | value(reg::kDgeTableLo);
  params.entries = value(reg::kDgeEntries);
  params.one = uint64_t{value(reg::kDgeOneHi)} << 32 | value(reg::kDgeOneLo);
  params.registers = registers_;
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
  if (const auto next = dge_.advance(context_.queue.now())) schedule(*next, kGenerated);
}

// The next instruction is one for the hardware block of the Scalar engine, and has been fetched.
bool Sequencer::generates_next() const {
  if (engine_ != contract::kAct || next_pc_ < fetched_pc_) return false;
  const size_t at = size_t{next_pc_ - fetched_pc_} * isa::kRecordBytes;
  return at < fetched_.size() && contract::dge::generates(static_cast<isa::Opcode>(fetched_[at]));
}

}  // namespace hw
