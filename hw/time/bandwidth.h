// A shared resource that moves bytes: DMA engine, HBM stack, fabric direction, link, switch port,
// PCIe direction. Requests are served in the order of their reservation; a busy period ends at
// floor(cumulative bytes x ps / bytes of the rate), so cutting a transfer never changes its end.
//
// Another order than that of the reservations is the affair of an arbiter (sdk/soma/policy.h); a
// resource with one takes no part in runs.
//
// A run is a sequence of packets that a DMA engine executes as one event because it is alone. It
// claims the resources of its path; whoever reserves one of them meanwhile makes the run yield
// first.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "hw/component_ids.h"
#include "hw/stats.h"
#include "hw/time/event_queue.h"
#include "soma/policy.h"

namespace hw {

class Run {
 public:
  virtual ~Run() = default;
  // Keep only what has started before `key`; reserve it now and give up the claims.
  virtual void yield_to(const EventKey& key) = 0;
};

class alignas(64) BandwidthResource {
 public:
  struct State {
    base::Ps begin = 0;  // of the busy period
    base::Ps end = 0;    // of everything reserved so far
    uint64_t part = 0;   // beyond `end`, in fractions of a picosecond: 1 / bytes of the rate
  };

  BandwidthResource(std::string name, base::Rate rate) : rate_(rate), name_(std::move(name)) {}
  BandwidthResource(const BandwidthResource&) = delete;
  BandwidthResource& operator=(const BandwidthResource&) = delete;

  const std::string& name() const { return name_; }
  base::Rate rate() const { return rate_; }
  const State& state() const { return state_; }
  uint64_t total_bytes() const { return total_bytes_; }
  // Time that what was served takes: the same in whatever order it came.
  base::Ps busy_ps() const { return rate_.time_for(total_bytes_) + extra_; }
  // Words among those served that were signals: total_bytes() less them is payload.
  uint64_t signals() const { return signals_; }
  void count_signals(uint64_t words) { signals_ += words; }

  // Serves `bytes` from `key.time` on, behind what was reserved before; returns the end.
  base::Ps reserve(const EventKey& key, uint64_t bytes, base::Ps extra = 0) {
    if (run_ != nullptr) run_->yield_to(key);
    return commit(key.time, bytes, extra, key.component);
  }
  // As reserve, by the claiming run itself; `component`: of the event that asks.
  base::Ps commit(base::Ps at, uint64_t bytes, base::Ps extra, uint32_t component) {
    if (tracer_ != nullptr && at > state_.end) trace_last();
    total_bytes_ += bytes;
    extra_ += extra;
    if (arbiter_ != nullptr) return arbitrate(at, bytes, extra, component);
    return advance(state_, at, bytes, extra);
  }
  // What commit would do to `state`, a copy of that of this resource.
  base::Ps advance(State& state, base::Ps at, uint64_t bytes, base::Ps extra) {
    if (at > state.end) state = {at, at, 0};
    if (bytes != last_bytes_) divide(bytes);
    state.end += last_ps_ + extra;
    state.part += last_part_;
    if (state.part >= rate_.bytes) {
      state.part -= rate_.bytes;
      ++state.end;
    }
    return state.end;
  }

  void set_arbiter(std::unique_ptr<soma::LinkArbiter> arbiter) { arbiter_ = std::move(arbiter); }
  // From now on each busy period becomes a span of `tracer` when the next one begins.
  void set_tracer(Tracer* tracer) { tracer_ = tracer; }
  // Reports what is known of the last busy period; what follows it without a gap gets its own span.
  void trace_last() {
    if (tracer_ == nullptr || state_.end <= traced_until_) return;
    if (track_ == kNoTrack) track_ = tracer_->track(name_);
    const base::Ps begin = state_.begin > traced_until_ ? state_.begin : traced_until_;
    tracer_->span(track_, begin, state_.end, "busy", total_bytes_ - traced_bytes_);
    traced_until_ = state_.end;
    traced_bytes_ = total_bytes_;
  }

  Run* run() const { return run_; }
  void set_run(Run* run) { run_ = run; }

 private:
  friend class Charges;

  // The time that the arbiter says; the resource is taken for busy until the last such time.
  base::Ps arbitrate(base::Ps at, uint64_t bytes, base::Ps extra, uint32_t component) {
    const base::Ps end = arbiter_->serve(at, bytes, component >> component::kChipShift) + extra;
    if (end < at)
      throw std::runtime_error(name_ + ": its arbiter answers with a time that is over");
    if (at > state_.end) state_ = {at, at, 0};
    if (end > state_.end) state_.end = end;
    return end;
  }

  // Time of so many bytes: most packets of a resource are as long as the one before.
  void divide(uint64_t bytes) {
    last_bytes_ = bytes;
    uint64_t product = 0;
    if (!__builtin_mul_overflow(bytes, rate_.ps, &product)) {
      last_ps_ = product / rate_.bytes;
      last_part_ = product % rate_.bytes;
      return;
    }
    const auto wide = static_cast<unsigned __int128>(bytes) * rate_.ps;
    last_ps_ = static_cast<base::Ps>(wide / rate_.bytes);
    last_part_ = static_cast<uint64_t>(wide % rate_.bytes);
  }

  // What every packet touches comes first.
  State state_;
  base::Rate rate_;
  uint64_t last_bytes_ = 0;
  base::Ps last_ps_ = 0;
  uint64_t last_part_ = 0;
  Run* run_ = nullptr;
  Tracer* tracer_ = nullptr;
  std::unique_ptr<soma::LinkArbiter> arbiter_;  // null: first come, first served
  uint64_t total_bytes_ = 0;
  base::Ps extra_ = 0;  // beyond the bytes
  uint64_t signals_ = 0;
  size_t place_ = 0;  // where Charges looks for this resource
  static constexpr uint32_t kNoTrack = ~0u;
  uint32_t track_ = kNoTrack;
  base::Ps traced_until_ = 0;
  uint64_t traced_bytes_ = 0;
  std::string name_;
};

// What one packet, or several that are reserved at once, ask of each resource of their path; a
// resource appears once.
struct Charge {
  BandwidthResource* resource = nullptr;
  uint64_t bytes = 0;
  base::Ps extra = 0;
  uint64_t signals = 0;  // words among the bytes
};

// A list of them.
class Charges {
 public:
  void add(BandwidthResource& resource, uint64_t bytes, base::Ps extra = 0, uint64_t signals = 0) {
    // If the list has it already, then where the resource says: lists are filled one by one.
    const size_t at = resource.place_;
    if (at < size_ && items_[at].resource == &resource) {
      items_[at].bytes += bytes;
      items_[at].extra += extra;
      items_[at].signals += signals;
      return;
    }
    resource.place_ = size_;
    if (size_ == items_.size()) items_.resize(2 * size_ + 1);
    // Field by field: a temporary would go through the stack in pieces that do not fit.
    Charge& item = items_[size_++];
    item.resource = &resource;
    item.bytes = bytes;
    item.extra = extra;
    item.signals = signals;
  }
  // What others ask for, on top.
  void add(const Charges& others) {
    const size_t before = size_;
    for (size_t i = 0; i < others.size_; ++i) {
      const Charge& c = others.items_[i];
      // Packets of a burst mostly take the same path.
      size_t same = i;
      if (same >= before || items_[same].resource != c.resource) {
        for (same = 0; same < before && items_[same].resource != c.resource;) ++same;
      }
      if (same == before) {
        if (size_ == items_.size()) items_.resize(2 * size_ + 1);
        items_[size_++] = c;
        continue;
      }
      items_[same].bytes += c.bytes;
      items_[same].extra += c.extra;
      items_[same].signals += c.signals;
    }
  }
  void clear() { size_ = 0; }
  const Charge* begin() const { return items_.data(); }
  const Charge* end() const { return items_.data() + size_; }
  size_t size() const { return size_; }
  const Charge& operator[](size_t i) const { return items_[i]; }

 private:
  std::vector<Charge> items_;  // the first size_ of them
  size_t size_ = 0;
};

}  // namespace hw
