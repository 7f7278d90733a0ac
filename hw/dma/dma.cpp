#include "hw/dma/dma.h"

#include <cstring>

#include "contract/regs/errtrig.h"
#include "contract/regs/sdma.h"
#include "hw/component_ids.h"
#include "hw/nq/nq_block.h"

namespace hw {

using contract::AddressMap;

namespace {

constexpr uint64_t kErrorTriggerBlock = 0x1000;

template <typename Block>
class PlainBlock : public RegBlock<Block> {
 public:
  PlainBlock(AccessLog& log, contract::Gen gen, std::string name)
      : RegBlock<Block>(log, gen), name_(std::move(name)) {}
  std::string instance() const override { return name_; }

 private:
  std::string name_;
};

struct SdmaBlock final : PlainBlock<SdmaBlock> {
  using PlainBlock::PlainBlock;
  static const RegTable<SdmaBlock>& table() {
    static const RegTable<SdmaBlock> t("sdma", contract::sdma::kRegs, contract::kSdmaUnit, {});
    return t;
  }
};
struct ErrorTriggerBlock final : PlainBlock<ErrorTriggerBlock> {
  using PlainBlock::PlainBlock;
  static const RegTable<ErrorTriggerBlock>& table() {
    static const RegTable<ErrorTriggerBlock> t("errtrig", contract::errtrig::kRegs,
                                               kErrorTriggerBlock, {});
    return t;
  }
};

}  // namespace

// What belongs to an engine besides its UDMA unit. The trace queue is made on first touch.
class Dma::Wrapper {
 public:
  Wrapper(const DmaContext& context, uint32_t e)
      : context_(context),
        index_(e),
        sdma_(context.log, context.fabric.address_map().gen, name() + ".sdma"),
        trigger_(context.log, context.fabric.address_map().gen, name() + ".errtrig") {}

  BusTarget& sdma() { return sdma_; }
  BusTarget& trigger() { return trigger_; }
  NqBlock* touched_trace() { return trace_.get(); }
  NqBlock& trace() {
    if (trace_ == nullptr) {
      const uint32_t id = component::id(context_.fabric.chip(), component::kTraces, index_);
      trace_ =
          std::make_unique<NqBlock>(NqBlock::Params{id, context_.timing.nq_entry, name() + ".nq"},
                                    context_.events, context_.fabric, &context_.counters);
    }
    return *trace_;
  }
  uint32_t broadcast_group() const { return sdma_.value(contract::sdma::kBroadcastGroup); }
  void reset() {
    sdma_.reset_registers();
    trigger_.reset_registers();
    if (trace_ != nullptr) trace_->reset();
  }

 private:
  std::string name() const { return context_.fabric.name() + ".dma" + std::to_string(index_); }

  const DmaContext& context_;
  uint32_t index_;
  SdmaBlock sdma_;
  ErrorTriggerBlock trigger_;
  std::unique_ptr<NqBlock> trace_;
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
               options.coalesce,
               options.policy,
               options.checker,
               PathCache(fabric),
               {},
               {},
               {},
               {}},
      made_(options.made) {
  engines_.resize(fabric.address_map().dma_engines());
  wrappers_.resize(engines_.size());
}

Dma::~Dma() = default;

UdmaEngine& Dma::engine(uint32_t e) {
  if (engines_[e] == nullptr) {
    engines_[e] = make_in<UdmaEngine>(context_.memory, context_, e);
    if (wrappers_[e] != nullptr) engines_[e]->set_trace_queue(wrappers_[e]->touched_trace());
    if (made_) made_(e);
  }
  return *engines_[e];
}

Dma::Wrapper& Dma::wrapper(uint32_t e) {
  if (wrappers_[e] == nullptr) wrappers_[e] = std::make_unique<Wrapper>(context_, e);
  return *wrappers_[e];
}

NqBlock& Dma::trace_queue(uint32_t e) {
  NqBlock& queue = wrapper(e).trace();
  if (engines_[e] != nullptr) engines_[e]->set_trace_queue(&queue);
  return queue;
}

bool Dma::map_windows() {
  const auto map = [this](uint64_t device, uint64_t size, uint64_t at, const std::string& name) {
    return context_.fabric.map(device, size, *this, at, name);
  };
  const AddressMap& address = context_.fabric.address_map();
  const std::string prefix = context_.fabric.name() + ".dma";
  bool ok = true;
  for (uint32_t e = 0; e < engines(); ++e) {
    const std::string name = prefix + std::to_string(e);
    ok = ok && map(address.udma(e).device, contract::kUdmaUnit, base(kUdma, e), name);
    ok = ok && map(address.sdma(e).device, contract::kSdmaUnit, base(kSdma, e), name + ".sdma");
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

bool Dma::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  constexpr uint64_t kInMask = (1u << 20) - 1;
  const auto region = static_cast<Region>(offset >> 40);
  const auto index = static_cast<uint32_t>(offset >> 20) & 0xFFFFF;
  const uint64_t in = offset & kInMask;
  if (region == kBroadcast) return broadcast(index, in, data, size, write, debug);
  if (index >= engines()) return false;
  if (region == kUdma) return engine(index).access(in, data, size, write, debug);
  if (region == kSdma) {
    const uint64_t in_trace = in - contract::kSdmaTraceNq;
    if (in_trace < contract::kNqBlock) {
      return trace_queue(index).access(in_trace, data, size, write, debug);
    }
    return wrapper(index).sdma().access(in, data, size, write, debug);
  }
  return wrapper(index).trigger().access(in, data, size, write, debug);
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
        (wrappers_[e] == nullptr || wrappers_[e]->broadcast_group() == 0)) {
      continue;
    }
    engine(e).access(offset, data, size, true, debug);
  }
  return true;
}

void Dma::reset_engine(uint32_t e) {
  if (engines_[e] != nullptr) engines_[e]->reset();
  if (wrappers_[e] != nullptr) wrappers_[e]->reset();
}

void Dma::reset() {
  for (uint32_t e = 0; e < engines(); ++e) reset_engine(e);
}

void Dma::look_again() {
  for (const auto& e : engines_) {
    if (e != nullptr) e->look_again();
  }
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
