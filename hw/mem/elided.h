// What a timing-only run has not computed of a memory: by address, or where there are partitions by
// column and partition (elided_lanes.h).
#pragma once

#include "hw/mem/elided_lanes.h"
#include "hw/mem/elided_ranges.h"

namespace hw {

class Elided {
 public:
  explicit Elided(uint64_t pitch) : pitch_(pitch) {}

  void add(uint64_t begin, uint64_t length) {
    if (pitch_ == 0) return ranges_.add(begin, length);
    each_lane(begin, length, [this](LaneSet lane, uint64_t from, uint64_t to) {
      lanes_.add(lane, from, to);
      return true;
    });
  }
  // Real bytes were written.
  void remove(uint64_t begin, uint64_t length) {
    if (pitch_ == 0) return ranges_.remove(begin, length);
    each_lane(begin, length, [this](LaneSet lane, uint64_t from, uint64_t to) {
      lanes_.remove(lane, from, to);
      return true;
    });
  }
  bool overlaps(uint64_t begin, uint64_t length) const {
    if (pitch_ == 0) return ranges_.overlaps(begin, length);
    return !lanes_.empty() &&
           !each_lane(begin, length, [this](LaneSet lane, uint64_t from, uint64_t to) {
             return !lanes_.overlaps(lane, from, to);
           });
  }
  // Of a memory with partitions.
  ElidedLanes& lanes() { return lanes_; }

 private:
  // Until one says no; whether none did.
  template <typename F>
  bool each_lane(uint64_t begin, uint64_t length, F&& each) const {
    for (const uint64_t end = begin + length; begin < end;) {
      const uint64_t lane = begin / pitch_;
      const uint64_t next = std::min(end, (lane + 1) * pitch_);
      if (!each(LaneSet{1} << lane, begin - lane * pitch_, next - lane * pitch_)) return false;
      begin = next;
    }
    return true;
  }

  uint64_t pitch_;
  ElidedRanges ranges_;
  ElidedLanes lanes_;
};

}  // namespace hw
