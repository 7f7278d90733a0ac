// Which bytes of SBUF or PSUM a timing-only run has not computed. An instruction has the same bytes
// in every partition that it uses, so the state is kept by column: ranges of bytes of a partition,
// each with the partitions in which they have been left out. Exact to the byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/contract/address_map.h"

namespace hw {

__extension__ using LaneSet = unsigned __int128;  // a bit per partition

constexpr LaneSet lane_set(uint32_t first, uint32_t count) {
  const LaneSet all = ~LaneSet{0};
  return count == 0 ? 0 : (all >> (contract::tpb::kPartitions - count)) << first;
}

class ElidedLanes {
 public:
  bool empty() const { return columns_.empty(); }

  void add(LaneSet lanes, uint64_t begin, uint64_t end) {
    if (covers(lanes, begin, end)) return;
    split(begin);
    split(end);
    size_t i = first_behind(begin);
    for (uint64_t at = begin; at < end; ++i) {
      const uint64_t next = i < columns_.size() ? std::min(columns_[i].begin, end) : end;
      if (at < next) {
        columns_.insert(columns_.begin() + static_cast<ptrdiff_t>(i), {at, next, lanes});
      } else {
        columns_[i].lanes |= lanes;
      }
      at = columns_[i].end;
    }
    merge(begin, end);
  }

  // Real bytes were written.
  void remove(LaneSet lanes, uint64_t begin, uint64_t end) {
    if (!overlaps(lanes, begin, end)) return;
    split(begin);
    split(end);
    for (size_t i = first_behind(begin); i < columns_.size() && columns_[i].begin < end; ++i) {
      columns_[i].lanes &= ~lanes;
    }
    merge(begin, end);
  }

  bool overlaps(LaneSet lanes, uint64_t begin, uint64_t end) const {
    for (size_t i = first_behind(begin); i < columns_.size() && columns_[i].begin < end; ++i) {
      if ((columns_[i].lanes & lanes) != 0) return true;
    }
    return false;
  }

 private:
  struct Column {
    uint64_t begin;
    uint64_t end;
    LaneSet lanes;
  };

  // The first that ends behind `at`.
  size_t first_behind(uint64_t at) const {
    const auto found = std::upper_bound(columns_.begin(), columns_.end(), at,
                                        [](uint64_t x, const Column& c) { return x < c.end; });
    return static_cast<size_t>(found - columns_.begin());
  }

  bool covers(LaneSet lanes, uint64_t begin, uint64_t end) const {
    for (size_t i = first_behind(begin); i < columns_.size(); ++i) {
      const Column& c = columns_[i];
      if (c.begin > begin || (c.lanes & lanes) != lanes) return false;
      begin = c.end;
      if (begin >= end) return true;
    }
    return false;
  }

  void split(uint64_t at) {
    const size_t i = first_behind(at);
    if (i == columns_.size() || columns_[i].begin >= at) return;
    const Column left{columns_[i].begin, at, columns_[i].lanes};
    columns_[i].begin = at;
    columns_.insert(columns_.begin() + static_cast<ptrdiff_t>(i), left);
  }

  // Neighbours alike become one from the column before `begin` to the one behind `end`; those
  // without partitions go.
  void merge(uint64_t begin, uint64_t end) {
    size_t to = first_behind(begin);
    if (to > 0) --to;
    const size_t first = to;
    size_t from = to;
    for (; from < columns_.size() && columns_[from].begin <= end; ++from) {
      const Column c = columns_[from];
      if (c.lanes == 0) continue;
      if (to > first && columns_[to - 1].end == c.begin && columns_[to - 1].lanes == c.lanes) {
        columns_[to - 1].end = c.end;
      } else {
        columns_[to++] = c;
      }
    }
    columns_.erase(columns_.begin() + static_cast<ptrdiff_t>(to),
                   columns_.begin() + static_cast<ptrdiff_t>(from));
  }

  std::vector<Column> columns_;  // ascending, disjoint, not empty
};

}  // namespace hw
