// Signals of a machine in a VCD file, by SystemC's own writer: what matches a pattern is looked at
// whenever something has happened, and what changed is written. While it is open the event queue
// does not run ahead of the kernel; times and results stay the same.
//
//   d0.dma5.busy        1 while a packet moves
//   d0.dma5.q3.depth    descriptors in the M2S half of queue 3
//   d0.nc0.act.state    of the sequencer (docs/hardware-contract.md 3), d0.nc0.act.pc
//   d0.nc0.sem12        a semaphore; d0.cc3.sem4
//   d0.cc3.state        of the CC-core (docs/hardware-contract.md 5)
//   d0.hbm0.busy, d0.hbm0.backlog_ns   of a resource that moves bytes, likewise those of links
//                       (link.d0-d1.busy) and switch ports
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <systemc>
#include <vector>

#include "hw/time/bandwidth.h"
#include "hw/time/kernel_queue.h"

namespace hw {

class Chip;
class Links;

class Watch final : private EventSink {
 public:
  // Before the simulation runs on. Throws std::invalid_argument if a pattern matches nothing, or
  // the file cannot be written. Patterns are those of a shell.
  Watch(const std::string& file, const std::vector<std::string>& patterns, KernelQueue& queue,
        const std::vector<Chip*>& chips, Links* links);
  ~Watch() override;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  size_t signals() const { return signals_.size(); }

 private:
  struct Signal {
    std::string name;
    int bits = 1;
    std::function<uint64_t()> read;
    sc_dt::uint64 value = 0;
  };
  void add(const std::string& name, int bits, std::function<uint64_t()> read);
  void add_resource(const BandwidthResource& resource);
  void add_chip(Chip& chip);
  void look();
  void on_event(const EventKey&, uint32_t, uint64_t) override {}

  KernelQueue& queue_;
  std::vector<std::string> patterns_;
  std::vector<bool> matched_;
  std::deque<Signal> signals_;
  std::vector<const BandwidthResource*> resources_;  // of which signals are watched
  base::Ps next_ = 0;                                // when the first of them is through
  sc_core::sc_trace_file* file_ = nullptr;
};

}  // namespace hw
