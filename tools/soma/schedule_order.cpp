// Who gives to whom on each channel of a schedule, and what form that has.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/collectives/schedule/crossings.h"
#include "tools/soma/schedule_parts.h"

namespace soma {
namespace {

constexpr size_t kMostNumbers = 64;  // of an order

std::set<Link> reversed(const std::set<Link>& arrows) {
  std::set<Link> out;
  for (const auto& [from, to] : arrows) out.emplace(to, from);
  return out;
}

// By channel. Where nothing carries bytes, as in a barrier, signals count.
std::vector<std::set<Link>> arrows_of(const ccl::Program& program, const Map& map) {
  std::vector<std::set<Link>> bytes(program.shape.channels);
  std::vector<std::set<Link>> signals(program.shape.channels);
  const auto add = [&](std::set<Link>& to, uint32_t a, uint32_t b) {
    if (map.place_of(a) != map.place_of(b)) to.emplace(map.place_of(a), map.place_of(b));
  };
  bool moves = false;
  for (uint32_t r = 0; r < program.shape.ranks; ++r) {
    for (const ccl::Step& step : program.ranks[r]) {
      moves = moves || step.bytes != 0;
      if (step.bytes != 0) {
        ccl::crossings(step, r, [&](uint32_t from, uint32_t to, uint64_t) {
          add(bytes[step.channel], from, to);
        });
      }
      for (const ccl::Signal& s : step.signals) add(signals[step.channel], r, s.rank);
    }
  }
  return moves ? bytes : signals;
}

class Form {
 public:
  Form(const std::set<Link>& arrows, const Map& map)
      : arrows_(arrows), what_(map.on_chip() ? "rank" : "chip") {
    for (const auto& [from, to] : arrows) {
      next_[from].push_back(to);
      next_[to];
      ++entries_[to];
    }
  }

  Order order(uint32_t start) const {
    Order out;
    const auto single = [](const auto& each) { return each.second.size() <= 1; };
    const auto once = [](const auto& each) { return each.second <= 1; };
    std::set<Link> pairs;
    for (const auto& [a, b] : arrows_) pairs.emplace(std::min(a, b), std::max(a, b));
    if (std::all_of(next_.begin(), next_.end(), single) &&
        std::all_of(entries_.begin(), entries_.end(), once)) {
      out.form = Order::Form::kCircles;
      out.arrows.assign(arrows_.begin(), arrows_.end());
      out.text = circles(start);
    } else if (pairs.size() < next_.size() && next_.size() > 2) {
      out.form = Order::Form::kTree;
      out.arrows.assign(arrows_.begin(), arrows_.end());
      out.text = tree(pairs.size());
    } else {
      out.form = Order::Form::kPeers;
      peers(start, out);
    }
    return out;
  }

 private:
  // The circle or line through `at`; `left` loses its places.
  std::vector<uint32_t> follow(uint32_t at, std::set<uint32_t>& left) const {
    std::vector<uint32_t> out;
    while (left.erase(at) != 0) {
      out.push_back(at);
      if (!next_.at(at).empty()) at = next_.at(at).front();
    }
    return out;
  }

  std::string circles(uint32_t start) const {
    std::set<uint32_t> left;
    std::vector<uint32_t> heads;  // of lines
    for (const auto& [place, to] : next_) {
      left.insert(place);
      if (entries_.count(place) == 0) heads.push_back(place);
    }
    if (heads.empty() && left.count(start) != 0) heads.push_back(start);
    const bool lines = entries_.size() < next_.size();
    size_t count = 0;
    std::vector<uint32_t> first;
    while (!left.empty()) {
      uint32_t head = *left.begin();
      if (count < heads.size()) head = heads[count];
      const std::vector<uint32_t> found = follow(head, left);
      if (count++ == 0) first = found;
    }
    const size_t size = first.size();
    first.resize(std::min(size, kMostNumbers));
    const std::string kind = lines ? "line" : "ring";
    return fmt::format("{} of {} {}s{}: {}{}{}", kind, size, what_,
                       count > 1 ? fmt::format(" (the first of {})", count) : "",
                       fmt::join(first, " "), size > kMostNumbers ? " ..." : "",
                       lines ? "" : " and round again");
  }

  std::string tree(size_t pairs) const {
    return fmt::format("tree over {} {}s: {} pairs that exchange", next_.size(), what_, pairs);
  }

  void peers(uint32_t start, Order& out) const {
    const auto of_start = next_.find(start);
    const uint32_t place =
        of_start != next_.end() && !of_start->second.empty() ? start : arrows_.begin()->first;
    size_t least = ~size_t{0};
    size_t most = 0;
    for (const auto& [each, to] : next_) {
      least = std::min(least, to.size());
      most = std::max(most, to.size());
    }
    for (const uint32_t to : next_.at(place)) out.arrows.emplace_back(place, to);
    const std::string peers =
        least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
    out.text = fmt::format("each of {} {}s gives to {} others; drawn: those of {} {}", next_.size(),
                           what_, peers, what_, place);
  }

  const std::set<Link>& arrows_;
  const char* what_;
  std::map<uint32_t, std::vector<uint32_t>> next_;  // every place that takes part
  std::map<uint32_t, size_t> entries_;
};

}  // namespace

std::vector<Order> orders_of(const ccl::Program& program, const Map& map) {
  const std::vector<std::set<Link>> channels = arrows_of(program, map);
  std::vector<Order> out;
  std::vector<const std::set<Link>*> seen;
  for (uint32_t c = 0; c < channels.size(); ++c) {
    if (channels[c].empty()) continue;
    const auto find = [&](const std::set<Link>& arrows) {
      const auto equal = [&](const std::set<Link>* each) { return *each == arrows; };
      return static_cast<size_t>(std::find_if(seen.begin(), seen.end(), equal) - seen.begin());
    };
    if (const size_t same = find(channels[c]); same < seen.size()) {
      out[same].channels.push_back(c);
    } else if (const size_t back = find(reversed(channels[c])); back < seen.size()) {
      out[back].backwards.push_back(c);
    } else {
      seen.push_back(&channels[c]);
      out.push_back(Form(channels[c], map).order(map.place_of(0)));
      out.back().channels = {c};
    }
  }
  return out;
}

}  // namespace soma
