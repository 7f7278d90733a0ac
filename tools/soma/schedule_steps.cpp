// The steps of one rank and channel as rows of a table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tools/soma/schedule_parts.h"

namespace soma {
namespace {

constexpr size_t kFirst = 14;  // rows before what is left out
constexpr size_t kLast = 6;
constexpr size_t kMostKinds = 3;  // named of what is left out

std::vector<uint32_t> others(const std::vector<ccl::Range>& ranges, uint32_t rank) {
  std::set<uint32_t> out;
  for (const ccl::Range& range : ranges) {
    if (range.rank != rank) out.insert(range.rank);
  }
  return {out.begin(), out.end()};
}

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  if (ranks.empty()) return "";
  return (ranks.size() == 1 ? "rank " : "ranks ") + numbers_text(ranks, 24);
}

void add(std::string& text, const std::string& more) {
  if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
}

std::vector<uint32_t> signalled(const ccl::Step& step) {
  std::set<uint32_t> out;
  for (const ccl::Signal& s : step.signals) out.insert(s.rank);
  return {out.begin(), out.end()};
}

void say_kind(const ccl::Step& step, uint32_t rank, StepRow& row) {
  const std::vector<uint32_t> from = others(step.sources, rank);
  const std::vector<uint32_t> to = others(step.destinations, rank);
  if (step.bytes == 0) {
    row.kind = StepRow::Kind::kSignal;
    row.text = step.signals.empty() ? "wait" : "signal";
    const std::string peers = ranks_text(signalled(step));
    if (!peers.empty()) row.peer = "to " + peers;
    return;
  }
  row.bytes = std::to_string(step.bytes);
  if (!from.empty()) add(row.text, "receive");
  if (step.sources.size() > 1) add(row.text, fmt::format("reduce {}", step.sources.size()));
  if (!to.empty()) add(row.text, "send");
  if (row.text.empty()) row.text = "copy";
  row.kind = step.sources.size() > 1 ? StepRow::Kind::kReduce
             : !to.empty()           ? StepRow::Kind::kSend
             : !from.empty()         ? StepRow::Kind::kReceive
                                     : StepRow::Kind::kCopy;
  if (!from.empty()) add(row.peer, "from " + ranks_text(from));
  if (!to.empty()) add(row.peer, "to " + ranks_text(to));
}

// Whose signals, and what they say: that bytes have come, or that the rank may go on.
std::string waits_text(const ccl::Program& program, const ScheduleRun& run, uint32_t id) {
  const uint32_t rank = program.refs[id].rank;
  std::set<uint32_t> data;
  std::set<uint32_t> ready;
  for (const uint32_t by : run.takes[id]) {
    const ccl::Step& step = program.step(by);
    const auto here = [&](const ccl::Range& to) { return to.rank == rank; };
    const bool brings =
        step.bytes != 0 && std::any_of(step.destinations.begin(), step.destinations.end(), here);
    (brings ? data : ready).insert(program.refs[by].rank);
  }
  std::string out;
  if (!data.empty()) add(out, "bytes of " + ranks_text({data.begin(), data.end()}));
  if (!ready.empty()) add(out, "signal of " + ranks_text({ready.begin(), ready.end()}));
  const std::vector<uint32_t>& after = program.step(id).after;
  if (!after.empty()) add(out, fmt::format("its step {}", numbers_text(after, 24)));
  return out;
}

std::string left_out(const std::vector<StepRow>& rows) {
  std::vector<std::pair<std::string, size_t>> kinds;
  for (size_t i = kFirst; i + kLast < rows.size(); ++i) {
    const auto same = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const auto& each) { return each.first == rows[i].text; });
    if (same == kinds.end()) {
      kinds.emplace_back(rows[i].text, 1);
    } else {
      ++same->second;
    }
  }
  std::string out;
  size_t left = rows.size() - kFirst - kLast;
  for (size_t i = 0; i < kinds.size() && i < kMostKinds; ++i) {
    const auto& [text, count] = kinds[i];
    out += fmt::format("{}{} x '{}'", out.empty() ? "" : ", ", count, text);
    left -= count;
  }
  if (left != 0) out += fmt::format(", {} others", left);
  return fmt::format("{} more alike: {}", rows.size() - kFirst - kLast, out);
}

// The first one on which rank 0 moves bytes: in some algorithms it rests on others.
uint32_t busy_channel(const ccl::Program& program) {
  const auto moves = [](const ccl::Step& step) { return step.bytes != 0; };
  const ccl::Steps& steps = program.ranks.front();
  const auto first = std::find_if(steps.begin(), steps.end(), moves);
  return first == steps.end() ? 0 : first->channel;
}

}  // namespace

StepTable steps_of(const ccl::Program& program, const ScheduleRun& run) {
  StepTable out;
  std::vector<StepRow> rows;
  const uint32_t channel = busy_channel(program);
  for (const uint32_t id : program.tracks[channel]) {  // those of rank 0 are the first
    StepRow& row = rows.emplace_back();
    row.number = std::to_string(program.refs[id].step);
    say_kind(program.step(id), program.refs[id].rank, row);
    row.waits = waits_text(program, run, id);
  }
  out.title = fmt::format("rank 0, channel {}: {} of the rank's {} steps", channel, rows.size(),
                          program.ranks.front().size());
  if (rows.size() <= kFirst + kLast + 1) {
    out.first = std::move(rows);
    return out;
  }
  out.first.assign(rows.begin(), rows.begin() + kFirst);
  out.between = left_out(rows);
  out.last.assign(rows.end() - kLast, rows.end());
  return out;
}

}  // namespace soma
