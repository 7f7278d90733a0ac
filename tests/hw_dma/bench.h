// A chip with nothing but memory and DMA engines, driven as software would: registers, rings in
// memory, doorbells. Runs on the plain event queue, so one process can hold many.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arch/contract/descriptor.h"
#include "contract/regs/udma.h"
#include "hw/dma/dma.h"

namespace hw {

namespace desc = contract::desc;
namespace udma = contract::udma;
using contract::AddressMap;
using contract::Descriptor;
using contract::Gen;

// Host memory at [kBase, kBase + size).
class FakeHost : public pcie::HostMemory {
 public:
  static constexpr uint64_t kBase = 0x1000'0000;
  explicit FakeHost(size_t size) : bytes_(size) {}
  uint8_t* direct(uint64_t phys, uint64_t length) override {
    return accessor_only || phys < kBase || phys - kBase + length > bytes_.size()
               ? nullptr
               : bytes_.data() + (phys - kBase);
  }
  bool read(uint64_t phys, base::ByteSpan to) override {
    if (phys < kBase || phys - kBase + to.size() > bytes_.size()) return false;
    std::memcpy(to.data(), bytes_.data() + (phys - kBase), to.size());
    return true;
  }
  bool write(uint64_t phys, base::ConstByteSpan from) override {
    if (phys < kBase || phys - kBase + from.size() > bytes_.size()) return false;
    std::memcpy(bytes_.data() + (phys - kBase), from.data(), from.size());
    return true;
  }
  bool accessor_only = false;

 private:
  std::vector<uint8_t> bytes_;
};

// Remembers stores: stands for semaphores.
class Recorder : public BusTarget {
 public:
  explicit Recorder(EventQueue& events) : events_(events) {}
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool) override {
    if (write) {
      stores.push_back({events_.now(), offset, base::load<uint32_t>(data)});
      EXPECT_EQ(size, 4u);
    } else {
      std::memset(data, 0, size);
      base::store(data, static_cast<uint32_t>(0xC0DE0000 + offset));
    }
    return true;
  }
  struct Store {
    base::Ps time;
    uint64_t offset;
    uint32_t value;
  };
  std::vector<Store> stores;

 private:
  EventQueue& events_;
};

// Collects the spans of every track.
class Spans : public Tracer {
 public:
  struct Span {
    base::Ps begin, end;
    uint64_t bytes;
    bool operator==(const Span& o) const {
      return begin == o.begin && end == o.end && bytes == o.bytes;
    }
  };
  uint32_t track(const std::string& name) override {
    names.push_back(name);
    return static_cast<uint32_t>(names.size() - 1);
  }
  void span(uint32_t track, base::Ps begin, base::Ps end, const char*, uint64_t bytes,
            uint64_t) override {
    by_name[names[track]].push_back({begin, end, bytes});
  }
  std::vector<std::string> names;
  std::map<std::string, std::vector<Span>> by_name;
};

constexpr uint64_t kA = 0x100'0000;  // offsets in HBM past the firmware's part
constexpr uint64_t kB = 0x200'0000;
constexpr uint64_t kC = 0x300'0000;

struct Ring {
  uint64_t base = 0;
  uint32_t length = 0;
  uint32_t index = 0;
  uint32_t ring_id = 1;
};

struct RingPair {
  uint32_t engine = 0;
  uint32_t q = 0;
  Ring tx, rx;
};

// Buffers of any length take their engine as long as their bytes.
inline TimingParams by_bytes() {
  TimingParams timing;
  timing.dma_buffer_least = 0;
  return timing;
}

struct BenchConfig {
  Gen gen = Gen::kV2;
  TimingParams timing = by_bytes();
  Dma::Options options{};
};

class DmaBench {
 public:
  using Config = BenchConfig;

  explicit DmaBench(const Config& config = Config{})
      : timing(config.timing),
        fabric({"d0", {config.gen}, 0}, timing, log),
        dma(fabric, events, timing, counters, log, config.options),
        host(8 << 20),
        recorder(events) {
    fabric.set_host(&host);
    EXPECT_TRUE(dma.map_windows());
    EXPECT_TRUE(fabric.map(map().nc_semaphores(0), contract::kSemaphoreBlock, recorder, 0, "sem"));
  }

  const AddressMap& map() const { return fabric.address_map(); }
  uint64_t hbm(uint32_t h, uint64_t offset) const { return map().hbm_base(h) + offset; }
  uint64_t host_address(uint64_t offset) const {
    return map().host_window() | (FakeHost::kBase + offset);
  }
  uint8_t* at(uint64_t address, uint64_t length) {
    uint8_t* p = fabric.direct(address, length);
    EXPECT_NE(p, nullptr);
    return p;
  }
  void fill(uint64_t address, uint64_t length, uint32_t seed) {
    uint8_t* p = at(address, length);
    uint32_t x = seed * 2654435761u + 1;
    for (uint64_t i = 0; i < length; ++i) {
      x = x * 1664525 + 1013904223;
      p[i] = static_cast<uint8_t>(x >> 24);
    }
  }
  bool same(uint64_t a, uint64_t b, uint64_t length) {
    return std::memcmp(at(a, length), at(b, length), length) == 0;
  }

  uint32_t read(uint32_t engine, uint32_t offset) {
    uint32_t value = 0;
    EXPECT_TRUE(fabric.read32(map().udma(engine).device + offset, value));
    return value;
  }
  void write(uint32_t engine, uint32_t offset, uint32_t value) {
    EXPECT_TRUE(fabric.write32(map().udma(engine).device + offset, value));
  }
  static uint32_t reg(Half h, uint32_t q, uint32_t offset) {
    return (h == kM2s ? udma::kM2sQ : udma::kS2mQ) + q * udma::kM2sQStride + offset;
  }

  uint32_t cause(uint32_t engine, Half h) {
    return read(engine, udma::kSecondaryIrq + h * udma::kSecondaryIrqStride);
  }
  void mask_abort(uint32_t engine, Half h, uint32_t bits) {
    write(engine,
          udma::kSecondaryIrq + h * udma::kSecondaryIrqStride + udma::kSecondaryIrqAbortMask, bits);
  }
  // Does `action` at a time, in the middle of what is going on.
  void at_time(base::Ps time, std::function<void()> action) {
    struct Call final : EventSink {
      void on_event(const EventKey&, uint32_t, uint64_t) override { action(); }
      std::function<void()> action;
    };
    auto call = std::make_shared<Call>();
    call->action = std::move(action);
    events.schedule({time, 0xFFFF, Phase::kEffect}, *call, 0);
    calls_.push_back(std::move(call));
  }

  // As spec/hw-registers.md 3.11. Rings take 16 bytes per descriptor at the given
  // addresses.
  RingPair setup(uint32_t engine, uint32_t q, uint64_t tx, uint64_t rx, uint32_t length) {
    write(engine, reg(kM2s, q, udma::kM2sQRateLimitMask), 3);
    for (Half h : {kM2s, kS2m}) {
      const uint64_t base = h == kM2s ? tx : rx;
      write(engine, reg(h, q, udma::kM2sQCfg), 0x0300'0000);
      write(engine, reg(h, q, h == kM2s ? udma::kM2sQSwCtrl : udma::kS2mQSwCtrl), 0x100);
      write(engine, reg(h, q, udma::kM2sQRingBaseLo), static_cast<uint32_t>(base));
      write(engine, reg(h, q, udma::kM2sQRingBaseHi), static_cast<uint32_t>(base >> 32));
      write(engine, reg(h, q, udma::kM2sQRingLength), length);
      write(engine, reg(h, q, udma::kM2sQCfg), 0x0303'0000);
    }
    return {engine, q, {tx, length, 0, 1}, {rx, length, 0, 1}};
  }
  // Rings in HBM 1, 64 KiB apart per queue, out of the way of data.
  RingPair setup(uint32_t engine, uint32_t q, uint32_t length = 1024) {
    const uint64_t at = hbm(1, 0x2'0000'0000) + (engine * 16 + q) * 0x4'0000ull;
    return setup(engine, q, at, at + 0x2'0000, length);
  }

  void push(Ring& ring, Descriptor d) {
    d.w0 = (d.w0 & ~(3u << desc::kRingIdShift)) | ring.ring_id << desc::kRingIdShift;
    const uint64_t address = ring.base + ring.index * sizeof d;
    std::memcpy(at(address, sizeof d), &d, sizeof d);
    if (++ring.index == ring.length) {
      ring.index = 0;
      ring.ring_id = (ring.ring_id + 1) & 3;
    }
  }
  void copy(RingPair& p, uint64_t from, uint64_t to, uint32_t bytes, bool barrier = false) {
    push(p.tx, desc::tx_copy(from, bytes, 0, desc::kFirst | desc::kLast, barrier));
    push(p.rx, desc::rx(to, bytes, 0));
  }
  // S2M first, as the driver does.
  void doorbell(const RingPair& p, uint32_t tx, uint32_t rx) {
    if (rx != 0) write(p.engine, reg(kS2m, p.q, udma::kM2sQTailInc), rx);
    if (tx != 0) write(p.engine, reg(kM2s, p.q, udma::kM2sQTailInc), tx);
  }
  base::Ps run() { return events.run_all(); }

  TimingParams timing;
  AccessLog log;
  Counters counters;
  EventQueue events;
  Fabric fabric;
  Dma dma;
  FakeHost host;
  Recorder recorder;

 private:
  std::vector<std::shared_ptr<EventSink>> calls_;
};

}  // namespace hw
