// Checks of schedules without any device: symbolic execution (which ranks' inputs make up every
// byte, in which order) and a race check over the happens-before relation of the dependencies.
#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/collectives/schedule.h"

namespace ccl {
namespace {

base::Error bad(const std::string& what) {
  return {base::Fault::kInternal, kNrtFailure, "schedule", what};
}

// Bytes of a buffer that have one origin: byte i of the interval is the fold of byte `origin` + i
// of the inputs of `terms`, in this order.
struct Value {
  uint64_t end = 0;
  uint64_t origin = 0;
  std::vector<uint32_t> terms;
};

// Memory of one rank's buffer, by start of interval. Unwritten bytes are in no interval.
class Memory {
 public:
  void write(uint64_t begin, const Value& value) {
    split(begin);
    split(value.end);
    values_.erase(values_.lower_bound(begin), values_.lower_bound(value.end));
    values_[begin] = value;
  }

  // Intervals that cover [begin, end), clipped; empty if a byte was never written.
  std::vector<std::pair<uint64_t, Value>> read(uint64_t begin, uint64_t end) const {
    std::vector<std::pair<uint64_t, Value>> out;
    auto it = values_.upper_bound(begin);
    if (it == values_.begin()) return {};
    --it;
    for (uint64_t at = begin; at < end; ++it) {
      if (it == values_.end() || it->first > at || it->second.end <= at) return {};
      Value value = it->second;
      value.origin += at - it->first;
      value.end = std::min(value.end, end);
      out.emplace_back(at, value);
      at = value.end;
    }
    return out;
  }

 private:
  void split(uint64_t at) {
    auto it = values_.upper_bound(at);
    if (it == values_.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    Value tail = it->second;
    tail.origin += at - it->first;
    it->second.end = at;
    values_[at] = tail;
  }

  std::map<uint64_t, Value> values_;
};

// Where a range lies when source and destination share memory (collectives.md 1.3).
struct Place {
  uint32_t rank = 0;
  uint32_t memory = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

class Verifier {
 public:
  explicit Verifier(const Schedule& schedule) : s_(schedule) {}

  base::Status run() {
    if (base::Status status = check_steps(); !status) return status;
    if (base::Status status = check_races(); !status) return status;
    return execute();
  }

 private:
  uint64_t size_of(Buffer buffer) const {
    switch (buffer) {
      case Buffer::kInput:
        return s_.input_bytes;
      case Buffer::kOutput:
        return s_.output_bytes;
      case Buffer::kChannel:
        return s_.channel_bytes;
    }
    return 0;
  }

  Place place(const Range& range, uint64_t bytes) const {
    Place p{range.rank, static_cast<uint32_t>(range.buffer), range.offset, range.offset + bytes};
    if (s_.in_place && range.buffer != Buffer::kChannel) {
      p.memory = static_cast<uint32_t>(Buffer::kInput);
      uint64_t shift = 0;
      if (s_.kind == OpKind::kAllGather && range.buffer == Buffer::kInput) {
        shift = range.rank * s_.input_bytes;
      }
      if (s_.kind == OpKind::kReduceScatter && range.buffer == Buffer::kOutput) {
        shift = range.rank * s_.output_bytes;
      }
      p.begin += shift;
      p.end += shift;
    }
    return p;
  }

  static bool overlap(const Place& a, const Place& b) {
    return a.rank == b.rank && a.memory == b.memory && a.begin < b.end && b.begin < a.end;
  }

  // A copy onto itself moves nothing.
  bool idle(const Step& step) const {
    if (step.sources.size() != 1) return false;
    const Place from = place(step.sources[0], step.bytes);
    const Place to = place(step.destination, step.bytes);
    return from.rank == to.rank && from.memory == to.memory && from.begin == to.begin;
  }

  base::Status check_range(const Step& step, const Range& range) const {
    const uint64_t size = size_of(range.buffer);
    if (range.rank >= s_.ranks || range.offset > size || step.bytes > size - range.offset) {
      return bad("step " + std::to_string(step.id) + " reaches outside a buffer of " +
                 std::to_string(size) + " bytes");
    }
    return {};
  }

  base::Status check_steps() const {
    for (uint32_t i = 0; i < s_.steps.size(); ++i) {
      const Step& step = s_.steps[i];
      if (step.id != i || step.rank >= s_.ranks || step.bytes == 0 || step.sources.empty()) {
        return bad("step " + std::to_string(i) + " is malformed");
      }
      for (const uint32_t before : step.after) {
        // Ranks issue their steps in ascending order, so this also excludes cyclic waits.
        if (before >= i) return bad("step " + std::to_string(i) + " waits for a later one");
      }
      for (const Range& source : step.sources) {
        if (base::Status status = check_range(step, source); !status) return status;
      }
      if (base::Status status = check_range(step, step.destination); !status) return status;
    }
    return {};
  }

  base::Status check_races() {
    const size_t n = s_.steps.size();
    std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
    for (const Step& step : s_.steps) {
      for (const uint32_t dep : step.after) {
        before[step.id][dep] = true;
        for (uint32_t k = 0; k < dep; ++k) {
          if (before[dep][k]) before[step.id][k] = true;
        }
      }
    }
    for (const Step& later : s_.steps) {
      for (uint32_t e = 0; e < later.id; ++e) {
        const Step& earlier = s_.steps[e];
        if (!before[later.id][e] && conflict(earlier, later)) {
          return bad("steps " + std::to_string(e) + " and " + std::to_string(later.id) +
                     " touch the same bytes without an order");
        }
      }
    }
    return {};
  }

  bool conflict(const Step& a, const Step& b) const {
    if (idle(a) || idle(b)) return false;
    const Place wa = place(a.destination, a.bytes);
    const Place wb = place(b.destination, b.bytes);
    if (overlap(wa, wb)) return true;
    for (const Range& r : b.sources) {
      if (overlap(wa, place(r, b.bytes))) return true;
    }
    for (const Range& r : a.sources) {
      if (overlap(wb, place(r, a.bytes))) return true;
    }
    return false;
  }

  Memory& memory(uint32_t rank, uint32_t kind) { return memories_[{rank, kind}]; }

  base::Status execute() {
    for (uint32_t r = 0; r < s_.ranks && s_.input_bytes != 0; ++r) {
      const Place p = place({r, Buffer::kInput, 0}, s_.input_bytes);
      memory(r, p.memory).write(p.begin, {p.end, 0, {r}});
    }
    for (const Step& step : s_.steps) {
      if (idle(step)) continue;
      if (base::Status status = execute(step); !status) return status;
    }
    for (uint32_t r = 0; r < s_.ranks; ++r) {
      if (base::Status status = check_output(r); !status) return status;
    }
    return {};
  }

  base::Status execute(const Step& step) {
    // All sources are read before the destination is written.
    std::vector<std::vector<std::pair<uint64_t, Value>>> inputs;
    std::vector<uint64_t> cuts{0, step.bytes};
    for (const Range& source : step.sources) {
      const Place p = place(source, step.bytes);
      inputs.push_back(memory(p.rank, p.memory).read(p.begin, p.end));
      if (inputs.back().empty()) {
        return bad("step " + std::to_string(step.id) + " reads bytes that nobody wrote");
      }
      for (auto& [at, value] : inputs.back()) {
        at -= p.begin;
        value.end -= p.begin;
        cuts.push_back(at);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const Place to = place(step.destination, step.bytes);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      Value sum;
      sum.end = to.begin + cuts[i + 1];
      for (size_t k = 0; k < inputs.size(); ++k) {
        const auto covers = [&](const auto& entry) { return entry.second.end > cuts[i]; };
        const auto& [at, value] = *std::find_if(inputs[k].begin(), inputs[k].end(), covers);
        const uint64_t origin = value.origin + (cuts[i] - at);
        if (k != 0 && origin != sum.origin) {
          return bad("step " + std::to_string(step.id) + " folds bytes of different elements");
        }
        sum.origin = origin;
        sum.terms.insert(sum.terms.end(), value.terms.begin(), value.terms.end());
      }
      memory(to.rank, to.memory).write(to.begin + cuts[i], sum);
    }
    return {};
  }

  base::Status check_output(uint32_t rank) {
    if (s_.output_bytes == 0) return {};
    const Place p = place({rank, Buffer::kOutput, 0}, s_.output_bytes);
    const auto got = memory(rank, p.memory).read(p.begin, p.end);
    if (got.empty()) return bad("output of rank " + std::to_string(rank) + " is incomplete");
    for (const auto& [at, value] : got) {
      uint64_t cursor = at - p.begin;
      const uint64_t end = value.end - p.begin;
      while (cursor < end) {
        const uint64_t chunk = s_.input_bytes;  // all-gather: bytes from one rank
        std::vector<uint32_t> want;
        uint64_t origin = cursor;
        uint64_t until = end;
        if (s_.kind == OpKind::kAllGather) {
          want = {static_cast<uint32_t>(cursor / chunk)};
          origin = cursor % chunk;
          until = std::min(end, (cursor / chunk + 1) * chunk);
        } else {
          for (uint32_t r = 0; r < s_.ranks; ++r) want.push_back(r);
          if (s_.kind == OpKind::kReduceScatter) origin += rank * s_.output_bytes;
        }
        std::vector<uint32_t> terms = value.terms;
        std::sort(terms.begin(), terms.end());
        if (terms != want || value.origin + (cursor - (at - p.begin)) != origin) {
          return bad("output of rank " + std::to_string(rank) + " is wrong at byte " +
                     std::to_string(cursor));
        }
        if (base::Status status = check_order(cursor, until, value.terms); !status) return status;
        cursor = until;
      }
    }
    return {};
  }

  // All ranks of an all-reduce fold every byte in the same order.
  base::Status check_order(uint64_t begin, uint64_t end, const std::vector<uint32_t>& terms) {
    if (s_.kind != OpKind::kAllReduce) return {};
    for (const auto& [at, value] : order_.read(begin, end)) {
      if (value.terms != terms) {
        return bad("ranks fold byte " + std::to_string(at) + " in different orders");
      }
    }
    order_.write(begin, {end, begin, terms});
    return {};
  }

  const Schedule& s_;
  std::map<std::pair<uint32_t, uint32_t>, Memory> memories_;
  Memory order_;
};

}  // namespace

base::Status verify(const Schedule& schedule) {
  return Verifier(schedule).run();
}

}  // namespace ccl
