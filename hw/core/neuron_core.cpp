#include "hw/core/neuron_core.h"

namespace hw {

namespace tpb = contract::tpb;

const char* NeuronCore::engine_name(uint32_t e) {
  constexpr const char* kNames[contract::kEnginesPerNc] = {"pe", "act", "pool", "dve", "sp"};
  return kNames[e];
}

NeuronCore::NeuronCore(const Params& params, const Context& context)
    : pages_(SemaphoreBlock::kBytes, SemaphoreBlock::kBytes),
      semaphores_(pages_, &context.counters, &context.log, params.name + ".semaphores"),
      ports_(params.gen) {
  const SequencerContext shared{context.queue,         context.fabric, semaphores_,
                                context.notifications, ports_,         pe_activity_,
                                context.counters,      context.log,    context.tracer};
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
