#include "tests/fuzz/queue_driver.h"

#include <cstring>

#include "arch/contract/descriptor.h"
#include "contract/regs/udma.h"

namespace fuzz {

namespace desc = contract::desc;
namespace udma = contract::udma;

QueueDriver::QueueDriver(MachineBench& bench, uint32_t chip, uint32_t engine)
    : bench_(bench),
      chip_(chip),
      unit_(bench.chip(chip).address_map().udma(engine).bar0),
      host_(bench.chip(chip).address_map().host_window() |
            GuestMemory::kPieces[GuestMemory::kChecked].phys) {}

void QueueDriver::put(uint64_t bar0, uint32_t value) {
  bench_.machine().device(chip_).write32(bench_.register_bar(chip_), bar0, value);
}

std::vector<uint32_t> QueueDriver::state() {
  std::vector<uint32_t> words;
  const auto get = [&](uint64_t offset) {
    words.push_back(
        bench_.machine().device(chip_).read32(bench_.register_bar(chip_), unit_ + offset));
  };
  get(udma::kM2sPktLenCfg);
  get(udma::kM2sDescPrefCfg2);
  get(udma::kM2sStreamCfg);
  get(udma::kS2mStreamCfg);
  for (const uint64_t half : {uint64_t{0}, contract::kS2mOffset}) {
    get(half + udma::kM2sState);
    for (const uint32_t reg : {udma::kM2sQCfg, udma::kM2sQRingBaseLo, udma::kM2sQRingBaseHi,
                               udma::kM2sQRingLength, udma::kM2sQTail, udma::kM2sQCurrent}) {
      get(half + udma::kM2sQ + reg);
    }
  }
  return words;
}

void QueueDriver::set_up() {
  for (uint32_t i = 0; i < kBytes; ++i) piece()[kSource + i] = static_cast<uint8_t>(i * 5 + 1);
  std::memset(piece() + kTarget, 0, kBytes);
  base::store(piece() + kTx, desc::tx_copy(host_ + kSource, kBytes, 1));
  base::store(piece() + kRx, desc::rx(host_ + kTarget, kBytes, 1));
  const uint64_t rings[2] = {kTx, kRx};
  for (uint32_t half = 0; half < 2; ++half) {
    const uint64_t queue = unit_ + half * contract::kS2mOffset + udma::kM2sQ;
    const uint64_t ring = host_ + rings[half];
    put(queue + udma::kM2sQRingBaseLo, static_cast<uint32_t>(ring));
    put(queue + udma::kM2sQRingBaseHi, static_cast<uint32_t>(ring >> 32));
    put(queue + udma::kM2sQRingLength, kLength);
    put(queue + udma::kM2sQCfg, 0x303'0000);
  }
  before_ = state();
}

void QueueDriver::check(const char* what) {
  // Packets of other engines in front of this one take at most 0xF'FFFF bytes each.
  constexpr int kSlices = 50;
  if (bench_.guest().checked_used() || state() != before_) return;
  put(unit_ + contract::kS2mOffset + udma::kM2sQ + udma::kM2sQTailInc, 1);
  put(unit_ + udma::kM2sQ + udma::kM2sQTailInc, 1);
  for (int i = 0; i < kSlices; ++i) {
    const bool rest = bench_.run(base::us(20)) == hw::RunOutcome::kQuiescent;
    if (std::memcmp(piece() + kTarget, piece() + kSource, kBytes) == 0) return;
    if (rest) break;
  }
  const std::vector<uint32_t> now = state();
  // Somebody who still runs may have reset or changed it.
  constexpr size_t kConfig[] = {0, 1, 3, 4, 5, 6, 10, 11, 12, 13};
  for (const size_t i : kConfig) {
    if (now[i] != before_[i]) return;
  }
  found(what);
}

}  // namespace fuzz
