// What a reset request covers (spec/hw-registers.md 6.6, 8.1).
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"

namespace firmware::mgmt {

// Blocks that one reset request covers, by bit.
struct ResetScope {
  bool device = false;  // everything; the masks below are then full
  uint32_t ncs = 0;
  uint32_t topsps = 0;
  uint32_t dma_ncs = 0;   // NCs whose 16 DMA engines are reset
  uint32_t host_dma = 0;  // host-copy engines

  bool contains(const ResetScope& inner) const {
    return (device || !inner.device) && (inner.ncs & ~ncs) == 0 && (inner.topsps & ~topsps) == 0 &&
           (inner.dma_ncs & ~dma_ncs) == 0 && (inner.host_dma & ~host_dma) == 0;
  }
  void add(const ResetScope& other) {
    device = device || other.device;
    ncs |= other.ncs;
    topsps |= other.topsps;
    dma_ncs |= other.dma_ncs;
    host_dma |= other.host_dma;
  }
};

// `low` and `high` are the map words of an NC reset. Bits that name nothing on the generation are
// ignored; a map of 0 is a reset of nothing.
ResetScope decode_reset_map(contract::Gen gen, uint32_t low, uint32_t high);
ResetScope device_scope(contract::Gen gen);

}  // namespace firmware::mgmt
