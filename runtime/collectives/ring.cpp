// Ring schedules (collectives.md 2.5), one channel, position = index in the group. The sum of the
// chunk of position p takes the inputs of p+1, p+2, ..., p in this order; partial sums live in the
// tensor's type. Partial sums travel through D slots of the successor's channel buffer with the
// credits of 3.5; gathered chunks are written straight into the successor's output.
// When members share a chip, the first hop is folded into the second: a rank reads its
// predecessor's input where it is. For two ranks nothing of the slots remains: every rank folds
// both halves it owns, then writes the result to its peer.
#include <algorithm>

#include "runtime/collectives/builder.h"

namespace ccl {
namespace {

constexpr uint64_t kAlign = 64;
// Keeps programs of long operations inside the program memory of a CC-core.
constexpr uint64_t kMaxSlices = 32;

struct Slice {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class Ring {
 public:
  Ring(const OpRequest& request, uint32_t ranks, const ScheduleOptions& options)
      : request_(request),
        n_(ranks),
        options_(options),
        builder_(Algorithm::kRing, request, ranks, options.in_place) {}

  Schedule build() {
    if (request_.kind == OpKind::kAllGather) {
      gather_only();
    } else {
      reduce();
    }
    return builder_.take();
  }

 private:
  Chunk input_chunk(uint32_t c) const {
    if (request_.kind == OpKind::kReduceScatter) {
      return {c * request_.output_bytes, request_.output_bytes};
    }
    return chunk_of(request_.input_bytes, n_, c);
  }

  // Slices of the largest chunk; smaller chunks use the same cuts, ending early.
  void cut(uint64_t largest) {
    uint64_t slice =
        (std::max<uint64_t>(options_.slot_bytes, kAlign) + kAlign - 1) / kAlign * kAlign;
    const uint64_t least = (largest + kMaxSlices - 1) / kMaxSlices;
    if (least > slice) slice = (least + kAlign - 1) / kAlign * kAlign;
    // Two slices at least, so that folding one overlaps moving the next (S = 2, published).
    if (largest <= slice) slice = std::max(kAlign, (largest / 2 + kAlign - 1) / kAlign * kAlign);
    slice_ = slice;
    slices_ = static_cast<uint32_t>((largest + slice - 1) / slice);
  }

  Slice slice_of(const Chunk& chunk, uint32_t s) const {
    const uint64_t begin = std::min(chunk.bytes, s * slice_);
    return {chunk.offset + begin, std::min(chunk.bytes, begin + slice_) - begin};
  }

  // Two ranks on one chip need no slices: both directions of the fabric are busy all the time.
  bool pairwise() const { return options_.direct && n_ == 2; }

  void reduce() {
    uint64_t largest = 0;
    for (uint32_t c = 0; c < n_; ++c) largest = std::max(largest, input_chunk(c).bytes);
    cut(largest);
    if (pairwise() || n_ == 1) {
      slice_ = std::max<uint64_t>(largest, kAlign);
      slices_ = largest == 0 ? 0 : 1;
    }
    const uint32_t block = std::max(1u, options_.slots / 2);
    if (n_ > 2 || !options_.direct) builder_.need_channel(n_ == 1 ? 0 : options_.slots * slice_);
    produced_.assign(n_, {});
    consumed_.assign(n_, {});
    for (uint32_t first = 0; first < slices_; first += block) {
      reduce_block(first, std::min(slices_, first + block));
    }
  }

  void reduce_block(uint32_t first, uint32_t end) {
    const uint32_t count = end - first;
    // arrived[p][s]: step that put the partial sum of slice s into p's slots in the round before.
    std::vector<std::vector<uint32_t>> arrived(n_, std::vector<uint32_t>(count, kNoStep));
    const uint32_t start = options_.direct && n_ > 1 ? 1 : 0;
    for (uint32_t t = start; t + 1 < n_; ++t) {
      std::vector<std::vector<uint32_t>> sent(n_, std::vector<uint32_t>(count, kNoStep));
      for (uint32_t s = 0; s < count; ++s) {
        for (uint32_t p = 0; p < n_; ++p) {
          const uint32_t c = (p + 2 * n_ - 1 - t) % n_;
          sent[(p + 1) % n_][s] = send_partial(p, c, t, first + s, arrived[p][s]);
        }
      }
      arrived = std::move(sent);
    }
    std::vector<std::vector<uint32_t>> finished(n_, std::vector<uint32_t>(count, kNoStep));
    for (uint32_t s = 0; s < count; ++s) {
      for (uint32_t p = 0; p < n_; ++p) finished[p][s] = finish(p, first + s, arrived[p][s]);
    }
    if (request_.kind == OpKind::kAllReduce) gather_block(first, finished);
  }

  // Sources of the fold of chunk c at position p in round t (t = N-1: the finish).
  std::vector<Range> operands(uint32_t p, uint32_t t, uint64_t at, uint32_t message) const {
    const Range own{p, Buffer::kInput, at};
    const uint32_t previous = (p + n_ - 1) % n_;
    if (t == 0) return {own};
    if (t == 1 && options_.direct) return {{previous, Buffer::kInput, at}, own};
    return {{p, Buffer::kChannel, message % options_.slots * slice_}, own};
  }

  // Position p folds slice s of chunk c and puts it into the next free slot of its successor.
  uint32_t send_partial(uint32_t p, uint32_t c, uint32_t t, uint32_t s, uint32_t arrival) {
    const Slice slice = slice_of(input_chunk(c), s);
    if (slice.bytes == 0) return kNoStep;
    const uint32_t to = (p + 1) % n_;
    const uint32_t message = static_cast<uint32_t>(produced_[to].size());
    std::vector<uint32_t> after{arrival};
    if (message >= options_.slots) after.push_back(consumed_[to][message - options_.slots]);
    const uint32_t incoming = static_cast<uint32_t>(consumed_[p].size());
    const uint32_t id =
        builder_.add(p, slice.bytes, operands(p, t, slice.offset, incoming),
                     {to, Buffer::kChannel, message % options_.slots * slice_}, after);
    produced_[to].push_back(id);
    if (arrival != kNoStep) consumed_[p].push_back(id);
    return id;
  }

  uint32_t finish(uint32_t p, uint32_t s, uint32_t arrival) {
    const Chunk chunk = input_chunk(p);
    const Slice slice = slice_of(chunk, s);
    const uint32_t incoming = static_cast<uint32_t>(consumed_[p].size());
    const uint64_t to =
        request_.kind == OpKind::kReduceScatter ? slice.offset - chunk.offset : slice.offset;
    const uint32_t id = builder_.add(p, slice.bytes, operands(p, n_ - 1, slice.offset, incoming),
                                     {p, Buffer::kOutput, to}, {arrival});
    if (arrival != kNoStep) consumed_[p].push_back(id);
    return id;
  }

  // Chunks go round: in round t position p passes chunk p - t on. have[p][s]: step after which
  // position p holds slice s of its own chunk.
  void gather_block(uint32_t first, std::vector<std::vector<uint32_t>> have) {
    for (uint32_t t = 0; t + 1 < n_; ++t) {
      std::vector<std::vector<uint32_t>> sent(n_, std::vector<uint32_t>(have[0].size(), kNoStep));
      for (uint32_t s = 0; s < have[0].size(); ++s) {
        for (uint32_t p = 0; p < n_; ++p) {
          const uint32_t c = (p + n_ - t) % n_;
          const Slice slice = slice_of(gather_chunk(c), first + s);
          const uint32_t to = (p + 1) % n_;
          // The first hop of an all-gather needs no copy to wait for: it reads the input.
          const bool from_input = request_.kind == OpKind::kAllGather && t == 0;
          const Range source = from_input
                                   ? Range{p, Buffer::kInput, slice.offset - gather_chunk(c).offset}
                                   : Range{p, Buffer::kOutput, slice.offset};
          sent[to][s] = builder_.add(p, slice.bytes, {source}, {to, Buffer::kOutput, slice.offset},
                                     {have[p][s]});
        }
      }
      have = std::move(sent);
    }
  }

  Chunk gather_chunk(uint32_t c) const {
    if (request_.kind == OpKind::kAllGather) {
      return {c * request_.input_bytes, request_.input_bytes};
    }
    return input_chunk(c);
  }

  void gather_only() {
    cut(request_.input_bytes);
    if (pairwise() || n_ == 1) {
      slice_ = std::max<uint64_t>(request_.input_bytes, kAlign);
      slices_ = request_.input_bytes == 0 ? 0 : 1;
    }
    gather_block(0,
                 std::vector<std::vector<uint32_t>>(n_, std::vector<uint32_t>(slices_, kNoStep)));
    for (uint32_t p = 0; p < n_; ++p) {
      builder_.add(p, request_.input_bytes, {{p, Buffer::kInput, 0}},
                   {p, Buffer::kOutput, p * request_.input_bytes});
    }
  }

  OpRequest request_;
  uint32_t n_;
  ScheduleOptions options_;
  ScheduleBuilder builder_;
  uint64_t slice_ = 0;
  uint32_t slices_ = 0;
  std::vector<std::vector<uint32_t>> produced_;  // per rank: messages into its slots
  std::vector<std::vector<uint32_t>> consumed_;  // per rank: steps that read them, in order
};

}  // namespace

base::Result<Schedule> ring_schedule(const OpRequest& request, uint32_t ranks,
                                     const ScheduleOptions& options) {
  if (const base::Status status = validate(request, ranks); !status) return status.error();
  if (options.slots < 2 || options.slots > 32) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "collectives",
                       "ring channels have 2 to 32 slots, not " + std::to_string(options.slots)};
  }
  return Ring(request, ranks, options).build();
}

}  // namespace ccl
