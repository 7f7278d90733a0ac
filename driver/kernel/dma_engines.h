// DMA engine and queue control of one device: initialisation tables, queue ownership, doorbells and
// states. Source: spec/hw-registers.md 3.7, 3.10, 3.11; spec/driver-ioctl.md 3.5. Exact: every
// register access and its order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/contract/descriptor.h"
#include "driver/kernel/dhal.h"
#include "driver/kernel/registers.h"
#include "driver/uapi/limits.h"
#include "driver/uapi/structs.h"

namespace driver {

enum class QueueUse : uint8_t {
  kClient,      // free or initialised by a client
  kDriverCopy,  // a ring of the driver: default or allocated (spec/driver-ioctl.md 3.18.1)
  kService,     // reserved for a client by H2T_DMA_ALLOC_QUEUES
};

struct DmaQueue {
  int32_t owner = 0;  // tgid of the last initialiser, 0 = none
  QueueUse use = QueueUse::kClient;
  int32_t nc = -1;  // tag of queues obtained for an NC
  bool rx_enabled = false;
  uint32_t tx_length = 0;  // descriptors, 0 = never initialised
  uint32_t rx_length = 0;
};

struct RingSetup {
  uint64_t base = 0;  // device address, 0 = attached later by other means
  uint32_t length = 0;
};

class DmaEngines {
 public:
  static constexpr uint32_t kMinRing = contract::ring::kLeast;
  static constexpr uint32_t kMaxRing = contract::ring::kMost;

  DmaEngines(const Dhal& dhal, const Registers& registers);

  uint32_t count() const { return static_cast<uint32_t>(engines_.size()); }
  DmaQueue& queue(uint32_t engine, uint32_t q) { return engines_[engine].queues[q]; }
  bool initialised(uint32_t engine) const { return engines_[engine].initialised; }

  void init_engine(uint32_t engine);
  // 0, -EPERM or -EINVAL (spec/driver-ioctl.md 3.5.2); M2S stays initialised when S2M is refused.
  int init_queue(uint32_t engine, uint32_t q, const RingSetup& tx, const RingSetup& rx);
  void ring_rx(uint32_t engine, uint32_t q, uint32_t count) const;
  void ring_tx(uint32_t engine, uint32_t q, uint32_t count) const;

  void set_state(uint32_t engine, uint32_t state) const;
  uapi::dma_eng_state state(uint32_t engine) const;
  uapi::dma_queue_state queue_state(uint32_t engine, uint32_t q, bool tx) const;
  RingSetup ring_of(uint32_t engine, uint32_t q, bool tx) const;

  // BAR_WRITE may not touch ring bases and doorbells (spec/driver-ioctl.md 3.2.1).
  bool write_blocked(uint64_t bar_offset) const;

 private:
  struct Engine {
    bool initialised = false;
    std::array<DmaQueue, uapi::kQueuesPerEngine> queues;
  };
  class Writer;

  void configure_streams(const Writer& unit) const;
  void configure_interrupts(const Writer& unit) const;
  void configure_limits(const Writer& unit) const;
  void configure_axi_errors(const Writer& unit) const;
  void mask_ring_id_errors(const Writer& unit, uint32_t engine) const;

  const Dhal& dhal_;
  Registers registers_;
  std::vector<Engine> engines_;
  std::vector<contract::Window> units_;  // of all engines, ascending
};

}  // namespace driver
