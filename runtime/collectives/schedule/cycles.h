// Directed rings through the chips and ranks of a group: what the channels of Ring and KangaRing
// follow. Source: spec/collectives.md 2.3 (ports), 2.4 (cycles, order of ranks on a chip), 2.5
// (line), 2.10 (nodes), 2.14 (switched fabrics).
#pragma once

#include <utility>
#include <vector>

#include "runtime/collectives/schedule/topology.h"
#include "runtime/collectives/types.h"

namespace ccl {

// One chip on a ring: entered through core `in` and left through core `out`. Cores as in 2.3: at
// LNC=1 of v3 and later each stands for the two cores of one S-engine.
struct ChipStop {
  uint32_t chip = 0;  // index in by_chip(group)
  uint32_t in = 0;
  uint32_t out = 0;
};

struct ChipRing {
  std::vector<ChipStop> stops;
  // Every hop between chips starts at the core that owns the link and ends at the one that owns its
  // other end (any core on a switched fabric), and every chip is entered on one die and left on the
  // other.
  bool by_ports = false;
};

// The channels of a group, at most `max_channels` and at least one.
std::vector<ChipRing> chip_rings(const Group& group, const std::vector<ChipRanks>& chips,
                                 uint32_t max_channels);

// Logical cores of a chip in the order in which a ring passes them.
std::vector<uint32_t> core_order(const Topology& topology, const ChipStop& stop);

// Channel -> position -> index in the group.
std::vector<std::vector<uint32_t>> ring_orders(const Group& group, uint32_t max_channels);

// {source, target} along channel `channel` of an implicit permute (spec/collectives.md 1.5): at
// most 4 channels where the group has every device of its nodes, else 2, and no more than it has
// rings.
base::Result<std::vector<std::pair<uint32_t, uint32_t>>> ring_pairs(const Group& group,
                                                                    uint32_t channel);

// By iteration, the member whose data implicit permutes along the channel have brought to `member`
// (spec/collectives.md 1.5): itself, the one before it on the ring, ... Errors as above.
base::Result<std::vector<uint32_t>> permute_origins(const Group& group, uint32_t channel,
                                                    uint32_t member);

}  // namespace ccl
