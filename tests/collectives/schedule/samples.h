// Small correct schedules, written by hand for tests of what works on any schedule.
#pragma once

#include <memory>
#include <vector>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// A schedule whose steps can be changed.
struct Sample {
  Shape shape;
  std::vector<Steps> ranks;

  Schedule schedule() const {
    auto steps = std::make_shared<const std::vector<Steps>>(ranks);
    return {shape, [steps](uint32_t rank) { return (*steps)[rank]; }};
  }
};

inline Sample make_sample(const OpRequest& request, uint32_t ranks, std::vector<Event> events) {
  Sample s;
  s.shape.request = request;
  s.shape.ranks = ranks;
  s.shape.events = std::move(events);
  s.shape.largest_step = std::max(request.input_bytes, request.output_bytes);
  s.ranks.resize(ranks);
  return s;
}

inline OpRequest sample_request(OpKind kind, uint32_t ranks, uint64_t bytes) {
  OpRequest r;
  r.kind = kind;
  r.dtype = DType::kFp32;
  r.input_bytes = kind == OpKind::kReduceScatter ? bytes * ranks : bytes;
  r.output_bytes = kind == OpKind::kAllGather ? bytes * ranks : bytes;
  return r;
}

// Every rank writes its input to all others, as a fan-out between two gathers.
constexpr uint32_t kReady = 0;
constexpr uint32_t kDone = 1;
inline Sample mesh_all_gather(uint32_t n, uint64_t bytes, bool in_place = false) {
  Sample s = make_sample(sample_request(OpKind::kAllGather, n, bytes), n, {{0, false}, {0, false}});
  s.shape.in_place = in_place;
  for (uint32_t r = 0; r < n; ++r) {
    Steps& steps = s.ranks[r];
    steps.resize(2);
    steps[1].bytes = bytes;
    steps[1].sources = {{r, Buffer::kInput, 0}};
    steps[1].destinations = {{r, Buffer::kOutput, r * bytes}};
    for (uint32_t p = 0; p < n; ++p) {
      if (p == r) continue;
      steps[0].signals.push_back({p, kReady});
      Step send = steps[1];
      send.fan_out = true;
      send.destinations[0].rank = p;
      send.signals = {{p, kDone}};
      if (steps.size() == 2) send.waits = {{kReady, n - 1}};
      steps.push_back(send);
    }
    Step done;
    done.waits = {{kDone, n - 1}};
    steps.push_back(done);
  }
  return s;
}

// Ring of spec/collectives.md 2.5 with `slots` slots per edge; every chunk is `bytes`. Fifos:
// credits from the successor, data from the predecessor.
constexpr uint32_t kCredit = 0;
constexpr uint32_t kData = 1;
inline Sample ring_all_reduce(uint32_t n, uint64_t bytes, uint32_t slots) {
  Sample s =
      make_sample(sample_request(OpKind::kAllReduce, n, n * bytes), n, {{0, true}, {0, true}});
  s.shape.channel_bytes = slots * bytes;
  for (uint32_t p = 0; p < n; ++p) {
    Steps& steps = s.ranks[p];
    const uint32_t next = (p + 1) % n;
    const uint32_t previous = (p + n - 1) % n;
    const auto slot = [&](uint32_t rank, uint32_t t) {
      return Range{rank, Buffer::kChannel, t % slots * bytes};
    };
    steps.resize(1);  // all slots are free
    steps[0].signals.assign(std::min(slots, n - 1), {previous, kCredit});
    for (uint32_t t = 0; t < n; ++t) {
      const uint64_t at = (p + 2 * n - 1 - t) % n * bytes;
      Step step;
      step.bytes = bytes;
      if (t > 0) {
        step.sources.push_back(slot(p, t - 1));
        step.waits.push_back({kData, 1});
        if (t - 1 + slots < n - 1) step.signals.push_back({previous, kCredit});
      }
      step.sources.push_back({p, Buffer::kInput, at});
      if (t + 1 < n) {
        step.destinations = {slot(next, t)};
        step.waits.push_back({kCredit, 1});
        step.signals.push_back({next, kData});
      } else {
        // The successor has started: its credits came.
        step.destinations = {{p, Buffer::kOutput, at}, {next, Buffer::kOutput, at}};
        step.signals.push_back({next, kData});
      }
      steps.push_back(step);
    }
    for (uint32_t t = 1; t < n; ++t) {
      const uint64_t at = (p + n - t) % n * bytes;
      Step step;
      step.bytes = bytes;
      step.sources = {{p, Buffer::kOutput, at}};
      step.destinations = {{next, Buffer::kOutput, at}};
      step.waits = {{kData, 1}};
      step.signals = {{next, kData}};
      if (t + 1 == n) {  // arrived, nobody needs it any more
        step.bytes = 0;
        step.sources.clear();
        step.destinations.clear();
        step.signals.clear();
      }
      steps.push_back(step);
    }
  }
  return s;
}

}  // namespace ccl
