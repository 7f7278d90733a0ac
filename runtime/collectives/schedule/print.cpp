// Schedules as text, and the bytes that they move.
#include <algorithm>
#include <set>

#include "runtime/collectives/schedule/crossings.h"
#include "runtime/collectives/schedule/verify.h"

namespace ccl {
namespace {

std::string range_text(const Range& range, uint32_t rank) {
  constexpr const char* kNames[] = {"in", "out", "ch", "in2", "meta"};
  const std::string owner = range.rank == rank ? "" : "r" + std::to_string(range.rank) + ".";
  return owner + kNames[static_cast<size_t>(range.buffer)] + "[" + std::to_string(range.offset) +
         "]";
}

// Without its number.
std::string print_step(const Step& step, uint32_t rank) {
  std::string out = "ch" + std::to_string(step.channel);
  if (step.bytes != 0) {
    out += "  " + std::to_string(step.bytes) + " B ";
    for (size_t i = 0; i < step.sources.size(); ++i) {
      out += (i == 0 ? " " : " + ") + range_text(step.sources[i], rank);
    }
    out += " ->";
    for (const Range& to : step.destinations) out += " " + range_text(to, rank);
  }
  for (const Wait& wait : step.waits) {
    out += "  wait e" + std::to_string(wait.event);
    if (wait.signals != 1) out += " x" + std::to_string(wait.signals);
  }
  for (const uint32_t before : step.after) out += "  after " + std::to_string(before);
  for (const Signal& s : step.signals) {
    out += "  signal r" + std::to_string(s.rank) + ".e" + std::to_string(s.event);
  }
  return out + (step.fan_out ? "  fan-out" : "");
}

std::string print_title(const Shape& shape) {
  return std::string(to_string(shape.algorithm)) + " " + to_string(shape.request.kind) + ", " +
         std::to_string(shape.ranks) + " ranks, " + std::to_string(shape.request.input_bytes) +
         " bytes in, " + std::to_string(shape.request.output_bytes) + " bytes out" +
         (shape.in_place ? ", in place" : "");
}

// What is the same for equal ranks in a summary.
struct Totals {
  size_t steps = 0;
  size_t handshakes = 0;
  uint64_t accesses = 0;  // bytes read and written
  uint64_t sent = 0;
  uint64_t fetched = 0;

  bool operator==(const Totals& o) const {
    return steps == o.steps && handshakes == o.handshakes && accesses == o.accesses &&
           sent == o.sent && fetched == o.fetched;
  }
};

Totals totals_of(const Steps& steps, uint32_t rank) {
  Totals t;
  for (const Step& step : steps) {
    ++(step.bytes == 0 && !step.variable ? t.handshakes : t.steps);
    t.accesses += step.bytes * (step.sources.size() + step.destinations.size());
    crossings(step, rank, [&](uint32_t from, uint32_t, uint64_t bytes) {
      (from == rank ? t.sent : t.fetched) += bytes;
    });
  }
  return t;
}

constexpr size_t kMaxRows = 8;        // of a summary
constexpr size_t kMaxRanksText = 60;  // characters

// "ranks 0-3, 7"
std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (out.size() > kMaxRanksText) return out + ", ... (" + std::to_string(ranks.size()) + ")";
    if (i != 0) out += ", ";
    out += std::to_string(ranks[i]);
    if (end - i > 1) out += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return out;
}

std::string row(const std::string& ranks, const Totals& t) {
  return "  " + ranks + ": " + std::to_string(t.steps) + " steps, " + std::to_string(t.handshakes) +
         " handshakes, " + std::to_string(t.accesses) + " bytes read and written, " +
         std::to_string(t.sent) + " to others, " + std::to_string(t.fetched) + " from others\n";
}

}  // namespace

std::string print(const Schedule& schedule) {
  std::string out;
  for (uint32_t r = 0; r < schedule.shape.ranks; ++r) {
    out += "rank " + std::to_string(r) + "\n";
    const Steps steps = schedule.steps(r);
    for (size_t i = 0; i < steps.size(); ++i) {
      out += "  " + std::to_string(i) + "  " + print_step(steps[i], r) + "\n";
    }
  }
  return out;
}

std::string print_summary(const Schedule& schedule) {
  const Shape& shape = schedule.shape;
  const auto fifos = std::count_if(shape.events.begin(), shape.events.end(),
                                   [](const Event& event) { return event.fifo; });
  std::string out = print_title(shape) + "\n";
  out += "  " + std::to_string(shape.channels) + " channels, " + std::to_string(fifos) +
         " fifos, " + std::to_string(shape.events.size() - static_cast<size_t>(fifos)) +
         " gathers, channel buffer " + std::to_string(shape.channel_bytes) +
         " bytes, largest step " + std::to_string(shape.largest_step) + " bytes\n";
  // Ranks that do the same share a row.
  std::vector<std::pair<Totals, std::vector<uint32_t>>> rows;
  for (uint32_t r = 0; r < shape.ranks; ++r) {
    const Totals totals = totals_of(schedule.steps(r), r);
    const auto same = std::find_if(rows.begin(), rows.end(),
                                   [&](const auto& row) { return row.first == totals; });
    if (same == rows.end()) {
      rows.push_back({totals, {r}});
    } else {
      same->second.push_back(r);
    }
  }
  for (size_t i = 0; i < rows.size() && i < kMaxRows; ++i) {
    out += row(ranks_text(rows[i].second), rows[i].first);
  }
  if (rows.size() > kMaxRows) {
    out += "  and " + std::to_string(rows.size() - kMaxRows) + " more kinds of ranks\n";
  }
  return out;
}

uint64_t bytes_between(const Schedule& schedule, uint32_t from, uint32_t to) {
  uint64_t sum = 0;
  const std::set<uint32_t> owners{from, to};  // steps of others bring nothing from one to the other
  for (const uint32_t owner : owners) {
    for (const Step& step : schedule.steps(owner)) {
      crossings(step, owner, [&](uint32_t a, uint32_t b, uint64_t bytes) {
        if (a == from && b == to) sum += bytes;
      });
    }
  }
  return sum;
}

std::map<ChipLink, uint64_t> link_loads(const Schedule& schedule, const Group& group,
                                        const Route& route) {
  std::map<ChipLink, uint64_t> flows;  // by chips
  for (uint32_t r = 0; r < schedule.shape.ranks; ++r) {
    for (const Step& step : schedule.steps(r)) {
      crossings(step, r, [&](uint32_t from, uint32_t to, uint64_t bytes) {
        const ChipLink chips{group.members[from].chip, group.members[to].chip};
        if (chips.first != chips.second) flows[chips] += bytes;
      });
    }
  }
  std::map<ChipLink, uint64_t> loads;
  for (const auto& [chips, bytes] : flows) {
    for (const ChipLink& link : route(chips.first, chips.second)) loads[link] += bytes;
  }
  return loads;
}

}  // namespace ccl
