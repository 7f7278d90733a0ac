#include "hw/cc/cc_core.h"

#include <cstring>

#include "contract/regs/cc.h"

namespace hw {

namespace reg = contract::cc;
namespace topsp = contract::topsp;
using firmware::cc::Cost;
using firmware::cc::Next;
using firmware::cc::Step;

namespace {

constexpr uint32_t kRegistersEnd = reg::kOp;  // control and barrier cells
constexpr uint64_t kTableEnd = reg::kOp + reg::kOpCount * reg::kOpStride;
constexpr uint64_t kProgramEnd = topsp::kProgram + topsp::kProgramBytes;

bool is_memory(uint64_t offset, size_t size) {
  return (offset >= reg::kOp && offset + size <= kTableEnd) ||
         (offset >= topsp::kProgram && offset + size <= kProgramEnd);
}

SemaphoreWait wait_of(const Step& step) {
  const bool equal = step.cond == firmware::cc::program::Cond::kEq;
  return {equal ? contract::isa::WaitCond::kEq : contract::isa::WaitCond::kGe,
          static_cast<uint8_t>(step.semaphore), step.value};
}

}  // namespace

const CcCore::Region CcCore::kRegions[5] = {
    {0, reg::kOp, Space::kRegister},
    {reg::kOp, kTableEnd - reg::kOp, Space::kBlock},
    {kTableEnd, topsp::kProgram - kTableEnd, Space::kRegister},
    {topsp::kProgram, topsp::kProgramBytes, Space::kBlock},
    {kProgramEnd, topsp::kWindow - kProgramEnd, Space::kRegister}};

const RegTable<CcCore>& CcCore::table() {
  static const RegTable<CcCore> t(
      "cc", reg::kRegs, kRegistersEnd,
      {{reg::kTrigger, nullptr, &CcCore::write_trigger},
       {reg::kControl, nullptr, &CcCore::write_control},
       {reg::kStatus, &CcCore::read_status, nullptr},
       {reg::kPc, &CcCore::read_pc, nullptr},
       {reg::kErrorCode, &CcCore::read_error_code, nullptr},
       {reg::kErrorPc, &CcCore::read_error_pc, nullptr},
       {reg::kFifoLevel, &CcCore::read_fifo_level, nullptr},
       {reg::kCurrentOp, &CcCore::read_current_op, nullptr},
       {reg::kChip, &CcCore::read_chip, nullptr},
       {reg::kBarrier + reg::kBarrierArrived, &CcCore::read_arrived, nullptr},
       {reg::kBarrier + reg::kBarrierGeneration, &CcCore::read_generation, nullptr}});
  return t;
}

CcCore::CcCore(const Params& params, const Context& context)
    : RegBlock(context.log, context.fabric.address_map().gen),
      params_(params),
      context_(context),
      pages_(topsp::kWindow, kProgramEnd),
      semaphores_(pages_, &context.counters, &context.log, params.name + ".semaphores") {
  for (ThreadWait& wait : thread_waits_) wait.core = this;
  if (check::Checker* checker = context.checker) {
    checks_.reset(
        new Checks{*checker, {*checker, params.name + ".semaphores", false}, checker->add_agent()});
    semaphores_.set_checks(&checks_->semaphores);
  }
  publish();
}

// What follows is done by the operation at hand.
check::Checker::Acting CcCore::acting() const {
  if (checks_ == nullptr) return {};
  uint32_t& number = checks_->sites[{firmware_.current_op(), firmware_.pc()}];
  if (number == 0) {
    check::Site site;
    site.who = params_.name;
    site.operation = "operation " + std::to_string(firmware_.current_op());
    site.pc = firmware_.pc();
    number = checks_->checker.site(site);
  }
  check::Snapshot& known = checks_->known;
  if (known == nullptr) known = checks_->checker.share(checks_->clock);
  const uint32_t epoch = checks_->checker.advance(checks_->agent);
  return {checks_->checker, {known, number, {{{checks_->agent, epoch}, {}, {}}}}};
}

void CcCore::Checks::learn(const check::Snapshot& what) {
  checker.join(clock, *what);
  known.reset();
}

// Polled again and again.
void CcCore::Checks::learn(uint32_t semaphore) {
  check::Snapshot latest = semaphores.latest(semaphore);
  if (latest == nullptr || latest == seen[semaphore]) return;
  learn(latest);
  seen[semaphore] = std::move(latest);
}

uint32_t CcCore::read_status(uint32_t, uint32_t, bool) {
  return static_cast<uint32_t>(firmware_.status());
}
uint32_t CcCore::read_pc(uint32_t, uint32_t, bool) {
  return firmware_.pc();
}
uint32_t CcCore::read_error_code(uint32_t, uint32_t, bool) {
  return static_cast<uint32_t>(firmware_.error_code());
}
uint32_t CcCore::read_error_pc(uint32_t, uint32_t, bool) {
  return firmware_.error_pc();
}
uint32_t CcCore::read_fifo_level(uint32_t, uint32_t, bool) {
  return firmware_.fifo_level();
}
uint32_t CcCore::read_current_op(uint32_t, uint32_t, bool) {
  return firmware_.current_op();
}
uint32_t CcCore::read_chip(uint32_t, uint32_t, bool) {
  return params_.chip;
}
uint32_t CcCore::read_arrived(uint32_t cell, uint32_t, bool) {
  return context_.barriers.arrived({params_.chip, params_.topsp, cell});
}
uint32_t CcCore::read_generation(uint32_t cell, uint32_t, bool) {
  return context_.barriers.generation({params_.chip, params_.topsp, cell});
}

bool CcCore::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  if (offset + size <= SemaphoreBlock::kBytes) {
    return semaphores_.access(offset, data, size, write, debug);
  }
  if (is_memory(offset, size)) {
    if (write) {
      std::memcpy(pages_.data() + offset, data, size);
    } else {
      std::memcpy(data, pages_.data() + offset, size);
    }
    return true;
  }
  return RegBlock::access(offset, data, size, write, debug);
}

void CcCore::write_trigger(uint32_t, uint32_t value) {
  if (checks_ != nullptr) checks_->learn(checks_->checker.released());
  if (firmware_.trigger(value, *this)) schedule(0);
  publish();
}

void CcCore::write_control(uint32_t, uint32_t value) {
  if (reg::kControlReset.get(value) != 0) {
    stop_processor();
    firmware_.reset();
  }
  if (reg::kControlHalt.get(value) != 0) {
    firmware_.halt();
    stop_waiting();
  }
  if (reg::kControlRun.get(value) != 0) {
    firmware_.run();
    if (!waiting_) schedule(0);
  }
  publish();
}

void CcCore::stop_processor() {
  ++life_;
  stop_waiting();
  if (at_barrier_) context_.barriers.leave(*this);
  at_barrier_ = false;
  context_.queue.cancel(scheduled_);
  scheduled_ = 0;
}

void CcCore::reset() {
  stop_processor();
  context_.barriers.clear(params_.chip, params_.topsp);
  firmware_.reset();
  semaphores_.reset();
  publish();
}

// At least 1 ps ahead (hw/time/event_queue.h). One step is scheduled at a time.
void CcCore::schedule(base::Ps delay) {
  if (scheduled_ != 0) return;
  const base::Ps time = context_.queue.now() + (delay == 0 ? 1 : delay);
  scheduled_ = context_.queue.schedule({time, params_.component, Phase::kStart}, *this, kTagStep);
}

void CcCore::on_event(const EventKey& /*key*/, uint32_t tag, uint64_t argument) {
  if (tag == kTagArrival) return arrive_at_peer(argument);
  scheduled_ = 0;
  step();
  publish();
}

base::Ps CcCore::time_of(Cost cost) const {
  switch (cost) {
    case Cost::kTrigger:
      return context_.timing.cc_trigger;
    case Cost::kInstruction:
      return context_.timing.cc_instr;
    case Cost::kBranch:
      return context_.timing.cc_branch;
    case Cost::kSemaphoreWait:
      return context_.timing.cc_sem_wait;
    case Cost::kRange:  // one set-up, then stores that leave back to back
      return context_.timing.cc_instr + context_.timing.cc_branch;
    case Cost::kBlock:
      return context_.timing.cc_block;
  }
  return 0;
}

void CcCore::step() {
  const firmware::cc::LocalMemory memory{
      pages_.data() + topsp::kProgram, reinterpret_cast<const uint32_t*>(pages_.data() + reg::kOp)};
  trace_last_step();
  const uint32_t life = life_;
  const auto acts = acting();
  last_step_ = firmware_.step(memory, *this, *this);
  since_ = context_.queue.now();
  if (life != life_) {  // a store of the program has reset this CC-core
    firmware_.reset();
    last_step_ = {};
    return;
  }
  switch (last_step_.next) {
    case Next::kSpend:
      return schedule(time_of(last_step_.cost));
    case Next::kSemaphore:
      waiting_ = true;
      for (uint32_t i = 0; i < thread_waits_.size(); ++i) {
        if (const Step* wait = firmware_.waits(i)) {
          semaphores_.wait(wait_of(*wait), thread_waits_[i]);
        }
      }
      return;
    case Next::kBarrier:
      return arrive(last_step_);
    case Next::kIdle:
    case Next::kStopped:
      return;
  }
}

// What the processor did since the last step.
void CcCore::trace_last_step() {
  const bool idle = last_step_.next == Next::kIdle || last_step_.next == Next::kStopped;
  const base::Ps now = context_.queue.now();
  if (context_.tracer == nullptr || idle || since_ == now) return;
  if (track_ == ~0u) track_ = context_.tracer->track(params_.name);
  const bool trigger = last_step_.next == Next::kSpend && last_step_.cost == Cost::kTrigger;
  context_.tracer->span(track_, since_, now,
                        trigger ? "trigger" : contract::cc_program::name(last_step_.op), 0);
}

// One thread can go on; the firmware finds out which.
void CcCore::wait_satisfied() {
  stop_waiting();
  schedule(0);
}

void CcCore::stop_waiting() {
  if (!waiting_) return;
  for (ThreadWait& wait : thread_waits_) semaphores_.cancel(wait);
  waiting_ = false;
}

void CcCore::arrive(const Step& step) {
  if (at_barrier_) return;  // halted and continued while waiting
  const auto cell =
      resolve_barrier(context_.fabric.address_map(), params_.chip, params_.chips, step.cell);
  if (!cell) {
    return firmware_.fail(contract::CcError::kBusError, static_cast<uint32_t>(step.cell), *this);
  }
  cell_ = *cell;
  at_barrier_ = true;  // it may open at once
  if (context_.barriers.arrive(*cell, step.members, *this)) return;
  at_barrier_ = false;
  firmware_.fail(contract::CcError::kBadInstruction, step.members, *this);
}

void CcCore::barrier_open() {
  at_barrier_ = false;
  if (checks_ != nullptr) checks_->learn(checks_->checker.everything());
  firmware_.barrier_released();
  schedule(context_.timing.cc_barrier);
}

void CcCore::barrier_mismatch() {
  at_barrier_ = false;
  firmware_.fail(contract::CcError::kBadInstruction, last_step_.members, *this);
  publish();
}

bool CcCore::read32(uint64_t address, uint32_t* value) {
  if (address % 4 != 0) return false;
  uint64_t offset = 0;
  Memory* memory = context_.fabric.plain(address, &offset);
  if (memory != nullptr && memory->elided().overlaps(offset, sizeof *value)) {
    ++context_.counters.elided_reads;
  }
  return context_.fabric.read32(address, *value);
}
bool CcCore::write32(uint64_t address, uint32_t value) {
  if (address % 4 != 0) return false;
  if (const base::Ps latency = context_.fabric.one_way_latency(address)) {
    return post(address, value, latency);
  }
  uint8_t bytes[4];
  base::store(bytes, value);
  return context_.fabric.store(address, {bytes, sizeof bytes});
}

// A store to another chip is posted: the processor goes on, the value is there when it arrives.
bool CcCore::post(uint64_t address, uint32_t value, base::Ps latency) {
  const Space space = context_.fabric.reach(address, sizeof value);
  if (space == Space::kNone || space == Space::kNoLink) return false;
  const uint32_t index = posted_.add();
  posted_[index] = {address, value};
  const base::Ps at = context_.queue.now() + latency;
  context_.queue.schedule({at, params_.component, Phase::kEffect}, *this, kTagArrival, index);
  return true;
}

// What is under way arrives, also when the link has gone down meanwhile.
void CcCore::arrive_at_peer(uint64_t index) {
  const Posted posted = posted_.take(index);
  const auto acts = acting();
  context_.fabric.write32(posted.address, posted.value);
}
bool CcCore::read(uint64_t address, void* to, size_t bytes) {
  return context_.fabric.read(address, {static_cast<uint8_t*>(to), bytes});
}
bool CcCore::write(uint64_t address, const void* from, size_t bytes) {
  return context_.fabric.store(address, {static_cast<const uint8_t*>(from), bytes});
}

void CcCore::notify(contract::NqType type, uint32_t payload, uint32_t pc, uint32_t info) {
  contract::NqEntry entry;
  entry.header = contract::NqEntry::make_header(type, params_.topsp, false);
  entry.payload = payload;
  entry.timestamp = context_.queue.now();
  entry.pc = pc;
  entry.info = info;
  context_.notifications.post(0, entry);
}

std::string CcCore::stuck() const {
  const std::string where = ", in operation " + std::to_string(firmware_.current_op()) +
                            " at record " + std::to_string(firmware_.pc());
  switch (firmware_.status()) {
    case contract::CcStatus::kError:
      return "stopped with error " + std::to_string(static_cast<uint32_t>(firmware_.error_code())) +
             where;
    case contract::CcStatus::kHalted:
      return "is halted" + where + ", " + std::to_string(firmware_.fifo_level()) +
             " triggers in its queue";
    case contract::CcStatus::kReset:
      if (firmware_.fifo_level() == 0) return {};
      return "does not run, " + std::to_string(firmware_.fifo_level()) + " triggers in its queue";
    case contract::CcStatus::kWaiting:
      break;
    default:
      return {};
  }
  if (at_barrier_) {
    return "waits for " + to_string(cell_) + ", where " +
           std::to_string(context_.barriers.arrived(cell_)) + " of " +
           std::to_string(last_step_.members) + " have arrived" + where;
  }
  std::string what;
  for (uint32_t i = 0; i < thread_waits_.size(); ++i) {
    const Step* wait = firmware_.waits(i);
    if (wait == nullptr) continue;
    what += (what.empty() ? "" : " or ") + to_string(wait_of(*wait), semaphores_);
  }
  return "waits for " + what + where;
}

// Current values where a client that has mapped the window reads them.
void CcCore::publish() {
  uint8_t* page = pages_.data();
  base::store<uint32_t>(page + reg::kStatus, static_cast<uint32_t>(firmware_.status()));
  base::store<uint32_t>(page + reg::kPc, firmware_.pc());
  base::store<uint32_t>(page + reg::kErrorCode, static_cast<uint32_t>(firmware_.error_code()));
  base::store<uint32_t>(page + reg::kErrorPc, firmware_.error_pc());
  base::store<uint32_t>(page + reg::kFifoLevel, firmware_.fifo_level());
  base::store<uint32_t>(page + reg::kCurrentOp, firmware_.current_op());
  base::store<uint32_t>(page + reg::kChip, params_.chip);
  base::store<uint32_t>(page + reg::kContractVersion, RegBlock::value(reg::kContractVersion));
}

CcCore& CcCoreGroup::core(uint32_t t) {
  if (cores_[t] == nullptr) cores_[t] = factory_(t);
  return *cores_[t];
}

bool CcCoreGroup::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  const uint64_t t = offset / topsp::kWindow;
  const uint64_t in = offset % topsp::kWindow;
  if (t >= cores_.size() || in + size > topsp::kWindow) return false;
  return core(static_cast<uint32_t>(t)).access(in, data, size, write, debug);
}

}  // namespace hw
