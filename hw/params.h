// Timing of one chip: every rate and latency that the blocks of the machine use, with the name
// under which the timing file sets it and where the default comes from. Source: timing.md (status D
// documented, V derived, M measured off a figure, A assumption). Defaults are those of v2 (Trn1).
#pragma once

#include <cstdint>

#include "base/units.h"

namespace hw {

struct TimingParams {
  // DMA engines (timing.md 5).
  base::Rate dma_engine{17, 1000};     // dma.engine_gbps, D
  base::Rate dma_chip{1000, 1000};     // dma.chip_gbps, D: all engines of a chip together
  uint64_t dma_accumulate_num = 1;     // dma.accumulate_factor, D: compute throughput of two
  uint64_t dma_accumulate_den = 2;     //   sources per destination byte, relative to a copy
  base::Ps dma_fetch = base::ns(770);  // dma.trigger_to_first_ns, M: doorbell to first activity
  base::Ps dma_first_byte =
      base::ns(230);                       // dma.trigger_to_data_ns less dma.trigger_to_first_ns, M
  base::Ps dma_write_ack = base::ns(280);  // dma.end_to_consumer_ns less sem.visible_to_start_ns, M
  base::Ps dma_buffer = base::ns(1);       // dma.buffer_ns_small, M: per buffer beyond bytes / rate

  // Memory and on-chip fabric (timing.md 6, 7).
  base::Rate hbm_stack{410, 1000};  // hbm.stack_gbps, V: reads and writes together
  base::Ps hbm_latency = 0;         // hbm.latency_ns, A: zero until known (timing.md 10)
  // Between the memories of two core groups (v2: cores; v3, v4: core pairs), per direction. Fitted
  // to the bus bandwidth of two-rank all-reduces on trn1 (calibration.md N01.09, N20.17).
  base::Rate core_fabric{57, 1000};  // fabric.core_gbps_per_dir
  base::Rate pcie{16, 1000};         // host.pcie_gbps, M: per direction
};

}  // namespace hw
