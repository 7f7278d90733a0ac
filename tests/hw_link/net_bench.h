// Chips with memory, DMA engines and links between them, as a machine's parameters say, on the
// plain event queue: no SystemC, so one process can hold many.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hw/link/links.h"
#include "hw/machine/params.h"
#include "tests/hw_dma/bench.h"

namespace hw {

class NetBench {
 public:
  explicit NetBench(MachineParams machine, bool coalesce = true) : params(std::move(machine)) {
    Dma::Options options;
    options.coalesce = coalesce;
    std::vector<Fabric*> fabrics;
    for (uint32_t c = 0; c < params.chips.size(); ++c) {
      auto& chip = chips.emplace_back(std::make_unique<Chip>(*this, c, options));
      fabrics.push_back(&chip->fabric);
    }
    Links::Params p;
    p.links = params.links;
    p.switches = params.switches;
    p.routes = params.routes;
    p.wire = params.timing.link_wire;
    p.route_extra = params.timing.link_route_extra;
    p.switch_time = params.timing.link_switch;
    p.events = &events;
    p.repaired = [this] {
      for (auto& chip : chips) chip->dma.look_again();
    };
    links = std::make_unique<Links>(p, fabrics);
    for (Fabric* each : fabrics) each->set_port(links.get());
  }

  struct Chip {
    Chip(NetBench& bench, uint32_t number, const Dma::Options& options)
        : fabric({"d" + std::to_string(number), {bench.params.chips[number].gen}, number},
                 bench.params.timing, bench.log),
          dma(fabric, bench.events, bench.params.timing, bench.counters, bench.log, options),
          semaphores(bench.events) {
      EXPECT_TRUE(dma.map_windows());
      EXPECT_TRUE(fabric.map(fabric.address_map().nc_semaphores(0), contract::kSemaphoreBlock,
                             semaphores, 0, "sem"));
    }
    Fabric fabric;
    Dma dma;
    Recorder semaphores;
  };

  Fabric& fabric(uint32_t chip) { return chips[chip]->fabric; }
  const AddressMap& map() { return fabric(0).address_map(); }
  // Addresses that mean the same on every chip.
  uint64_t hbm(uint32_t chip, uint32_t stack, uint64_t offset = kA) {
    return map().peer_address(chip, map().hbm_base(stack) + offset);
  }
  uint64_t semaphore(uint32_t chip) { return map().peer_address(chip, map().nc_semaphores(0)); }

  void put(uint32_t chip, uint32_t engine, uint32_t offset, uint32_t value) {
    EXPECT_TRUE(fabric(chip).write32(map().udma(engine).device + offset, value));
  }
  // Rings in the stack of core 0, out of the way of data. The next copies go to this queue.
  struct Queue {
    uint32_t chip = 0, engine = 0, q = 0, copies = 0;
    uint64_t base = 0;
  };
  static constexpr uint32_t kRing = 4096;
  Queue queue(uint32_t chip, uint32_t engine, uint32_t q = 0) {
    const uint64_t at = map().hbm_base(0) + 0x2'0000'0000 + (engine * 16 + q) * 0x4'0000ull;
    put(chip, engine, DmaBench::reg(kM2s, q, udma::kM2sQRateLimitMask), 3);
    for (const Half h : {kM2s, kS2m}) {
      const uint64_t base = h == kM2s ? at : at + 0x2'0000;
      put(chip, engine, DmaBench::reg(h, q, udma::kM2sQRingBaseLo), static_cast<uint32_t>(base));
      put(chip, engine, DmaBench::reg(h, q, udma::kM2sQRingBaseHi),
          static_cast<uint32_t>(base >> 32));
      put(chip, engine, DmaBench::reg(h, q, udma::kM2sQRingLength), kRing);
      put(chip, engine, DmaBench::reg(h, q, udma::kM2sQCfg), 0x0303'0000);
    }
    return {chip, engine, q, 0, at};
  }
  void copy(Queue& to, uint64_t source, uint64_t destination, uint32_t bytes) {
    Descriptor tx = desc::tx_copy(source, bytes, 0, desc::kFirst | desc::kLast, false);
    Descriptor rx = desc::rx(destination, bytes, 0);
    for (Descriptor* d : {&tx, &rx}) {
      d->w0 = (d->w0 & ~(3u << desc::kRingIdShift)) | 1u << desc::kRingIdShift;
      const uint64_t at = to.base + (d == &tx ? 0 : 0x2'0000) + to.copies * sizeof *d;
      std::memcpy(fabric(to.chip).direct(at, sizeof *d), d, sizeof *d);
    }
    ++to.copies;
  }
  void ring(const Queue& to) {
    put(to.chip, to.engine, DmaBench::reg(kS2m, to.q, udma::kM2sQTailInc), to.copies);
    put(to.chip, to.engine, DmaBench::reg(kM2s, to.q, udma::kM2sQTailInc), to.copies);
  }
  // `packets` copies of `bytes`, then a word to a semaphore of `signalled`; rung at once.
  Queue stream(uint32_t chip, uint32_t engine, uint64_t source, uint64_t destination,
               uint32_t packets, uint32_t bytes, uint32_t signalled) {
    Queue to = queue(chip, engine);
    for (uint32_t k = 0; k < packets; ++k) copy(to, source, destination, bytes);
    const uint64_t word = map().hbm_base(0) + kC;
    base::store<uint32_t>(fabric(chip).direct(word, 4), 1 + engine);
    copy(to, word, semaphore(signalled), 4);
    ring(to);
    return to;
  }
  base::Ps run() { return events.run_all(); }
  // Runs what happens up to `time`, then does `action` at that time.
  void at_time(base::Ps time, std::function<void()> action) {
    struct Call final : EventSink {
      void on_event(const EventKey&, uint32_t, uint64_t) override { action(); }
      std::function<void()> action;
    } call;
    call.action = std::move(action);
    events.schedule({time, ~0u, Phase::kStart}, call, 0);
    events.run_until(time);
  }
  // When the semaphores of a chip were written, in order.
  std::vector<base::Ps> signals(uint32_t chip) {
    std::vector<base::Ps> times;
    for (const Recorder::Store& each : chips[chip]->semaphores.stores) times.push_back(each.time);
    return times;
  }
  uint64_t bytes_of(const std::string& name) {
    for (auto* each : links->resources()) {
      if (each->name() == name) return each->total_bytes();
    }
    for (auto& chip : chips) {
      for (auto* each : chip->fabric.resources()) {
        if (each->name() == name) return each->total_bytes();
      }
    }
    return 0;
  }
  // Names of what has carried something on the chips and between them, but for HBM and the total.
  std::vector<std::string> used() {
    std::vector<std::string> names;
    const auto add = [&](const BandwidthResource* each) {
      if (each->total_bytes() != 0) names.push_back(each->name());
    };
    for (auto& chip : chips) {
      for (auto* each : chip->fabric.resources()) {
        if (each->name().find(".cross") != std::string::npos ||
            each->name().find(".die") != std::string::npos) {
          add(each);
        }
      }
    }
    for (auto* each : links->resources()) add(each);
    return names;
  }

  MachineParams params;
  AccessLog log;
  Counters counters;
  EventQueue events;
  std::vector<std::unique_ptr<Chip>> chips;
  std::unique_ptr<Links> links;
};

}  // namespace hw
