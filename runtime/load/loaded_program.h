// A NEFF placed on a logical core: one subgraph per physical core, and the collectives of the rank.
// What nrt_load makes and the executor runs. Source of truth: spec/neff.md 1.9, 3.15, 4.5;
// spec/nrt-api.md 6. Own: the collectives of a logical core are in the program of its first
// physical core; the other core's engines start with the same barrier. Missing (typed Unsupported):
// PTC2 on the second core.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/exec/core.h"
#include "runtime/load/core_program.h"

namespace nrt {

class CollectiveSet;
class Communicator;
struct CollectiveProgram;

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
  // Of the first physical core, which holds the collectives and names all inputs and outputs.
  const neff::Subgraph& subgraph(uint32_t part = 0) const { return neff_.subgraphs[part]; }
  // By physical core.
  std::vector<const std::vector<VariableAddress>*> variables() const;
  // Programs of all physical cores.
  const std::vector<const EngineImage*>& engines() const { return engines_; }
  // The kernel's line that an instruction stands for, or "" if the file does not say: by debug id,
  // or by the record in the file.
  std::string source_line(uint64_t debug_id) const;
  std::string source_line(const EngineImage& image, int64_t record) const;
  CollectiveSet* collectives() const { return collectives_.get(); }
  const LoadContext& context() const { return context_; }

  // Binds device addresses to the I/O variables (index in the subgraph, address). Rewrites only
  // descriptors and pointers whose address changed. The core's mutex is held.
  struct Binding {
    uint32_t variable = 0;
    uint64_t address = 0;
  };
  base::Status bind(const std::vector<Binding>& bindings);

  // Does what needs all ranks of the world, once. I/O is bound. Mutex held.
  base::Status meet_peers();

  // Attaches rings and programs to the hardware, if another program was active. Mutex held.
  base::Status activate();

  // Register writes that bring semaphores and events to zero and start the engines.
  std::vector<RegisterWrite> start_sequence() const;

 private:
  LoadedProgram(Core& core, neff::Neff neff, const LoadContext& context);
  base::Status build();
  base::Status check_parts() const;
  // None: the program has no collectives.
  base::Result<std::optional<CollectiveProgram>> read_collectives() const;
  base::Status build_collectives(CollectiveProgram collectives);
  base::Status build_engines();
  bool cleans_up() const;  // the semaphores, itself
  base::Status attach_rings(const std::vector<const HardwareQueue*>& queues);
  base::Status set_classes(const std::vector<const HardwareQueue*>& queues);
  base::Status take_lock();

  Core& core_;
  neff::Neff neff_;
  LoadContext context_;
  bool stochastic_rounding_;
  uint32_t rounding_seed_;
  std::vector<std::unique_ptr<CoreProgram>> parts_;  // by physical core
  std::vector<const EngineImage*> engines_;
  std::unique_ptr<CollectiveSet> collectives_;
  bool peers_met_ = false;
};

}  // namespace nrt
