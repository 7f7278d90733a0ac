// All DMA engines of one chip with their register windows: UDMA units, SDMA wrappers (configuration
// and DMA-trace notification registers), error triggers, and the doorbell broadcast windows.
// Source: spec/hw-registers.md 2.3, 2.4, 3; docs/hardware-contract.md 6. Engines are made on first
// touch.
//
// SDMA wrappers and error triggers are storage: no documented effect depends on them but the v2
// broadcast group. The DMA-trace queue of an engine gets its notifications in set 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hw/dma/udma_engine.h"

namespace hw {

class Dma : public BusTarget {
 public:
  struct Options {
    Tracer* tracer = nullptr;
    bool timing_only = false;
    uint32_t real_bytes = 512;  // timing_only.real_bytes
    bool coalesce = true;
    QueuePolicy policy;
    check::Checker* checker = nullptr;
    std::function<void(uint32_t engine)> made;  // on first touch
  };

  Dma(Fabric& fabric, EventQueue& events, const TimingParams& timing, Counters& counters,
      AccessLog& log, const Options& options);
  ~Dma() override;

  // Maps all register windows into the fabric; false if one is taken.
  [[nodiscard]] bool map_windows();

  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;

  uint32_t engines() const { return static_cast<uint32_t>(engines_.size()); }
  UdmaEngine& engine(uint32_t e);
  // Device or core reset (spec/hw-registers.md 8).
  void reset_engine(uint32_t e);
  void reset();
  // A link is up again: what has had no answer is tried once more.
  void look_again();
  bool busy() const;
  void who_waits(std::vector<std::string>& lines) const;
  // Of the engines in use, in order.
  std::vector<BandwidthResource*> resources() const;

 private:
  class Wrapper;
  enum Region : uint32_t { kUdma, kSdma, kErrorTrigger, kBroadcast };
  static uint64_t base(Region region, uint32_t index) {
    return static_cast<uint64_t>(region) << 40 | static_cast<uint64_t>(index) << 20;
  }
  Wrapper& wrapper(uint32_t e);
  NqBlock& trace_queue(uint32_t e);
  bool broadcast(uint32_t nc, uint64_t offset, uint8_t* data, size_t size, bool write, bool debug);

  DmaContext context_;
  std::function<void(uint32_t engine)> made_;
  std::vector<std::unique_ptr<Wrapper>> wrappers_;
  std::vector<InPlace<UdmaEngine>> engines_;
};

}  // namespace hw
