#include "hw/check/shadow.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hw::check {

namespace {

bool ordered(const Access& earlier, const View& view) {
  return view.knows(earlier.agent, earlier.epoch);
}

Area part(const Area& area, uint32_t first, uint32_t end) {
  return {std::max(area.first, first), std::min(area.end, end), area.begin, area.until};
}

}  // namespace

Shadow::Ranges::iterator Shadow::first_behind(uint64_t begin) {
  auto at = ranges_.upper_bound(begin);
  if (at == ranges_.begin()) return at;
  const auto before = std::prev(at);
  return before->second.until > begin ? before : at;
}

Shadow::Ranges::iterator Shadow::split(Ranges::iterator range, uint64_t at) {
  Range upper = range->second;
  range->second.until = at;
  return ranges_.emplace_hint(std::next(range), at, std::move(upper));
}

void Shadow::check_writers(const Range& range, const Area& area, const View& view,
                           Conflict::Kind race, bool unwritten, Result& result) {
  uint32_t row = area.first;
  const auto missing = [&](uint32_t end) {
    if (unwritten && row < end) {
      result.conflicts->push_back({Conflict::Kind::kUnwritten, part(area, row, end), {}});
    }
  };
  for (const Run& w : range.writers) {
    if (w.end <= area.first) continue;
    if (w.first >= area.end) break;
    missing(w.first);
    row = w.end;
    if (w.by.agent == result.own) result.met = std::max(result.met, w.by.epoch);
    if (!ordered(w.by, view)) {
      result.conflicts->push_back({race, part(area, w.first, w.end), w.by});
    }
  }
  missing(area.end);
}

// Readers that the new one is ordered behind need not be kept: who is ordered behind it is ordered
// behind them.
void Shadow::add_reader(Range& range, const Area& area, const Access& by, const View& view) {
  size_t kept = 0;
  for (const Run& r : range.readers) {
    const bool covered = r.first >= area.first && r.end <= area.end && ordered(r.by, view);
    if (!covered) range.readers[kept++] = r;
  }
  range.readers.resize(kept);
  range.readers.push_back({area.first, area.end, by});
}

void Shadow::set_writer(Range& range, const Area& area, const Access& by) {
  std::vector<Run>& runs = range.writers;
  auto at = runs.begin();
  while (at != runs.end() && at->end <= area.first) ++at;
  if (at != runs.end() && at->first < area.first) {
    const Run upper{area.first, at->end, at->by};
    at->end = area.first;
    at = runs.insert(std::next(at), upper);
  }
  auto last = at;
  while (last != runs.end() && last->end <= area.end) ++last;
  if (last != runs.end() && last->first < area.end) last->first = area.end;
  const Run mine{area.first, area.end, by};
  if (at == last) {
    runs.insert(at, mine);
  } else {
    *at = mine;
    runs.erase(std::next(at), last);
  }
  // Some rows of a reader that stay behind their time do no harm: who is not ordered behind it is
  // not ordered behind this write either.
  std::vector<Run>& readers = range.readers;
  readers.erase(
      std::remove_if(readers.begin(), readers.end(),
                     [&](const Run& r) { return r.first >= area.first && r.end <= area.end; }),
      readers.end());
}

void Shadow::read(const Area& area, const Access& by, const View& view, Result& result) {
  uint64_t at = area.begin;
  const auto gap = [&](uint64_t until) {
    if (at >= until) return;
    result.conflicts->push_back(
        {Conflict::Kind::kUnwritten, {area.first, area.end, at, until}, {}});
  };
  for (auto it = first_behind(at); it != ranges_.end() && it->first < area.until; ++it) {
    gap(it->first);
    if (it->first < at) it = split(it, at);
    if (it->second.until > area.until) split(it, area.until);
    const Area here{area.first, area.end, it->first, it->second.until};
    check_writers(it->second, here, view, Conflict::Kind::kReadAfterWrite, true, result);
    add_reader(it->second, here, by, view);
    at = it->second.until;
  }
  gap(area.until);
}

void Shadow::write(const Area& area, const Access& by, const View& view, Result& result,
                   bool adds) {
  uint64_t at = area.begin;
  uint32_t ranges = 0;
  const auto gap = [&](Ranges::iterator hint, uint64_t until) {
    if (at >= until) return;
    if (adds) {
      result.conflicts->push_back(
          {Conflict::Kind::kUnwritten, {area.first, area.end, at, until}, {}});
    }
    Range fresh;
    fresh.until = until;
    fresh.writers.push_back({area.first, area.end, by});
    ranges_.emplace_hint(hint, at, std::move(fresh));
    ++ranges;
  };
  auto it = first_behind(at);
  for (; it != ranges_.end() && it->first < area.until; ++it) {
    gap(it, it->first);
    if (it->first < at) it = split(it, at);
    if (it->second.until > area.until) split(it, area.until);
    Range& range = it->second;
    const Area here{area.first, area.end, it->first, range.until};
    check_writers(range, here, view, Conflict::Kind::kWriteAfterWrite, adds, result);
    for (const Run& r : range.readers) {
      if (r.first >= area.end || r.end <= area.first || ordered(r.by, view)) continue;
      result.conflicts->push_back(
          {Conflict::Kind::kWriteAfterRead, part(here, r.first, r.end), r.by});
    }
    set_writer(range, here, by);
    at = range.until;
    ++ranges;
  }
  gap(it, area.until);
  if (ranges > 1) merge(area.begin, area.until);
}

void Shadow::merge(uint64_t begin, uint64_t until) {
  auto it = ranges_.find(begin);
  while (it != ranges_.end() && it->first < until) {
    const auto next = std::next(it);
    if (next == ranges_.end() || next->first >= until) return;
    const bool equal = it->second.until == next->first &&
                       it->second.writers == next->second.writers &&
                       it->second.readers == next->second.readers;
    if (!equal) {
      it = next;
      continue;
    }
    it->second.until = next->second.until;
    ranges_.erase(next);
  }
}

void Shadow::settle() {
  Ranges settled;
  for (auto& [begin, range] : ranges_) {
    for (Run& w : range.writers) w.by = {};
    std::vector<Run>& runs = range.writers;
    size_t kept = 0;
    for (const Run& w : runs) {
      if (kept != 0 && runs[kept - 1].end == w.first) {
        runs[kept - 1].end = w.end;
      } else {
        runs[kept++] = w;
      }
    }
    runs.resize(kept);
    range.readers.clear();
    if (!settled.empty()) {
      auto last = std::prev(settled.end());
      if (last->second.until == begin && last->second.writers == runs) {
        last->second.until = range.until;
        continue;
      }
    }
    settled.emplace_hint(settled.end(), begin, std::move(range));
  }
  ranges_ = std::move(settled);
}

}  // namespace hw::check
