// What the picture of `soma describe --schedule` shows, as plain data: places and links with their
// bytes, orders of channels, the way of one slice, the steps of one rank. schedule_svg.cpp draws
// it. Exact: bytes, steps, and the routes, which are those of the machine. Nothing is said of time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "arch/config/platform.h"
#include "runtime/collectives/schedule/schedule.h"
#include "runtime/collectives/schedule/verify.h"
#include "sim/routes.h"

namespace soma {

// A chip or switch; of a group on one chip, a rank. Numbers as in sim/routes.h.
struct Place {
  std::string name;  // "chip 3", "switch L1.r0.s0", "rank 2"
  std::string label;
  std::string ranks;  // "0-3"; empty: it has none
  bool is_switch = false;
  uint32_t level = 0;  // of a switch
  uint32_t unit = 0;   // of a chip or rank
  double x = 0;        // of a chip or rank: columns from the left of its unit, rows from its top
  double y = 0;
};

// A node, or a plane of one: places that are drawn together.
struct Unit {
  std::string name;
  std::vector<uint32_t> places;
  double columns = 1;  // distances between places
  double rows = 1;
  bool closed = false;  // links between the ends of rows and columns go round the outside
  bool drawn = true;
  std::vector<std::string> alike;  // not drawn: their links carry the same

  // Too long to stand beside another.
  bool in_row() const { return columns > 8 && rows == 1; }
};

using Link = ccl::ChipLink;  // directed, by numbers of places

struct Links {
  std::map<Link, uint64_t> bytes;  // every link and port; 0: nothing crosses it
  Link busiest;
  uint64_t most = 0;
  uint64_t sum = 0;
  size_t busy = 0;              // links that carry bytes
  std::string busiest_on_chip;  // empty: nothing goes from rank to rank of a chip
};

// Who gives to whom on a channel, by places.
struct Order {
  enum class Form : uint8_t { kCircles, kTree, kPeers };
  Form form = Form::kCircles;
  std::vector<uint32_t> channels;  // all that look so
  std::vector<uint32_t> backwards;
  std::vector<Link> arrows;  // kPeers: of one place only
  std::string text;
};

// One transfer of the slice, or of what it has been folded into.
struct Move {
  uint32_t hop = 1;   // how many transfers it takes to get there
  uint32_t from = 0;  // ranks
  uint32_t to = 0;
  std::vector<Link> links;  // in the order of its way; none within a place
  size_t folded = 1;        // operands of the step
};

struct SliceWay {
  std::string slice;    // which; why there is none if `moves` is empty
  uint32_t origin = 0;  // place
  std::vector<Move> moves;
  uint32_t hops = 0;
};

struct StepRow {
  enum class Kind : uint8_t { kSend, kReceive, kReduce, kCopy, kSignal };
  Kind kind = Kind::kCopy;  // its colour; `text` may name more than one thing
  std::string number, text, peer, bytes, waits;
};

struct StepTable {
  std::string title;
  std::vector<StepRow> first;
  std::string between;  // what is left out; empty: nothing
  std::vector<StepRow> last;
};

struct ScheduleView {
  std::string title;
  std::string platform;  // "trn1.32xlarge: torus2d 4 x 4, ..."
  bool on_chip = false;  // places are ranks of one chip
  std::vector<Place> places;
  std::vector<Unit> units;
  std::string hidden;  // units that neither are drawn nor like one that is; empty: none
  Links links;
  std::vector<Order> orders;
  SliceWay way;
  StepTable steps;
};

// `loads` are those of schedule_loads().
base::Result<ScheduleView> schedule_view(const config::Platform& platform, const ccl::Group& group,
                                         const ccl::Schedule& schedule,
                                         const sim::RouteTable& routes,
                                         const std::map<Link, uint64_t>& loads);
// Bytes per directed link and port of a switch that carries any, as the machine routes them.
std::map<Link, uint64_t> schedule_loads(const ccl::Schedule& schedule, const ccl::Group& group,
                                        const sim::RouteTable& routes);
std::string link_name(const std::vector<Place>& places, const Link& link);
std::string schedule_svg(const ScheduleView& view);

}  // namespace soma
