#include "firmware/mgmt/reset_scope.h"

namespace firmware::mgmt {

ResetScope decode_reset_map(contract::Gen gen, uint32_t low, uint32_t high) {
  ResetScope s;
  if (gen == contract::Gen::kV2) {
    s.ncs = low & 3;
    s.topsps = (low >> 8) & 0x3F;
    // The v2 map has no DMA bits; both treatments are allowed (spec/hw-registers.md 6.6). Engines
    // of a reset core stop with it, so that a killed client's transfers end.
    s.dma_ncs = s.ncs;
    return s;
  }
  s.ncs = low & 0xFF;
  s.dma_ncs = (low >> 8) & 0xFF;
  for (uint32_t n = 0; n < 8; ++n) {
    if (((low >> (16 + n)) & 1) != 0) s.topsps |= 3u << (2 * n);
  }
  s.host_dma = high & 0xF;
  return s;
}

ResetScope device_scope(contract::Gen gen) {
  const contract::AddressMap map{gen};
  ResetScope s;
  s.device = true;
  s.ncs = (1u << map.ncs()) - 1;
  s.topsps = (1u << map.topsps()) - 1;
  s.dma_ncs = s.ncs;
  s.host_dma = (1u << map.host_engines()) - 1;
  return s;
}

}  // namespace firmware::mgmt
