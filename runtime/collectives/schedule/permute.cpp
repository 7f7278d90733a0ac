// Permute, send and receive, permute with reduction (spec/collectives.md 1.5, 2.13). Any set of
// pairs; each rank sends at most once and receives at most once. Data goes straight into the output
// of the target once that says that it may; slices are in flight together. In place the output
// still has to be sent itself, so data waits in slots of the target's channel buffer until then.
// A permute with reduction folds its two inputs on the way.
#include <algorithm>
#include <memory>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/builder.h"
#include "runtime/collectives/schedule/compose.h"

namespace ccl {
namespace {

// Slices straight into the output depend on nothing: they only bound the size of one step.
constexpr uint64_t kDirectSlice = 16 * 1024 * 1024;

struct PermutePlan {
  Shape shape;
  Slices slices;
  uint32_t slots = 1;
  std::vector<uint32_t> target;  // of each rank, kNoId without one
  std::vector<uint32_t> source;
};

constexpr uint32_t kData = 0;    // fifo: from the source
constexpr uint32_t kCredit = 1;  // fifo: from the target

class PermuteProgram {
 public:
  PermuteProgram(const PermutePlan& plan, uint32_t rank)
      : plan_(plan),
        rank_(rank),
        target_(plan.target[rank]),
        source_(plan.source[rank]),
        whole_{0, plan.shape.request.input_bytes} {}

  Steps write() {
    if (plan_.slices.count == 0) return {};
    if (target_ == rank_) {
      copy_self();
      return list_.take();
    }
    if (source_ != kNoId) list_.handshake(0).signal(source_, kCredit);
    if (plan_.shape.in_place) {
      exchange();
    } else {
      for (uint32_t s = 0; s < plan_.slices.count; ++s) {
        if (target_ != kNoId) send(s, output_of(target_, slice(s).offset));
      }
      if (source_ != kNoId) list_.handshake(0).wait(kData, plan_.slices.count);
    }
    return list_.take();
  }

 private:
  Chunk slice(uint32_t s) const { return plan_.slices.slice(whole_, s); }

  std::vector<Range> sources(uint32_t s) const {
    std::vector<Range> out = {input_of(rank_, slice(s).offset)};
    if (plan_.shape.request.kind == OpKind::kPermuteReduce) {
      out.push_back({rank_, Buffer::kSecond, slice(s).offset});
    }
    return out;
  }

  void copy_self() {
    if (plan_.shape.in_place && plan_.shape.request.kind == OpKind::kPermute) return;
    for (uint32_t s = 0; s < plan_.slices.count; ++s) {
      list_.move(0, slice(s).bytes, sources(s), {output_of(rank_, slice(s).offset)});
    }
  }

  uint32_t send(uint32_t s, Range to) {
    StepEdit step = list_.move(0, slice(s).bytes, sources(s), {to});
    if (s == 0 || (plan_.shape.in_place && s >= plan_.slots)) step.wait(kCredit);
    step.signal(target_, kData);
    return step.id();
  }

  // Slice s leaves before slice s of the source replaces it. Sending goes one slice ahead.
  void exchange() {
    std::vector<uint32_t> sent(plan_.slices.count, kNoId);
    for (uint32_t s = 0; s <= plan_.slices.count; ++s) {
      if (s < plan_.slices.count && target_ != kNoId) {
        sent[s] = send(s, channel_of(target_, slot(s)));
      }
      if (s > 0 && source_ != kNoId) receive(s - 1, sent[s - 1]);
    }
  }

  void receive(uint32_t s, uint32_t sent) {
    StepEdit step = list_.move(0, slice(s).bytes, {channel_of(rank_, slot(s))},
                               {output_of(rank_, slice(s).offset)});
    step.wait(kData).after(sent);
    if (s + plan_.slots < plan_.slices.count) step.signal(source_, kCredit);
  }

  uint64_t slot(uint32_t s) const { return s % plan_.slots * plan_.slices.bytes; }

  const PermutePlan& plan_;
  const uint32_t rank_;
  const uint32_t target_;
  const uint32_t source_;
  const Chunk whole_;
  StepList list_;
};

}  // namespace

base::Result<Schedule> permute(const OpRequest& request, const Group& group,
                               const ScheduleOptions& options) {
  const uint32_t n = group.ranks();
  if (base::Status status = validate(request, n); !status) return status.error();
  if (!sane_size(request)) return not_eligible(Algorithm::kRing, "buffer size overflows");
  if (request.kind != OpKind::kPermute && request.kind != OpKind::kPermuteReduce) {
    return not_eligible(Algorithm::kRing,
                        std::string("no ") + to_string(request.kind) + " along pairs");
  }
  constexpr uint32_t kLeastSteps = 8;
  if (options.slots < 2 || options.max_steps < kLeastSteps) {
    return not_eligible(Algorithm::kRing,
                        "a permute needs two slots and " + std::to_string(kLeastSteps) + " steps");
  }
  PermutePlan plan;
  plan.shape = make_shape(Algorithm::kRing, request, group, options);
  add_fifo(plan.shape, 0);
  add_fifo(plan.shape, 0);
  plan.target.assign(n, kNoId);
  plan.source.assign(n, kNoId);
  for (const auto& [source, target] : request.pairs) {
    plan.target[source] = target;
    plan.source[target] = source;
  }
  // In place there are two steps per slice.
  const uint32_t most = (options.max_steps - 2) / 2;
  const uint64_t bytes = request.input_bytes;
  plan.slices = options.in_place ? cut(bytes, options.slot_bytes, options.slices, most)
                                 : cut(bytes, kDirectSlice, 1, most);
  if (options.in_place) {
    plan.slots = std::min(options.slots, std::max(plan.slices.count, 1u));
    plan.shape.channel_bytes = plan.slots * plan.slices.bytes;
  }
  plan.shape.largest_step = std::min(plan.slices.bytes, bytes);
  const auto shared = std::make_shared<const PermutePlan>(std::move(plan));
  return Schedule{shared->shape,
                  [shared](uint32_t rank) { return PermuteProgram(*shared, rank).write(); }};
}

}  // namespace ccl
