// A NEFF placed on a core: variables in HBM, rings, instruction streams, collectives. What
// nrt_load makes and the executor runs. Source of truth: neff.md 1.9, 3, 4.5; nrt-api.md 6.
// Missing (typed Unsupported): more than one subgraph, dynamic queue sets.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/exec/core.h"
#include "runtime/exec/device.h"
#include "runtime/load/dma_lowering.h"
#include "runtime/load/translate.h"

namespace nrt {

class CollectiveSet;
class Communicator;

// Ring of one direction of a hardware queue: the period that one execution consumes, repeated so
// that its length is legal.
struct Ring {
  DescriptorList period;
  uint32_t copies = 0;
  DeviceBuffer memory;
  uint32_t length = 0;  // descriptors in memory
  bool receive = false;

  base::Status create(const std::shared_ptr<Device>& device, const MemoryPlace& place);
  base::Status upload();
};

struct HardwareQueue {
  uint32_t engine = 0;  // 0..15 within the core
  uint32_t queue = 0;   // 0..15 of that engine
  Ring m2s;
  Ring s2m;
};

struct EngineImage {
  contract::isa::Engine engine = contract::isa::Engine::kSp;
  Translated program;
  DeviceBuffer memory;
};

struct LoadContext {
  uint32_t model_id = 0;
  std::string name;
  std::shared_ptr<Communicator> communicator;  // null for nrt_load
};

class LoadedProgram {
 public:
  static base::Result<std::unique_ptr<LoadedProgram>> load(Core& core, neff::Neff neff,
                                                           const LoadContext& context);
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;
  ~LoadedProgram();

  Core& core() const { return core_; }
  const neff::Neff& neff() const { return neff_; }
  const neff::Subgraph& subgraph() const { return neff_.subgraphs[0]; }
  const std::vector<EngineImage>& engines() const { return engines_; }
  CollectiveSet* collectives() const { return collectives_.get(); }
  const LoadContext& context() const { return context_; }
  const std::vector<VariableAddress>& variables() const { return variables_; }

  // Binds device addresses to the I/O variables (index in the subgraph, address). Rewrites only
  // descriptors and pointers whose address changed. The core's mutex is held.
  struct Binding {
    uint32_t variable = 0;
    uint64_t address = 0;
  };
  base::Status bind(const std::vector<Binding>& bindings);

  // Attaches rings and programs to the hardware, if another program was active. Mutex held.
  base::Status activate();

  // Register writes that bring semaphores and events to zero and start the engines.
  std::vector<RegisterWrite> start_sequence() const;

 private:
  LoadedProgram(Core& core, neff::Neff neff, const LoadContext& context);
  base::Status build();
  base::Status place_variables();
  base::Status place_variable(const neff::Variable& variable, uint32_t index);
  base::Status fill_tables();
  base::Status write_table(const neff::Variable& variable, DeviceBuffer* memory);
  base::Status build_rings();
  struct QueueUse;
  base::Status build_queue(const neff::EngineProgram& program, QueueUse* use);
  base::Status build_engines();
  base::Status create_rings();
  void collect_signals();
  base::Status attach_rings(const std::vector<const HardwareQueue*>& queues);
  base::Status take_lock();

  Core& core_;
  neff::Neff neff_;
  LoadContext context_;
  std::vector<VariableAddress> variables_;
  std::vector<DeviceBuffer> buffers_;  // private memory of variables, by index
  std::shared_ptr<DeviceBuffer> scratchpad_;
  std::vector<HardwareQueue> queues_;
  std::vector<EngineImage> engines_;
  std::array<std::vector<Replacement>, contract::kEnginesPerNc> replacements_;  // by engine
  std::vector<uint8_t> semaphores_;                                             // used ones
  std::vector<uint8_t> events_;
  std::unique_ptr<CollectiveSet> collectives_;
};

}  // namespace nrt
