// Ring (spec/collectives.md 2.5) and flat ring (2.10). Every chunk is cut in one part per channel;
// each channel is a ring of its own. Partial sums travel through slots of the successor's channel
// buffer with credits (3.5), finished chunks straight into its output. The first credit is the
// handshake that lets a predecessor touch the memory of its successor at all.
// The last fold of an all-reduce writes its result to the own output and to the successor's at
// once, so that 2(N-1) hops remain.
// Order of sums: as 2.5 states it. Missing: nothing of 2.5.
#include "runtime/collectives/schedule/ring.h"

#include <algorithm>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/compose.h"
#include "runtime/collectives/schedule/cycles.h"

namespace ccl {
namespace {

// A channel with less to move per hop costs more than it carries.
constexpr uint64_t kLeastPart = 4096;
constexpr uint32_t kMaxSlots = 32;  // spec/collectives.md 3.4

bool gathers(OpKind kind) {
  return kind != OpKind::kReduceScatter;
}

// The steps of one rank on one channel.
class RingProgram {
 public:
  RingProgram(const RingPlan& plan, uint32_t rank, uint32_t channel, StepList* list)
      : plan_(plan),
        request_(plan.shape.request),
        list_(*list),
        n_(plan.shape.ranks),
        c_(channel),
        p_(plan.position[channel][rank]),
        self_(rank),
        next_(plan.order[channel][(p_ + 1) % n_]),
        previous_(plan.order[channel][(p_ + n_ - 1) % n_]) {}

  void write() {
    incoming_ = partials(p_ + n_ - 1);
    list_.at(0);
    if (messages(p_ + n_ - 1) != 0) list_.handshake(c_).signal(previous_, plan_.credit[c_]);
    for (uint32_t first = 0; first < plan_.slices.count; first += plan_.block) {
      const uint32_t end = std::min(plan_.slices.count, first + plan_.block);
      if (reduces(request_.kind)) reduce(first, end);
      if (gathers(request_.kind)) gather(first, end);
    }
    list_.at(~uint64_t{0});
    if (pending_ != 0) list_.handshake(c_).wait(plan_.data[c_], pending_);
  }

 private:
  // The whole chunk of a position, its part on this channel, and a slice of that.
  Chunk whole(uint32_t position) const {
    return chunk_of(request_, n_, plan_.order[c_][position % n_]);
  }
  Chunk part(uint32_t position) const { return part_of(whole(position), plan_.shape.channels, c_); }

  // Partial sums that a position sends: of all chunks but its own.
  uint32_t partials(uint32_t position) const {
    return reduces(request_.kind) ? all_slices() - plan_.slices.of(part(position)) : 0;
  }
  // All that it sends: in the gather all but the chunk of its successor.
  uint32_t messages(uint32_t position) const {
    uint32_t count = partials(position);
    if (gathers(request_.kind)) count += all_slices() - plan_.slices.of(part(position + 1));
    return count;
  }
  uint32_t all_slices() const {
    uint32_t count = 0;
    for (uint32_t q = 0; q < n_; ++q) count += plan_.slices.of(part(q));
    return count;
  }

  // Waits for the next arrival and for those before it that nobody needed.
  void arrive(StepEdit* step) {
    step->wait(plan_.data[c_], pending_ + 1);
    pending_ = 0;
  }
  // Before the first access to the successor.
  void touch_next(StepEdit* step) {
    if (!touched_) step->wait(plan_.credit[c_]);
    touched_ = true;
  }
  uint64_t slot(uint32_t message) const {
    return (uint64_t{c_} * plan_.slots + message % plan_.slots) * plan_.slices.bytes;
  }
  // The step has read the slot of its partial sum; the predecessor may need it again.
  void consume(StepEdit* step) {
    if (consumed_ + plan_.slots < incoming_) step->signal(previous_, plan_.credit[c_]);
    ++consumed_;
  }

  void reduce(uint32_t first, uint32_t end) {
    for (uint32_t t = 0; t + 1 < n_; ++t) {
      for (uint32_t s = first; s < end; ++s) send_partial(t, s);
    }
    for (uint32_t s = first; s < end; ++s) finish(s);
  }

  void send_partial(uint32_t t, uint32_t s) {
    list_.at(++time_);
    const Chunk slice = plan_.slices.slice(part(p_ + 2 * n_ - 1 - t), s);
    if (slice.bytes == 0) return;
    const Range own = input_of(self_, slice.offset);
    std::vector<Range> sources = {own};
    if (t != 0) sources = {channel_of(self_, slot(consumed_)), own};
    StepEdit step = list_.move(c_, slice.bytes, sources, {channel_of(next_, slot(sent_))});
    touch_next(&step);
    if (t != 0) arrive(&step);
    if (sent_ >= plan_.slots) step.wait(plan_.credit[c_]);
    step.signal(next_, plan_.data[c_]);
    if (t != 0) consume(&step);
    ++sent_;
  }

  void finish(uint32_t s) {
    list_.at(++time_);
    const Chunk slice = plan_.slices.slice(part(p_), s);
    if (slice.bytes == 0) return;
    const bool gather = gathers(request_.kind);
    const uint64_t to = gather ? slice.offset : slice.offset - whole(p_).offset;
    StepEdit step = list_.move(c_, slice.bytes,
                               {channel_of(self_, slot(consumed_)), input_of(self_, slice.offset)},
                               {output_of(self_, to)});
    arrive(&step);
    consume(&step);
    if (gather) send_to(&step, slice);
  }

  void send_to(StepEdit* step, const Chunk& slice) {
    touch_next(step);
    step->to(output_of(next_, slice.offset)).signal(next_, plan_.data[c_]);
  }

  void gather(uint32_t first, uint32_t end) {
    if (request_.kind == OpKind::kAllGather) {
      for (uint32_t s = first; s < end; ++s) send_own(s);
    }
    for (uint32_t t = 1; t + 1 < n_; ++t) {
      for (uint32_t s = first; s < end; ++s) {
        list_.at(++time_);
        const Chunk slice = plan_.slices.slice(part(p_ + n_ - t), s);
        if (slice.bytes == 0) continue;
        StepEdit step = list_.move(c_, slice.bytes, {output_of(self_, slice.offset)}, {});
        arrive(&step);
        send_to(&step, slice);
      }
    }
    // The last chunk to arrive goes no further.
    for (uint32_t s = first; s < end; ++s) {
      if (plan_.slices.slice(part(p_ + 1), s).bytes != 0) ++pending_;
    }
  }

  // The own chunk of an all-gather, to both outputs in one step.
  void send_own(uint32_t s) {
    list_.at(++time_);
    const Chunk slice = plan_.slices.slice(part(p_), s);
    if (slice.bytes == 0) return;
    StepEdit step =
        list_.move(c_, slice.bytes, {input_of(self_, slice.offset - whole(p_).offset)}, {});
    send_to(&step, slice);
    if (!plan_.shape.in_place) step.to(output_of(self_, slice.offset));
  }

  const RingPlan& plan_;
  const OpRequest& request_;
  StepList& list_;
  const uint32_t n_;
  const uint32_t c_;
  const uint32_t p_;
  const uint32_t self_;
  const uint32_t next_;
  const uint32_t previous_;
  uint32_t incoming_ = 0;  // partial sums that will come
  uint32_t consumed_ = 0;  // of those
  uint32_t sent_ = 0;      // partial sums
  uint32_t pending_ = 0;   // arrivals that no step has waited for
  uint64_t time_ = 0;      // counts slices and hops, also those without bytes
  bool touched_ = false;
};

// Two ranks of one chip: no slots. Each folds what it owns, reading the peer's input where it is,
// then writes the result to the peer.
Steps pair_steps(const Shape& shape, uint32_t rank) {
  const OpRequest& request = shape.request;
  const uint32_t peer = 1 - rank;
  const Chunk own = chunk_of(request, 2, rank);
  const Chunk other = chunk_of(request, 2, peer);
  StepList list;
  if (request.input_bytes == 0) return {};
  constexpr uint32_t kReady = 0;
  constexpr uint32_t kDone = 1;
  const bool gather = request.kind == OpKind::kAllGather;
  if (other.bytes != 0) list.handshake(0).signal(peer, kReady);
  if (own.bytes != 0 && gather) {
    StepEdit step = list.move(0, own.bytes, {input_of(rank, 0)}, {output_of(peer, own.offset)});
    step.wait(kReady).signal(peer, kDone);
    if (!shape.in_place) step.to(output_of(rank, own.offset));
  } else if (own.bytes != 0) {
    const bool all = request.kind == OpKind::kAllReduce;
    const uint64_t to = all ? own.offset : 0;
    StepEdit fold =
        list.move(0, own.bytes, {input_of(peer, own.offset), input_of(rank, own.offset)},
                  {output_of(rank, to)});
    const uint32_t folded = fold.wait(kReady).id();
    // The peer may finish when its input was read.
    if (!all) fold.signal(peer, kDone);
    if (all) {
      list.move(0, own.bytes, {output_of(rank, to)}, {output_of(peer, to)})
          .after(folded)
          .signal(peer, kDone);
    }
  }
  if (other.bytes != 0) list.handshake(0).wait(kDone);
  return list.take();
}

Schedule pair_ring(const OpRequest& request, const Group& group, const ScheduleOptions& options) {
  Shape shape = make_shape(Algorithm::kRing, request, group, options);
  add_fifo(shape, 0);
  add_fifo(shape, 0);
  shape.largest_step = chunk_of(request, 2, 0).bytes;
  return {shape, [shape](uint32_t rank) { return pair_steps(shape, rank); }};
}

// A group of one: its input is its result.
Schedule single(const OpRequest& request, const Group& group, const ScheduleOptions& options) {
  Shape shape = make_shape(Algorithm::kRing, request, group, options);
  shape.largest_step = request.output_bytes;
  const uint64_t bytes = options.in_place ? 0 : request.output_bytes;
  return {shape, [bytes](uint32_t) {
            StepList list;
            if (bytes != 0) list.move(0, bytes, {input_of(0, 0)}, {output_of(0, 0)});
            return list.take();
          }};
}

// Hops of one slice on one channel: what bounds the steps.
uint32_t hops(OpKind kind, uint32_t n) {
  if (kind == OpKind::kAllReduce) return 2 * (n - 1);
  return kind == OpKind::kReduceScatter ? n : n - 1;
}

// Chunks are of at most `chunk` bytes. One slice at least: a ring is always possible.
void size_slices(RingPlan* plan, const ScheduleOptions& options, uint64_t chunk) {
  constexpr uint32_t kHandshakes = 2;
  const OpKind kind = plan->shape.request.kind;
  const uint32_t n = plan->shape.ranks;
  const uint32_t most = (std::max(options.max_steps, kHandshakes) - kHandshakes) / hops(kind, n);
  const uint64_t part = part_of({0, chunk}, plan->shape.channels, 0).bytes;
  plan->slices = cut(part, options.slot_bytes, options.slices, most);
  // A rank puts a whole block into slots before it empties the first of its own, so a block must be
  // smaller than the slots; half leaves room for the next hop.
  plan->slots = options.slots;
  plan->block = std::max(1u, plan->slots / 2);
  if (reduces(kind)) {
    plan->slots = std::min(plan->slots, std::max(1u, plan->slices.count * (n - 1)));
    plan->shape.channel_bytes = plan->shape.channels * plan->slots * plan->slices.bytes;
  }
  plan->shape.largest_step = std::min(plan->slices.bytes, part);
}

}  // namespace

RingPlan make_ring_plan(Algorithm algorithm, const OpRequest& request, const Group& group,
                        const ScheduleOptions& options, uint64_t largest_chunk) {
  RingPlan plan;
  plan.shape = make_shape(algorithm, request, group, options);
  const uint64_t worth = std::max(largest_chunk / kLeastPart, uint64_t{1});
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(worth, options.max_channels));
  plan.order = ring_orders(group, most);
  plan.shape.channels = static_cast<uint32_t>(plan.order.size());
  for (uint32_t c = 0; c < plan.shape.channels; ++c) {
    plan.position.emplace_back(group.ranks());
    for (uint32_t p = 0; p < group.ranks(); ++p) plan.position[c][plan.order[c][p]] = p;
    plan.data.push_back(add_fifo(plan.shape, c));
    plan.credit.push_back(add_fifo(plan.shape, c));
  }
  return plan;
}

base::Result<Schedule> ring(const OpRequest& request, const Group& group,
                            const ScheduleOptions& options) {
  const uint32_t n = group.ranks();
  if (base::Status status = validate(request, n); !status) return status.error();
  const Algorithm algorithm = one_node(group) ? Algorithm::kRing : Algorithm::kFlatRing;
  if (options.slots < 2 || options.slots > kMaxSlots) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "collectives",
                       "ring channels have 2 to 32 slots, not " + std::to_string(options.slots)};
  }
  const OpKind kind = request.kind;
  const bool all_to_all = kind == OpKind::kAllToAll;
  if (kind != OpKind::kAllReduce && kind != OpKind::kAllGather && kind != OpKind::kReduceScatter &&
      !all_to_all) {
    return not_eligible(algorithm, std::string("no ") + to_string(kind));
  }
  if (!sane_size(request)) return not_eligible(algorithm, "buffer size overflows");
  if (n == 1) return single(request, group, options);
  const Position* members = group.members.data();
  const bool one_chip = members[0].node == members[1].node && members[0].chip == members[1].chip;
  if (n == 2 && one_chip && !all_to_all) return pair_ring(request, group, options);
  const uint64_t chunk = chunk_of(request, n, 0).bytes;
  RingPlan plan = make_ring_plan(algorithm, request, group, options, chunk);
  if (all_to_all) return ring_all_to_all(std::move(plan), options);
  size_slices(&plan, options, chunk);
  const auto shared = std::make_shared<const RingPlan>(std::move(plan));
  return Schedule{shared->shape, [shared](uint32_t rank) {
                    StepList list;
                    for (uint32_t c = 0; c < shared->shape.channels; ++c) {
                      RingProgram(*shared, rank, c, &list).write();
                    }
                    return list.take();
                  }};
}

}  // namespace ccl
