#include "runtime/load/loaded_program.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "contract/regs/engine.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"
#include "driver/ndl/ndl.h"
#include "runtime/load/collective_set.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint32_t kMaxBatch = MAX_NDL_QUEUE_INIT_BATCH - 1;

bool is_io(const neff::Variable& variable) {
  return variable.type == neff::VariableType::kInput ||
         variable.type == neff::VariableType::kOutput;
}

}  // namespace

LoadedProgram::LoadedProgram(Core& core, neff::Neff neff, const LoadContext& context)
    : core_(core),
      neff_(std::move(neff)),
      context_(context),
      stochastic_rounding_(environment_flag("NEURON_RT_STOCHASTIC_ROUNDING_EN", false)),
      rounding_seed_(static_cast<uint32_t>(
          environment_number("NEURON_RT_STOCHASTIC_ROUNDING_SEED", 0, UINT32_MAX))) {
  for (uint32_t i = 0; i < neff_.subgraphs.size(); ++i) {
    parts_.push_back(std::make_unique<CoreProgram>(core_, neff_.subgraphs[i], i));
  }
}

LoadedProgram::~LoadedProgram() {
  if (core_.active == this) core_.active = nullptr;
}

base::Result<std::unique_ptr<LoadedProgram>> LoadedProgram::load(Core& core, neff::Neff neff,
                                                                 const LoadContext& context) {
  if (neff.subgraphs.size() != core.lnc()) {
    return error(NRT_INVALID, std::to_string(neff.subgraphs.size()) +
                                  " subgraphs on a logical core of " + std::to_string(core.lnc()));
  }
  std::unique_ptr<LoadedProgram> program(new LoadedProgram(core, std::move(neff), context));
  if (base::Status status = program->build(); !status.ok()) return status.error();
  return program;
}

// The first subgraph stands for the model (spec/neff.md 2.9): the others may only share its
// tensors.
base::Status LoadedProgram::check_parts() const {
  for (size_t i = 1; i < neff_.subgraphs.size(); ++i) {
    const neff::Subgraph& sg = neff_.subgraphs[i];
    for (const neff::Variable& variable : sg.variables) {
      if (!is_io(variable)) continue;
      const neff::Variable* first = subgraph().find_variable(variable.name);
      if (first == nullptr || first->type != variable.type || first->size != variable.size) {
        return error(
            NRT_INVALID,
            "Tensor " + variable.name + " of " + sg.name + " is not one of " + subgraph().name,
            base::Fault::kProgram);
      }
    }
  }
  return check_core_barriers(neff_.subgraphs);
}

std::string LoadedProgram::source_line(uint64_t debug_id) const {
  return neff_.debug_info ? neff_.debug_info->describe(debug_id) : "";
}

std::string LoadedProgram::source_line(const EngineImage& image, int64_t record) const {
  const neff::EngineProgram* program = neff_.subgraphs[image.part].program(image.engine);
  if (program == nullptr || record < 0) return "";
  const auto step = std::find_if(
      program->steps.begin(), program->steps.end(), [record](const neff::ProgramStep& s) {
        return s.pc <= record && record < int64_t{s.pc} + s.instruction.records();
      });
  return step == program->steps.end() ? "" : source_line(step->instruction.debug_id);
}

base::Status LoadedProgram::build() {
  if (base::Status s = check_parts(); !s.ok()) return s;
  for (const auto& part : parts_) {
    if (base::Status s = part->place_variables(); !s.ok()) return s;
  }
  if (!neff_.executable) return {};  // foreign: listed and inspected, never run
  auto collectives = read_collectives();
  if (!collectives) return collectives.error();
  const uint32_t last_queue =
      *collectives ? (*collectives)->last_free_queue : contract::kFetchQueue - 1;
  const uint32_t rank = context_.communicator ? context_.communicator->rank() : 0;
  for (const auto& part : parts_) {
    const auto member = *collectives ? std::optional<uint32_t>(rank) : std::nullopt;
    if (base::Status s = part->place_rank_tables(member); !s.ok()) return s;
    if (base::Status s = part->fill_tables(); !s.ok()) return s;
    if (base::Status s = part->build_controls(rank); !s.ok()) return s;
    if (base::Status s = part->build_rings(last_queue); !s.ok()) return s;
  }
  if (*collectives) {
    if (base::Status s = build_collectives(std::move(**collectives)); !s.ok()) return s;
  }
  if (base::Status s = build_engines(); !s.ok()) return s;
  for (const auto& part : parts_) {
    if (base::Status s = part->create_rings(); !s.ok()) return s;
  }
  return {};
}

base::Result<std::optional<CollectiveProgram>> LoadedProgram::read_collectives() const {
  if (!context_.communicator || !neff_.has_collectives()) return std::optional<CollectiveProgram>();
  auto program = CollectiveProgram::read(
      neff_.subgraphs, {core_.map(), core_.nc(), core_.streams(), context_.communicator->rank(),
                        context_.communicator->world()});
  if (!program) return program.error();
  return std::optional<CollectiveProgram>(std::move(*program));
}

base::Status LoadedProgram::build_collectives(CollectiveProgram collectives) {
  // The barrier's semaphore has the same number on all physical cores.
  std::vector<uint8_t> used;
  for (const auto& part : parts_) {
    used.insert(used.end(), part->semaphores().begin(), part->semaphores().end());
  }
  auto set = CollectiveSet::create(*this, std::move(collectives), used);
  if (!set) return set.error();
  collectives_ = std::move(*set);
  for (const auto& part : parts_) part->semaphores().push_back(collectives_->barrier_semaphore());
  for (const auto& part : parts_) {
    collectives_->add_replacements(part->part(), &part->replacements());
  }
  return {};
}

std::vector<const std::vector<VariableAddress>*> LoadedProgram::variables() const {
  std::vector<const std::vector<VariableAddress>*> list;
  for (const auto& part : parts_) list.push_back(&part->variables());
  return list;
}

base::Status LoadedProgram::build_engines() {
  for (const auto& part : parts_) {
    Prologue prologue;
    if (collectives_) prologue = collectives_->prologue(part->part() == 0);
    if (prologue.leader) {
      // The barrier releases the first core, whose leader passes it on.
      for (size_t i = 1; i < parts_.size(); ++i) {
        const auto nc = static_cast<uint32_t>(core_.nc() + i);
        const uint64_t block = core_.map().nc_semaphores(nc) + contract::sem::kInc;
        StorePair release;
        release.count = 1;
        release.address[0] = block + uint64_t{contract::sem::kIncStride} * prologue.semaphore;
        release.value[0] = 1;
        if (parts_[i]->has_engines()) prologue.release.push_back(release);
      }
    }
    if (base::Status s = part->build_engines(prologue); !s.ok()) return s;
    for (const EngineImage& image : part->engines()) engines_.push_back(&image);
  }
  return {};
}

bool LoadedProgram::cleans_up() const {
  for (const neff::Subgraph& sg : neff_.subgraphs) {
    for (const neff::EngineProgram& program : sg.programs) {
      if (!program.steps.empty() && !program.self_cleaning) return false;
    }
  }
  return true;
}

// ---- Before an execution ----

base::Status LoadedProgram::bind(const std::vector<Binding>& bindings) {
  const std::vector<VariableAddress>& variables = parts_[0]->variables();
  std::vector<uint64_t> changed(variables.size(), 0);
  bool any = false;
  for (const Binding& binding : bindings) {
    if (variables[binding.variable].base == binding.address) continue;
    if (collectives_ && collectives_->fixes(binding.variable)) {
      return error(NRT_EXEC_BAD_INPUT,
                   "Tensor " + subgraph().variables[binding.variable].name +
                       " is used by a collective and must be the same in every execution");
    }
    changed[binding.variable] = binding.address;
    any = true;
  }
  if (!any) return {};
  for (const auto& part : parts_) {
    const neff::Subgraph& sg = part->subgraph();
    std::vector<uint64_t> addresses(sg.variables.size(), 0);
    for (size_t i = 0; i < sg.variables.size(); ++i) {
      if (!is_io(sg.variables[i])) continue;
      const neff::Variable* first = subgraph().find_variable(sg.variables[i].name);
      addresses[i] = changed[static_cast<size_t>(first - subgraph().variables.data())];
    }
    if (base::Status s = part->rebind(addresses); !s.ok()) return s;
  }
  return {};
}

base::Status LoadedProgram::meet_peers() {
  if (!collectives_ || peers_met_) return {};
  if (base::Status s = collectives_->finish(); !s.ok()) return s;
  for (const auto& part : parts_) {
    if (base::Status s = part->fill_rank_tables(*context_.communicator); !s.ok()) return s;
  }
  peers_met_ = true;
  return {};
}

base::Status LoadedProgram::activate() {
  if (core_.active == this) return {};
  if (core_.active != nullptr) core_.active = nullptr;
  if (base::Status s = take_lock(); !s.ok()) return s;
  std::vector<const HardwareQueue*> queues;
  for (const auto& part : parts_) {
    for (const HardwareQueue& queue : part->queues()) queues.push_back(&queue);
  }
  if (collectives_) {
    for (const HardwareQueue& queue : collectives_->queues()) queues.push_back(&queue);
  }
  if (base::Status s = attach_rings(queues); !s.ok()) return s;
  if (base::Status s = set_classes(queues); !s.ok()) return s;
  std::vector<RegisterWrite> writes;
  for (const EngineImage* image : engines_) {
    const auto engine = static_cast<uint32_t>(image->engine);
    const uint64_t address = image->memory.address();
    writes.push_back({core_.engine_register(image->part, engine, contract::engine::kProgramLo),
                      static_cast<uint32_t>(address)});
    writes.push_back({core_.engine_register(image->part, engine, contract::engine::kProgramHi),
                      static_cast<uint32_t>(address >> 32)});
    writes.push_back({core_.engine_register(image->part, engine, contract::engine::kProgramCount),
                      static_cast<uint32_t>(image->program.records.size())});
    if (cleans_up()) {
      writes.push_back({core_.engine_register(image->part, engine, contract::engine::kProgramFlags),
                        contract::engine::kProgramFlagsSelfCleaning.mask()});
    }
    writes.push_back({core_.engine_register(image->part, engine, contract::engine::kRounding),
                      stochastic_rounding_ ? contract::engine::kRoundingStochastic.mask() : 0});
    if (stochastic_rounding_) {
      writes.push_back({core_.engine_register(image->part, engine, contract::engine::kRoundingSeed),
                        rounding_seed_});
    }
    if (!image->uses_tables) continue;
    const TensorTable table = parts_[image->part]->dge_table();
    const uint64_t one = core_.one_word();
    namespace reg = contract::engine;
    const std::pair<uint32_t, uint32_t> generator[] = {
        {reg::kDgeTableLo, static_cast<uint32_t>(table.address)},
        {reg::kDgeTableHi, static_cast<uint32_t>(table.address >> 32)},
        {reg::kDgeEntries, table.entries},
        {reg::kDgeOneLo, static_cast<uint32_t>(one)},
        {reg::kDgeOneHi, static_cast<uint32_t>(one >> 32)}};
    for (const auto& [offset, value] : generator) {
      writes.push_back({core_.engine_register(image->part, engine, offset), value});
    }
  }
  for (uint32_t part = 0; part < core_.lnc(); ++part) {
    for (uint32_t i = 0; i < contract::sem::kSetCount; ++i) {
      writes.push_back({core_.semaphore_register(part, contract::sem::kSet, i), 0});
      writes.push_back({core_.semaphore_register(part, contract::sem::kEvent, i), 0});
    }
  }
  if (base::Status s = core_.device().write_registers(writes); !s.ok()) return s;
  core_.active = this;
  return {};
}

base::Status LoadedProgram::attach_rings(const std::vector<const HardwareQueue*>& queues) {
  auto batch = std::make_unique<ndl_queue_init_batch>();
  for (size_t at = 0; at < queues.size(); at += kMaxBatch) {
    *batch = {};
    batch->count = static_cast<uint32_t>(std::min<size_t>(kMaxBatch, queues.size() - at));
    for (uint32_t i = 0; i < batch->count; ++i) {
      const HardwareQueue& queue = *queues[at + i];
      ndl_queue_init& entry = batch->entries[i];
      entry.eng_id = core_.dma_engine(queue.engine);
      entry.qid = queue.queue;
      entry.tx_desc_count = queue.m2s.length;
      entry.rx_desc_count = queue.s2m.length;
      entry.tx_handle = queue.m2s.memory.handle();
      entry.rx_handle = queue.s2m.memory.handle();
    }
    errno = 0;
    if (ndl_dma_queue_init_batch(core_.device().index(), batch.get()) != 0) {
      return driver_error("queue set-up", errno);
    }
  }
  return {};
}

// The driver leaves queues in class 0, and engines serving all classes in turns.
base::Status LoadedProgram::set_classes(const std::vector<const HardwareQueue*>& queues) {
  namespace udma = contract::udma;
  std::vector<uint64_t> registers;
  std::vector<uint32_t> classes;
  for (const HardwareQueue* queue : queues) {
    if (queue->service_class == 0) continue;
    const uint64_t unit = core_.map().udma(core_.dma_engine(queue->engine)).bar0;
    registers.push_back(unit + udma::kM2sQ + udma::kM2sQStride * queue->queue + udma::kM2sQCfg);
    registers.push_back(unit + udma::kM2sDescPrefCfg2);
    classes.push_back(queue->service_class);
  }
  if (registers.empty()) return {};
  auto values = core_.device().read_registers(registers);
  if (!values) return values.error();
  std::vector<RegisterWrite> writes;
  for (size_t i = 0; i < classes.size(); ++i) {
    const uint32_t cfg = udma::kM2sQCfgQos.set((*values)[2 * i], classes[i]);
    const uint32_t prefetch = udma::kM2sDescPrefCfg2ForceRr.set((*values)[2 * i + 1], 0);
    writes.push_back({registers[2 * i], cfg});
    writes.push_back({registers[2 * i + 1], prefetch});
  }
  return core_.device().write_registers(writes);
}

// Tells other processes and tools which model is active (spec/ndl-api.md 3.9).
base::Status LoadedProgram::take_lock() {
  neuron_uuid uuid{};
  std::memcpy(uuid.value, neff_.header.uuid.data(), neff_.header.uuid.size());
  base::store<uint32_t>(uuid.value + 16, context_.model_id);
  ndl_device_t* device = core_.device().handle();
  const auto first = static_cast<int>(core_.nc());
  const int end = first + static_cast<int>(core_.lnc());
  if (core_.has_lock) {
    neuron_uuid previous{};
    std::memcpy(previous.value, core_.lock_uuid.data(), core_.lock_uuid.size());
    for (int nc = first; nc < end; ++nc) ndl_crwl_reader_exit(device, nc, previous);
    core_.has_lock = false;
  }
  for (int nc = first; nc < end; ++nc) {
    errno = 0;
    if (ndl_crwl_writer_enter(device, nc, uuid) != 0 && errno != EALREADY) {
      const int code = errno;
      while (nc-- > first) ndl_crwl_reader_exit(device, nc, uuid);
      if (code == EBUSY) return error(NRT_EXEC_NC_BUSY, "The core runs another model");
      return driver_error("model switch", code);
    }
    if (ndl_crwl_writer_downgrade(device, nc, uuid) != 0) {
      return driver_error("model switch", errno);
    }
  }
  core_.has_lock = true;
  std::memcpy(core_.lock_uuid.data(), uuid.value, core_.lock_uuid.size());
  return {};
}

std::vector<RegisterWrite> LoadedProgram::start_sequence() const {
  std::vector<RegisterWrite> writes;
  // Both cores are clean before one of them starts: they may signal each other at once.
  for (const auto& part : parts_) {
    for (const uint8_t i : part->semaphores()) {
      writes.push_back({core_.semaphore_register(part->part(), contract::sem::kSet, i), 0});
    }
    for (const uint8_t i : part->events()) {
      writes.push_back({core_.semaphore_register(part->part(), contract::sem::kEvent, i), 0});
    }
  }
  for (const contract::Field bit :
       {contract::engine::kControlReset, contract::engine::kControlStart}) {
    for (const EngineImage* image : engines_) {
      const auto engine = static_cast<uint32_t>(image->engine);
      writes.push_back(
          {core_.engine_register(image->part, engine, contract::engine::kControl), bit.mask()});
    }
  }
  return writes;
}

}  // namespace nrt
