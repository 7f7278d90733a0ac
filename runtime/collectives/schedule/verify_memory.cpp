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
    case Buffer::kMetadata:
      return metadata_bytes(r, shape.ranks);
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

VariableResult::VariableResult(const Shape& shape, const Metadata& metadata)
    : shape_(shape), element_(contract::dtype_size(shape.request.dtype)), blocks_(shape.ranks) {
  const OpRequest& q = shape.request;
  const uint32_t n = shape.ranks;
  const auto word = [&](uint32_t rank, uint32_t row, uint32_t column) {
    return uint64_t{metadata[rank][row * n + column]};
  };
  for (uint32_t rank = 0; rank < n; ++rank) {
    if (q.kind == OpKind::kReduceScatterV) {
      add(rank, 0, word(rank, 0, rank), 0, word(rank, 1, rank));
      continue;
    }
    for (uint32_t from = 0; from < n; ++from) {
      const uint32_t column = q.kind == OpKind::kAllGatherV ? 0 : rank;
      const uint64_t to =
          q.receive_displacements ? word(rank, 3, from) : q.output_bytes / element_ / n * from;
      add(rank, to, word(from, 0, column), from, word(from, 1, column));
    }
  }
}

void VariableResult::add(uint32_t rank, uint64_t to, uint64_t count, uint32_t from,
                         uint64_t origin) {
  const OpRequest& q = shape_.request;
  if (count == 0 || origin + count > q.input_bytes / element_) return;
  if (to + count > q.output_bytes / element_) return;
  blocks_[rank][to * element_] = {(to + count) * element_, from, origin * element_};
}

Expected VariableResult::output(const Folds& folds, uint32_t rank, uint64_t offset) const {
  const auto next = blocks_[rank].upper_bound(offset);
  if (next != blocks_[rank].begin()) {
    const auto& [begin, block] = *std::prev(next);
    if (offset < block.end) {
      const bool all = shape_.request.kind == OpKind::kReduceScatterV;
      return {{folds.leaf(block.from, false)}, all, block.origin + offset - begin, block.end};
    }
  }
  const uint64_t until = next == blocks_[rank].end() ? shape_.request.output_bytes : next->first;
  return {{}, false, 0, until};
}

std::optional<uint64_t> VariableResult::announced(uint32_t rank, uint64_t offset) const {
  const OpRequest& q = shape_.request;
  const uint64_t row = offset / kMetadataWord / shape_.ranks;
  if (q.kind == OpKind::kReduceScatterV || q.receive_counts_known || row != 2) return std::nullopt;
  return q.kind == OpKind::kAllGatherV ? 0 : rank * kMetadataWord;
}

uint32_t VariableResult::sender_of(uint64_t offset) const {
  return static_cast<uint32_t>(offset / sizeof(uint32_t) % shape_.ranks);
}

}  // namespace ccl
