// How channels and events map to engines, CC-cores and semaphores (spec/collectives.md 3.3, 3.4).
#include <algorithm>
#include <numeric>

#include "runtime/collectives/lowering.h"

namespace ccl {
namespace {

// A message of so many bytes is moved by one engine about as fast as by two.
constexpr uint64_t kBytesPerEngine = 2048;

// Largest power of two up to `n`, at least 1.
uint32_t power_of_two(uint64_t n) {
  uint32_t p = 1;
  while (uint64_t{p} * 2 <= n) p *= 2;
  return p;
}

}  // namespace

Layout::Layout(const Shape& shape, uint32_t engines, uint32_t cc_count)
    : engines_(engines), cc_count_(cc_count) {
  std::vector<uint32_t> all(shape.channels);
  std::iota(all.begin(), all.end(), 0);
  first_engine_.assign(shape.channels, 0);
  use(all);
  std::vector<uint32_t> used(cc_count, 0);
  for (const Event& event : shape.events) {
    uint32_t& next = used[cc(event.channel)];
    events_.push_back(next);
    fifos_.push_back(event.fifo);
    next += event.fifo ? kStepsInFlight : 1;
  }
  signals_ = *std::max_element(used.begin(), used.end());
  std::fill(used.begin(), used.end(), threads_end() + 1);
  for (uint32_t c = 0; c < shape.channels; ++c) {
    channels_.push_back(used[cc(c)]);
    used[cc(c)] += kStepsInFlight + (shape.variable_steps != 0 ? 2 : 1);
  }
  completions_ = *std::max_element(used.begin(), used.end());
}

void Layout::use(const std::vector<uint32_t>& channels) {
  const auto count = std::max<size_t>(1, channels.size());
  share_ = std::min(kSignal, power_of_two(engines_ / count));
  // More channels than engines: those with one engine have one thread, which keeps their order.
  for (uint32_t i = 0; i < channels.size(); ++i) {
    const bool apart = channels.size() <= engines_;
    first_engine_[channels[i]] = apart ? i * share_ : channels[i] % engines_;
  }
}

uint32_t Layout::engines_of(uint64_t bytes, uint32_t together) const {
  const uint32_t room = std::max(1u, share_ / std::max(1u, together));
  return power_of_two(std::min<uint64_t>(room, bytes / kBytesPerEngine));
}

Needs needs_of(const Shape& shape, uint32_t engines, uint32_t cc_count) {
  const Layout layout(shape, engines, cc_count);
  Needs needs;
  needs.algorithm = shape.algorithm;
  needs.channel_bytes = shape.channel_bytes;
  needs.signals = layout.signals();
  needs.completions = layout.completions();
  needs.blocks = shape.variable_steps;
  std::string& text = needs.signature;
  text = std::string(to_string(shape.request.kind)) + "/" + to_string(shape.algorithm) + "/" +
         std::to_string(shape.channels) + "/" + std::to_string(shape.request.root) + "/";
  for (const auto& [source, target] : shape.request.pairs) {
    text += std::to_string(source) + ">" + std::to_string(target) + ",";
  }
  text += "/";
  for (const Event& event : shape.events) {
    text += std::to_string(event.channel) + (event.fifo ? "l" : "g");
  }
  return needs;
}

}  // namespace ccl
