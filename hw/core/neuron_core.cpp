#include "hw/core/neuron_core.h"

namespace hw {

namespace tpb = contract::tpb;

const char* NeuronCore::engine_name(uint32_t e) {
  constexpr const char* kNames[contract::kEnginesPerNc] = {"pe", "act", "pool", "dve", "sp"};
  return kNames[e];
}

namespace {

const BandwidthResource& hbm_of(Fabric& fabric, uint32_t nc) {
  const contract::AddressMap& map = fabric.address_map();
  return fabric.hbm_resource(nc * map.hbms() / map.ncs());
}

uint64_t in_time(base::Rate rate, base::Ps time) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(time) * rate.bytes / rate.ps);
}

}  // namespace

NeuronCore::NeuronCore(const Params& params, const Context& context)
    : pages_(SemaphoreBlock::kBytes, SemaphoreBlock::kBytes),
      semaphores_(pages_, &context.counters, &context.log, params.name + ".semaphores"),
      ports_(params.gen),
      executions_(hbm_of(context.fabric, params.nc)),
      name_(params.name),
      pe_clock_(context.timing.clk_pe),
      float32_factor_(context.timing.pe_fp32_factor),
      hbm_rate_(hbm_of(context.fabric, params.nc).rate()) {
  if (context.tracer != nullptr) {
    trace_ = std::make_unique<InstructionTrace>(*context.tracer, name_);
  }
  if (context.checker != nullptr) {
    checks_ = std::make_unique<CoreChecks>(*context.checker, context.fabric, params.nc, name_);
    semaphores_.set_checks(&checks_->semaphores);
  }
  const SequencerContext shared{context.queue,         context.fabric, semaphores_,
                                context.notifications, ports_,         pe_activity_,
                                executions_,           updating_,      context.counters,
                                context.log,           trace_.get(),   checks_.get()};
  for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
    const Sequencer::Params engine{params.gen,
                                   static_cast<contract::Engine>(e),
                                   params.component + e,
                                   params.name + "." + engine_name(e),
                                   params.nc,
                                   params.timing_only,
                                   params.real_bytes};
    engines_.push_back(std::make_unique<Sequencer>(engine, shared, context.timing));
  }
}

uint64_t NeuronCore::peak_operations(base::Ps time, PeRate rate) const {
  constexpr uint64_t kPerCycle = 2ull * contract::isa::kPartitions * contract::isa::kPartitions;
  const uint64_t peak = kPerCycle * in_time(pe_clock_, time);
  switch (rate) {
    case PeRate::kFloat32:
      return peak / float32_factor_;
    case PeRate::kDoubleRow:
      return 2 * peak;
    case PeRate::kMx:
      return 4 * peak;
    case PeRate::kShort:
      break;
  }
  return peak;
}

uint64_t NeuronCore::peak_hbm_bytes(base::Ps time) const {
  return in_time(hbm_rate_, time);
}

void NeuronCore::reset() {
  for (auto& engine : engines_) engine->hard_reset();
  semaphores_.reset();
  ports_.reset();
  pe_activity_ = {};
}

NeuronCore& NeuronCoreGroup::core(uint32_t n) {
  if (cores_[n] == nullptr) cores_[n] = factory_(n);
  return *cores_[n];
}

bool NeuronCoreGroup::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  const auto n = static_cast<uint32_t>(offset / kStride);
  const uint64_t in = offset % kStride;
  if (n >= cores_.size()) return false;
  if (in >= tpb::kSemaphores && in + size <= tpb::kSemaphores + SemaphoreBlock::kBytes) {
    return core(n).semaphores().access(in - tpb::kSemaphores, data, size, write, debug);
  }
  const uint64_t engine = (in - tpb::kEngine) / tpb::kEngineStride;
  const uint64_t at = (in - tpb::kEngine) % tpb::kEngineStride;
  if (in < tpb::kEngine || engine >= contract::kEnginesPerNc || at + size > tpb::kEngineBlock) {
    return false;
  }
  return core(n).engine(static_cast<uint32_t>(engine)).access(at, data, size, write, debug);
}

}  // namespace hw
