// What a DMA packet costs when nothing is alone: the traffic of a ring all-reduce over 64 ranks,
// timing only. 16 chips of v3 in a 4x4 torus, four ranks each, 32 engines per rank; reductions of
// two sources and copies alternate, all to the next rank, and each 16 packets are followed by a
// write to its semaphore. 32 engines share a stack of HBM, a link or the way between two stacks.
// Prints packets, nanoseconds per packet (best of some rounds) and a checksum of the times.
// bench_packets [PACKETS_PER_ENGINE [ROUNDS]]
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "contract/regs/udma.h"
#include "hw/dma/dma.h"
#include "hw/link/links.h"

namespace {

namespace desc = contract::desc;
namespace udma = contract::udma;
using contract::Descriptor;

constexpr uint32_t kSide = 4;
constexpr uint32_t kChips = kSide * kSide;
constexpr uint32_t kRanksPerChip = 4;
constexpr uint32_t kEnginesPerRank = 32;
constexpr uint32_t kPacket = 65536;
constexpr uint64_t kRings = 0x1'0000'0000;
constexpr uint64_t kIn = 0x2'0000'0000;
constexpr uint64_t kOut = 0x3'0000'0000;

class Semaphores : public hw::BusTarget {
 public:
  bool access(uint64_t, uint8_t*, size_t, bool, bool) override {
    ++stores;
    return true;
  }
  uint64_t stores = 0;
};

struct Chip {
  Chip(uint32_t number, hw::EventQueue& events, const hw::TimingParams& timing)
      : fabric({"d" + std::to_string(number), {contract::Gen::kV3}, number}, timing, log),
        dma(fabric, events, timing, counters, log, options()) {
    if (!dma.map_windows()) std::abort();
    for (uint32_t nc = 0; nc < fabric.address_map().ncs(); ++nc) {
      if (!fabric.map(fabric.address_map().nc_semaphores(nc), contract::kSemaphoreBlock, semaphores,
                      0, "sem")) {
        std::abort();
      }
    }
  }
  static hw::Dma::Options options() {
    hw::Dma::Options o;
    o.timing_only = true;
    return o;
  }
  void write(uint32_t e, uint32_t offset, uint32_t value) {
    if (!fabric.write32(fabric.address_map().udma(e).device + offset, value)) std::abort();
  }

  hw::AccessLog log;
  hw::Counters counters;
  Semaphores semaphores;
  hw::Fabric fabric;
  hw::Dma dma;
};

struct Machine {
  Machine() {
    timing.dma_engine = {23, 1000};
    timing.dma_chip = {3500, 1000};
    timing.hbm_stack = {725, 1000};
    timing.core_fabric = {50, 1000};
    std::vector<hw::Fabric*> fabrics;
    for (uint32_t c = 0; c < kChips; ++c) {
      chips.push_back(std::make_unique<Chip>(c, events, timing));
      fabrics.push_back(&chips.back()->fabric);
    }
    hw::Links::Params params;
    params.wire = base::ns(500);
    for (uint32_t y = 0; y < kSide; ++y) {
      for (uint32_t x = 0; x < kSide; ++x) {
        const uint32_t at = y * kSide + x;
        hw::LinkParams right, down;
        right.a = down.a = at;
        right.b = y * kSide + (x + 1) % kSide;
        down.b = (y + 1) % kSide * kSide + x;
        right.rate = down.rate = {128, 1000};
        params.links.push_back(right);
        params.links.push_back(down);
      }
    }
    links = std::make_unique<hw::Links>(params, fabrics);
    for (hw::Fabric* f : fabrics) f->set_port(links.get());
  }

  // A cycle through the torus: rows to and fro over three columns, back through the first.
  static std::vector<uint32_t> cycle() {
    std::vector<uint32_t> all;
    for (uint32_t y = 0; y < kSide; ++y) {
      for (uint32_t i = 1; i < kSide; ++i) all.push_back(y * kSide + (y % 2 == 0 ? i : kSide - i));
    }
    for (uint32_t y = kSide; y-- > 0;) all.push_back(y * kSide);
    return all;
  }

  // Address of offset `at` in the memory of the ring's rank `to`, as chip `self` sees it.
  uint64_t place(uint32_t self, uint32_t to, uint64_t at) {
    const contract::AddressMap& map = chips[self]->fabric.address_map();
    const uint32_t chip = order[to / kRanksPerChip];
    const uint64_t local = map.hbm_base(to % kRanksPerChip) + at;
    return chip == self ? local : map.peer_address(chip, local);
  }
  uint64_t semaphore(uint32_t self, uint32_t to) {
    const contract::AddressMap& map = chips[self]->fabric.address_map();
    const uint32_t chip = order[to / kRanksPerChip];
    const uint64_t local = map.nc_semaphores(2 * (to % kRanksPerChip));
    return chip == self ? local : map.peer_address(chip, local);
  }

  void load(uint32_t packets) {
    const uint32_t ranks = kChips * kRanksPerChip;
    contract::DmaCompute add;
    add.src = add.dst = contract::DType::kBf16;
    add.sources = 2;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t self = order[rank / kRanksPerChip];
      const uint32_t next = (rank + 1) % ranks;
      for (uint32_t k = 0; k < kEnginesPerRank; ++k) {
        const uint32_t e = rank % kRanksPerChip * kEnginesPerRank + k;
        std::vector<Descriptor> tx, rx;
        for (uint32_t i = 0; i < packets; ++i) {
          const uint64_t at = (uint64_t{k} * packets + i) * kPacket;
          const uint64_t here = place(self, rank, kIn + at);
          if (i % 2 == 0) {
            tx.push_back(add.pack(1));
            tx.push_back({1u << desc::kRingIdShift, desc::kOpCompute, here});
            tx.push_back({1u << desc::kRingIdShift | desc::kLast, desc::kOpCompute,
                          place(self, rank, kOut + at)});
          } else {
            tx.push_back(desc::tx_copy(here, kPacket, 1));
          }
          rx.push_back(desc::rx(place(self, next, kOut + at), kPacket, 1));
          if (i % 16 != 15) continue;
          tx.push_back(desc::tx_copy(place(self, rank, kRings), 4, 1));
          rx.push_back(desc::rx(semaphore(self, next), 4, 1));
        }
        start(*chips[self], rank, e, tx, rx);
      }
    }
  }
  void start(Chip& chip, uint32_t rank, uint32_t e, const std::vector<Descriptor>& tx,
             const std::vector<Descriptor>& rx) {
    chip.write(e, udma::kM2sPktLenCfg, 0x010F'FFFF);
    for (const uint32_t half : {1u, 0u}) {
      const std::vector<Descriptor>& ring = half == 0 ? tx : rx;
      const uint64_t base = chip.fabric.address_map().hbm_base(rank % kRanksPerChip) + kRings +
                            (e * 2 + half + 1) * 0x10'0000ull;
      const uint64_t bytes = ring.size() * sizeof(Descriptor);
      std::memcpy(chip.fabric.direct(base, bytes), ring.data(), bytes);
      const uint32_t q = half == 0 ? udma::kM2sQ : udma::kS2mQ;
      chip.write(e, q + udma::kM2sQCfg, 0x0300'0000);
      chip.write(e, q + (half == 0 ? udma::kM2sQSwCtrl : udma::kS2mQSwCtrl), 0x100);
      chip.write(e, q + udma::kM2sQRingBaseLo, static_cast<uint32_t>(base));
      chip.write(e, q + udma::kM2sQRingBaseHi, static_cast<uint32_t>(base >> 32));
      chip.write(e, q + udma::kM2sQRingLength, static_cast<uint32_t>(ring.size()) + 16);
      chip.write(e, q + udma::kM2sQCfg, 0x0303'0000);
      chip.write(e, q + udma::kM2sQTailInc, static_cast<uint32_t>(ring.size()));
    }
  }
  // Of everything that time has left behind.
  uint64_t checksum() {
    uint64_t sum = events.now();
    const auto add = [&sum](uint64_t value) { sum = sum * 0x9E37'79B9'7F4A'7C15 + value; };
    for (auto& chip : chips) {
      auto all = chip->fabric.resources();
      for (auto* r : chip->dma.resources()) all.push_back(r);
      for (const auto* r : all) {
        add(r->busy_ps());
        add(r->total_bytes());
        add(r->state().end);
      }
    }
    for (const auto* r : links->resources()) add(r->busy_ps());
    return sum;
  }
  uint64_t packets() const {
    uint64_t n = 0;
    for (const auto& chip : chips) n += chip->counters.packets;
    return n;
  }

  hw::TimingParams timing;
  hw::EventQueue events;
  std::vector<std::unique_ptr<Chip>> chips;
  std::unique_ptr<hw::Links> links;
  std::vector<uint32_t> order = cycle();
};

}  // namespace

int main(int argc, char** argv) {
  const auto packets = static_cast<uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 0) : 320);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  if (packets == 0 || packets > 16384 || rounds <= 0) return 2;
  double best = 1e300;
  uint64_t moved = 0;
  uint64_t sum = 0;
  base::Ps end = 0;
  for (int round = 0; round < rounds; ++round) {
    Machine machine;
    machine.load(packets);
    const auto start = std::chrono::steady_clock::now();
    machine.events.run_all();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    moved = machine.packets();
    best = std::min(best, time.count() / static_cast<double>(moved));
    sum = machine.checksum();
    end = machine.events.now();
  }
  std::printf("%" PRIu64 " packets, %.1f ns each, %.3f ms simulated, checksum %016" PRIx64 "\n",
              moved, best, static_cast<double>(end) / 1e9, sum);
  return 0;
}
