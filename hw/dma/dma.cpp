#include "hw/dma/dma.h"

#include <cstring>

#include "contract/regs/errtrig.h"
#include "contract/regs/nq.h"
#include "contract/regs/sdma.h"

namespace hw {

using contract::AddressMap;

namespace {
constexpr uint64_t kSdmaRegisters = 0x1000;  // of the wrapper; the DMA-trace queue follows
constexpr uint64_t kErrorTriggerBlock = 0x1000;
}  // namespace

namespace {
struct SdmaBlock final : RegBlock<SdmaBlock> {
  using RegBlock::RegBlock;
  static const RegTable<SdmaBlock>& table() {
    static const RegTable<SdmaBlock> t("sdma", contract::sdma::kRegs, kSdmaRegisters, {});
    return t;
  }
};
struct TraceNqBlock final : RegBlock<TraceNqBlock> {
  using RegBlock::RegBlock;
  static const RegTable<TraceNqBlock>& table() {
    static const RegTable<TraceNqBlock> t("dma_trace_nq", contract::nq::kRegs, contract::kNqBlock,
                                          {});
    return t;
  }
};
struct ErrorTriggerBlock final : RegBlock<ErrorTriggerBlock> {
  using RegBlock::RegBlock;
  static const RegTable<ErrorTriggerBlock>& table() {
    static const RegTable<ErrorTriggerBlock> t("errtrig", contract::errtrig::kRegs,
                                               kErrorTriggerBlock, {});
    return t;
  }
};
}  // namespace

class Dma::Storage {
 public:
  explicit Storage(AccessLog& log) : sdma_(log), nq_(log), trigger_(log) {}
  BusTarget& of(Region region) {
    if (region == kSdma) return sdma_;
    if (region == kTraceNq) return nq_;
    return trigger_;
  }
  uint32_t broadcast_group() const { return sdma_.value(contract::sdma::kBroadcastGroup); }

 private:
  SdmaBlock sdma_;
  TraceNqBlock nq_;
  ErrorTriggerBlock trigger_;
};

Dma::Dma(Fabric& fabric, EventQueue& events, const TimingParams& timing, Counters& counters,
         AccessLog& log, const Options& options)
    : context_{fabric,
               events,
               timing,
               counters,
               log,
               options.tracer,
               options.timing_only,
               options.real_bytes,
               options.coalesce} {
  engines_.resize(fabric.address_map().dma_engines());
  storage_.resize(engines_.size());
}

Dma::~Dma() = default;

UdmaEngine& Dma::engine(uint32_t e) {
  if (engines_[e] == nullptr) engines_[e] = std::make_unique<UdmaEngine>(context_, e);
  return *engines_[e];
}

Dma::Storage& Dma::storage(uint32_t e) {
  if (storage_[e] == nullptr) storage_[e] = std::make_unique<Storage>(context_.log);
  return *storage_[e];
}

bool Dma::map_windows(const Map& map) const {
  const AddressMap& address = context_.fabric.address_map();
  const std::string prefix = context_.fabric.name() + ".dma";
  bool ok = true;
  for (uint32_t e = 0; e < engines(); ++e) {
    const std::string name = prefix + std::to_string(e);
    const uint64_t sdma = address.sdma(e).device;
    ok = ok && map(address.udma(e).device, contract::kUdmaUnit, base(kUdma, e), name);
    ok = ok && map(sdma, kSdmaRegisters, base(kSdma, e), name + ".sdma");
    ok = ok && map(sdma + kSdmaRegisters, contract::kNqBlock, base(kTraceNq, e), name + ".nq");
    if (!address.v2() && e < address.compute_engines()) {
      ok = ok && map(address.error_trigger(e).device, kErrorTriggerBlock, base(kErrorTrigger, e),
                     name + ".errtrig");
    }
  }
  for (uint32_t n = 0; n < address.ncs(); ++n) {
    ok = ok && map(address.broadcast(n).device, contract::kUdmaUnit, base(kBroadcast, n),
                   prefix + ".broadcast" + std::to_string(n));
  }
  return ok;
}

bool Dma::map_windows() {
  return map_windows([this](uint64_t device, uint64_t size, uint64_t at, const std::string& name) {
    return context_.fabric.map(device, size, *this, at, name);
  });
}

bool Dma::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  constexpr uint64_t kInMask = (1u << 20) - 1;
  const auto region = static_cast<Region>(offset >> 40);
  const auto index = static_cast<uint32_t>(offset >> 20) & 0xFFFFF;
  const uint64_t in = offset & kInMask;
  if (region == kBroadcast) return broadcast(index, in, data, size, write, debug);
  if (index >= engines()) return false;
  if (region == kUdma) return engine(index).access(in, data, size, write, debug);
  return storage(index).of(region).access(in, data, size, write, debug);
}

// A store reaches the units of the 16 engines of the core, on v2 only those in a broadcast group.
bool Dma::broadcast(uint32_t nc, uint64_t offset, uint8_t* data, size_t size, bool write,
                    bool debug) {
  if (!write) {
    std::memset(data, 0, size);
    return true;
  }
  for (uint32_t k = 0; k < contract::kDmaPerNc; ++k) {
    const uint32_t e = nc * contract::kDmaPerNc + k;
    if (context_.fabric.address_map().v2() &&
        (storage_[e] == nullptr || storage_[e]->broadcast_group() == 0)) {
      continue;
    }
    engine(e).access(offset, data, size, true, debug);
  }
  return true;
}

void Dma::reset_engine(uint32_t e) {
  if (engines_[e] != nullptr) engines_[e]->reset();
  storage_[e].reset();
}

void Dma::reset() {
  for (uint32_t e = 0; e < engines(); ++e) reset_engine(e);
}

bool Dma::busy() const {
  for (const auto& e : engines_) {
    if (e != nullptr && e->busy()) return true;
  }
  return false;
}

std::vector<BandwidthResource*> Dma::resources() const {
  std::vector<BandwidthResource*> all;
  for (const auto& e : engines_) {
    if (e != nullptr) all.push_back(&e->resource());
  }
  return all;
}

}  // namespace hw
