#include "hw/check/checker.h"

#include <algorithm>
#include <utility>

namespace hw::check {

namespace {

// Of a flat memory, from which on its shadow is made small between executions.
constexpr size_t kManyRanges = 4096;

Kind kind_of(Conflict::Kind kind) {
  switch (kind) {
    case Conflict::Kind::kUnwritten:
      return Kind::kReadUnwritten;
    case Conflict::Kind::kReadAfterWrite:
      return Kind::kReadAfterWrite;
    case Conflict::Kind::kWriteAfterWrite:
      return Kind::kWriteAfterWrite;
    case Conflict::Kind::kWriteAfterRead:
      return Kind::kWriteAfterRead;
  }
  return Kind::kReadUnwritten;
}

}  // namespace

const char* name(Kind kind) {
  constexpr const char* kNames[kKinds] = {"read of what was never written",
                                          "read not ordered behind a write",
                                          "write not ordered behind a write",
                                          "write not ordered behind a read",
                                          "semaphore left non-zero",
                                          "PSUM result never read",
                                          "address from a register out of bounds"};
  return kNames[static_cast<size_t>(kind)];
}

Checker::Checker() : latest_(1, 0), sites_(2) {
  sites_[kHost].who = "host";
}

uint32_t Checker::add_agent() {
  latest_.push_back(0);
  return static_cast<uint32_t>(latest_.size() - 1);
}

uint32_t Checker::number(std::map<Place, uint32_t>& numbers, const Place& place, const Site& site) {
  const auto [at, fresh] = numbers.try_emplace(place, static_cast<uint32_t>(sites_.size()));
  if (fresh) sites_.push_back(site);
  return at->second;
}

uint32_t Checker::site(const Site& site) {
  return number(numbers_, {site.who, site.pc, site.debug_id, site.program, site.operation}, site);
}

uint32_t Checker::dma_site(uint32_t starter, const std::string& queue) {
  if (dma_sites_.size() <= starter) dma_sites_.resize(starter + 1);
  if (dma_sites_[starter] == 0) {
    Site site = sites_[starter];
    site.by = queue;
    const uint32_t pc = site.debug_id != 0 ? 0 : site.pc;
    dma_sites_[starter] =
        number(dma_numbers_, {site.who, pc, site.debug_id, site.program, site.operation}, site);
  }
  return dma_sites_[starter];
}

Snapshot Checker::released() {
  if (acting_ == nullptr) return everything();
  if (acting_->snapshot_ == nullptr) {
    const Release& release = acting_->release_;
    auto clock = std::make_shared<Clock>(*release.known);
    for (const Release::Own& own : release.own) clock->raise(own.agent, own.epoch);
    acting_->snapshot_ = std::move(clock);
  }
  return acting_->snapshot_;
}

void Checker::release_into(Clock& clock) {
  if (acting_ == nullptr) return clock.join(Clock(latest_, bases_), bases_);
  const Release& release = acting_->release_;
  clock.join(*release.known, bases_);
  for (const Release::Own& own : release.own) clock.raise(own.agent, own.epoch);
  clock.limit(bases_);
}

void Checker::add_memory(Memory& memory, uint64_t pitch) {
  auto tracked = std::make_unique<Tracked>();
  tracked->memory = &memory;
  tracked->pitch = pitch;
  if (pitch == 0) flat_.push_back(tracked.get());
  memories_[&memory] = std::move(tracked);
}

// Whole pages of a flat memory only: the rest may have been written by a mapping.
bool Checker::untouched(const Tracked& memory, const Area& area) const {
  return memory.pitch != 0 || memory.memory->is_hole(area.begin, area.until - area.begin);
}

// What has been asked for once is not asked for again: the host's kernel takes its time to answer.
void Checker::assume_written(Tracked& memory, const Area& area) {
  std::vector<Conflict> none;
  Shadow::Result result{&none, kNone, 0};
  memory.shadow.write(area, {}, View(), result);
}

void Checker::report(Tracked& memory, const Access& by) {
  for (const Conflict& c : conflicts_) {
    const bool unwritten = c.kind == Conflict::Kind::kUnwritten;
    if (unwritten) {
      const bool hole = untouched(memory, c.area);
      if (memory.pitch == 0) assume_written(memory, c.area);
      if (!hole) continue;
    }
    add(kind_of(c.kind), memory.memory->name(), unwritten ? by.site : c.earlier.site,
        unwritten ? kNone : by.site, c.area, memory.pitch != 0);
  }
  conflicts_.clear();
}

uint32_t Checker::read(Tracked& memory, const Area& area, const Access& by, const View& view,
                       uint32_t own) {
  Shadow::Result result{&conflicts_, own, 0};
  memory.shadow.read(area, by, view, result);
  if (!conflicts_.empty()) report(memory, by);
  return result.met;
}

uint32_t Checker::write(Tracked& memory, const Area& area, const Access& by, const View& view,
                        uint32_t own, bool adds) {
  Shadow::Result result{&conflicts_, own, 0};
  memory.shadow.write(area, by, view, result, adds);
  if (!conflicts_.empty()) report(memory, by);
  return result.met;
}

namespace {

template <typename Each>
void each_row(const Checker::Tracked& memory, uint64_t offset, uint64_t length, Each&& each) {
  if (memory.pitch == 0) return each(Area{0, 1, offset, offset + length});
  while (length != 0) {
    const auto row = static_cast<uint32_t>(offset / memory.pitch);
    const uint64_t in = offset % memory.pitch;
    const uint64_t n = std::min(length, memory.pitch - in);
    each(Area{row, row + 1, in, in + n});
    offset += n;
    length -= n;
  }
}

}  // namespace

void Checker::read(Tracked& memory, uint64_t offset, uint64_t length, const Access& by,
                   const View& view) {
  each_row(memory, offset, length,
           [&](const Area& area) { (void)read(memory, area, by, view, kNone); });
}

void Checker::write(Tracked& memory, uint64_t offset, uint64_t length, const Access& by,
                    const View& view) {
  each_row(memory, offset, length,
           [&](const Area& area) { (void)write(memory, area, by, view, kNone, false); });
}

// The host starts it, behind all that has happened.
void Checker::core_started() {
  if (running_++ != 0) return;
  for (Tracked* memory : flat_) {
    if (memory->shadow.size() > kManyRanges) memory->shadow.settle();
  }
}

void Checker::add(Kind kind, const std::string& where, uint32_t first, uint32_t second,
                  const Area& area, bool rows) {
  const Key key{kind, first, second, where};
  const auto at = findings_.find(key);
  if (at != findings_.end()) {
    ++at->second.count;
    return;
  }
  if (findings_.size() == kFindings) {
    ++more_;
    return;
  }
  findings_[key] = {kind, where, rows, area, named(first), named(second), 1};
}

Site Checker::named(uint32_t site) const {
  Site out = sites_[site];
  if (lines_ && out.instruction()) out.line = lines_(out);
  return out;
}

std::vector<Finding> Checker::take(uint64_t* more) {
  std::vector<Finding> all;
  for (auto& [key, finding] : findings_) all.push_back(std::move(finding));
  findings_.clear();
  *more = std::exchange(more_, 0);
  const auto place = [](const Finding& f) {
    return std::tie(f.kind, f.where, f.first.who, f.first.pc, f.second.who, f.second.pc, f.first.by,
                    f.second.by);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Finding& a, const Finding& b) { return place(a) < place(b); });
  return all;
}

}  // namespace hw::check
