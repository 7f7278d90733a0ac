// Trees (spec/collectives.md 2.11): binomial broadcast and reduce, double binary tree all-reduce,
// and a barrier by dissemination. All pipelined in slices.
// Order of sums (ours): a rank folds its own input, then its children's partial sums in one step,
// rounded once: by ascending distance in the binomial tree, the lower interval first in the binary
// ones.
#include <algorithm>
#include <memory>
#include <optional>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/builder.h"
#include "runtime/collectives/schedule/compose.h"

namespace ccl {
namespace {

constexpr uint32_t kMaxLevels = 15;  // a step has at most 16 sources

// Smallest p with 2^p >= n.
uint32_t levels_of(uint32_t n) {
  uint32_t p = 0;
  while ((uint64_t{1} << p) < n) ++p;
  return p;
}

// The binomial tree around `root`.
class Binomial {
 public:
  Binomial(uint32_t ranks, uint32_t root, uint32_t rank)
      : n_(ranks), root_(root), v_((rank + ranks - root) % ranks) {
    while (v_ != 0 && (v_ >> level_ & 1) == 0) ++level_;
    const uint32_t below = v_ == 0 ? levels_of(n_) : level_;
    for (uint32_t k = 0; k < below; ++k) {
      if (uint64_t{v_} + (uint64_t{1} << k) < n_) children_.push_back(at(v_ + (1u << k)));
    }
  }

  bool is_root() const { return v_ == 0; }
  uint32_t parent() const { return at(v_ - (1u << level_)); }
  // This rank is child number `level` of its parent.
  uint32_t level() const { return level_; }
  const std::vector<uint32_t>& children() const { return children_; }  // by ascending distance

 private:
  uint32_t at(uint32_t v) const { return (v + root_) % n_; }

  uint32_t n_;
  uint32_t root_;
  uint32_t v_;
  uint32_t level_ = 0;
  std::vector<uint32_t> children_;
};

struct TreePlan {
  Shape shape;
  Slices slices;
  uint32_t slots = 1;
};

// Data goes straight into the outputs of the children, the farthest first.
Steps broadcast_steps(const TreePlan& plan, uint32_t rank) {
  constexpr uint32_t kData = 0;
  constexpr uint32_t kReady = 1;
  const OpRequest& request = plan.shape.request;
  const Chunk whole{0, request.input_bytes};
  const Binomial tree(plan.shape.ranks, request.root, rank);
  const auto count = static_cast<uint32_t>(tree.children().size());
  StepList list;
  if (!tree.is_root() && plan.slices.count != 0) list.handshake(0).signal(tree.parent(), kReady);
  for (uint32_t s = 0; s < plan.slices.count; ++s) {
    const Chunk slice = plan.slices.slice(whole, s);
    const Buffer from = tree.is_root() ? Buffer::kInput : Buffer::kOutput;
    for (uint32_t k = count; k-- > 0;) {
      const uint32_t child = tree.children()[k];
      StepEdit step =
          list.move(0, slice.bytes, {{rank, from, slice.offset}}, {output_of(child, slice.offset)});
      if (s == 0 && k + 1 == count) step.wait(kReady, count);
      if (!tree.is_root() && k + 1 == count) step.wait(kData);
      step.signal(child, kData);
    }
    if (tree.is_root() && !plan.shape.in_place) {
      list.move(0, slice.bytes, {input_of(rank, slice.offset)}, {output_of(rank, slice.offset)});
    }
  }
  if (!tree.is_root() && count == 0 && plan.slices.count != 0) {
    list.handshake(0).wait(kData, plan.slices.count);
  }
  return list.take();
}

// Partial sums go into slots of the parent, each child has its own.
Steps reduce_steps(const TreePlan& plan, uint32_t rank) {
  constexpr uint32_t kCredit = 0;
  constexpr uint32_t kData = 1;  // and one more for every level
  const OpRequest& request = plan.shape.request;
  const Chunk whole{0, request.input_bytes};
  const Binomial tree(plan.shape.ranks, request.root, rank);
  const auto slot = [&](uint32_t level, uint32_t s) {
    return (uint64_t{level} * plan.slots + s % plan.slots) * plan.slices.bytes;
  };
  StepList list;
  if (!tree.children().empty() && plan.slices.count != 0) {
    StepEdit ready = list.handshake(0);
    for (const uint32_t child : tree.children()) ready.signal(child, kCredit);
  }
  for (uint32_t s = 0; s < plan.slices.count; ++s) {
    const Chunk slice = plan.slices.slice(whole, s);
    StepEdit step = list.move(0, slice.bytes, {input_of(rank, slice.offset)}, {});
    for (uint32_t k = 0; k < tree.children().size(); ++k) {
      step.from(channel_of(rank, slot(k, s))).wait(kData + k);
      if (s + plan.slots < plan.slices.count) step.signal(tree.children()[k], kCredit);
    }
    if (tree.is_root()) {
      step.to(output_of(rank, slice.offset));
      continue;
    }
    if (s == 0 || s >= plan.slots) step.wait(kCredit);
    step.to(channel_of(tree.parent(), slot(tree.level(), s)))
        .signal(tree.parent(), kData + tree.level());
  }
  return list.take();
}

// One of the two trees over ranks 0..n-1: a balanced in-order binary tree, or its image in which
// the ranks that are interior in the first are leaves.
class Binary {
 public:
  Binary(uint32_t ranks, uint32_t tree, uint32_t rank) : n_(ranks), tree_(tree) {
    const uint32_t x = position(rank);
    uint32_t begin = 0;
    uint32_t end = n_;
    for (uint32_t root = root_of(begin, end); root != x; root = root_of(begin, end)) {
      parent_ = root;
      side_ = x < root ? 0 : 1;
      (x < root ? end : begin) = x < root ? root : root + 1;
    }
    if (begin < x) children_.push_back({0, rank_at(root_of(begin, x))});
    if (x + 1 < end) children_.push_back({1, rank_at(root_of(x + 1, end))});
  }

  bool is_root() const { return !parent_; }
  uint32_t parent() const { return rank_at(*parent_); }
  uint32_t side() const { return side_; }  // which child of its parent
  struct Child {
    uint32_t side = 0;
    uint32_t rank = 0;
  };
  const std::vector<Child>& children() const { return children_; }

 private:
  // Of the interval [begin, end): its 2^floor(log2 n)-th element.
  static uint32_t root_of(uint32_t begin, uint32_t end) {
    uint32_t power = 1;
    while (power <= (end - begin) / 2) power *= 2;
    return begin + power - 1;
  }
  uint32_t position(uint32_t rank) const {
    if (tree_ == 0) return rank;
    return n_ % 2 == 0 ? n_ - 1 - rank : (rank + n_ - 1) % n_;
  }
  uint32_t rank_at(uint32_t x) const {
    if (tree_ == 0) return x;
    return n_ % 2 == 0 ? n_ - 1 - x : (x + 1) % n_;
  }

  uint32_t n_;
  uint32_t tree_;
  std::optional<uint32_t> parent_;
  uint32_t side_ = 0;
  std::vector<Child> children_;
};

constexpr uint32_t kTrees = 2;

// Events and channels of tree h of the double binary tree.
struct TreeEvents {
  uint32_t up = 0;
  uint32_t down = 0;
  uint32_t credit = 0;
  uint32_t partial[2] = {0, 0};  // from the lower, the upper child
  uint32_t result = 0;
};

struct DoublePlan {
  TreePlan base;
  TreeEvents events[kTrees];
};

class DoubleTree {
 public:
  DoubleTree(const DoublePlan& plan, uint32_t h, uint32_t rank, StepList* list)
      : plan_(plan.base),
        events_(plan.events[h]),
        tree_(plan.base.shape.ranks, h, rank),
        h_(h),
        rank_(rank),
        half_(part_of({0, plan.base.shape.request.input_bytes}, kTrees, h)),
        count_(plan.base.slices.of(half_)),
        list_(*list) {}

  // Partial sums, into slots. The root writes the result, to its children at once: that they sent
  // partial sums says that they may be written to.
  void up() {
    if (count_ == 0) return;
    list_.at(0);
    if (!tree_.children().empty()) {
      StepEdit ready = list_.handshake(events_.up);
      for (const auto& child : tree_.children()) ready.signal(child.rank, events_.credit);
    }
    for (uint32_t s = 0; s < count_; ++s) {
      const Chunk slice = plan_.slices.slice(half_, s);
      list_.at(s + 1);
      StepEdit step = list_.move(events_.up, slice.bytes, {input_of(rank_, slice.offset)}, {});
      for (const auto& child : tree_.children()) {
        step.from(channel_of(rank_, slot(child.side, s))).wait(events_.partial[child.side]);
        if (s + plan_.slots < count_) step.signal(child.rank, events_.credit);
      }
      if (tree_.is_root()) {
        step.to(output_of(rank_, slice.offset));
        to_children(&step, slice);
        continue;
      }
      if (s == 0 || s >= plan_.slots) step.wait(events_.credit);
      step.to(channel_of(tree_.parent(), slot(tree_.side(), s)))
          .signal(tree_.parent(), events_.partial[tree_.side()]);
    }
  }

  void down() {
    if (tree_.is_root() || count_ == 0) return;
    // Results come when partial sums have gone up and down: later by as many slices as slots.
    list_.at(uint64_t{count_} + plan_.slots);
    if (tree_.children().empty()) {
      list_.handshake(events_.down).wait(events_.result, count_);
      return;
    }
    for (uint32_t s = 0; s < count_; ++s) {
      const Chunk slice = plan_.slices.slice(half_, s);
      list_.at(uint64_t{s} + 1 + plan_.slots);
      StepEdit step = list_.move(events_.down, slice.bytes, {output_of(rank_, slice.offset)}, {});
      step.wait(events_.result);
      to_children(&step, slice);
    }
  }

 private:
  void to_children(StepEdit* step, const Chunk& slice) const {
    for (const auto& child : tree_.children()) {
      step->to(output_of(child.rank, slice.offset)).signal(child.rank, events_.result);
    }
  }
  uint64_t slot(uint32_t side, uint32_t s) const {
    const uint64_t edge = uint64_t{h_} * 2 + side;
    return (edge * plan_.slots + s % plan_.slots) * plan_.slices.bytes;
  }

  const TreePlan& plan_;
  const TreeEvents& events_;
  const Binary tree_;
  const uint32_t h_;
  const uint32_t rank_;
  const Chunk half_;
  const uint32_t count_;
  StepList& list_;
};

Schedule double_tree(TreePlan base, const ScheduleOptions& options) {
  DoublePlan plan;
  plan.base = std::move(base);
  Shape& shape = plan.base.shape;
  const uint32_t channels = options.max_channels >= 4 ? 4 : std::max(options.max_channels, 1u);
  shape.channels = channels >= 4 ? 4 : std::min(channels, kTrees);
  // Steps of one slice on one channel.
  const uint32_t share = 2 * kTrees / shape.channels;
  const uint64_t half = part_of({0, shape.request.input_bytes}, kTrees, 0).bytes;
  plan.base.slices = cut(half, options.slot_bytes, options.slices, (options.max_steps - 4) / share);
  plan.base.slots = std::min(options.slots, std::max(plan.base.slices.count, 1u));
  shape.channel_bytes = 2 * kTrees * plan.base.slots * plan.base.slices.bytes;
  shape.largest_step = std::min(plan.base.slices.bytes, half);
  for (uint32_t h = 0; h < kTrees; ++h) {
    TreeEvents& e = plan.events[h];
    e.up = h % shape.channels;
    e.down = (kTrees + h) % shape.channels;
    e.credit = add_fifo(shape, e.up);
    for (uint32_t& partial : e.partial) partial = add_fifo(shape, e.up);
    e.result = add_fifo(shape, e.down);
  }
  const auto shared = std::make_shared<const DoublePlan>(std::move(plan));
  return {shared->base.shape, [shared](uint32_t rank) {
            StepList list;
            for (uint32_t h = 0; h < kTrees; ++h) DoubleTree(*shared, h, rank, &list).up();
            for (uint32_t h = 0; h < kTrees; ++h) DoubleTree(*shared, h, rank, &list).down();
            return list.take();
          }};
}

Schedule broadcast(TreePlan plan, const ScheduleOptions& options) {
  const uint64_t bytes = plan.shape.request.input_bytes;
  add_fifo(plan.shape, 0);
  add_gather(plan.shape, 0);
  const uint32_t most = (options.max_steps - 4) / (levels_of(plan.shape.ranks) + 1);
  plan.slices = cut(bytes, options.slot_bytes, options.slices, most);
  plan.shape.largest_step = std::min(plan.slices.bytes, bytes);
  return {plan.shape, [plan](uint32_t rank) { return broadcast_steps(plan, rank); }};
}

Schedule reduce(TreePlan plan, const ScheduleOptions& options) {
  const uint64_t bytes = plan.shape.request.input_bytes;
  const uint32_t levels = levels_of(plan.shape.ranks);
  add_fifo(plan.shape, 0);
  for (uint32_t k = 0; k < levels; ++k) add_fifo(plan.shape, 0);
  plan.slices = cut(bytes, options.slot_bytes, options.slices, options.max_steps - 4);
  plan.slots = std::min(options.slots, std::max(plan.slices.count, 1u));
  plan.shape.channel_bytes = uint64_t{levels} * plan.slots * plan.slices.bytes;
  plan.shape.largest_step = std::min(plan.slices.bytes, bytes);
  return {plan.shape, [plan](uint32_t rank) { return reduce_steps(plan, rank); }};
}

// In round k every rank hears from the one 2^k before it: after the last round, from all.
Schedule barrier(TreePlan plan) {
  const uint32_t n = plan.shape.ranks;
  const uint32_t rounds = levels_of(n);
  for (uint32_t k = 0; k < rounds; ++k) add_fifo(plan.shape, 0);
  return {plan.shape, [n, rounds](uint32_t rank) {
            StepList list;
            for (uint32_t k = 0; k <= rounds; ++k) {
              if (rounds == 0) break;
              StepEdit step = list.handshake(0);
              if (k != 0) step.wait(k - 1);
              if (k != rounds) step.signal((rank + (1u << k)) % n, k);
            }
            return list.take();
          }};
}

}  // namespace

base::Result<Schedule> tree(const OpRequest& request, const Group& group,
                            const ScheduleOptions& options) {
  const uint32_t n = group.ranks();
  if (base::Status status = validate(request, n); !status) return status.error();
  if (!sane_size(request)) return not_eligible(Algorithm::kTree, "buffer size overflows");
  constexpr uint32_t kLeastSteps = 32;
  if (options.slots == 0 || options.max_steps < kLeastSteps) {
    return not_eligible(Algorithm::kTree,
                        "no slots or less than " + std::to_string(kLeastSteps) + " steps");
  }
  if (levels_of(n) > kMaxLevels) {
    return not_eligible(Algorithm::kTree, std::to_string(n) + " ranks");
  }
  TreePlan plan;
  plan.shape = make_shape(Algorithm::kTree, request, group, options);
  if (n == 1 && options.in_place) return Schedule{plan.shape, [](uint32_t) { return Steps{}; }};
  switch (request.kind) {
    case OpKind::kBroadcast:
      return broadcast(std::move(plan), options);
    case OpKind::kReduce:
      return reduce(std::move(plan), options);
    case OpKind::kAllReduce:
      return double_tree(std::move(plan), options);
    case OpKind::kBarrier:
      return barrier(std::move(plan));
    default:
      return not_eligible(Algorithm::kTree, std::string("no ") + to_string(request.kind));
  }
}

}  // namespace ccl
