#include "hw/core/engine_checks.h"

#include <algorithm>
#include <utility>

#include "arch/contract/dge.h"
#include "arch/contract/isa.h"
#include "arch/contract/isa_rules.h"

namespace hw {

namespace isa = contract::isa;
using check::Area;
using check::Kind;

namespace {

struct Stride {
  uint64_t step;  // bytes
  uint64_t count;
};

// Calls each(first byte, past the last) for the runs of bytes that an operand touches in a
// partition. Dimensions that touch one another in memory are one run, in whichever order they run.
template <typename Each>
void each_run(const isa::TensorOperand& operand, const TensorBox& box, Each&& each) {
  constexpr size_t kDims = 4;
  Stride dims[kDims];
  size_t n = 0;
  const auto bytes = static_cast<int64_t>(isa::data_type_bytes(operand.dtype));
  for (const isa::PatternDim& d : operand.dims) {
    if (d.count <= 1 || d.step == 0) continue;
    const int64_t step = d.step * bytes;
    const auto size = static_cast<uint64_t>(step < 0 ? -step : step);
    size_t at = n++;
    for (; at != 0 && dims[at - 1].step > size; --at) dims[at] = dims[at - 1];
    dims[at] = {size, d.count};
  }
  auto run = static_cast<uint64_t>(bytes);
  size_t outer = 0;
  for (; outer < n && dims[outer].step <= run; ++outer) {
    run += dims[outer].step * (dims[outer].count - 1);
  }
  uint64_t total = 1;
  for (size_t d = outer; d < n; ++d) total *= dims[d].count;
  for (uint64_t i = 0; i < total; ++i) {
    uint64_t at = box.begin;
    uint64_t rest = i;
    for (size_t d = outer; d < n; ++d) {
      at += rest % dims[d].count * dims[d].step;
      rest /= dims[d].count;
    }
    each(at, at + run);
  }
}

// Whether what is in the destination is part of the result.
bool adds_up(const isa::Instruction& instruction) {
  const isa::Operands& o = instruction.operands;
  if (instruction.opcode == isa::Opcode::kMatmulMx) {
    return o.matmul_mx.accumulate == isa::Accumulate::kAdd;
  }
  return instruction.opcode == isa::Opcode::kMatmul && o.matmul.transpose == 0 &&
         o.matmul.accumulate == isa::Accumulate::kAdd;
}

// The scales of an MX operand.
bool is_scale(const isa::Instruction& instruction, const isa::TensorOperand& operand) {
  const isa::Operands& o = instruction.operands;
  switch (instruction.opcode) {
    case isa::Opcode::kLdweightsMx:
      return &operand == &o.ldweights_mx.scale;
    case isa::Opcode::kMatmulMx:
      return &operand == &o.matmul_mx.scale;
    case isa::Opcode::kQuantizeMx:
      return &operand == &o.quantize_mx.scale;
    default:
      return false;
  }
}

// Scales lie in the first partitions of each quadrant (spec/engine-isa.md 5.6): calls each(box).
template <typename Each>
void each_quadrant(TensorBox box, Each&& each) {
  const uint32_t end = box.first_partition + box.partitions;
  for (; box.first_partition < end; box.first_partition += isa::kQuadrant) {
    box.partitions = std::min<uint32_t>(isa::kMxGroups, end - box.first_partition);
    each(box);
  }
}

}  // namespace

CoreChecks::CoreChecks(check::Checker& with, Fabric& of, uint32_t nc, const std::string& core)
    : checker(with),
      fabric(of),
      name(core),
      sbuf(*with.find(&of.sbuf(nc))),
      psum(*with.find(&of.psum(nc))),
      semaphores(with, core + ".semaphores", true) {}

void CoreChecks::loaded() {
  if (running_ != 0) return;
  sbuf.shadow.clear();
  psum.shadow.clear();
  cleans_up_ = false;
}

check::Snapshot CoreChecks::started(contract::Engine engine) {
  const uint32_t bit = 1u << engine;
  if (running_ == 0) {
    started_ = 0;
    before_ = checker.released();
    checker.core_started();
    semaphores.program_started();
    failed_ = false;
    products_before_ = checker.epoch(products);
  }
  const bool first = (started_ & bit) == 0;
  running_ |= bit;
  started_ |= bit;
  return first && checker.host_acts() ? before_ : checker.released();
}

void CoreChecks::stopped(contract::Engine engine, End end) {
  const uint32_t bit = 1u << engine;
  if ((running_ & bit) == 0) return;
  running_ &= ~bit;
  failed_ = failed_ || end == End::kFailed;
  if (running_ != 0) return;
  checker.core_stopped();
  if (failed_) return;
  if (cleans_up_) semaphores.program_ended();
  psum.shadow.each_unread(products, products_before_, [&](const Area& area, const auto& by) {
    checker.add(Kind::kGroup, psum.memory->name(), by.site, check::Checker::kNone, area, true);
  });
}

EngineChecks::EngineChecks(CoreChecks& core, contract::Engine engine, std::string name)
    : core_(core),
      engine_(engine),
      name_(std::move(name)),
      front_agent_(core.checker.add_agent()),
      results_agent_(core.checker.add_agent()),
      generator_(core.checker.add_agent()) {
  if (engine == contract::kPe) core.products = results_agent_;
}

void EngineChecks::loaded() {
  sites_.clear();
  core_.loaded();
}

// Nothing of an earlier execution is still under way when the host starts the next.
void EngineChecks::started() {
  checker().join(clock_, *core_.started(engine_));
  known_.reset();
  ahead_ = false;
  drained();
}

void EngineChecks::issued(uint64_t program, uint32_t pc, const isa::Instruction& instruction) {
  number_ = checker().advance(front_agent_);
  (void)checker().advance(results_agent_);
  (void)checker().advance(generator_);
  ahead_ = ahead_ && contract::dge::generates(instruction.opcode);
  const auto opcode = static_cast<uint8_t>(instruction.opcode);
  if (sites_.size() <= pc) sites_.resize(pc + 1);
  Known& at = sites_[pc];
  if (at.site == 0 || at.opcode != opcode || at.debug_id != instruction.debug_id) {
    check::Site site;
    site.who = name_;
    site.operation = isa::find_op(opcode)->name;
    site.pc = pc;
    site.debug_id = instruction.debug_id;
    site.program = program;
    site.engine = engine_;
    site.core = core_.name;
    at = {checker().site(site), opcode, instruction.debug_id};
  }
  site_ = at.site;
}

void EngineChecks::waited(isa::WaitCond cond, uint32_t id, uint32_t value) {
  core_.semaphores.acquire(cond, id, value, clock_);
  known_.reset();
}

uint32_t EngineChecks::touch(check::Checker::Tracked& memory, const Area& area,
                             const check::Access& by, bool write, bool adds) {
  const check::View knows = by.agent == 0 ? check::View() : view();  // nobody's: no race
  return write ? checker().write(memory, area, by, knows, results_agent_, adds)
               : checker().read(memory, area, by, knows, results_agent_);
}

uint32_t EngineChecks::touch(const isa::TensorOperand& operand, const TensorBox& box,
                             const check::Access& by, bool write, bool adds) {
  auto& memory = box.memory == isa::Memory::kSbuf ? core_.sbuf : core_.psum;
  uint32_t met = 0;
  each_run(operand, box, [&](uint64_t begin, uint64_t end) {
    const Area area{box.first_partition, box.first_partition + box.partitions, begin, end};
    met = std::max(met, touch(memory, area, by, write, adds));
  });
  return met;
}

// Groups of lanes have indices of their own. Where they were not computed, what is written is
// nobody's, and what is read does not matter.
uint32_t EngineChecks::touch_indexed(const isa::TensorOperand& operand, const TensorBox& box,
                                     const Indices& indices, uint32_t first_lane,
                                     const check::Access& who, bool write, bool adds) {
  if (!indices.known && !write) return 0;
  const check::Access by = indices.known ? who : check::Access();
  auto& memory = box.memory == isa::Memory::kSbuf ? core_.sbuf : core_.psum;
  const auto bytes = static_cast<int64_t>(isa::data_type_bytes(operand.dtype));
  const auto start = static_cast<int64_t>(box.start);
  uint32_t met = 0;
  std::vector<uint64_t> places;
  for (uint32_t lane = 0; lane < box.partitions; lane += indices.lanes) {
    const uint32_t* index = indices.of(first_lane + lane);
    places.clear();
    for (uint32_t i = 0; i < operand.dims[0].count; ++i) {
      const int64_t at = start + int64_t{operand.dims[0].step} * index[i] * bytes;
      places.push_back(static_cast<uint64_t>(at));
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    const uint32_t first = box.first_partition + lane;
    const uint32_t end = first + std::min(indices.lanes, box.partitions - lane);
    for (size_t i = 0; i < places.size();) {
      const uint64_t begin = places[i];
      uint64_t until = begin;
      for (; i < places.size() && places[i] <= until; ++i) {
        until = places[i] + static_cast<uint64_t>(bytes);
      }
      met = std::max(met, touch(memory, Area{first, end, begin, until}, by, write, adds));
    }
  }
  return met;
}

void EngineChecks::tensors(const isa::Instruction& instruction, const TensorExtent& extent,
                           const Datapath& datapath) {
  const isa::TensorUses uses = isa::tensors_of(instruction);
  const bool adds = adds_up(instruction);
  uint32_t met = 0;
  for (const bool write : {false, true}) {
    const check::Access by{write ? results_agent_ : front_agent_, number_, site_};
    for (uint32_t i = 0; i < extent.count; ++i) {
      // Of what it updates, a predicated copy leaves what it does not write as it is.
      if (extent.writes(i) != write) continue;
      const isa::TensorOperand& operand = *uses.uses[i].tensor;
      const bool sums = adds && i == 0;
      const Indices* indices = datapath.indices_of(instruction, i);
      const auto each = [&](const TensorBox& box) {
        const uint32_t lane = box.first_partition - extent.box[i].first_partition;
        met = std::max(met, indices == nullptr
                                ? touch(operand, box, by, write, sums)
                                : touch_indexed(operand, box, *indices, lane, by, write, sums));
      };
      if (is_scale(instruction, operand)) {
        each_quadrant(extent.box[i], each);
      } else {
        each(extent.box[i]);
      }
    }
  }
  // It has waited for these results; the Tensor engine does not.
  if (engine_ != contract::kPe) results_ = std::max(results_, met);
}

void EngineChecks::goes_ahead() {
  ahead_ = true;
  front_ = number_ - 1;
}

void EngineChecks::index(const isa::Instruction& instruction, const TensorExtent& extent) {
  const isa::TensorUses uses = isa::tensors_of(instruction);
  const uint32_t met =
      touch(*uses.uses[0].tensor, extent.box[0], {generator_, number_, site_}, false, false);
  results_ = std::max(results_, met);
}

void EngineChecks::cell(const isa::Instruction& instruction, const TensorExtent& extent) {
  const TensorBox& box = extent.box[0];
  auto& memory = box.memory == isa::Memory::kSbuf ? core_.sbuf : core_.psum;
  const Area area{box.first_partition, box.first_partition + 1, box.begin, box.end};
  const check::Access by{front_agent_, number_, site_};
  const bool write = instruction.opcode == isa::Opcode::kRegisterStore;
  results_ = std::max(results_, touch(memory, area, by, write, false));
}

void EngineChecks::plain(uint64_t address, uint32_t size, bool write) {
  uint64_t offset = 0;
  Memory* memory = core_.fabric.plain(address, &offset);
  auto* tracked = memory != nullptr ? checker().find(memory) : nullptr;
  if (tracked == nullptr) return;
  const check::Access by{front_agent_, number_, site_};
  write ? checker().write(*tracked, offset, size, by, view())
        : checker().read(*tracked, offset, size, by, view());
}

void EngineChecks::out_of_bounds(const isa::Instruction& instruction, uint32_t tensor) {
  const isa::TensorUses uses = isa::tensors_of(instruction);
  if (tensor >= uses.count) return;
  const isa::TensorOperand& operand = *uses.uses[tensor].tensor;
  if (operand.offset_register == isa::kNoRegister) return;
  const bool sbuf = operand.memory == isa::Memory::kSbuf;
  const uint32_t writer = register_sites_[operand.offset_register];
  const uint32_t first = operand.start_partition;
  const Area area{first, first + uses.uses[tensor].partitions, operand.byte_offset,
                  operand.byte_offset};
  checker().add(Kind::kOutOfBounds, (sbuf ? core_.sbuf : core_.psum).memory->name(),
                writer != 0 ? writer : site_, writer != 0 ? site_ : check::Checker::kNone, area,
                true);
}

check::Snapshot EngineChecks::known() {
  if (known_ == nullptr) known_ = checker().share(clock_);
  return known_;
}

check::Release EngineChecks::release(uint32_t front, uint32_t results) {
  return {
      known(), site_, {{{front_agent_, front}, {results_agent_, results}, {generator_, number_}}}};
}

check::Release EngineChecks::at_read() {
  return release(number_, results_);
}
check::Release EngineChecks::at_complete() {
  return release(number_, number_);
}
check::Release EngineChecks::at_front() {
  return release(front_here(), results_);
}
check::Release EngineChecks::at_doorbell(bool known) {
  check::Release front = at_front();
  front.unplaced = !known;
  return front;
}

}  // namespace hw
