// Resources of ranks on the reference machine.
#pragma once

#include "runtime/collectives/ccl.h"

namespace ccl {

// Where a rank of the group has its memory, semaphores and CC-cores: addresses of its own, and
// other semaphores than its neighbours. `stream` above 0: the CC-cores from that number on, and a
// queue and memory of its own.
inline RankResources placed(const Group& group, uint32_t rank, const Needs& needs,
                            uint32_t cc_count, uint32_t stream = 0) {
  const Position& p = group.members[rank];
  RankResources r;
  r.gen = group.topology.gen;
  r.global_rank = p.rank;
  r.chip = p.chip;
  r.nc = p.nc;
  r.lnc = group.topology.lnc;
  r.cc_count = cc_count;
  for (uint32_t i = 0; i < cc_count; ++i) {
    r.cc[i] = {p.nc * r.map().topsps_per_nc() + stream + i, rank % 3 * 7 + i, 180 - i};
  }
  r.queue -= stream;
  r.signals = needs.signals;
  const uint64_t base = r.map().hbm_base(r.map().hbm_of_nc(p.nc)) + (p.nc + 1) * 0x4000'0000ull +
                        stream * 0x200'0000ull;
  r.weights = base;
  r.src = base + 0x10'0000;
  r.second = base + 0x2000'0000;
  r.dst = base + 0x1000'0000;
  r.channel_buffer = base + 0x3000'0000;
  r.channel_bytes = needs.channel_bytes;
  return r;
}

}  // namespace ccl
