// What the DMA engines cost on the host: payload against memcpy and a plain loop, events against
// time.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "base/num/reduce.h"
#include "contract/regs/udma.h"
#include "hw/dma/dma.h"

namespace {

namespace desc = contract::desc;
namespace udma = contract::udma;
using contract::Descriptor;

constexpr uint64_t kBytes = 64 << 20;
constexpr uint32_t kPacket = 65536;
constexpr uint64_t kFrom = 0x1000'0000;
constexpr uint64_t kTo = 0x2000'0000;
constexpr uint64_t kRings = 0x2'0000'0000;

struct Bench {
  explicit Bench(bool timing_only)
      : fabric({"d0", {}, 0}, timing, log),
        dma(fabric, events, timing, counters, log, options(timing_only)) {
    if (!dma.map_windows()) std::abort();
  }
  static hw::Dma::Options options(bool timing_only) {
    hw::Dma::Options o;
    o.timing_only = timing_only;
    return o;
  }
  void write(uint32_t e, uint32_t offset, uint32_t value) {
    if (!fabric.write32(fabric.address_map().udma(e).device + offset, value)) std::abort();
  }
  void setup(uint32_t e, uint32_t length) {
    write(e, udma::kM2sPktLenCfg, 0x010F'FFFF);
    for (const uint32_t half : {0u, 1u}) {
      const uint64_t base = ring(e, half);
      const uint32_t q = half == 0 ? udma::kM2sQ : udma::kS2mQ;
      write(e, q + udma::kM2sQCfg, 0x0300'0000);
      write(e, q + (half == 0 ? udma::kM2sQSwCtrl : udma::kS2mQSwCtrl), 0x100);
      write(e, q + udma::kM2sQRingBaseLo, static_cast<uint32_t>(base));
      write(e, q + udma::kM2sQRingBaseHi, static_cast<uint32_t>(base >> 32));
      write(e, q + udma::kM2sQRingLength, length);
      write(e, q + udma::kM2sQCfg, 0x0303'0000);
    }
  }
  static uint64_t ring(uint32_t e, uint32_t half) {
    return kRings + e * 0x100'0000ull + half * 0x80'0000ull;
  }
  void put(uint64_t ring, uint32_t index, const Descriptor& d) {
    std::memcpy(fabric.direct(ring + index * 16ull, 16), &d, 16);
  }
  void start(uint32_t e, uint32_t tx, uint32_t rx) {
    write(e, udma::kS2mQ + udma::kS2mQTailInc, rx);
    write(e, udma::kM2sQ + udma::kM2sQTailInc, tx);
  }

  hw::TimingParams timing;
  hw::AccessLog log;
  hw::Counters counters;
  hw::EventQueue events;
  hw::Fabric fabric;
  hw::Dma dma;
};

void BM_Memcpy64MiB(benchmark::State& state) {
  std::vector<uint8_t> a(kBytes, 1), b(kBytes, 2);
  for (auto _ : state) {
    for (uint64_t i = 0; i < kBytes; i += kPacket) std::memcpy(&b[i], &a[i], kPacket);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
}
BENCHMARK(BM_Memcpy64MiB)->Unit(benchmark::kMillisecond);

void BM_DmaCopy64MiB(benchmark::State& state) {
  Bench b(false);
  std::memset(b.fabric.direct(kFrom, kBytes), 1, kBytes);
  std::memset(b.fabric.direct(kTo, kBytes), 2, kBytes);
  constexpr uint32_t n = kBytes / kPacket;
  for (auto _ : state) {
    b.setup(0, n * 2);
    for (uint32_t i = 0; i < n; ++i) {
      b.put(Bench::ring(0, 0), i, desc::tx_copy(kFrom + uint64_t{i} * kPacket, kPacket, 1));
      b.put(Bench::ring(0, 1), i, desc::rx(kTo + uint64_t{i} * kPacket, kPacket, 1));
    }
    b.start(0, n, n);
    b.events.run_all();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
}
BENCHMARK(BM_DmaCopy64MiB)->Unit(benchmark::kMillisecond);

// The kernel without the engine, on warm buffers: type code as argument.
void BM_PlainAdd64MiB(benchmark::State& state) {
  const auto type = static_cast<base::num::Type>(state.range(0));
  std::vector<uint8_t> a(kBytes, 1), b(kBytes, 2);
  const uint64_t each = kPacket / base::num::size_of(type);
  for (auto _ : state) {
    for (uint64_t i = 0; i < kBytes; i += kPacket) {
      if (type == base::num::Type::kFp32) {
        auto* x = reinterpret_cast<float*>(&b[i]);
        const auto* y = reinterpret_cast<const float*>(&a[i]);
        for (uint64_t k = 0; k < each; ++k) x[k] += y[k];
      } else {
        auto* x = reinterpret_cast<uint16_t*>(&b[i]);
        const auto* y = reinterpret_cast<const uint16_t*>(&a[i]);
        for (uint64_t k = 0; k < each; ++k) {
          float p, q;
          const uint32_t u = uint32_t{x[k]} << 16;
          const uint32_t v = uint32_t{y[k]} << 16;
          std::memcpy(&p, &u, 4);
          std::memcpy(&q, &v, 4);
          p += q;
          uint32_t r;
          std::memcpy(&r, &p, 4);
          x[k] = static_cast<uint16_t>((r + 0x7FFF + ((r >> 16) & 1)) >> 16);
        }
      }
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
}
BENCHMARK(BM_PlainAdd64MiB)->Arg(0xA)->Arg(6)->Unit(benchmark::kMillisecond);

void BM_DmaAdd64MiB(benchmark::State& state) {
  Bench b(false);
  std::memset(b.fabric.direct(kFrom, kBytes), 1, kBytes);
  std::memset(b.fabric.direct(kTo, kBytes), 2, kBytes);
  contract::DmaCompute add;
  add.src = add.dst = static_cast<contract::DType>(state.range(0));
  add.sources = 2;
  constexpr uint32_t n = kBytes / kPacket;
  for (auto _ : state) {
    b.setup(0, n * 4);
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t at = uint64_t{i} * kPacket;
      b.put(Bench::ring(0, 0), 3 * i, add.pack(1));
      b.put(Bench::ring(0, 0), 3 * i + 1, {1u << 24, desc::kOpCompute, kTo + at});
      b.put(Bench::ring(0, 0), 3 * i + 2, {1u << 24 | desc::kLast, desc::kOpCompute, kFrom + at});
      b.put(Bench::ring(0, 1), i, desc::rx(kTo + at, kPacket, 1));
    }
    b.start(0, 3 * n, n);
    b.events.run_all();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
}
BENCHMARK(BM_DmaAdd64MiB)->Arg(0xA)->Arg(6)->Arg(7)->Arg(8)->Unit(benchmark::kMillisecond);

// The traffic of a 1 GiB all-reduce between two cores, timing only: 32 engines, 64 KiB packets,
// half of them reductions, all crossing the fabric between the cores, a semaphore every 16 packets.
void BM_AllReduceTraffic1GiB(benchmark::State& state) {
  contract::DmaCompute add;
  add.src = add.dst = contract::DType::kBf16;
  add.sources = 2;
  uint64_t packets = 0;
  for (auto _ : state) {
    state.PauseTiming();
    Bench b(true);
    constexpr uint32_t n = 640;  // packets per engine and kind
    const uint64_t far = b.fabric.address_map().hbm_base(1);
    for (uint32_t e = 0; e < 32; ++e) {
      b.setup(e, 16384);
      const uint64_t here = e < 16 ? 0 : far;
      const uint64_t there = e < 16 ? far : 0;
      uint32_t tx = 0, rx = 0;
      const auto slot = [&] { return b.ring(e, 0); };
      for (uint32_t i = 0; i < n; ++i) {
        const uint64_t at = kFrom + uint64_t{i} * kPacket;
        b.put(slot(), tx++, add.pack(1));
        b.put(slot(), tx++, {1u << 24, desc::kOpCompute, here + at});
        b.put(slot(), tx++, {1u << 24 | desc::kLast, desc::kOpCompute, there + at});
        b.put(b.ring(e, 1), rx++, desc::rx(here + at, kPacket, 1));
        b.put(slot(), tx++, desc::tx_copy(here + at, kPacket, 1));
        b.put(b.ring(e, 1), rx++, desc::rx(there + kTo + at, kPacket, 1));
        if (i % 16 == 15) {
          b.put(slot(), tx++, desc::tx_copy(kRings, 4, 1));
          b.put(b.ring(e, 1), rx++, desc::rx(b.fabric.address_map().sdma(e).device + 0x1C, 4, 1));
        }
      }
      b.start(e, tx, rx);
    }
    state.ResumeTiming();
    b.events.run_all();
    packets += b.counters.packets;
  }
  state.SetItemsProcessed(static_cast<int64_t>(packets));
}
BENCHMARK(BM_AllReduceTraffic1GiB)->Unit(benchmark::kMillisecond);

// One engine alone: runs.
void BM_CoalescedCopyTimingOnly(benchmark::State& state) {
  Bench b(true);
  constexpr uint32_t n = 4096;
  for (auto _ : state) {
    b.setup(0, n * 2);
    for (uint32_t i = 0; i < n; ++i) {
      b.put(Bench::ring(0, 0), i, desc::tx_copy(kFrom, kPacket, 1));
      b.put(Bench::ring(0, 1), i, desc::rx(kTo, kPacket, 1));
    }
    b.start(0, n, n);
    b.events.run_all();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * n));
}
BENCHMARK(BM_CoalescedCopyTimingOnly)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
