// KangaRing (spec/collectives.md 2.6). The ranks of an S-engine pair (one die; LNC=2: two ranks,
// LNC=1: four) form a group of which one, the primary, is on the ring; it reads and writes the
// memory of the others, the secondaries, over the die. A chip has two groups, passed one after the
// other: the hops alternate between d2d and NeuronLink. Every channel has other primaries, so that
// each rank works in half of the channels.
// Flow control as in ring.cpp: fifos between neighbouring primaries, slots for partial sums. A
// secondary says once that its memory may be touched and is told once that nobody will any more.
// Our choice where 2.6 is silent: at LNC=1 the primary is the first core of its S-engine on forward
// channels, the second on reversed ones.
#include <algorithm>
#include <memory>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/builder.h"
#include "runtime/collectives/schedule/compose.h"
#include "runtime/collectives/schedule/cycles.h"

namespace ccl {
namespace {

constexpr uint32_t kMaxKangaRanks = 256;  // spec/collectives.md 2.6
constexpr uint64_t kLast = 1ull << 32;    // a time after all hops

// Primary first, then the secondaries by ascending core.
using Members = std::vector<uint32_t>;

struct KangaPlan {
  Shape shape;
  std::vector<std::vector<Members>> groups;     // per channel, in the order of the path
  std::vector<std::vector<uint32_t>> group_of;  // per channel: rank -> group
  Slices slices;
  uint32_t block = 1;
  uint32_t slots = 1;
  // Per channel. Fifos between primaries as in a ring; what secondaries signal to their primary,
  // and the primary to each of them.
  std::vector<uint32_t> data;
  std::vector<uint32_t> credit;
  std::vector<uint32_t> ready;
  std::vector<uint32_t> done;
};

// The steps of a primary on one channel.
class KangaProgram {
 public:
  KangaProgram(const KangaPlan& plan, uint32_t channel, uint32_t group, StepList* list)
      : plan_(plan),
        request_(plan.shape.request),
        groups_(plan.groups[channel]),
        list_(*list),
        m_(static_cast<uint32_t>(groups_.size())),
        c_(channel),
        i_(group),
        self_(groups_[i_][0]),
        next_(groups_[(i_ + 1) % m_][0]),
        previous_(groups_[(i_ + m_ - 1) % m_][0]) {}

  void write() {
    const uint32_t all = slices_of_all();
    incoming_ = reduces(request_.kind) ? all - slices_of(i_ + m_ - 1) : 0;
    list_.at(0);
    if (will_send(i_ + m_ - 1, all)) list_.handshake(c_).signal(previous_, plan_.credit[c_]);
    for (uint32_t first = 0; first < plan_.slices.count; first += plan_.block) {
      const uint32_t end = std::min(plan_.slices.count, first + plan_.block);
      if (reduces(request_.kind)) reduce(first, end);
      if (gathers()) gather(first, end);
    }
    list_.at(kLast);
    StepEdit last = list_.handshake(c_);
    last.after(touches_);
    for (uint32_t k = 1; k < own().size(); ++k) last.signal(own()[k], plan_.done[c_]);
  }

 private:
  bool gathers() const { return request_.kind != OpKind::kReduceScatter; }
  const Members& own() const { return groups_[i_]; }
  uint32_t secondaries() const { return static_cast<uint32_t>(own().size()) - 1; }

  Chunk whole(uint32_t rank) const { return chunk_of(request_, plan_.shape.ranks, rank); }
  Chunk slice(uint32_t rank, uint32_t s) const {
    return plan_.slices.slice(part_of(whole(rank), plan_.shape.channels, c_), s);
  }
  uint32_t slices_of(uint32_t group) const {
    uint32_t count = 0;
    for (const uint32_t rank : groups_[group % m_]) {
      count += plan_.slices.of(part_of(whole(rank), plan_.shape.channels, c_));
    }
    return count;
  }
  uint32_t slices_of_all() const {
    uint32_t count = 0;
    for (uint32_t g = 0; g < m_; ++g) count += slices_of(g);
    return count;
  }
  // Partial sums of all but the own group's chunks, finished chunks of all but the successor's.
  bool will_send(uint32_t group, uint32_t all) const {
    return (reduces(request_.kind) && slices_of(group) != all) ||
           (gathers() && slices_of(group + 1) != all);
  }

  void arrive(StepEdit* step) { step->wait(plan_.data[c_]); }
  void touch_next(StepEdit* step) {
    if (!touched_) step->wait(plan_.credit[c_]);
    touched_ = true;
  }
  // The step reads or writes memory of the secondaries.
  void touch_local(StepEdit* step) {
    if (!local_) step->wait(plan_.ready[c_], secondaries());
    local_ = true;
    touches_.push_back(step->id());
  }
  uint64_t slot(uint32_t message) const {
    return (uint64_t{c_} * plan_.slots + message % plan_.slots) * plan_.slices.bytes;
  }

  void reduce(uint32_t first, uint32_t end) {
    for (uint32_t t = 0; t + 1 < m_; ++t) {
      for (uint32_t s = first; s < end; ++s) {
        list_.at(++time_);
        for (const uint32_t n : groups_[(i_ + 2 * m_ - 1 - t) % m_]) send_partial(t, slice(n, s));
      }
    }
    for (uint32_t s = first; s < end; ++s) {
      list_.at(++time_);
      for (const uint32_t n : own()) finish(n, slice(n, s));
    }
  }

  // Received partial sum, primary, secondaries.
  StepEdit fold(const Chunk& piece, bool received) {
    std::vector<Range> sources;
    if (received) sources.push_back(channel_of(self_, slot(consumed_)));
    for (const uint32_t member : own()) sources.push_back(input_of(member, piece.offset));
    StepEdit step = list_.move(c_, piece.bytes, std::move(sources), {});
    touch_local(&step);
    if (!received) return step;
    arrive(&step);
    if (consumed_ + plan_.slots < incoming_) step.signal(previous_, plan_.credit[c_]);
    ++consumed_;
    return step;
  }

  void send_partial(uint32_t t, const Chunk& piece) {
    if (piece.bytes == 0) return;
    StepEdit step = fold(piece, t != 0);
    touch_next(&step);
    if (sent_ >= plan_.slots) step.wait(plan_.credit[c_]);
    step.to(channel_of(next_, slot(sent_))).signal(next_, plan_.data[c_]);
    ++sent_;
  }

  void finish(uint32_t n, const Chunk& piece) {
    if (piece.bytes == 0) return;
    StepEdit step = fold(piece, true);
    const uint32_t id = step.id();
    if (!gathers()) {
      step.to(output_of(n, piece.offset - whole(n).offset));
      return;
    }
    for (const uint32_t member : own()) step.to(output_of(member, piece.offset));
    if (own().size() < kMaxDestinations) {
      send_to(&step, piece);
      return;
    }
    StepEdit send = list_.move(c_, piece.bytes, {output_of(self_, piece.offset)}, {});
    send.after(id);
    send_to(&send, piece);
  }

  void send_to(StepEdit* step, const Chunk& piece) {
    touch_next(step);
    step->to(output_of(next_, piece.offset)).signal(next_, plan_.data[c_]);
  }

  void gather(uint32_t first, uint32_t end) {
    if (request_.kind == OpKind::kAllGather) {
      for (uint32_t s = first; s < end; ++s) {
        list_.at(++time_);
        for (const uint32_t n : own()) send_own(n, slice(n, s));
      }
    }
    for (uint32_t t = 1; t < m_; ++t) {
      for (uint32_t s = first; s < end; ++s) {
        list_.at(++time_);
        for (const uint32_t n : groups_[(i_ + m_ - t) % m_]) forward(slice(n, s), t + 1 < m_);
      }
    }
  }

  // A chunk of the own group, from its owner's input to the others and on. Owners copy to their own
  // output themselves.
  void send_own(uint32_t n, const Chunk& piece) {
    if (piece.bytes == 0) return;
    StepEdit step = list_.move(c_, piece.bytes, {input_of(n, piece.offset - whole(n).offset)}, {});
    touch_local(&step);
    for (const uint32_t member : own()) {
      if (member != n) step.to(output_of(member, piece.offset));
    }
    send_to(&step, piece);
  }

  // 1R2W: on to the next primary and to the secondaries.
  void forward(const Chunk& piece, bool further) {
    if (piece.bytes == 0) return;
    StepEdit step = list_.move(c_, piece.bytes, {output_of(self_, piece.offset)}, {});
    arrive(&step);
    touch_local(&step);
    for (uint32_t k = 1; k < own().size(); ++k) step.to(output_of(own()[k], piece.offset));
    if (further) send_to(&step, piece);
  }

  const KangaPlan& plan_;
  const OpRequest& request_;
  const std::vector<Members>& groups_;
  StepList& list_;
  const uint32_t m_;
  const uint32_t c_;
  const uint32_t i_;
  const uint32_t self_;
  const uint32_t next_;
  const uint32_t previous_;
  uint32_t incoming_ = 0;
  uint32_t consumed_ = 0;
  uint32_t sent_ = 0;
  uint64_t time_ = 0;  // counts slices and hops, also those without bytes
  bool touched_ = false;
  bool local_ = false;
  std::vector<uint32_t> touches_;  // steps that touch memory of secondaries
};

Steps steps_of(const KangaPlan& plan, uint32_t rank) {
  const Shape& shape = plan.shape;
  const bool copy = shape.request.kind == OpKind::kAllGather && !shape.in_place;
  const Chunk own = chunk_of(shape.request, shape.ranks, rank);
  StepList list;
  for (uint32_t c = 0; c < shape.channels; ++c) {
    // Chunk 0 is the longest: without bytes in it the channel has nothing to do.
    const Chunk first = chunk_of(shape.request, shape.ranks, 0);
    if (part_of(first, shape.channels, c).bytes == 0) continue;
    const uint32_t g = plan.group_of[c][rank];
    const uint32_t primary = plan.groups[c][g][0];
    if (primary == rank) {
      KangaProgram(plan, c, g, &list).write();
    } else {
      list.at(0);
      list.handshake(c).signal(primary, plan.ready[c]);
    }
    const Chunk part = part_of(own, shape.channels, c);
    list.at(kLast);
    if (copy) {
      list.move(c, part.bytes, {input_of(rank, part.offset - own.offset)},
                {output_of(rank, part.offset)});
    }
    list.at(kLast + 1);
    if (primary != rank) list.handshake(c).wait(plan.done[c]);
  }
  return list.take();
}

// The groups of one channel: two per chip, in the order of the ring.
std::vector<Members> path(const Group& group, const std::vector<ChipRanks>& chips,
                          const ChipRing& ring, bool reversed) {
  std::vector<Members> out;
  for (const ChipStop& stop : ring.stops) {
    const std::vector<uint32_t>& ranks = chips[stop.chip].members;  // by ascending core
    for (const uint32_t core : {stop.in, stop.out}) {
      const auto size = static_cast<uint32_t>(ranks.size() / 2);
      const uint32_t die = core / 2 * size;
      const uint32_t primary = group.topology.cores == 4 ? core : 2 * core + (reversed ? 1 : 0);
      Members members = {ranks[primary]};
      for (uint32_t k = die; k < die + size; ++k) {
        if (k != primary) members.push_back(ranks[k]);
      }
      out.push_back(std::move(members));
    }
  }
  return out;
}

base::Status check(const OpRequest& request, const Group& group) {
  const OpKind kind = request.kind;
  const auto refuse = [](const std::string& why) {
    return not_eligible(Algorithm::kKangaRing, why);
  };
  if (kind != OpKind::kAllReduce && kind != OpKind::kAllGather && kind != OpKind::kReduceScatter) {
    return refuse(std::string("no ") + to_string(kind));
  }
  if (group.topology.gen == contract::Gen::kV2) return refuse("not on v2");
  if (group.topology.cores != 4 && group.topology.cores != 8) {
    return refuse("chips of " + std::to_string(group.topology.cores) + " cores");
  }
  if (group.ranks() > kMaxKangaRanks) {
    return refuse(std::to_string(group.ranks()) + " ranks; at most " +
                  std::to_string(kMaxKangaRanks));
  }
  return {};
}

// Steps of one slice on one channel.
uint32_t hops(OpKind kind, uint32_t groups, uint32_t members) {
  if (kind == OpKind::kReduceScatter || kind == OpKind::kAllGather) return groups * members;
  return (2 * groups + 1) * members;
}

}  // namespace

base::Result<Schedule> kangaring(const OpRequest& request, const Group& group,
                                 const ScheduleOptions& options) {
  if (base::Status status = validate(request, group.ranks()); !status) return status.error();
  if (base::Status status = check(request, group); !status) return status.error();
  if (!sane_size(request)) return not_eligible(Algorithm::kKangaRing, "buffer size overflows");
  const std::vector<ChipRanks> chips = by_chip(group);
  const std::vector<ChipRing> rings = chip_rings(group, chips, options.max_channels);
  if (!whole_chips(group, chips) || !rings.front().by_ports) {
    return not_eligible(Algorithm::kKangaRing, "the group is no ring of whole chips");
  }
  KangaPlan plan;
  plan.shape = make_shape(Algorithm::kKangaRing, request, group, options);
  plan.shape.channels = static_cast<uint32_t>(rings.size());
  for (uint32_t c = 0; c < plan.shape.channels; ++c) {
    plan.groups.push_back(path(group, chips, rings[c], 2 * c >= rings.size()));
    plan.group_of.emplace_back(group.ranks());
    for (uint32_t g = 0; g < plan.groups[c].size(); ++g) {
      for (const uint32_t member : plan.groups[c][g]) plan.group_of[c][member] = g;
    }
    plan.data.push_back(add_fifo(plan.shape, c));
    plan.credit.push_back(add_fifo(plan.shape, c));
    plan.ready.push_back(add_gather(plan.shape, c));
    plan.done.push_back(add_fifo(plan.shape, c));
  }
  const auto groups = static_cast<uint32_t>(plan.groups[0].size());
  const uint32_t members = group.ranks() / groups;
  constexpr uint32_t kOthers = 4;  // handshakes and the copy of the own chunk
  const uint32_t most = options.max_steps <= kOthers
                            ? 0
                            : (options.max_steps - kOthers) / hops(request.kind, groups, members);
  // A block of slices of all members goes into slots before the first is emptied.
  plan.block = (options.slots - 1) / members;
  if (most == 0 || options.slots == 0 || plan.block == 0) {
    return not_eligible(Algorithm::kKangaRing,
                        "too few steps or slots for " + std::to_string(group.ranks()) + " ranks");
  }
  const Chunk chunk = chunk_of(request, group.ranks(), 0);
  const uint64_t part = part_of({0, chunk.bytes}, plan.shape.channels, 0).bytes;
  plan.slices = cut(part, options.slot_bytes, options.slices, most);
  plan.slots = options.slots;
  if (reduces(request.kind)) {
    plan.shape.channel_bytes = plan.shape.channels * plan.slots * plan.slices.bytes;
  }
  plan.shape.largest_step = request.kind == OpKind::kAllGather && !options.in_place
                                ? part
                                : std::min(plan.slices.bytes, part);
  const auto shared = std::make_shared<const KangaPlan>(std::move(plan));
  return Schedule{shared->shape, [shared](uint32_t rank) { return steps_of(*shared, rank); }};
}

}  // namespace ccl
