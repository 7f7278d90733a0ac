// From a schedule to one rank's CC programs and DMA rings (collectives.md 3.1, 3.5; hardware
// contract 5, 6). The first CC-core of the stream takes the trigger and triggers the others; each
// issues the steps of its channels in the order of the list, each step when its waits are over, and
// tells the first at the end, which completes the operation. Steps signal by DMA writes to the
// waiters' semaphores, behind the data in the same queue; steps without bytes by stores of the
// CC-core, with the value that all engines of a step together would add.
#include "runtime/collectives/lowering.h"

#include <algorithm>
#include <map>

#include "arch/contract/notification.h"
#include "contract/regs/cc.h"
#include "contract/regs/sem.h"

namespace ccl {
namespace {

using contract::AddressMap;
using contract::cc_program::kThreads;
using contract::cc_program::Op;

// Shorter programs stay as they are: a loop costs time per round.
constexpr size_t kRollAbove = 64;

base::Error resource(const std::string& what) {
  return {base::Fault::kResource, kNrtResource, "collectives", what};
}

class Lowering {
 public:
  Lowering(const Schedule& schedule, const std::vector<RankResources>& members, uint32_t own,
           const Completion& completion, const PlanOptions& options)
      : shape_(schedule.shape),
        steps_(schedule.steps(own)),
        members_(members),
        own_(members[own]),
        own_index_(own),
        completion_(completion),
        options_(options),
        layout_(schedule.shape, own_.engines(), own_.cc_count),
        descriptors_(schedule.shape.request, own_.weights, own_.engines(), options.packet_bytes),
        blocks_(schedule.shape, own_, layout_, options.packet_bytes),
        channels_(schedule.shape.channels),
        taken_(schedule.shape.events.size(), 0) {}

  base::Result<Lowered> run() {
    if (base::Status s = check_steps(shape_, steps_, own_index_); !s.ok()) return s.error();
    layout_.use(working_channels());
    blocks_.count(steps_);
    count_fan_outs();
    start();
    for (const Step& step : steps_) {
      issue(step);
      ++issuing_;
    }
    finish();
    return result();
  }

 private:
  struct Issued {  // by step of the list
    uint32_t ordinal = 0;
    bool data = false;
    bool fan_out = false;
    EngineRange engines;
  };
  struct Channel {
    std::vector<bool> ordered;       // by ordinal: the step has bytes
    uint32_t completed = 0;          // ordered steps waited for
    uint32_t fanned_out = 0;         // fan-out steps in flight
    uint32_t next_engine = 0;        // in the share
    std::vector<uint32_t> followed;  // steps that later ones follow without a wait
    // By engines: the last step with a DMB.
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> fences;
  };

  // `local` of `rank`, as this rank's engines and CC-cores address it.
  uint64_t reach(uint32_t rank, uint64_t local) const {
    if (members_[rank].chip == own_.chip) return local;
    return own_.map().peer_address(members_[rank].chip, local);
  }

  static uint64_t increment(const RankResources& r, uint32_t slot, uint32_t semaphore) {
    return r.cc_window(slot) + contract::topsp::kSemaphores + contract::sem::kInc +
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
    return writer(layout_.slot(channel), layout_.thread(channel));
  }
  ProgramWriter& writer(uint32_t slot, uint32_t thread) {
    return programs_[slot * kThreads + thread];
  }

  // ---- Waiting

  void wait_done(uint32_t channel, uint32_t semaphore, uint32_t value) {
    const CcResources& cc = own_.cc[layout_.slot(channel)];
    program(channel).wait(Op::kDmaWait, cc.completion_base + semaphore, value);
  }

  // Ordered steps up to this one.
  void complete_through(uint32_t channel, uint32_t ordinal) {
    Channel& c = channels_[channel];
    for (; c.completed <= ordinal; ++c.completed) {
      if (!c.ordered[c.completed]) continue;
      wait_done(channel, layout_.done(channel, c.completed), kSignal);
    }
  }

  void close_blocks(uint32_t channel) {
    if (blocks_.open(channel)) blocks_.close(channel, &program(channel));
  }

  void complete_fan_out(uint32_t channel) {
    close_blocks(channel);
    uint32_t& steps = channels_[channel].fanned_out;
    if (steps == 0) return;
    wait_done(channel, layout_.fan_out(channel), steps * kSignal);
    steps = 0;
  }

  void wait_event(const Wait& wait) {
    const Event& event = shape_.events[wait.event];
    const uint32_t base = own_.cc[layout_.slot(event.channel)].signal_base;
    if (event.lane) {
      for (uint32_t i = 0; i < wait.signals; ++i) {
        const uint32_t n = taken_[wait.event]++;
        program(event.channel).wait(Op::kSemWait, base + layout_.signal(wait.event, n), kSignal);
      }
    } else if (wait.signals != 0) {
      program(event.channel)
          .wait(Op::kSemWait, base + layout_.signal(wait.event, 0), wait.signals * kSignal);
    }
  }

  // ---- Order within a channel

  bool in_flight(const Step& step, uint32_t before) const {
    const Issued& issued = issued_[before];
    if (!issued.data) return false;
    const Channel& c = channels_[step.channel];
    if (!issued.fan_out) return issued.ordinal >= c.completed;
    return c.fanned_out != 0 || blocks_.open(step.channel);
  }

  // What it takes that a step starts when an earlier one, whose engines it uses too, is complete.
  enum class Order : uint8_t {
    kQueue,  // nothing: they touch different bytes, and signals follow the data of their queue
    kFence,  // a DMB, if they use the same engines: what they share is on one engine
    kWait,   // the CC-core waits
  };

  // Ranges that overlap: none, the same ones with equal cuts over the engines, or any.
  Order meet(const std::vector<Range>& a, uint64_t a_bytes, const std::vector<Range>& b,
             uint64_t b_bytes, bool one_engine) const {
    Order order = Order::kQueue;
    for (const Range& x : a) {
      for (const Range& y : b) {
        const uint64_t px = identity(x);
        const uint64_t py = identity(y);
        if (px >= py + b_bytes || py >= px + a_bytes) continue;
        if (!one_engine && (px != py || a_bytes != b_bytes)) return Order::kWait;
        order = Order::kFence;
      }
    }
    return order;
  }

  Order order_of(uint32_t id, const Step& step, const EngineRange& engines) const {
    const Step& before = steps_[id];
    const EngineRange& used = issued_[id].engines;
    const bool same = used.first == engines.first && used.count == engines.count;
    // Its signals say that the earlier step is complete, so they must follow all of its parts.
    const bool covered =
        engines.first <= used.first && used.first + used.count <= engines.first + engines.count;
    if (!covered) return Order::kWait;
    const bool one = engines.count == 1;
    const Order order =
        std::max({meet(before.destinations, before.bytes, step.sources, step.bytes, one),
                  meet(before.sources, before.bytes, step.destinations, step.bytes, one),
                  meet(before.destinations, before.bytes, step.destinations, step.bytes, one)});
    return order == Order::kFence && !same ? Order::kWait : order;
  }

  // Steps take the engines of the share in turns.
  EngineRange next_engines(const Step& step) {
    const uint32_t together = step.fan_out ? fan_outs_[issuing_] : 1;
    EngineRange engines{layout_.first_engine(step.channel),
                        layout_.engines_of(step.bytes, together)};
    uint32_t& next = channels_[step.channel].next_engine;
    next = (next + engines.count - 1) / engines.count * engines.count % layout_.share();
    engines.first += next;
    next += engines.count;
    return engines;
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

  // For every fan-out step, how many of its channel are in flight together.
  void count_fan_outs() {
    fan_outs_.assign(steps_.size(), 0);
    std::vector<std::vector<uint32_t>> together(shape_.channels);
    const auto close = [&](uint32_t channel) {
      for (const uint32_t at : together[channel]) {
        fan_outs_[at] = static_cast<uint32_t>(together[channel].size());
      }
      together[channel].clear();
    };
    for (uint32_t at = 0; at < steps_.size(); ++at) {
      const Step& step = steps_[at];
      // What a fan-out or its successors wait for, or what stands between, ends a row.
      if (!step.fan_out || !step.after.empty() || !step.waits.empty()) close(step.channel);
      if (step.fan_out && step.bytes != 0) together[step.channel].push_back(at);
    }
    for (uint32_t c = 0; c < shape_.channels; ++c) close(c);
  }

  // The steps that this one must follow: its own `after`, and what earlier steps of the channel
  // follow without having been waited for: steps start in their order.
  std::vector<uint32_t> predecessors(const Step& step) {
    std::vector<uint32_t>& followed = channels_[step.channel].followed;
    for (const uint32_t id : step.after) {
      if (std::find(followed.begin(), followed.end(), id) == followed.end()) followed.push_back(id);
    }
    return followed;
  }

  void forget_completed(const Step& step) {
    std::vector<uint32_t>& followed = channels_[step.channel].followed;
    followed.erase(std::remove_if(followed.begin(), followed.end(),
                                  [&](uint32_t id) { return !in_flight(step, id); }),
                   followed.end());
  }

  // Engines that can queue the step behind one that it follows: those, or more that contain them.
  EngineRange engines_behind(const EngineRange& used, const Step& step) const {
    EngineRange engines = used;
    engines.count = std::max(used.count, layout_.engines_of(step.bytes, 1));
    const uint32_t base = layout_.first_engine(step.channel);
    engines.first = base + (used.first - base) / engines.count * engines.count;
    return engines;
  }

  // Makes a step with bytes follow its predecessors: chooses its engines, true if it needs a DMB.
  bool follow(const Step& step, EngineRange* engines) {
    const std::vector<uint32_t> ids = predecessors(step);
    // A fan-out spreads over the engines: its steps do not queue behind one of them.
    const bool spread = step.fan_out && fan_outs_[issuing_] > 1;
    const auto leader = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) {
      return in_flight(step, id) && !issued_[id].fan_out;
    });
    *engines = spread || leader == ids.end() ? next_engines(step)
                                             : engines_behind(issued_[*leader].engines, step);
    bool barrier = false;
    for (const uint32_t id : ids) {
      if (!in_flight(step, id)) continue;
      const Order order = order_of(id, step, *engines);
      if (spread || issued_[id].fan_out || order == Order::kWait) {
        complete(step.channel, id);
      } else if (order == Order::kFence && !fenced(step.channel, *engines, id)) {
        barrier = true;
      }
    }
    forget_completed(step);
    if (barrier) channels_[step.channel].fences[key(*engines)] = issuing_;
    return barrier;
  }

  static std::pair<uint32_t, uint32_t> key(const EngineRange& engines) {
    return {engines.first, engines.count};
  }

  // A later step than `id` on these engines has a DMB: what comes now queues behind it.
  bool fenced(uint32_t channel, const EngineRange& engines, uint32_t id) const {
    const auto fence = channels_[channel].fences.find(key(engines));
    return fence != channels_[channel].fences.end() && fence->second > id;
  }

  void complete(uint32_t channel, uint32_t id) {
    if (issued_[id].fan_out) return complete_fan_out(channel);
    complete_through(channel, issued_[id].ordinal);
  }

  // ---- Steps

  // Increment windows of the step's signals, in the order in which lanes count them.
  std::vector<uint64_t> targets(const Step& step) {
    std::vector<uint64_t> out;
    for (const Signal& signal : step.signals) {
      const Event& event = shape_.events[signal.event];
      const uint32_t n = event.lane ? sent_[{signal.rank, signal.event}]++ : 0;
      const RankResources& r = members_[signal.rank];
      const uint32_t slot = layout_.slot(event.channel);
      out.push_back(
          reach(signal.rank,
                increment(r, slot, r.cc[slot].signal_base + layout_.signal(signal.event, n))));
    }
    return out;
  }

  void issue_block(const Step& step) {
    if (!step.waits.empty()) close_blocks(step.channel);  // not again for every tile
    for (const Wait& wait : step.waits) wait_event(wait);
    const uint32_t slot = layout_.slot(step.channel);
    const uint64_t semaphore =
        increment(own_, slot, own_.cc[slot].completion_base + layout_.blocks(step.channel));
    blocks_.add(
        step, [this](const Range& range) { return address(range); }, semaphore,
        &program(step.channel));
    Issued issued;
    issued.data = true;
    issued.fan_out = true;
    issued_.push_back(issued);
  }

  void issue(const Step& step) {
    if (step.variable) return issue_block(step);
    close_blocks(step.channel);
    Channel& channel = channels_[step.channel];
    Issued issued;
    issued.data = moves(step);
    issued.fan_out = step.fan_out;
    issued.ordinal = static_cast<uint32_t>(channel.ordered.size());
    if (!step.fan_out && issued.ordinal >= kStepsInFlight) {
      complete_through(step.channel, issued.ordinal - kStepsInFlight);
    }
    Transfer transfer;
    if (issued.data) {
      transfer.barrier = follow(step, &transfer.engines);
    } else {
      for (const uint32_t id : predecessors(step)) {
        if (in_flight(step, id)) complete(step.channel, id);
      }
      forget_completed(step);
    }
    for (const Wait& wait : step.waits) wait_event(wait);
    transfer.signals = targets(step);
    issued.engines = transfer.engines;
    if (!step.fan_out) channel.ordered.push_back(issued.data);
    if (step.fan_out && issued.data) ++channel.fanned_out;
    issued_.push_back(issued);
    if (issued.data) return move(step, std::move(transfer));
    for (const uint64_t target : transfer.signals) {
      program(step.channel).emit(Op::kSemAdd, kSignal, target);
    }
  }

  void move(const Step& step, Transfer transfer) {
    for (const Range& range : step.sources) transfer.sources.push_back(place(range));
    for (const Range& range : step.destinations) transfer.destinations.push_back(place(range));
    transfer.bytes = step.bytes;
    // Last the own CC-core: its count implies the others.
    const uint32_t slot = layout_.slot(step.channel);
    const uint32_t semaphore = step.fan_out ? layout_.fan_out(step.channel)
                                            : layout_.done(step.channel, issued_.back().ordinal);
    transfer.signals.push_back(increment(own_, slot, own_.cc[slot].completion_base + semaphore));
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
    for (const Step& step : steps_) used[layout_.slot(step.channel)] = true;
    std::vector<uint32_t> out;
    for (uint32_t slot = 1; slot < own_.cc_count; ++slot) {
      if (used[slot]) out.push_back(slot);
    }
    return out;
  }

  // Threads of a CC-core with steps, besides the first.
  std::vector<uint32_t> threads(uint32_t slot) const {
    std::vector<bool> used(kThreads, false);
    for (const Step& step : steps_) {
      if (layout_.slot(step.channel) == slot) used[layout_.thread(step.channel)] = true;
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
    for (const uint32_t slot : helpers()) {
      writer(0, 0).emit(Op::kWrite, options_.triggers[slot],
                        own_.cc_window(slot) + contract::cc::kTrigger);
    }
    if (options_.notify) writer(0, 0).emit(Op::kNotify, contract::cc_notify::kOpStart, 0);
    for (uint32_t slot = 0; slot < own_.cc_count; ++slot) {
      // Where the thread's program begins is known at the end.
      for (const uint32_t thread : threads(slot)) writer(slot, 0).emit(Op::kFork, thread, 0);
    }
  }

  void finish() {
    for (uint32_t c = 0; c < shape_.channels; ++c) {
      if (!channels_[c].ordered.empty()) {
        complete_through(c, static_cast<uint32_t>(channels_[c].ordered.size()) - 1);
      }
      complete_fan_out(c);
    }
    for (uint32_t slot = 0; slot < own_.cc_count; ++slot) {
      const std::vector<uint32_t> others = threads(slot);
      const uint32_t ended = own_.cc[slot].completion_base + Layout::threads_end();
      for (const uint32_t thread : others) {
        writer(slot, thread).emit(Op::kSemAdd, 1, increment(own_, slot, ended));
        writer(slot, thread).emit(Op::kEnd, 0, 0);
      }
      if (others.empty()) continue;
      writer(slot, 0).wait(Op::kSemWait, ended, static_cast<uint32_t>(others.size()));
    }
    const std::vector<uint32_t> others = helpers();
    const uint32_t join = own_.cc[0].completion_base + Layout::join();
    for (const uint32_t slot : others) {
      writer(slot, 0).emit(Op::kDone, 1, increment(own_, 0, join));
    }
    if (!others.empty()) {
      writer(0, 0).wait(Op::kSemWait, join, static_cast<uint32_t>(others.size()));
    }
    if (options_.notify) writer(0, 0).emit(Op::kNotify, contract::cc_notify::kOpEnd, 0);
    writer(0, 0).emit(Op::kDone, completion_.value, completion_.address);
  }

  // The programs of a CC-core's threads, one behind the other, first to last.
  CcProgram join_threads(uint32_t slot) {
    CcProgram all = rolled(writer(slot, 0).take());
    size_t fork = 0;
    for (const uint32_t thread : threads(slot)) {
      // Forks stand in the order of the threads, in the first program only.
      while (all[fork].op != static_cast<uint8_t>(Op::kFork)) ++fork;
      const auto begin = static_cast<uint32_t>(all.size());
      all[fork++].imm = begin;
      CcProgram program = rolled(writer(slot, thread).take());
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
    for (uint32_t slot = 0; slot < own_.cc_count; ++slot) {
      CcProgram program = join_threads(slot);
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
  uint32_t own_index_;
  Completion completion_;
  PlanOptions options_;
  Layout layout_;
  Descriptors descriptors_;
  BlockSteps blocks_;
  std::vector<ProgramWriter> programs_;  // by CC-core and thread
  std::vector<Channel> channels_;
  std::vector<Issued> issued_;
  std::vector<uint32_t> taken_;                             // by event: signals of a lane
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> sent_;  // by rank and event: signals to a lane
  std::vector<uint32_t> fan_outs_;                          // by step
  uint32_t issuing_ = 0;                                    // index of the step
};

base::Error invalid(const std::string& what) {
  return {base::Fault::kUsage, kNrtInvalid, "collectives", what};
}

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
  return Lowering(schedule, members, own, completion, options).run();
}

}  // namespace ccl
