#include "sim/profile.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "hw/core/neuron_core.h"
#include "sim/instruction_text.h"

namespace sim {

namespace {

constexpr uint32_t kBusy = 0;
constexpr auto kEngines = static_cast<uint32_t>(contract::kEnginesPerNc);

// Kinds of spans: busy, each engine that is waited for, every other cause.
std::vector<std::string> kinds() {
  std::vector<std::string> list{"busy"};
  for (uint32_t e = 0; e < kEngines; ++e) list.emplace_back(hw::NeuronCore::engine_name(e));
  for (size_t i = 1; i < hw::kStalls; ++i) {
    list.emplace_back(hw::name_of(static_cast<hw::Stall>(i)));
  }
  return list;
}

uint32_t kind_of(const hw::InstructionEvent::Pause& pause) {
  return pause.cause == hw::Stall::kSemaphore ? 1 + pause.engine
                                              : kEngines + static_cast<uint32_t>(pause.cause);
}

base::Ps cost(const LineRow& row) {
  base::Ps sum = row.busy;
  for (const auto& [cause, time] : row.waited) sum += time;
  return sum;
}

// The number after `word` in the part of a track's name that starts with it.
bool numbered(const std::string& part, const char* word, uint32_t* number) {
  const size_t length = std::strlen(word);
  if (part.compare(0, length, word) != 0) return false;
  const char* end = part.data() + part.size();
  const auto parsed = std::from_chars(part.data() + length, end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

void LaneBuilder::add(TimelineSpan span) {
  if (!lane_.spans.empty()) span.begin = std::max(span.begin, lane_.spans.back().end);
  if (span.begin >= span.end) return;
  append(span, span.end - span.begin);
  while (lane_.spans.size() > most_) coarsen();
}

void LaneBuilder::append(const TimelineSpan& span, base::Ps weight) {
  if (!lane_.spans.empty() && span.end - lane_.spans.back().begin <= lane_.grain) {
    TimelineSpan& last = lane_.spans.back();
    if (weight > weights_.back()) {
      last.what = span.what;
      last.name = span.name;
      weights_.back() = weight;
    }
    last.end = span.end;
    last.count += span.count;
    return;
  }
  lane_.spans.push_back(span);
  weights_.push_back(weight);
}

void LaneBuilder::coarsen() {
  constexpr base::Ps kFirstGrain = 1000;
  lane_.grain = std::max(kFirstGrain, 2 * lane_.grain);
  const std::vector<TimelineSpan> spans = std::move(lane_.spans);
  const std::vector<base::Ps> weights = std::move(weights_);
  lane_.spans.clear();
  weights_.clear();
  for (size_t i = 0; i < spans.size(); ++i) append(spans[i], weights[i]);
}

TimelineLane LaneBuilder::take(base::Ps total) {
  for (TimelineSpan& span : lane_.spans) span.end = std::min(span.end, total);
  return std::move(lane_);
}

uint32_t Profile::track(const std::string& name) {
  Track track;
  if (next_ != nullptr) track.next = next_->track(name);
  const size_t chip = name.find('.');
  const size_t queue = name.rfind('.');
  if (chip != queue && chip != std::string::npos &&
      numbered(name.substr(chip + 1, queue - chip - 1), "dma", &track.engine)) {
    track.chip = name.substr(0, chip + 1);
  }
  tracks_.push_back(std::move(track));
  return static_cast<uint32_t>(tracks_.size() - 1);
}

void Profile::span(uint32_t track, base::Ps begin, base::Ps end, const char* name, uint64_t bytes,
                   uint64_t flow) {
  const Track& from = tracks_.at(track);
  if (next_ != nullptr) next_->span(from.next, begin, end, name, bytes, flow);
  if (from.chip.empty()) return;
  for (auto& [core_name, core] : cores_) {
    if (!core.timeline || core.chip != from.chip || end <= core.begin) continue;
    if (from.engine < core.first_dma || from.engine >= core.first_dma + contract::kDmaPerNc) {
      continue;
    }
    LaneBuilder& lane =
        core.dma.try_emplace(from.engine, "dma" + std::to_string(from.engine), kDmaSpans)
            .first->second;
    lane.add_bytes(bytes);
    lane.add({std::max(begin, core.begin) - core.begin, end - core.begin, kBusy,
              name_index(*core.program, name), 1});
  }
}

uint32_t Profile::name_index(Program& program, const std::string& name) {
  const auto [at, added] =
      program.names.emplace(name, static_cast<uint32_t>(program.timeline.names.size()));
  if (added) program.timeline.names.push_back(name);
  return at->second;
}

std::pair<size_t, uint32_t> Profile::place(Program& program, const hw::InstructionEvent& event) {
  const EnginePlace key{event.engine, event.program, event.pc};
  const auto known = program.by_place.find(key);
  if (known != program.by_place.end()) return known->second;
  const std::string found =
      source_.find(*event.core, event.engine, event.program, event.instruction.debug_id);
  const std::string line = found.empty() ? "pc " + std::to_string(event.pc) : found;
  const std::string name = name_of(event.instruction);
  const auto [at, added] =
      program.by_line.emplace(std::make_pair(uint32_t{event.engine}, line), program.lines.size());
  if (added) {
    LineRow row;
    row.line = line;
    row.engine = hw::NeuronCore::engine_name(event.engine);
    program.lines.push_back(std::move(row));
  }
  std::vector<std::string>& names = program.lines[at->second].instructions;
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  const std::pair<size_t, uint32_t> result{at->second, name_index(program, name + " " + line)};
  program.by_place.emplace(key, result);
  return result;
}

void Profile::instruction(uint32_t track, const hw::InstructionEvent& event) {
  if (next_ != nullptr) next_->instruction(tracks_.at(track).next, event);
  Core& core = cores_[*event.core];
  if (core.program == nullptr || event.end <= core.begin) return;
  const auto [line, name] = place(*core.program, event);
  LineRow& row = core.program->lines[line];
  ++row.executed;
  // As the engine's own sum: the Tensor engine loads weights while it multiplies.
  base::Ps& until = core.busy_until[event.engine];
  const base::Ps begin = std::max(event.begin, until);
  until = std::max(event.end, until);
  row.busy += until - std::min(begin, until);
  for (const hw::InstructionEvent::Pause& pause : event.pauses) {
    const base::Ps from = std::max(pause.begin, core.begin);
    if (pause.end <= from) continue;
    const char* cause = wait_name(pause);
    auto at = std::find_if(row.waited.begin(), row.waited.end(),
                           [&](const auto& each) { return each.first == cause; });
    if (at == row.waited.end()) at = row.waited.emplace(at, cause, 0);
    at->second += pause.end - from;
    if (core.timeline) {
      core.engines[event.engine].add(
          {from - core.begin, pause.end - core.begin, kind_of(pause), name, 1});
    }
  }
  if (core.timeline) {
    core.engines[event.engine].add(
        {std::max(event.begin, core.begin) - core.begin, event.end - core.begin, kBusy, name, 1});
  }
}

void Profile::execution_begins(const std::string& name, uint64_t address, base::Ps now) {
  if (next_ != nullptr) next_->execution_begins(name, address, now);
  // A file that comes now may be about a program at the address of an earlier one.
  if (source_.refresh()) {
    for (auto& [key, program] : programs_) program.by_place.clear();
  }
  const auto [program, first] = programs_.try_emplace({name, address});
  Core& core = cores_[name];
  if (core.engines.empty() && core.chip.empty()) {
    const size_t dot = name.find('.');
    core.chip = name.substr(0, dot + 1);
    uint32_t nc = 0;
    numbered(name.substr(dot + 1), "nc", &nc);
    core.first_dma = nc * contract::kDmaPerNc;
  }
  core.begin = now;
  core.busy_until.assign(kEngines, 0);
  core.engines.clear();
  core.dma.clear();
  if (core.program == &program->second) {
    forget_lines(&core);
  } else {
    core.program = &program->second;
    core.lines_before = core.program->lines;
    core.timeline = first && timelines_ < kTimelines;
    timelines_ += core.timeline ? 1 : 0;
  }
  if (!core.timeline) return;
  for (uint32_t e = 0; e < kEngines; ++e) {
    core.engines.emplace_back(hw::NeuronCore::engine_name(e), kSpans);
  }
}

// The execution begins anew, behind the barrier of ranks.
void Profile::forget_lines(Core* core) {
  Program& program = *core->program;
  program.lines = core->lines_before;
  program.by_place.clear();
  for (auto at = program.by_line.begin(); at != program.by_line.end();) {
    at = at->second < program.lines.size() ? std::next(at) : program.by_line.erase(at);
  }
}

void Profile::execution_ends(const std::string& name, base::Ps now, bool complete) {
  if (next_ != nullptr) next_->execution_ends(name, now, complete);
  Core& core = cores_[name];
  if (core.timeline && complete) {
    Timeline& timeline = core.program->timeline;
    timeline.total = now - core.begin;
    timeline.kinds = kinds();
    for (LaneBuilder& lane : core.engines) timeline.lanes.push_back(lane.take(timeline.total));
    for (auto& [engine, lane] : core.dma) timeline.lanes.push_back(lane.take(timeline.total));
  }
  core.timeline = false;
  core.program = nullptr;
}

ProfileRow Profile::take(const std::string& core, uint64_t address) {
  ProfileRow row;
  const auto at = programs_.find({core, address});
  if (at == programs_.end()) return row;
  row.lines = std::move(at->second.lines);
  row.timeline = std::move(at->second.timeline);
  std::stable_sort(row.lines.begin(), row.lines.end(),
                   [](const LineRow& a, const LineRow& b) { return cost(a) > cost(b); });
  if (row.lines.size() > kLines) {
    row.more_lines = row.lines.size() - kLines;
    row.lines.resize(kLines);
  }
  for (auto& [name, each] : cores_) {
    if (each.program == &at->second) {
      each.program = nullptr;
      each.timeline = false;
    }
  }
  programs_.erase(at);
  return row;
}

}  // namespace sim
