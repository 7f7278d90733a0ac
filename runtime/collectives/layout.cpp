// How channels and events map to engines, CC-cores and semaphores (collectives.md 3.3, 3.4).
#include <algorithm>

#include "runtime/collectives/lowering.h"

namespace ccl {
namespace {

// Up to here one engine moves a message about as fast as many, and signals once.
constexpr uint64_t kOneEngineBytes = 2048;

}  // namespace

Layout::Layout(const Shape& shape, uint32_t engines, uint32_t cc_count)
    : engines_(engines), cc_count_(cc_count) {
  share_ = std::max(1u, engines / std::max(1u, shape.channels));
  per_step_ = shape.largest_step <= kOneEngineBytes ? 1 : share_;
  std::vector<uint32_t> used(cc_count, 0);
  for (const Event& event : shape.events) {
    uint32_t& next = used[slot(event.channel)];
    events_.push_back(next);
    lanes_.push_back(event.lane);
    next += event.lane ? kWindow : 1;
  }
  signals_ = *std::max_element(used.begin(), used.end());
  std::fill(used.begin(), used.end(), join() + 1);
  for (uint32_t c = 0; c < shape.channels; ++c) {
    channels_.push_back(used[slot(c)]);
    used[slot(c)] += kWindow + 1;
  }
  completions_ = *std::max_element(used.begin(), used.end());
}

Needs needs_of(const Shape& shape, uint32_t engines, uint32_t cc_count) {
  const Layout layout(shape, engines, cc_count);
  Needs needs;
  needs.algorithm = shape.algorithm;
  needs.channel_bytes = shape.channel_bytes;
  needs.signals = layout.signals();
  needs.completions = layout.completions();
  std::string& text = needs.signature;
  text = std::string(to_string(shape.request.kind)) + "/" + to_string(shape.algorithm) + "/" +
         std::to_string(shape.channels) + "/" + std::to_string(shape.request.root) + "/";
  for (const auto& [source, target] : shape.request.pairs) {
    text += std::to_string(source) + ">" + std::to_string(target) + ",";
  }
  text += "/" + std::to_string(layout.per_step()) + "/";
  for (const Event& event : shape.events) {
    text += std::to_string(event.channel) + (event.lane ? "l" : "g");
  }
  return needs;
}

}  // namespace ccl
