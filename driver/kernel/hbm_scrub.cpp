#include "driver/kernel/hbm_scrub.h"

#include <algorithm>
#include <cerrno>

#include "arch/contract/descriptor.h"

namespace driver {
namespace {

namespace desc = contract::desc;

constexpr uint64_t kBlock = 64 * base::kKiB;
constexpr uint32_t kSpareDescriptors = 16;  // 3.12: added to what a ring of the driver must hold
constexpr uint32_t kFirstRingId = 1;
constexpr uint32_t kQueue = 0;
// spec/hw-registers.md 3.12: first delay, and the part of the usual polling time that is left.
constexpr uint64_t kFirstDelayUs = 10;
constexpr uint64_t kBudgetDivisor = 200;
constexpr uint64_t kPollsPerBudget = 4096;

uint32_t ring_length(uint32_t descriptors) {
  uint32_t length = DmaEngines::kMinRing;
  while (length < descriptors + kSpareDescriptors) length *= 2;
  return length;
}

}  // namespace

HbmScrub::HbmScrub(const Context& context, const Dhal& dhal, DmaEngines& engines, Memory& memory,
                   uint32_t timeout_factor)
    : context_(context),
      dhal_(dhal),
      engines_(engines),
      memory_(memory),
      timeout_factor_(timeout_factor),
      runs_(dhal.map.hbms()) {}

HbmScrub::~HbmScrub() {
  for (auto& run : runs_) discard(run);
}

uint32_t HbmScrub::blocks() const {
  const uint64_t size = std::max(memory_.hbm_size(), contract::kFirmwareReserved);
  return static_cast<uint32_t>((size - contract::kFirmwareReserved) / kBlock);
}

bool HbmScrub::allocate(Run& run, uint32_t nc, uint32_t descriptors) {
  AllocRequest request;
  request.host = true;
  request.nc = nc;
  request.category = uapi::kMemNcdevHost;
  request.lifespan = Lifespan::kDevice;
  request.size = kBlock;
  if (memory_.allocate(request, &run.pattern) != 0) return false;
  for (Engine& engine : run.engines) {
    request.size = uint64_t{ring_length(descriptors)} * sizeof(contract::Descriptor);
    if (memory_.allocate(request, &engine.tx) != 0) return false;
    if (memory_.allocate(request, &engine.rx) != 0) return false;
    request.size = kBlock + 2 * sizeof kCopyMarker;
    if (memory_.allocate(request, &engine.scratch) != 0) return false;
  }
  return true;
}

void HbmScrub::discard(std::optional<Run>& run) {
  if (!run) return;
  if (run->pattern != nullptr) memory_.release(run->pattern);
  for (const Engine& engine : run->engines) {
    for (Chunk* chunk : {engine.tx, engine.rx, engine.scratch}) {
      if (chunk != nullptr) memory_.release(chunk);
    }
  }
  run.reset();
}

// One block from the host, each further block from the one 16 before it, the last one back to the
// host; every descriptor waits for those before it. Then the marker.
uint32_t HbmScrub::build(const Run& run, uint32_t hbm, uint32_t number) {
  const Engine& engine = run.engines[number];
  uint8_t* const tx = memory_.host_bytes(*engine.tx);
  uint8_t* const rx = memory_.host_bytes(*engine.rx);
  uint32_t index = 0;
  const auto put = [&](uint64_t from, uint64_t to, uint32_t bytes, uint32_t dmb) {
    const uint64_t at = index++ * sizeof(contract::Descriptor);
    base::store(tx + at,
                desc::tx_copy(from, bytes, kFirstRingId, desc::kFirst | desc::kLast | dmb));
    base::store(rx + at, desc::rx(to, bytes, kFirstRingId));
  };
  const uint64_t base = dhal_.map.hbm_base(hbm) + contract::kFirmwareReserved;
  uint64_t from = run.pattern->pa;
  for (uint32_t block = number; block < blocks(); block += kEngines) {
    const uint64_t to = base + block * kBlock;
    put(from, to, kBlock, desc::kDmb);
    from = to;
  }
  put(from, engine.scratch->pa, kBlock, desc::kDmb);
  const uint64_t words = engine.scratch->pa + kBlock;
  put(words, words + sizeof kCopyMarker, sizeof kCopyMarker, desc::kDmb);
  uint8_t* const marker = memory_.host_bytes(*engine.scratch) + kBlock;
  base::store(marker, kCopyMarker);
  base::store(marker + sizeof kCopyMarker, uint32_t{0});
  return index;
}

int HbmScrub::start(uint32_t hbm, uint32_t nc, uint32_t pattern, int32_t tgid) {
  if (hbm >= runs_.size()) return -EPERM;
  std::optional<Run>& run = runs_[hbm];
  discard(run);
  run.emplace();
  run->tgid = tgid;
  const uint32_t descriptors = (blocks() + kEngines - 1) / kEngines + 2;
  if (!allocate(*run, nc, descriptors)) {
    discard(run);
    return -ENOMEM;
  }
  for (uint64_t at = 0; at < kBlock; at += sizeof pattern) {
    base::store(memory_.host_bytes(*run->pattern) + at, pattern);
  }
  for (uint32_t k = 0; k < kEngines; ++k) {
    const Engine& rings = run->engines[k];
    const uint32_t engine = dhal_.scrub_engine(hbm, k);
    const uint32_t count = build(*run, hbm, k);
    const uint32_t length = ring_length(descriptors);
    engines_.queue(engine, kQueue).owner = tgid;
    const int error =
        engines_.init_queue(engine, kQueue, {rings.tx->pa, length}, {rings.rx->pa, length});
    if (error != 0) {
      discard(run);
      return error;
    }
    engines_.ring_rx(engine, kQueue, count);
    engines_.ring_tx(engine, kQueue, count);
  }
  return 0;
}

base::Ps HbmScrub::budget() const {
  const uint64_t n = std::max<uint64_t>(memory_.hbm_size() / (kEngines * kBlock), 2);
  const uint64_t bracket = uint64_t{dhal_.copy_timeout_us} * (n - 1) - kFirstDelayUs;
  return base::us(bracket * kCopyBudgetScale / kBudgetDivisor) * timeout_factor_;
}

int HbmScrub::wait(uint32_t hbm) {
  if (hbm >= runs_.size() || !runs_[hbm]) return -EPERM;
  const base::Ps period = std::max(context_.params.copy_poll_period, budget() / kPollsPerBudget);
  int result = 0;
  for (uint32_t k = 0; k < kEngines; ++k) {
    context_.executor.delay(base::us(kFirstDelayUs));
    base::Ps waited = 0;
    for (;;) {
      // Another caller may have collected the run, or the process may have gone.
      if (!runs_[hbm]) return -EPERM;
      const uint8_t* marker = memory_.host_bytes(*runs_[hbm]->engines[k].scratch) + kBlock;
      if (base::load<uint32_t>(marker + sizeof kCopyMarker) == kCopyMarker) break;
      if (waited >= budget()) {
        ++context_.counters.copy_timeouts;
        result = -EPERM;
        break;
      }
      context_.executor.delay(period);
      waited += period;
    }
  }
  discard(runs_[hbm]);
  return result;
}

void HbmScrub::release_process(int32_t tgid) {
  for (auto& run : runs_) {
    if (run && run->tgid == tgid) discard(run);
  }
}

}  // namespace driver
