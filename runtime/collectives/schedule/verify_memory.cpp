#include "runtime/collectives/schedule/verify_memory.h"

#include <algorithm>

namespace ccl {

uint32_t Folds::fold(const std::vector<uint32_t>& operands) {
  if (operands.size() == 1) return operands.front();
  const auto [it, inserted] = known_.emplace(operands, static_cast<uint32_t>(nodes_.size()));
  if (inserted) nodes_.push_back(operands);
  return it->second;
}

std::vector<uint32_t> Folds::leaves(uint32_t id) const {
  std::vector<uint32_t> out;
  std::vector<uint32_t> open{id};
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (nodes_[at].empty()) {
      out.push_back(at);
    } else {
      open.insert(open.end(), nodes_[at].begin(), nodes_[at].end());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string Folds::text(uint32_t id) const {
  if (id == 0) return "nothing";
  if (nodes_[id].empty()) {
    const uint32_t leaf = id - 1;
    return leaf < ranks_ ? std::to_string(leaf) : std::to_string(leaf - ranks_) + "'";
  }
  std::string out = "(";
  for (const uint32_t operand : nodes_[id]) out += (out.size() > 1 ? " " : "") + text(operand);
  return out + ")";
}

void Memory::split(uint64_t at) {
  auto it = segments_.upper_bound(at);
  if (it == segments_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  Segment tail = it->second;
  tail.origin += at - it->first;
  it->second.end = at;
  segments_.emplace_hint(std::next(it), at, std::move(tail));
}

Memory::Span Memory::span(uint64_t begin, uint64_t end) {
  split(begin);
  split(end);
  return {segments_.lower_bound(begin), segments_.lower_bound(end)};
}

void Memory::write(uint64_t begin, const Segment& segment) {
  const Span old = span(begin, segment.end);
  segments_.erase(old.begin, old.end);
  segments_[begin] = segment;
}

Place place_of(const Shape& shape, const Range& range, uint64_t bytes) {
  Place p{range.rank, range.buffer, range.offset, range.offset + bytes};
  const bool shared = range.buffer == Buffer::kInput || range.buffer == Buffer::kOutput;
  if (!shape.in_place || !shared) return p;
  p.memory = Buffer::kInput;
  uint64_t shift = 0;
  if (shape.request.kind == OpKind::kAllGather && range.buffer == Buffer::kInput) {
    shift = range.rank * shape.request.input_bytes;
  }
  if (shape.request.kind == OpKind::kReduceScatter && range.buffer == Buffer::kOutput) {
    shift = range.rank * shape.request.output_bytes;
  }
  p.begin += shift;
  p.end += shift;
  return p;
}

uint64_t size_of(const Shape& shape, Buffer buffer, uint32_t rank) {
  const OpRequest& r = shape.request;
  const auto is_target = [&](const auto& pair) { return pair.second == rank; };
  switch (buffer) {
    case Buffer::kInput:
      return r.input_bytes;
    case Buffer::kSecond:
      return r.kind == OpKind::kPermuteReduce ? r.input_bytes : 0;
    case Buffer::kChannel:
      return shape.channel_bytes;
    case Buffer::kOutput:
      break;
  }
  if (r.kind == OpKind::kReduce && rank != r.root) return 0;
  if (r.kind == OpKind::kPermute || r.kind == OpKind::kPermuteReduce) {
    return std::any_of(r.pairs.begin(), r.pairs.end(), is_target) ? r.output_bytes : 0;
  }
  return r.output_bytes;
}

Expected expected(const Shape& shape, const Folds& folds, uint32_t rank, uint64_t offset) {
  const OpRequest& r = shape.request;
  const auto one = [&](uint32_t of) { return std::vector<uint32_t>{folds.leaf(of, false)}; };
  switch (r.kind) {
    case OpKind::kAllGather: {
      const auto from = static_cast<uint32_t>(offset / r.input_bytes);
      return {one(from), false, offset % r.input_bytes, (from + uint64_t{1}) * r.input_bytes};
    }
    case OpKind::kReduceScatter:
      return {{}, true, rank * r.output_bytes + offset, r.output_bytes};
    case OpKind::kAllToAll: {
      const uint64_t block = r.input_bytes / shape.ranks;
      const auto from = static_cast<uint32_t>(offset / block);
      return {one(from), false, rank * block + offset % block, (from + uint64_t{1}) * block};
    }
    case OpKind::kBroadcast:
      return {one(r.root), false, offset, r.output_bytes};
    case OpKind::kPermute:
    case OpKind::kPermuteReduce:
      for (const auto& [source, target] : r.pairs) {
        if (target != rank) continue;
        std::vector<uint32_t> leaves = one(source);
        if (r.kind == OpKind::kPermuteReduce) leaves.push_back(folds.leaf(source, true));
        return {leaves, false, offset, r.output_bytes};
      }
      return {};  // no output: never asked
    default:
      return {{}, true, offset, r.output_bytes};
  }
}

}  // namespace ccl
