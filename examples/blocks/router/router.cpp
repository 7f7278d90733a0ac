// A route of one's own through the 4 x 4 torus of a trn2.48xlarge: within the row first, then along
// the column, each the shorter way round (half way round: up). The built-in routes of this platform
// mix rows and columns, see docs/platforms.md.
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "soma/policy.h"

namespace {

class RowsFirst : public soma::Routing {
 public:
  RowsFirst(const soma::Topology& topology, const soma::Parameters&) : topology_(topology) {
    if (topology.dimensions().size() != 2)
      throw std::invalid_argument("needs a torus of 2 dimensions");
  }

  std::vector<uint32_t> route(uint32_t from, uint32_t to) override {
    std::vector<uint32_t> route{from};
    std::vector<uint32_t> here = topology_.coordinates(from);
    const std::vector<uint32_t>& there = topology_.coordinates(to);
    for (const size_t d : {1, 0}) {
      const uint32_t size = topology_.dimensions()[d];
      const uint32_t ahead = (there[d] + size - here[d]) % size;
      const uint32_t step = 2 * ahead <= size ? 1 : size - 1;
      while (here[d] != there[d]) {
        here[d] = (here[d] + step) % size;
        route.push_back(chip_at(here));
      }
    }
    return route;
  }

 private:
  uint32_t chip_at(const std::vector<uint32_t>& place) const {
    for (uint32_t chip = 0; chip < topology_.chips(); ++chip) {
      if (topology_.coordinates(chip) == place) return chip;
    }
    throw std::runtime_error("no chip at a place of the torus");
  }

  const soma::Topology& topology_;
};

}  // namespace

SOMA_ROUTING(rows_first, RowsFirst)
