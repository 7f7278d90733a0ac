// From a schedule to one rank's CC program and DMA rings (collectives.md 3.1, 3.5; hardware
// contract 5, 6). Per operation: tell the peers that the buffers are ready; issue the steps in
// order, each when its producers have signalled; wait until own and foreign transfers on own
// memory are over; complete. Producers signal by DMA writes to the consumer's semaphores, behind
// the data in the same queue.
#include "runtime/collectives/lowering.h"

#include <algorithm>
#include <set>

#include "arch/contract/notification.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"
#include "runtime/collectives/select.h"

namespace ccl {
namespace {

using contract::AddressMap;
using contract::cc_program::Op;
using contract::cc_program::Record;

constexpr uint32_t kSemaphores = 256;  // per block (hw-registers.md 4)
constexpr uint32_t kMaxDoorbell = 0xFFFF;

base::Error invalid(const std::string& what) {
  return {base::Fault::kUsage, kNrtInvalid, "collectives", what};
}

// Source and destination of one rank: 0 apart, 1 legal alias, error otherwise.
base::Result<bool> aliases(const OpRequest& q, const RankResources& r, uint64_t index) {
  if (r.src > UINT64_MAX - q.input_bytes || r.dst > UINT64_MAX - q.output_bytes) {
    return invalid("a buffer of rank " + std::to_string(r.global_rank) + " wraps around");
  }
  if (r.src + q.input_bytes <= r.dst || r.dst + q.output_bytes <= r.src) return false;
  if (q.input_bytes == 0) return false;
  const bool legal = q.kind == OpKind::kAllReduce   ? r.src == r.dst
                     : q.kind == OpKind::kAllGather ? r.src == r.dst + index * q.input_bytes
                                                    : r.dst == r.src + index * q.output_bytes;
  if (legal) return true;
  return invalid(std::string(to_string(q.kind)) + ": source and destination of rank " +
                 std::to_string(r.global_rank) + " overlap");
}

class Lowering {
 public:
  Lowering(const OpRequest& request, const Schedule& schedule,
           const std::vector<RankResources>& group, uint32_t own, const Completion& completion,
           const PlanOptions& options)
      : schedule_(schedule),
        group_(group),
        own_(own),
        completion_(completion),
        options_(options),
        signals_(schedule),
        descriptors_(request, group[own], engines_of(schedule, own), options.packet_bytes),
        ready_(group.size(), false),
        consumed_(group.size(), 0) {}

  base::Result<Lowered> run() {
    const auto ranks = static_cast<uint32_t>(group_.size());
    if (options_.notify) emit(Op::kNotify, contract::cc_notify::kOpStart, 0);
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (signals_.touches(peer, own_)) {
        emit(Op::kSemAdd, 1, increment(peer, SemaphoreLayout::ready(own_)));
      }
    }
    for (const Step& step : schedule_.steps) {
      if (step.rank == own_ && !idle(step)) issue(step);
    }
    finish(ranks);
    if (program_.size() > contract::cc_program::kMaxRecords) {
      return base::Error{base::Fault::kResource, kNrtResource, "collectives",
                         "a program of " + std::to_string(program_.size()) +
                             " records; a CC-core holds " +
                             std::to_string(contract::cc_program::kMaxRecords)};
    }
    Lowered out;
    out.algorithm = schedule_.algorithm;
    out.queue = group_[own_].queue;
    out.program = std::move(program_);
    out.rings = descriptors_.take();
    out.rings.erase(std::remove_if(out.rings.begin(), out.rings.end(),
                                   [](const EngineRing& ring) { return ring.m2s.empty(); }),
                    out.rings.end());
    out.semaphores = semaphore_count(ranks);
    out.channel_buffer = schedule_.channel_bytes;
    return out;
  }

 private:
  void emit(Op op, uint32_t imm, uint64_t address, uint8_t flags = 0) {
    Record record;
    record.op = static_cast<uint8_t>(op);
    record.flags = flags;
    record.imm = imm;
    record.address = address;
    program_.push_back(record);
  }

  void wait(Op op, uint32_t semaphore, uint32_t value) {
    emit(op, value, group_[own_].semaphore_base + semaphore,
         static_cast<uint8_t>(contract::cc_program::Cond::kGe) |
             contract::cc_program::flag::kSubtract);
  }

  // `local` of `rank`, as this rank's engines and CC-core address it.
  uint64_t reach(uint32_t rank, uint64_t local) const {
    if (group_[rank].chip == group_[own_].chip) return local;
    return AddressMap{group_[own_].gen}.peer_address(group_[rank].chip, local);
  }

  uint64_t increment(uint32_t rank, uint32_t semaphore) const {
    const uint64_t index = group_[rank].semaphore_base + semaphore;
    return reach(rank, group_[rank].cc_window + contract::topsp::kSemaphores + contract::sem::kInc +
                           index * contract::sem::kIncStride);
  }

  uint64_t address(const Range& range) const {
    const RankResources& r = group_[range.rank];
    const uint64_t base = range.buffer == Buffer::kInput    ? r.src
                          : range.buffer == Buffer::kOutput ? r.dst
                                                            : r.channel_buffer;
    return reach(range.rank, base + range.offset);
  }

  // A local copy onto itself (all-gather in place) that nobody waits for.
  bool idle(const Step& step) const {
    return step.sources.size() == 1 && address(step.sources[0]) == address(step.destination) &&
           signals_.waiters(step.id).empty();
  }

  void require_ready(uint32_t peer) {
    if (peer == own_ || ready_[peer]) return;
    ready_[peer] = true;
    wait(Op::kSemWait, SemaphoreLayout::ready(peer), 1);
  }

  // All signals of `peer` up to number `last`, in order: two of them may share a semaphore.
  void consume(uint32_t peer, uint32_t last) {
    const uint32_t engines = engines_of(schedule_, peer);
    for (; consumed_[peer] <= last; ++consumed_[peer]) {
      wait(Op::kSemWait, SemaphoreLayout::data(peer, consumed_[peer]), engines);
    }
  }

  void complete_through(uint32_t own_step) {
    for (; completed_ <= own_step; ++completed_) {
      wait(Op::kDmaWait, SemaphoreLayout::done(completed_), engines_of(schedule_, own_));
    }
  }

  // True if the parts of `step` and `before` on different engines do not meet: equal cuts, and
  // every pair of overlapping ranges coincides. Then queue order with a DMB is enough.
  bool same_engine_only(const Step& before, const Step& step) const {
    if (before.bytes != step.bytes) return false;
    const auto meets_badly = [&](const Range& a, const Range& b) {
      const uint64_t pa = address(a);
      const uint64_t pb = address(b);
      return pa != pb && pa < pb + step.bytes && pb < pa + step.bytes;
    };
    for (const Range& source : step.sources) {
      if (meets_badly(before.destination, source)) return false;
    }
    for (const Range& source : before.sources) {
      if (meets_badly(source, step.destination)) return false;
    }
    return !meets_badly(before.destination, step.destination);
  }

  void issue(const Step& step) {
    const auto index = static_cast<uint32_t>(own_steps_.size());
    require_ready(step.destination.rank);
    for (const Range& source : step.sources) require_ready(source.rank);
    for (const uint32_t waiter : signals_.waiters(step.id)) require_ready(waiter);
    if (index >= kWindow) complete_through(index - kWindow);
    bool barrier = false;
    for (const uint32_t id : step.after) barrier = depend(step, id) || barrier;

    std::vector<uint64_t> sources;
    for (const Range& source : step.sources) sources.push_back(address(source));
    descriptors_.add_step(sources, address(step.destination), step.bytes, barrier,
                          completion_writes(step, index));
    own_steps_.push_back(step.id);
    advance();
  }

  // Makes `step` follow step `id`; true if a DMB in the queue is what orders them.
  bool depend(const Step& step, uint32_t id) {
    const Step& before = schedule_.steps[id];
    if (before.rank != own_) {
      consume(before.rank, signals_.number(id, own_));
      return false;
    }
    const auto at = std::find(own_steps_.begin(), own_steps_.end(), id);
    if (at == own_steps_.end()) return false;  // idle: nothing moves
    const auto index = static_cast<uint32_t>(at - own_steps_.begin());
    if (index < completed_) return false;
    if (same_engine_only(before, step)) return true;
    complete_through(index);
    return false;
  }

  // Where every engine reports the end of its part: consumers, peers whose memory this rank leaves
  // alone from here on, and last the own CC-core (its count implies the others).
  std::vector<uint64_t> completion_writes(const Step& step, uint32_t index) const {
    std::vector<uint64_t> out;
    for (const uint32_t waiter : signals_.waiters(step.id)) {
      out.push_back(
          increment(waiter, SemaphoreLayout::data(own_, signals_.number(step.id, waiter))));
    }
    for (uint32_t peer = 0; peer < group_.size(); ++peer) {
      if (signals_.touches(own_, peer) && signals_.last_touch(own_, peer) == step.id) {
        out.push_back(increment(peer, SemaphoreLayout::end(own_)));
      }
    }
    out.push_back(increment(own_, SemaphoreLayout::done(index)));
    return out;
  }

  // Doorbells for the descriptors of the last step.
  void advance() {
    const auto& counts = descriptors_.counts();
    const bool equal = std::all_of(counts.begin(), counts.end(), [&](const auto& c) {
      return c.m2s == counts[0].m2s && c.s2m == counts[0].s2m;
    });
    const RankResources& r = group_[own_];
    const uint64_t queue = contract::udma::kM2sQ + r.queue * contract::udma::kM2sQStride;
    if (equal && counts.size() == contract::kDmaPerNc && r.broadcast != 0) {
      ring_doorbell(r.broadcast + queue, counts[0]);
      return;
    }
    for (size_t e = 0; e < counts.size(); ++e) ring_doorbell(r.udma[e] + queue, counts[e]);
  }

  void ring_doorbell(uint64_t queue, const Descriptors::Counts& counts) {
    const uint32_t parts = (std::max(counts.m2s, counts.s2m) + kMaxDoorbell - 1) / kMaxDoorbell;
    for (uint32_t i = 0; i < parts; ++i) {
      const uint32_t m2s = counts.m2s * (i + 1) / parts - counts.m2s * i / parts;
      const uint32_t s2m = counts.s2m * (i + 1) / parts - counts.s2m * i / parts;
      emit(Op::kDmaAdvance, s2m << 16 | m2s, queue);
    }
  }

  void finish(uint32_t ranks) {
    if (!own_steps_.empty()) complete_through(static_cast<uint32_t>(own_steps_.size()) - 1);
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (!signals_.touches(peer, own_)) continue;
      if (signals_.count(peer, own_) != 0) consume(peer, signals_.count(peer, own_) - 1);
      wait(Op::kSemWait, SemaphoreLayout::end(peer), engines_of(schedule_, peer));
    }
    if (options_.notify) emit(Op::kNotify, contract::cc_notify::kOpEnd, 0);
    emit(Op::kDone, completion_.value, completion_.address);
  }

  const Schedule& schedule_;
  const std::vector<RankResources>& group_;
  uint32_t own_;
  Completion completion_;
  PlanOptions options_;
  Signals signals_;
  Descriptors descriptors_;
  std::vector<bool> ready_;         // peers whose readiness was waited for
  std::vector<uint32_t> consumed_;  // per peer: signals waited for
  std::vector<uint32_t> own_steps_;
  uint32_t completed_ = 0;  // own steps waited for
  std::vector<Record> program_;
};

base::Status check_resources(const RankResources& r, const RankResources& own, uint32_t ranks,
                             uint64_t channel_bytes) {
  const std::string who = "rank " + std::to_string(r.global_rank);
  if (r.gen != own.gen) return invalid(who + " is of another device generation");
  if (r.queue >= contract::kQueuesPerEngine) return invalid(who + ": queue number");
  if (r.semaphore_base + semaphore_count(ranks) > kSemaphores) {
    return base::Error{base::Fault::kResource, kNrtResource, "collectives",
                       who + ": a group of " + std::to_string(ranks) + " ranks needs " +
                           std::to_string(semaphore_count(ranks)) + " semaphores from " +
                           std::to_string(r.semaphore_base) + ", a CC-core has 256"};
  }
  if (channel_bytes != 0 && r.channel_buffer == 0) {
    return invalid(who + " has no channel buffer; " + std::to_string(channel_bytes) +
                   " bytes are needed");
  }
  return {};
}

}  // namespace

uint32_t semaphore_count(uint32_t ranks) {
  return SemaphoreLayout::count(ranks);
}

base::Result<Lowered> plan(const OpRequest& request, const std::vector<RankResources>& group,
                           uint32_t own, const Completion& completion, const PlanOptions& options) {
  if (own >= group.size()) return invalid("own index is outside the group");
  if (options.packet_bytes < 64 || options.packet_bytes > contract::desc::kMaxLength) {
    return invalid("packets of " + std::to_string(options.packet_bytes) +
                   " bytes; expected 64 to 65536");
  }
  const auto ranks = static_cast<uint32_t>(group.size());
  bool in_place = false;
  bool same_chip = true;
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < ranks; ++i) {
    if (!seen.insert(group[i].global_rank).second) {
      return invalid("rank " + std::to_string(group[i].global_rank) + " is in the group twice");
    }
    const base::Result<bool> alias = aliases(request, group[i], i);
    if (!alias) return alias.error();
    in_place = in_place || *alias;
    same_chip = same_chip && group[i].chip == group[own].chip;
  }
  const base::Result<Schedule> schedule =
      make_schedule(request, ranks, in_place, same_chip, options.algo_override);
  if (!schedule) return schedule.error();
  for (const RankResources& r : group) {
    base::Status status = check_resources(r, group[own], ranks, schedule->channel_bytes);
    if (!status) return status.error();
  }
  return Lowering(request, *schedule, group, own, completion, options).run();
}

}  // namespace ccl
