// Who wrote and who read each byte of one memory last, and which access was ordered behind neither.
//
// A memory is rows (partitions of SBUF and PSUM; HBM has one) of bytes. All rows of a tile lie at
// the same bytes, so the shadow is a list of byte ranges, each with runs of rows that share their
// last writer and with those who have read since. Exact to the byte and the row: ranges are split
// where an access begins or ends, and joined again where they have become equal.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "hw/check/clock.h"

namespace hw::check {

// Rows [first, end) x bytes [begin, until).
struct Area {
  uint32_t first = 0;
  uint32_t end = 1;
  uint64_t begin = 0;
  uint64_t until = 0;
};

struct Access {
  uint32_t agent = 0;
  uint32_t epoch = 0;
  uint32_t site = 0;  // the instruction; Checker knows it
};

struct Conflict {
  enum class Kind : uint8_t { kUnwritten, kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };
  Kind kind = Kind::kUnwritten;
  Area area;
  Access earlier;  // of a race
};

class Shadow {
 public:
  // What comes out of an access: conflicts, in the order of their bytes, are added.
  struct Result {
    std::vector<Conflict>* conflicts = nullptr;
    // The agent whose own results are looked for, and the youngest that the access met.
    uint32_t own = 0;
    uint32_t met = 0;
  };
  // `view`: of the accessing agent.
  void read(const Area& area, const Access& by, const View& view, Result& result);
  // `adds`: also reads what it replaces, in the memory's own order (PSUM accumulation).
  void write(const Area& area, const Access& by, const View& view, Result& result,
             bool adds = false);

  // Nothing has been written.
  void clear() { ranges_.clear(); }
  // Whatever has been done is over for everybody: it stays written, by nobody that matters.
  void settle();
  size_t size() const { return ranges_.size(); }

  // Calls each(area, writer) for what `agent` wrote after `epoch` and nobody has read since.
  template <typename Each>
  void each_unread(uint32_t agent, uint32_t epoch, Each&& each) const {
    for (const auto& [begin, range] : ranges_) {
      for (const Run& w : range.writers) {
        if (w.by.agent != agent || w.by.epoch <= epoch) continue;
        bool read = false;
        for (const Run& r : range.readers) read = read || (r.first < w.end && w.first < r.end);
        if (!read) each(Area{w.first, w.end, begin, range.until}, w.by);
      }
    }
  }

 private:
  struct Run {
    uint32_t first, end;  // rows
    Access by;
    friend bool operator==(const Run& a, const Run& b) {
      return a.first == b.first && a.end == b.end && a.by.agent == b.by.agent &&
             a.by.epoch == b.by.epoch && a.by.site == b.by.site;
    }
  };
  struct Range {
    uint64_t until = 0;
    std::vector<Run> writers;  // by row, disjoint
    std::vector<Run> readers;  // since the last write
  };
  using Ranges = std::map<uint64_t, Range>;

  Ranges::iterator first_behind(uint64_t begin);
  // The range begins or ends there: it is split if it does not. Returns the upper part.
  Ranges::iterator split(Ranges::iterator range, uint64_t at);
  static void check_writers(const Range& range, const Area& area, const View& view,
                            Conflict::Kind race, bool unwritten, Result& result);
  static void add_reader(Range& range, const Area& area, const Access& by, const View& view);
  static void set_writer(Range& range, const Area& area, const Access& by);
  void merge(uint64_t begin, uint64_t until);

  Ranges ranges_;  // by first byte, disjoint
};

}  // namespace hw::check
