// All-to-all on a ring by store and forward (spec/collectives.md 2.12): in step t a position passes
// on a bundle of the N-1-t blocks that still have to go further; the first is for the receiver and
// is written into its output, the others into a slot. Blocks are cut in one part per channel and,
// when the bundles would not fit their slots, in slices that go round one after the other.
// The own block is copied meanwhile.
#include <algorithm>

#include "runtime/collectives/schedule/ring.h"

namespace ccl {
namespace {

// One is filled while the other is emptied.
constexpr uint32_t kBundles = 2;

class AllToAllProgram {
 public:
  AllToAllProgram(const RingPlan& plan, uint32_t rank, uint32_t channel, StepList* list)
      : plan_(plan),
        list_(*list),
        n_(plan.shape.ranks),
        c_(channel),
        p_(plan.position[channel][rank]),
        self_(rank),
        next_(at(p_ + 1)),
        previous_(at(p_ + n_ - 1)),
        block_(chunk_of(plan.shape.request, n_, 0).bytes),
        part_(part_of({0, block_}, plan.shape.channels, channel)) {}

  void write() {
    const uint32_t rounds = plan_.slices.of(part_);
    if (rounds == 0) return;
    bundles_ = rounds * (n_ - 2);
    list_.at(0);
    list_.handshake(c_).signal(previous_, plan_.credit[c_]);
    for (uint32_t s = 0; s < rounds; ++s) {
      slice_ = plan_.slices.slice(part_, s);
      list_.at(uint64_t{s} * n_ + 1);
      first_step();
      list_.move(c_, slice_.bytes, {input_of(self_, self_ * block_ + slice_.offset)},
                 {output_of(self_, self_ * block_ + slice_.offset)});
      for (uint32_t t = 1; t + 1 < n_; ++t) {
        list_.at(uint64_t{s} * n_ + 1 + t);
        forward(t);
      }
      pending_ += 1;  // the last block for this rank
    }
    list_.at(~uint64_t{0});
    list_.handshake(c_).wait(plan_.data[c_], pending_);
  }

 private:
  uint32_t at(uint32_t position) const { return plan_.order[c_][position % n_]; }

  // Signals of the steps that send the bundle of step t, and of those that empty its slot.
  uint32_t sends(uint32_t t) const {
    if (t == 0) return n_ - 1;
    return t + 2 < n_ ? 2 : 1;
  }
  uint32_t reads(uint32_t bundle) const { return sends(bundle % (n_ - 2) + 1); }

  uint64_t slot(uint32_t bundle) const {
    const uint64_t bytes = (n_ - 2) * plan_.slices.bytes;
    return (uint64_t{c_} * kBundles + bundle % kBundles) * bytes;
  }

  // The block from `origin` for the successor.
  StepEdit deliver(uint32_t origin, Range from) {
    StepEdit step = list_.move(c_, slice_.bytes, {from},
                               {output_of(next_, at(origin) * block_ + slice_.offset)});
    step.signal(next_, plan_.data[c_]);
    return step;
  }

  void wait_for_slot(StepEdit* step) {
    if (sent_ >= kBundles) step->wait(plan_.credit[c_], reads(sent_ - kBundles));
  }

  void first_step() {
    for (uint32_t k = 1; k < n_; ++k) {
      const Range from = input_of(self_, at(p_ + k) * block_ + slice_.offset);
      if (k == 1) {
        StepEdit step = deliver(p_, from);
        if (!touched_) step.wait(plan_.credit[c_]);
        touched_ = true;
        continue;
      }
      StepEdit step = list_.move(c_, slice_.bytes, {from},
                                 {channel_of(next_, slot(sent_) + (k - 2) * slice_.bytes)});
      if (k == 2) wait_for_slot(&step);
      step.signal(next_, plan_.data[c_]);
    }
    if (n_ > 2) ++sent_;
  }

  void forward(uint32_t t) {
    const uint64_t from = slot(taken_);
    const bool credit = taken_ + kBundles < bundles_;
    StepEdit first = deliver(p_ + n_ - t, channel_of(self_, from));
    first.wait(plan_.data[c_], sends(t - 1) + pending_);
    pending_ = 0;
    if (credit) first.signal(previous_, plan_.credit[c_]);
    const uint32_t rest = n_ - 2 - t;
    if (rest != 0) {
      StepEdit step = list_.move(c_, rest * slice_.bytes, {channel_of(self_, from + slice_.bytes)},
                                 {channel_of(next_, slot(sent_))});
      wait_for_slot(&step);
      step.signal(next_, plan_.data[c_]);
      if (credit) step.signal(previous_, plan_.credit[c_]);
      ++sent_;
    }
    ++taken_;
  }

  const RingPlan& plan_;
  StepList& list_;
  const uint32_t n_;
  const uint32_t c_;
  const uint32_t p_;
  const uint32_t self_;
  const uint32_t next_;
  const uint32_t previous_;
  const uint64_t block_;
  const Chunk part_;  // of a block
  Chunk slice_;
  uint32_t bundles_ = 0;  // through slots
  uint32_t sent_ = 0;
  uint32_t taken_ = 0;
  uint32_t pending_ = 0;
  bool touched_ = false;
};

}  // namespace

Schedule ring_all_to_all(RingPlan plan, const ScheduleOptions& options) {
  const uint32_t n = plan.shape.ranks;
  const uint32_t most = options.max_steps / (3 * n);
  const uint64_t block = chunk_of(plan.shape.request, n, 0).bytes;
  const uint64_t part = part_of({0, block}, plan.shape.channels, 0).bytes;
  const uint64_t room = options.slots * options.slot_bytes / kBundles;
  plan.slices = cut(part, room / std::max(n - 2, 1u), 1, most);
  plan.shape.channel_bytes = plan.shape.channels * uint64_t{kBundles} * (n - 2) * plan.slices.bytes;
  const uint64_t blocks = n > 3 ? n - 3 : 1;
  plan.shape.largest_step = blocks * std::min(plan.slices.bytes, part);
  const auto shared = std::make_shared<const RingPlan>(std::move(plan));
  return {shared->shape, [shared](uint32_t rank) {
            StepList list;
            for (uint32_t c = 0; c < shared->shape.channels; ++c) {
              AllToAllProgram(*shared, rank, c, &list).write();
            }
            return list.take();
          }};
}

}  // namespace ccl
