// The way of one slice: which transfers carry bytes that come from one piece of one rank's input,
// alone or folded with others. Steps are done one by one in an order that the waits allow; every
// byte of every buffer knows whether the slice is in it, and after how many transfers.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/soma/schedule_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

struct Piece {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t hops = 0;
};

// Where in one buffer the slice is.
class Marks {
 public:
  // Relative to `begin`.
  std::vector<Piece> read(uint64_t begin, uint64_t end) const {
    std::vector<Piece> out;
    for (const Piece& p : pieces_) {
      if (p.begin >= end || p.end <= begin) continue;
      out.push_back({std::max(p.begin, begin) - begin, std::min(p.end, end) - begin, p.hops});
    }
    return out;
  }
  void write(uint64_t begin, uint64_t end, const std::vector<Piece>& pieces) {
    std::vector<Piece> kept;
    for (const Piece& p : pieces_) {
      if (p.begin < begin) kept.push_back({p.begin, std::min(p.end, begin), p.hops});
      if (p.end > end) kept.push_back({std::max(p.begin, end), p.end, p.hops});
    }
    for (const Piece& p : pieces) kept.push_back({begin + p.begin, begin + p.end, p.hops});
    pieces_ = std::move(kept);
  }

 private:
  std::vector<Piece> pieces_;
};

struct Slice {
  uint32_t rank = 0;
  uint32_t channel = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  size_t links = 0;
};

// Whose input the slice is of: a rank whose bytes travel.
uint32_t origin_of(const ccl::Shape& shape) {
  const ccl::OpRequest& request = shape.request;
  if (request.kind == ccl::OpKind::kBroadcast) return request.root;
  if (request.kind == ccl::OpKind::kReduce && request.root == 0) return shape.ranks - 1;
  return request.pairs.empty() ? 0 : request.pairs.front().first;
}

// What the step takes from the origin's input to another rank, over how many links.
std::optional<Slice> carried(const ccl::Step& step, uint32_t rank, uint32_t origin,
                             const Map& map) {
  for (const ccl::Range& from : step.sources) {
    if (step.bytes == 0 || from.rank != origin || from.buffer != ccl::Buffer::kInput) continue;
    Slice slice{origin, step.channel, from.offset, step.bytes, 0};
    bool leaves = rank != origin;
    if (leaves) slice.links = map.way(origin, rank).size();
    for (const ccl::Range& to : step.destinations) {
      leaves = leaves || to.rank != origin;
      slice.links = std::max(slice.links, map.way(origin, to.rank).size());
    }
    if (leaves) return slice;
  }
  return {};
}

uint64_t smallest_step(const ccl::Program& program, uint32_t channel) {
  uint64_t out = ~uint64_t{0};
  for (const ccl::Steps& steps : program.ranks) {
    for (const ccl::Step& step : steps) {
      if (step.channel == channel && step.bytes != 0) out = std::min(out, step.bytes);
    }
  }
  return out;
}

// Of the first channel that carries any: the first one with the longest way. No larger than any
// step, so that it stays in one piece.
std::optional<Slice> choose(const ccl::Program& program, const Map& map) {
  const uint32_t origin = origin_of(program.shape);
  std::optional<Slice> best;
  for (uint32_t i = 0; i < program.shape.ranks; ++i) {
    const uint32_t rank = (origin + i) % program.shape.ranks;
    for (const ccl::Step& step : program.ranks[rank]) {
      const std::optional<Slice> found = carried(step, rank, origin, map);
      if (!found) continue;
      const bool better = !best || found->channel < best->channel ||
                          (found->channel == best->channel && found->links > best->links);
      if (better) best = found;
    }
  }
  if (best) best->bytes = std::min(best->bytes, smallest_step(program, best->channel));
  return best;
}

class Follower {
 public:
  Follower(const ccl::Program& program, const Map& map) : program_(program), map_(map) {}

  void begin(const Slice& slice) {
    const ccl::Range range{slice.rank, ccl::Buffer::kInput, slice.offset};
    const ccl::Place at = ccl::place_of(program_.shape, range, slice.bytes);
    marks_[{at.rank, at.memory}].write(at.begin, at.end, {{0, slice.bytes, 0}});
  }

  void step(uint32_t id, std::vector<Move>& moves) {
    const ccl::Step& step = program_.step(id);
    const uint32_t rank = program_.refs[id].rank;
    if (step.bytes == 0) return;
    std::vector<Piece> found;
    std::vector<uint32_t> from;  // other ranks
    for (const ccl::Range& source : step.sources) {
      const ccl::Place at = ccl::place_of(program_.shape, source, step.bytes);
      const std::vector<Piece> here = marks_[{at.rank, at.memory}].read(at.begin, at.end);
      found.insert(found.end(), here.begin(), here.end());
      if (!here.empty() && source.rank != rank) from.push_back(source.rank);
    }
    uint32_t hops = 0;
    for (const Piece& p : found) hops = std::max(hops, p.hops);
    const size_t before = moves.size();
    if (!found.empty()) add(step, rank, from, hops + 1, moves);
    for (Piece& p : found) p.hops = moves.size() == before ? hops : hops + 1;
    for (const ccl::Range& to : step.destinations) {
      const ccl::Place at = ccl::place_of(program_.shape, to, step.bytes);
      marks_[{at.rank, at.memory}].write(at.begin, at.end, found);
    }
  }

 private:
  void add(const ccl::Step& step, uint32_t rank, const std::vector<uint32_t>& from, uint32_t hop,
           std::vector<Move>& moves) const {
    const size_t folded = step.sources.size();
    for (const uint32_t source : from) {
      moves.push_back({hop, source, rank, map_.way(source, rank), folded});
    }
    for (const ccl::Range& to : step.destinations) {
      if (to.rank == rank) continue;
      moves.push_back({hop, rank, to.rank, map_.way(rank, to.rank), folded});
    }
  }

  const ccl::Program& program_;
  const Map& map_;
  std::map<std::pair<uint32_t, ccl::Buffer>, Marks> marks_;
};

}  // namespace

SliceWay way_of(const ccl::Program& program, const ScheduleRun& run, const Map& map) {
  SliceWay out;
  const std::optional<Slice> slice = choose(program, map);
  if (!slice) {
    out.slice = "no bytes of an input go from rank to rank";
    return out;
  }
  out.origin = map.place_of(slice->rank);
  out.slice = fmt::format("channel {}: {} at byte {} of the input of rank {}", slice->channel,
                          size_text(static_cast<double>(slice->bytes)), slice->offset, slice->rank);
  Follower follower(program, map);
  follower.begin(*slice);
  for (const uint32_t id : run.order) follower.step(id, out.moves);
  const auto less = [](const Move& a, const Move& b) { return a.hop < b.hop; };
  std::stable_sort(out.moves.begin(), out.moves.end(), less);
  if (!out.moves.empty()) out.hops = out.moves.back().hop;
  return out;
}

}  // namespace soma
