// One subgraph of a NEFF placed on one physical core of a logical core: variables in HBM, rings,
// instruction streams. Source of truth: spec/neff.md 1.9, 3, 3.12, 3.15; spec/nrt-api.md 6.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/exec/core.h"
#include "runtime/exec/device.h"
#include "runtime/load/control.h"
#include "runtime/load/dma_lowering.h"
#include "runtime/load/processing_ranks.h"
#include "runtime/load/translate.h"

namespace nrt {

// Ring of one direction of a hardware queue: the period that one execution consumes, repeated so
// that its length is legal. Of a queue for which an engine generates descriptors: room for them.
struct Ring {
  DescriptorList period;
  uint32_t copies = 0;
  DeviceBuffer memory;
  uint32_t length = 0;     // descriptors in memory
  uint32_t generated = 0;  // an engine writes this one: room for so many
  bool receive = false;

  base::Status create(const std::shared_ptr<Device>& device, const MemoryPlace& place);
  base::Status upload();
};

struct HardwareQueue {
  uint32_t engine = 0;  // within the logical core: 16 per physical core
  uint32_t queue = 0;   // 0..15 of that engine
  uint32_t service_class = 0;
  Ring m2s;
  Ring s2m;
};

struct EngineImage {
  uint32_t part = 0;         // physical core of the logical core
  bool uses_tables = false;  // of tensors: the engine needs to know where they are
  contract::isa::Engine engine = contract::isa::Engine::kSp;
  Translated program;
  DeviceBuffer memory;
};

class CoreProgram {
 public:
  CoreProgram(Core& core, const neff::Subgraph& subgraph, uint32_t part)
      : core_(core), subgraph_(subgraph), part_(part) {}

  const neff::Subgraph& subgraph() const { return subgraph_; }
  uint32_t part() const { return part_; }
  const std::vector<VariableAddress>& variables() const { return variables_; }
  const std::vector<EngineImage>& engines() const { return engines_; }
  const std::vector<HardwareQueue>& queues() const { return queues_; }
  // That the engines name tensors of; empty: there is none.
  TensorTable dge_table() const;
  // Semaphores and events that the programs use and that are zero before an execution.
  std::vector<uint8_t>& semaphores() { return semaphores_; }
  const std::vector<uint8_t>& semaphores() const { return semaphores_; }
  const std::vector<uint8_t>& events() const { return events_; }
  EngineReplacements& replacements() { return replacements_; }
  bool has_engines() const;

  base::Status place_variables();
  // `rank`: none without collectives.
  base::Status place_rank_tables(std::optional<uint32_t> rank);
  base::Status fill_tables();
  // What depends on where the peers are; after Communicator::wait_all().
  base::Status fill_rank_tables(const Communicator& communicator);
  // What stands for barriers, queue instances and the rank.
  base::Status build_controls(uint32_t rank);
  // After build_controls(). Uses hardware queues 0..last_queue.
  base::Status build_rings(uint32_t last_queue);
  // `prologue` for the first engine, that one without its leader's part for the others.
  base::Status build_engines(const Prologue& prologue);
  base::Status create_rings();

  // New device addresses of I/O variables, by index in the subgraph (0: unchanged). Rewrites only
  // descriptors and pointers whose address changed.
  base::Status rebind(const std::vector<uint64_t>& addresses);

 private:
  base::Status place_variable(const neff::Variable& variable, uint32_t index);
  base::Status write_table(const neff::Variable& variable, DeviceBuffer* memory);
  base::Status write_tensor_table();
  void store_entries(const neff::Variable& table, uint8_t* to) const;
  struct QueueUse;
  base::Result<uint32_t> free_queue(uint32_t last_queue) const;
  base::Status build_generated_queues(const neff::EngineProgram& program, uint32_t last_queue);
  base::Status build_queue(const neff::EngineProgram& program, QueueUse* use, uint32_t last_queue);
  DmaContext dma_context() const;
  TensorTable table_of(const neff::Variable& variable) const;
  TensorTables tables() const;
  void collect_signals();

  Core& core_;
  const neff::Subgraph& subgraph_;
  uint32_t part_;
  std::vector<VariableAddress> variables_;
  std::vector<DeviceBuffer> buffers_;  // private memory of variables, by index
  std::vector<ProcessingRanks> rank_tables_;
  DeviceBuffer tensor_table_;  // the DGE table with the rank tables behind it, if there are any
  std::shared_ptr<DeviceBuffer> scratchpad_;
  std::vector<HardwareQueue> queues_;
  std::vector<EngineImage> engines_;
  EngineReplacements replacements_;
  std::vector<uint8_t> semaphores_;
  std::vector<uint8_t> events_;
};

}  // namespace nrt
