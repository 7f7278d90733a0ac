// The both between the chips of a machine: links with a class rate per direction, switches with a
// port per member and direction, and the cables behind the inter-server windows of v3 and v4.
// Source: spec/platforms.md 6 and 7, spec/collectives.md 2.3, spec/hw-registers.md 9.2, 9.5; which
// route is taken: hw/link/router.h.
//
// Exact: which chip a window leads to; what peers read and write; bytes per link. Approximate:
// time. A transfer occupies every direction of its route at once, as long as the slowest takes, and
// the on-chip fabric wherever it leaves a chip by the port of another S-engine than the one that it
// comes from; links have no packet format (link.efficiency stands for it) and no virtual channels,
// and switches do not block.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/contract/address_map.h"
#include "hw/link/router.h"
#include "hw/mem/fabric.h"
#include "hw/params.h"
#include "hw/time/event_queue.h"

namespace hw {

class Links final : public ChipPort {
 public:
  // Chip behind each inter-server window, ChipPort::kNoChip without a cable.
  using Windows = std::array<uint32_t, contract::kNeighbourWindows>;

  struct Params {
    std::vector<LinkParams> links;
    std::vector<SwitchParams> switches;
    RouteParams routes;
    LinkPolicy policy;
    std::vector<Windows> windows;  // by chip
    base::Ps wire = 0;
    base::Ps route_extra = 0;
    base::Ps switch_time = 0;
    Tracer* tracer = nullptr;
    // For links that fail: the clock, and what looks again at transfers that have had no answer.
    EventQueue* events = nullptr;
    std::function<void()> repaired;
  };
  // `chips`: fabrics by platform-wide number. Throws std::invalid_argument for a link, switch or
  // window of a chip that does not exist, or of one with itself.
  Links(const Params& params, std::vector<Fabric*> chips);

  Fabric* peer(uint32_t self, uint32_t chip) override;
  ChipPort::RouteHops hops(uint32_t from, uint32_t to, uint32_t domain) override;
  bool answers(uint32_t self, uint32_t chip) override;
  uint32_t neighbour(uint32_t self, uint32_t window) const override;
  base::Ps latency(uint32_t from, uint32_t to) override;

  // Ends of links: chips by number, then switches in their order.
  uint32_t switch_vertex(uint32_t index) const {
    return static_cast<uint32_t>(chips_.size()) + index;
  }
  // Takes the link between two chips, or the port of a chip at a switch, down or up, both
  // directions at once. What has started arrives. What starts later and needs it, in either
  // direction, is never answered until it is up again or the queue is reset. False if there is
  // none.
  [[nodiscard]] bool set_up(uint32_t a, uint32_t b, bool up);
  // Ends of a link or port by its name, of either direction.
  std::optional<std::pair<uint32_t, uint32_t>> ends_of(std::string_view name) const;
  // A line for each that is down.
  void who_waits(std::vector<std::string>& lines) const;

  // One direction of a link ("link.d0-d1") or switch port ("switch.L1.r0.s0.from.d3", ".to.d3"),
  // or null.
  const BandwidthResource* resource(uint32_t from, uint32_t to) const;
  const BandwidthResource* resource(std::string_view name) const;
  // Both directions of all links, then of all switch ports, in the order of the parameters.
  std::vector<BandwidthResource*> resources();
  void trace_last();

 private:
  struct Direction {
    uint32_t from = 0;
    uint32_t to = 0;
    BandwidthResource* resource = nullptr;
    uint8_t exits = 0;    // S-engines that own the port where it begins
    uint8_t entries = 0;  // and where it ends
  };
  struct Route {
    uint32_t first = 0;  // in hops
    uint32_t count = 0;
    uint32_t exit = Fabric::kNoDomain;
    uint32_t entry = Fabric::kNoDomain;
    base::Ps latency = 0;
  };
  // All routes from one chip, made when it is first asked for one.
  struct Source {
    std::vector<Route> routes;  // by destination, then variant
    std::vector<BandwidthResource*> hops;
  };

  void add(const std::string& name, const Direction& direction, base::Rate rate, Tracer* tracer);
  void connect_windows();
  void unite(uint32_t a, uint32_t b);
  const Direction* find(uint32_t from, uint32_t to) const;
  const Source& source(uint32_t chip);
  Route build(const Router::Route& vertices, uint32_t variant,
              std::vector<BandwidthResource*>& hops);
  const Route& route(uint32_t from, uint32_t to, uint32_t variant);
  bool whole(uint32_t from, uint32_t to);

  Params params_;
  std::vector<Fabric*> chips_;
  Router router_;
  std::vector<std::unique_ptr<BandwidthResource>> resources_;
  std::vector<Direction> directions_;  // sorted by ends
  std::vector<uint32_t> group_;        // by chip: the same number where a route may exist
  std::vector<std::unique_ptr<Source>> sources_;
  uint32_t variants_ = 1;  // two where the port depends on the die from which a transfer comes
  std::vector<const BandwidthResource*> down_;
};

}  // namespace hw
