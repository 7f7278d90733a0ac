// Which route a transfer takes from chip to chip. Source: spec/collectives.md 2.7.1,
// spec/platforms.md 7.6; the hardware's choices are not published.
//
// A route is a list of vertices: chips by number, then switches (number of chips + index). Rules:
//   kTorus     dimension by dimension, last first, each the shorter way round; half way round, even
//              coordinates go up and odd ones down, which loads both directions equally. In a plane
//              of 4 x 4 the table of spec/collectives.md 2.7.1 instead, then the outer dimensions.
//   kSwitched  a common switch of level 1, else of level 2, else a direct link, else a level-2
//              switch to a chip with a direct link to the destination. Of several such switches the
//              first one, or (kSpread) they take turns by source + destination.
//   kShortest  fewest hops (link or switch between two chips), then fewest switches; among equals
//              the choice turns with source + destination.
// Where a rule finds no route because a link or chip is missing, kShortest finds one. Policies of
// others (sdk/soma/policy.h) may stand in place of the rule, and of the choice between switches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hw/params.h"

namespace hw {

class Router final : public soma::Topology {
 public:
  using Route = std::vector<uint32_t>;  // from source to destination, both included

  // Throws std::invalid_argument for a link or switch of a chip that does not exist, and for
  // coordinates that do not fit.
  Router(const RouteParams& params, uint32_t chips, const std::vector<LinkParams>& links,
         const std::vector<SwitchParams>& switches);

  // Routes from a chip to each chip; empty to itself and where there is none.
  std::vector<Route> routes(uint32_t from) const;

  // soma::Topology
  uint32_t chips() const override { return chips_; }
  uint32_t vertices() const override { return static_cast<uint32_t>(next_.size()); }
  const std::vector<uint32_t>& neighbours(uint32_t vertex) const override {
    return next_.at(vertex);
  }
  uint32_t level(uint32_t vertex) const override { return levels_.at(vertex - chips_); }
  const std::vector<uint32_t>& dimensions() const override { return dims_; }
  const std::vector<uint32_t>& coordinates(uint32_t chip) const override {
    return coords_.empty() ? dims_ : coords_.at(chip);
  }

  // Links and switch ports go both ways.
  bool joined(uint32_t a, uint32_t b) const;

 private:
  using Costs = std::vector<uint64_t>;
  void join(uint32_t a, uint32_t b);
  void place(const RouteParams& params);
  size_t linear(const std::vector<uint32_t>& place) const;
  uint32_t chip_at(const std::vector<uint32_t>& place) const { return at_[linear(place)]; }
  bool is_switch(uint32_t vertex) const { return vertex >= chips_; }
  uint64_t cost(uint32_t a, uint32_t b) const;
  Costs costs(uint32_t from) const;
  Route shortest(const Costs& costs, uint32_t from, uint32_t to) const;
  Route torus(uint32_t from, uint32_t to) const;
  Route switched(uint32_t from, uint32_t to) const;
  uint32_t common_switch(uint32_t a, uint32_t b, uint32_t level) const;  // 0: none
  bool holds(const Route& route) const;

  Route asked(uint32_t from, uint32_t to) const;

  RouteParams::Rule rule_;
  RouteParams::Switch switch_port_;
  uint32_t chips_;
  std::vector<uint32_t> dims_;
  std::vector<std::vector<uint32_t>> coords_;
  std::vector<uint32_t> at_;                 // chip at a place, ~0 if it is empty
  std::vector<uint32_t> levels_;             // by switch
  std::vector<std::vector<uint32_t>> next_;  // by vertex, sorted
  std::unique_ptr<soma::Routing> routing_;
  std::unique_ptr<soma::SwitchChoice> switch_choice_;
};

}  // namespace hw
