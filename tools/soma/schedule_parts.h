// What a ScheduleView is made from, and the parts of it.
#pragma once

#include "runtime/collectives/schedule/verify_program.h"
#include "tools/soma/schedule_view.h"

namespace soma {

constexpr uint32_t kNoUnit = ~uint32_t{0};

std::vector<Link> links_along(const sim::Route& route);

// Where the ranks of a group are, and the routes between them. `routes` must outlive it.
class Map {
 public:
  Map(const config::Platform& platform, const ccl::Group& group, const sim::RouteTable& routes);

  bool on_chip() const { return on_chip_; }
  uint32_t place_of(uint32_t rank) const { return place_of_[rank]; }
  std::vector<Link> way(uint32_t from_rank, uint32_t to_rank) const;
  const std::vector<Place>& places() const { return places_; }
  const std::vector<Unit>& units() const { return units_; }

 private:
  void put_ranks(const ccl::Group& group);
  void put_chips(const config::Platform& platform, const ccl::Group& group);

  const sim::RouteTable& routes_;
  bool on_chip_ = false;
  std::vector<uint32_t> place_of_;  // by rank
  std::vector<Place> places_;
  std::vector<Unit> units_;
};

// One order in which the steps may be done, and whose signals each of them takes.
struct ScheduleRun {
  explicit ScheduleRun(const ccl::Program& program);

  std::vector<uint32_t> order;               // numbers of steps
  std::vector<std::vector<uint32_t>> takes;  // by number: steps that signalled
};

Links links_of(const config::Platform& platform, const ccl::Program& program, const Map& map,
               const std::map<Link, uint64_t>& loads);
// At most so many are drawn; says in `hidden` what is missing.
void choose_units(const Links& links, const std::vector<Place>& places, std::vector<Unit>& units,
                  std::string& hidden);
std::vector<Order> orders_of(const ccl::Program& program, const Map& map);
SliceWay way_of(const ccl::Program& program, const ScheduleRun& run, const Map& map);
StepTable steps_of(const ccl::Program& program, const ScheduleRun& run);

// "0-3, 7"; after `most` characters "0-3, ... (9)".
std::string numbers_text(const std::vector<uint32_t>& ascending, size_t most = 60);

}  // namespace soma
