// From a schedule to one rank's CC programs and DMA rings (spec/collectives.md 3.1, 3.5;
// docs/hardware-contract.md 5, 6). The first CC-core of the stream takes the trigger and triggers
// the others; each issues the steps of its channels in the order of the list, each step when its
// waits are over, and
// tells the first at the end, which completes the operation. Steps signal by DMA writes to the
// waiters' semaphores, behind the data in the same queue; steps without bytes by stores of the
// CC-core, with the value that all engines of a step together would add.
#include "runtime/collectives/lowering.h"

#include <algorithm>
#include <map>

#include "arch/contract/notification.h"
#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "runtime/collectives/step_order.h"

namespace ccl {
namespace {

using contract::AddressMap;
using contract::cc_program::kThreads;
using contract::cc_program::Op;

// Shorter programs stay as they are: a loop costs time per round.
constexpr size_t kRollAbove = 64;

class Lowering {
 public:
  // The steps are the own rank's and have been checked.
  Lowering(const Schedule& schedule, Steps steps, const std::vector<RankResources>& members,
           uint32_t own, const Completion& completion, const PlanOptions& options)
      : shape_(schedule.shape),
        steps_(std::move(steps)),
        members_(members),
        own_(members[own]),
        completion_(completion),
        options_(options),
        layout_(schedule.shape, own_.engines(), own_.cc_count),
        descriptors_(schedule.shape.request, own_.weights, own_.engines(), options.packet_bytes,
                     steps_.size()),
        blocks_(schedule.shape, own_, layout_, options.packet_bytes),
        order_(steps_, schedule.shape.channels, layout_,
               [this](const Range& range) { return identity(range); }),
        taken_(schedule.shape.events.size(), 0) {}

  base::Result<Lowered> run() {
    layout_.use(working_channels());
    blocks_.count(steps_);
    start();
    for (const Step& step : steps_) issue(step);
    finish();
    return result();
  }

 private:
  // `local` of `rank`, as this rank's engines and CC-cores address it.
  uint64_t reach(uint32_t rank, uint64_t local) const {
    if (members_[rank].chip == own_.chip) return local;
    return own_.map().peer_address(members_[rank].chip, local);
  }

  static uint64_t increment(const RankResources& r, uint32_t cc, uint32_t semaphore) {
    return r.cc_window(cc) + contract::topsp::kSemaphores + contract::sem::kInc +
           static_cast<uint64_t>(semaphore) * contract::sem::kIncStride;
  }

  Stretch place(const Range& range) const {
    const RankResources& r = members_[range.rank];
    const uint64_t base = range.buffer == Buffer::kInput      ? r.src
                          : range.buffer == Buffer::kSecond   ? r.second
                          : range.buffer == Buffer::kOutput   ? r.dst
                          : range.buffer == Buffer::kMetadata ? r.metadata
                                                              : r.channel_buffer;
    return {reach(range.rank, base), range.offset, rows_of(range.buffer)};
  }

  SbufRows rows_of(Buffer buffer) const {
    if (buffer == Buffer::kInput) return shape_.request.input_rows;
    if (buffer == Buffer::kOutput) return shape_.request.output_rows;
    return {};
  }

  uint64_t address(const Range& range) const { return place(range).at(0); }

  // Tells bytes of memory apart as an address does, but is contiguous where a tensor is not:
  // tensors in SBUF get numbers that no address has. What is shared is a tensor or a chunk of it
  // (plan.cpp).
  uint64_t identity(const Range& range) const {
    if (rows_of(range.buffer).contiguous()) return address(range);
    constexpr uint64_t kNoAddress = 1ull << 62;
    constexpr unsigned kRankShift = 40;
    constexpr uint64_t kOutput = 1ull << 39;
    const OpRequest& q = shape_.request;
    const uint64_t rank = kNoAddress | static_cast<uint64_t>(range.rank) << kRankShift;
    const bool output = range.buffer == Buffer::kOutput;
    if (!tensors_overlap(q, members_[range.rank])) {
      return rank + (output ? kOutput : 0) + range.offset;
    }
    const bool part = q.kind == (output ? OpKind::kReduceScatter : OpKind::kAllGather);
    const uint64_t chunk = output ? q.output_bytes : q.input_bytes;
    return rank + range.offset + (part ? range.rank * chunk : 0);
  }

  // Has bytes to move; a copy onto itself (all-gather in place) has none.
  bool moves(const Step& step) const {
    if (step.bytes == 0) return false;
    const bool copy = step.sources.size() == 1 && step.destinations.size() == 1;
    return !copy || address(step.sources[0]) != address(step.destinations[0]);
  }

  ProgramWriter& program(uint32_t channel) {
    return writer(layout_.cc(channel), layout_.thread(channel));
  }
  ProgramWriter& writer(uint32_t cc, uint32_t thread) { return programs_[cc * kThreads + thread]; }

  // ---- Waiting

  void wait_done(uint32_t channel, uint32_t semaphore, uint32_t value) {
    const CcResources& cc = own_.cc[layout_.cc(channel)];
    program(channel).wait(Op::kDmaWait, cc.completion_base + semaphore, value);
  }

  void close_blocks(uint32_t channel) {
    if (blocks_.open(channel)) blocks_.close(channel, &program(channel));
  }

  void wait_over(uint32_t channel, const StepOrder::Over& over) {
    if (over.fan_outs) {
      wait_done(channel, layout_.fan_out(channel), over.number * kSignal);
    } else {
      wait_done(channel, layout_.done(channel, over.number), kSignal);
    }
  }

  void wait_event(const Wait& wait) {
    const Event& event = shape_.events[wait.event];
    const uint32_t base = own_.cc[layout_.cc(event.channel)].signal_base;
    if (event.fifo) {
      for (uint32_t i = 0; i < wait.signals; ++i) {
        const uint32_t n = taken_[wait.event]++;
        program(event.channel).wait(Op::kSemWait, base + layout_.signal(wait.event, n), kSignal);
      }
    } else if (wait.signals != 0) {
      program(event.channel)
          .wait(Op::kSemWait, base + layout_.signal(wait.event, 0), wait.signals * kSignal);
    }
  }

  std::vector<uint32_t> working_channels() const {
    std::vector<bool> used(shape_.channels, false);
    for (const Step& step : steps_) {
      used[step.channel] = used[step.channel] || step.bytes != 0 || step.variable;
    }
    std::vector<uint32_t> out;
    for (uint32_t c = 0; c < shape_.channels; ++c) {
      if (used[c]) out.push_back(c);
    }
    return out;
  }

  // ---- Steps

  // Increment windows of the step's signals, in the order in which fifos count them.
  std::vector<uint64_t> targets(const Step& step) {
    std::vector<uint64_t> out;
    for (const Signal& signal : step.signals) {
      const Event& event = shape_.events[signal.event];
      const uint32_t n = event.fifo ? sent_[{signal.rank, signal.event}]++ : 0;
      const RankResources& r = members_[signal.rank];
      const uint32_t cc = layout_.cc(event.channel);
      out.push_back(reach(
          signal.rank, increment(r, cc, r.cc[cc].signal_base + layout_.signal(signal.event, n))));
    }
    return out;
  }

  void issue_block(const Step& step) {
    if (!step.waits.empty()) close_blocks(step.channel);  // not again for every tile
    for (const Wait& wait : step.waits) wait_event(wait);
    const uint32_t cc = layout_.cc(step.channel);
    const uint64_t semaphore =
        increment(own_, cc, own_.cc[cc].completion_base + layout_.blocks(step.channel));
    blocks_.add(
        step, [this](const Range& range) { return address(range); }, semaphore,
        &program(step.channel));
    order_.admit_block();
  }

  void issue(const Step& step) {
    if (step.variable) return issue_block(step);
    close_blocks(step.channel);
    const bool data = moves(step);
    const StepOrder::Admission admission = order_.admit(data);
    for (const StepOrder::Over& over : admission.waits) wait_over(step.channel, over);
    for (const Wait& wait : step.waits) wait_event(wait);
    std::vector<uint64_t> signals = targets(step);
    if (data) return move(step, admission, std::move(signals));
    for (const uint64_t target : signals) program(step.channel).emit(Op::kSemAdd, kSignal, target);
  }

  void move(const Step& step, const StepOrder::Admission& admission,
            std::vector<uint64_t> signals) {
    Transfer transfer;
    for (const Range& range : step.sources) transfer.sources.push_back(place(range));
    for (const Range& range : step.destinations) transfer.destinations.push_back(place(range));
    transfer.bytes = step.bytes;
    transfer.engines = admission.engines;
    transfer.barrier = admission.barrier;
    transfer.signals = std::move(signals);
    // Last the own CC-core: its count implies the others.
    const uint32_t cc = layout_.cc(step.channel);
    const uint32_t semaphore = step.fan_out ? layout_.fan_out(step.channel)
                                            : layout_.done(step.channel, admission.ordinal);
    transfer.signals.push_back(increment(own_, cc, own_.cc[cc].completion_base + semaphore));
    descriptors_.add(transfer);
    for (uint32_t i = 0; i < transfer.engines.count; ++i) {
      const uint32_t engine = transfer.engines.first + i;
      program(step.channel).ring(engine, descriptors_.take_new(engine));
    }
  }

  // ---- Frame of the programs

  // CC-cores with steps, besides the first.
  std::vector<uint32_t> helpers() const {
    std::vector<bool> used(own_.cc_count, false);
    for (const Step& step : steps_) used[layout_.cc(step.channel)] = true;
    std::vector<uint32_t> out;
    for (uint32_t cc = 1; cc < own_.cc_count; ++cc) {
      if (used[cc]) out.push_back(cc);
    }
    return out;
  }

  // Threads of a CC-core with steps, besides the first.
  std::vector<uint32_t> threads(uint32_t cc) const {
    std::vector<bool> used(kThreads, false);
    for (const Step& step : steps_) {
      if (layout_.cc(step.channel) == cc) used[layout_.thread(step.channel)] = true;
    }
    std::vector<uint32_t> out;
    for (uint32_t thread = 1; thread < kThreads; ++thread) {
      if (used[thread]) out.push_back(thread);
    }
    return out;
  }

  void start() {
    for (uint32_t i = 0; i < own_.cc_count * kThreads; ++i) {
      programs_.emplace_back(own_, options_.broadcast);
    }
    for (const uint32_t cc : helpers()) {
      writer(0, 0).emit(Op::kWrite, options_.triggers[cc],
                        own_.cc_window(cc) + contract::cc::kTrigger);
    }
    if (options_.notify) writer(0, 0).emit(Op::kNotify, contract::cc_notify::kOpStart, 0);
    for (uint32_t cc = 0; cc < own_.cc_count; ++cc) {
      // Where the thread's program begins is known at the end.
      for (const uint32_t thread : threads(cc)) writer(cc, 0).emit(Op::kFork, thread, 0);
    }
  }

  void finish() {
    for (uint32_t c = 0; c < shape_.channels; ++c) {
      for (const StepOrder::Over& over : order_.drain(c)) {
        if (over.fan_outs) close_blocks(c);
        wait_over(c, over);
      }
      close_blocks(c);
    }
    for (uint32_t cc = 0; cc < own_.cc_count; ++cc) {
      const std::vector<uint32_t> others = threads(cc);
      const uint32_t ended = own_.cc[cc].completion_base + Layout::threads_end();
      for (const uint32_t thread : others) {
        writer(cc, thread).emit(Op::kSemAdd, 1, increment(own_, cc, ended));
        writer(cc, thread).emit(Op::kEnd, 0, 0);
      }
      if (others.empty()) continue;
      writer(cc, 0).wait(Op::kSemWait, ended, static_cast<uint32_t>(others.size()));
    }
    const std::vector<uint32_t> others = helpers();
    const uint32_t join = own_.cc[0].completion_base + Layout::join();
    for (const uint32_t cc : others) {
      writer(cc, 0).emit(Op::kDone, 1, increment(own_, 0, join));
    }
    if (!others.empty()) {
      writer(0, 0).wait(Op::kSemWait, join, static_cast<uint32_t>(others.size()));
    }
    if (options_.notify) writer(0, 0).emit(Op::kNotify, contract::cc_notify::kOpEnd, 0);
    writer(0, 0).emit(Op::kDone, completion_.value, completion_.address);
  }

  // The programs of a CC-core's threads, one behind the other, first to last.
  CcProgram join_threads(uint32_t cc) {
    CcProgram all = rolled(writer(cc, 0).take());
    size_t fork = 0;
    for (const uint32_t thread : threads(cc)) {
      // Forks stand in the order of the threads, in the first program only.
      while (all[fork].op != static_cast<uint8_t>(Op::kFork)) ++fork;
      const auto begin = static_cast<uint32_t>(all.size());
      all[fork++].imm = begin;
      CcProgram program = rolled(writer(cc, thread).take());
      relocate(&program, begin);
      all.insert(all.end(), program.begin(), program.end());
    }
    return all;
  }

  // A program with branches stays as it is.
  static CcProgram rolled(CcProgram program) {
    const bool branches =
        std::any_of(program.begin(), program.end(), [](const contract::cc_program::Record& r) {
          return r.op == static_cast<uint8_t>(Op::kBranchLess);
        });
    return program.size() > kRollAbove && !branches ? roll_loops(program) : program;
  }

  base::Result<Lowered> result() {
    Lowered out;
    out.algorithm = shape_.algorithm;
    out.queue = own_.queue;
    out.channel_buffer = shape_.channel_bytes;
    out.rings = descriptors_.take();
    out.blocks = blocks_.take_blocks();
    out.block_rings = blocks_.take_rings();
    for (uint32_t cc = 0; cc < own_.cc_count; ++cc) {
      CcProgram program = join_threads(cc);
      if (program.size() > contract::cc_program::kMaxRecords) {
        return resource("a program of " + std::to_string(program.size()) +
                        " records; a CC-core holds " +
                        std::to_string(contract::cc_program::kMaxRecords));
      }
      out.programs.push_back(std::move(program));
    }
    return out;
  }

  const Shape& shape_;
  Steps steps_;
  const std::vector<RankResources>& members_;
  const RankResources& own_;
  Completion completion_;
  PlanOptions options_;
  Layout layout_;
  Descriptors descriptors_;
  BlockSteps blocks_;
  std::vector<ProgramWriter> programs_;  // by CC-core and thread
  StepOrder order_;
  std::vector<uint32_t> taken_;                             // by event: signals of a fifo
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> sent_;  // by rank and event: signals to a fifo
};

}  // namespace

base::Result<Lowered> lower(const Schedule& schedule, const std::vector<RankResources>& members,
                            uint32_t own, const Completion& completion,
                            const PlanOptions& options) {
  if (own >= members.size() || members.size() != schedule.shape.ranks) {
    return invalid("a schedule of " + std::to_string(schedule.shape.ranks) + " ranks for " +
                   std::to_string(members.size()));
  }
  if (options.packet_bytes < 64 || options.packet_bytes > contract::desc::kMaxLength) {
    return invalid("packets of " + std::to_string(options.packet_bytes) +
                   " bytes; expected 64 to 65536");
  }
  const RankResources& r = members[own];
  if (r.queue >= contract::kQueuesPerEngine || r.block_queue >= contract::kQueuesPerEngine) {
    return invalid("queue " + std::to_string(std::max(r.queue, r.block_queue)));
  }
  if (r.cc_count == 0 || r.cc_count > kMaxCcCores || r.lnc == 0 || r.lnc > contract::kMaxLnc) {
    return invalid("number of CC-cores or cores");
  }
  for (const Event& event : schedule.shape.events) {
    if (event.channel >= schedule.shape.channels) return invalid("channel of an event");
  }
  const Needs needs = needs_of(schedule.shape, r.engines(), r.cc_count);
  for (uint32_t i = 0; i < r.cc_count; ++i) {
    if (r.cc[i].completion_base + needs.completions > kSemaphores) {
      return resource("no semaphores are left for the own steps of a CC-core");
    }
  }
  for (const RankResources& member : members) {
    if (base::Status s = check_member(member, r, needs); !s.ok()) return s.error();
  }
  Steps steps = schedule.steps(own);
  if (base::Status s = check_steps(schedule.shape, steps, own); !s.ok()) return s.error();
  return Lowering(schedule, std::move(steps), members, own, completion, options).run();
}

}  // namespace ccl
