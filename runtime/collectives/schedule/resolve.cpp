// What a schedule of variable size does with given metadata (spec/collectives.md 1.4): the words
// are followed from the metadata to where steps read them, so that the schedule that is verified is
// the one that is lowered.
#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {
namespace {

uint64_t buffer_bytes(const Shape& shape, Buffer buffer) {
  return buffer == Buffer::kOutput ? shape.request.output_bytes : shape.request.input_bytes;
}

class Resolver {
 public:
  Resolver(const Schedule& schedule, Metadata metadata)
      : schedule_(schedule),
        metadata_(std::move(metadata)),
        element_(contract::dtype_size(schedule.shape.request.dtype)) {
    // Words of the metadata that ranks send each other.
    for (uint32_t r = 0; r < schedule.shape.ranks; ++r) {
      for (const Step& step : schedule.steps(r)) {
        if (step.bytes != kMetadataWord || step.sources.front().buffer != Buffer::kMetadata)
          continue;
        sent_[key(step.destinations.front())] = value(step.sources.front());
      }
    }
  }

  Steps steps(uint32_t rank) const {
    Steps steps = schedule_.steps(rank);
    std::vector<uint32_t> stand_in(steps.size());  // the last step with bytes up to each fan-out
    std::map<uint32_t, uint32_t> last;             // by channel
    for (uint32_t i = 0; i < steps.size(); ++i) {
      Step& step = steps[i];
      rename(stand_in, &step.after);
      if (step.variable) resolve(&step);
      const bool empty = step.fan_out && step.bytes == 0;
      if (empty) step.fan_out = false;
      if (step.fan_out) last[step.channel] = i;
      const auto before = last.find(step.channel);
      stand_in[i] = !empty ? i : before != last.end() ? before->second : kNone;
    }
    return steps;
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  using Key = std::tuple<uint32_t, Buffer, uint64_t>;
  static Key key(const Range& r) { return {r.rank, r.buffer, r.offset}; }

  static void rename(const std::vector<uint32_t>& stand_in, std::vector<uint32_t>* ids) {
    for (uint32_t& id : *ids) id = stand_in[id];
    ids->erase(std::remove(ids->begin(), ids->end(), kNone), ids->end());
  }

  uint64_t value(const Range& word) const {
    if (word.buffer == Buffer::kMetadata) return metadata_[word.rank][word.offset / kMetadataWord];
    const auto it = sent_.find(key(word));
    return it == sent_.end() ? 0 : it->second;
  }

  void resolve(Step* step) const {
    const Variable& v = *step->variable;
    const uint64_t count = value(v.count);
    const uint64_t from = v.source ? value(*v.source) : 0;
    const uint64_t to = v.destination ? value(*v.destination) : 0;
    // The own share, as whole elements.
    const uint64_t begin = count * v.part / v.parts;
    const uint64_t end = count * (v.part + 1) / v.parts;
    bool inside = true;
    const auto place = [&](Range* range, uint64_t first) {
      const uint64_t size = buffer_bytes(schedule_.shape, range->buffer);
      inside = inside && range->offset + (first + count) * element_ <= size;
      range->offset += (first + begin) * element_;
    };
    for (Range& source : step->sources)
      place(&source, source.buffer == Buffer::kOutput ? to : from);
    for (Range& destination : step->destinations) place(&destination, to);
    step->variable.reset();
    if (inside) step->bytes = (end - begin) * element_;
    if (step->bytes != 0) return;
    step->sources.clear();
    step->destinations.clear();
  }

  Schedule schedule_;
  Metadata metadata_;
  uint64_t element_;
  std::map<Key, uint64_t> sent_;
};

}  // namespace

Metadata equal_blocks(const OpRequest& request, uint32_t ranks) {
  const uint64_t element = contract::dtype_size(request.dtype);
  const bool gather = request.kind == OpKind::kAllGatherV;
  const bool reduce = request.kind == OpKind::kReduceScatterV;
  const uint64_t all = (gather ? request.output_bytes : request.input_bytes) / element;
  const auto count = static_cast<uint32_t>(all / ranks);
  std::vector<uint32_t> words(metadata_bytes(request, ranks) / kMetadataWord);
  for (uint32_t k = 0; k < ranks; ++k) {
    words[k] = gather && k != 0 ? 0 : count;
    words[ranks + k] = gather ? 0 : k * count;
    if (!reduce && request.receive_displacements) words[3 * ranks + k] = k * count;
  }
  return Metadata(ranks, words);
}

Schedule resolve(const Schedule& schedule, Metadata metadata) {
  Schedule out;
  out.shape = schedule.shape;
  const auto resolver = std::make_shared<const Resolver>(schedule, std::move(metadata));
  out.steps = [resolver](uint32_t rank) { return resolver->steps(rank); };
  out.shape.variable_steps = 0;
  for (uint32_t r = 0; r < out.shape.ranks; ++r) {
    for (const Step& step : out.steps(r)) {
      out.shape.largest_step = std::max(out.shape.largest_step, step.bytes);
    }
  }
  return out;
}

}  // namespace ccl
