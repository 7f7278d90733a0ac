// The DMA engines of a chip as one SystemC module: a TLM target socket in front of hw::Dma.
#pragma once

#include <systemc>

#include "hw/dma/dma.h"
#include "hw/mem/sockets.h"

namespace hw {

class DmaModule : public sc_core::sc_module {
 public:
  DmaModule(const sc_core::sc_module_name& name, Fabric& fabric, EventQueue& events,
            const TimingParams& timing, Counters& counters, AccessLog& log,
            const Dma::Options& options)
      : sc_module(name),
        dma_(fabric, events, timing, counters, log, options),
        registers("registers", dma_) {}

  Dma& dma() { return dma_; }
  // Binds the socket to the chip's fabric at every window of the block.
  [[nodiscard]] bool connect(SocketFabric& fabric) {
    return dma_.map_windows(
        [&](uint64_t device, uint64_t size, uint64_t base, const std::string& name) {
          return fabric.map(device, size, registers, base, name);
        });
  }

 private:
  Dma dma_;

 public:
  BlockSocket registers;
};

}  // namespace hw
