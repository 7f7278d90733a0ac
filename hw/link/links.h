// The ways between the chips of a machine: links with a class rate per direction, and the cables
// behind the inter-server windows of v3 and v4. Source: hw-registers.md 9.2, 9.5; platforms.md 6.
//
// Exact: which chip a window leads to; what peers read and write. Approximate: time. A transfer
// between two linked chips occupies the link's direction and takes link.wire_ns each way. Missing:
// routes over several links and switches; such transfers arrive after the same latency and occupy
// no link.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "arch/contract/address_map.h"
#include "hw/mem/fabric.h"
#include "hw/params.h"

namespace hw {

class Links final : public ChipPort {
 public:
  // Chip behind each inter-server window, ChipPort::kNoChip without a cable.
  using Windows = std::array<uint32_t, contract::kNeighbourWindows>;

  struct Params {
    std::vector<LinkParams> links;
    std::vector<Windows> windows;  // by chip
    base::Ps wire = 0;
    Tracer* tracer = nullptr;
  };
  // `chips`: fabrics by platform-wide number. Throws std::invalid_argument for a link or window of
  // a chip that does not exist, or of one with itself.
  Links(const Params& params, std::vector<Fabric*> chips);

  Fabric* peer(uint32_t chip) override { return chip < chips_.size() ? chips_[chip] : nullptr; }
  void path(uint32_t self, uint32_t chip, bool write, uint64_t bytes, Charges& to) override;
  uint32_t neighbour(uint32_t self, uint32_t window) const override;
  base::Ps latency(uint32_t /*self*/, uint32_t /*chip*/) const override { return wire_; }

  // Both directions of all links, in the order of the links.
  std::vector<BandwidthResource*> resources();
  void trace_last();

 private:
  struct Direction {
    uint32_t from;
    uint32_t to;
    BandwidthResource* resource;
  };
  void add(uint32_t from, uint32_t to, const LinkParams& link, Tracer* tracer);

  std::vector<Fabric*> chips_;
  std::vector<Windows> windows_;
  base::Ps wire_;
  std::vector<std::unique_ptr<BandwidthResource>> resources_;
  std::vector<Direction> directions_;  // sorted by ends
};

}  // namespace hw
