// Kinds of device addresses that a DMA can name, and the four engines that an input may use.
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"

namespace fuzz {

class Places {
 public:
  explicit Places(const contract::AddressMap& map) : map_(map) {}

  uint32_t engine(uint32_t slot) const {
    const uint32_t engines[4] = {0, 1, map_.h2t_engine(0), map_.compute_engines() - 1};
    return engines[slot % 4];
  }
  // `place` selects the kind, `b` what and where in it.
  uint64_t address(uint8_t place, uint64_t b) const;

 private:
  uint64_t in_guest(uint8_t place, uint64_t b) const;
  uint64_t in_memory(uint8_t place, uint64_t b) const;
  uint64_t in_registers(uint8_t place, uint64_t b) const;

  contract::AddressMap map_;
};

}  // namespace fuzz
