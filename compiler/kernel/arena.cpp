#include "compiler/kernel/arena.h"

#include <algorithm>

namespace kernel {
namespace {

constexpr int64_t kAlignment = 4;  // spec/engine-isa.md 2: of PSUM; SBUF has none
constexpr size_t kListed = 12;

int64_t round_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

// Merged and ascending.
std::vector<Arena::Interval> Arena::taken(int64_t first_partition, int64_t partitions) const {
  std::vector<Interval> all;
  for (const auto& [id, p] : pieces_) {
    const bool meets = p.first_partition < first_partition + partitions &&
                       first_partition < p.first_partition + p.partitions;
    if (meets) all.push_back({p.offset, p.offset + p.bytes});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  std::vector<Interval> merged;
  for (const Interval& i : all) {
    if (!merged.empty() && i.low <= merged.back().high) {
      merged.back().high = std::max(merged.back().high, i.high);
    } else {
      merged.push_back(i);
    }
  }
  return merged;
}

// The first place from `at` on that banks allow.
int64_t Arena::placed(int64_t at, int64_t bytes) const {
  const int64_t place = round_up(at, kAlignment);
  if (bank_ == 0) return place;
  const bool inside = bytes <= bank_ && place / bank_ == (place + bytes - 1) / bank_;
  return inside ? place : round_up(place, bank_);
}

std::optional<uint32_t> Arena::allocate(const std::string& name, int64_t first_partition,
                                        int64_t partitions, int64_t bytes) {
  int64_t at = placed(0, bytes);
  for (const Interval& i : taken(first_partition, partitions)) {
    if (at + bytes <= i.low) break;
    at = std::max(at, placed(i.high, bytes));
  }
  if (at + bytes > bytes_) return std::nullopt;
  pieces_.emplace(next_, Piece{first_partition, partitions, at, bytes, name});
  return next_++;
}

int64_t Arena::largest_free(int64_t first_partition, int64_t partitions) const {
  int64_t largest = 0;
  int64_t at = 0;
  for (const Interval& i : taken(first_partition, partitions)) {
    largest = std::max(largest, i.low - at);
    at = round_up(i.high, kAlignment);
  }
  return std::max(largest, bytes_ - at);
}

int64_t Arena::allocated() const {
  int64_t sum = 0;
  for (const Interval& i : taken(0, 128)) sum += i.high - i.low;
  return sum;
}

std::string Arena::list() const {
  std::vector<const Piece*> all;
  for (const auto& [id, p] : pieces_) all.push_back(&p);
  std::stable_sort(all.begin(), all.end(),
                   [](const Piece* a, const Piece* b) { return a->bytes > b->bytes; });
  std::string out;
  for (size_t i = 0; i < std::min(all.size(), kListed); ++i) {
    out += (i == 0 ? "" : ", ") + all[i]->name + " " + std::to_string(all[i]->bytes) + " at " +
           std::to_string(all[i]->offset);
  }
  if (all.size() > kListed) out += ", and " + std::to_string(all.size() - kListed) + " more";
  return out.empty() ? "nothing" : out;
}

}  // namespace kernel
