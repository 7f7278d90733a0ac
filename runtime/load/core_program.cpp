#include "runtime/load/core_program.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <map>

#include "arch/contract/dge.h"
#include "contract/regs/sem.h"
#include "driver/ndl/ndl.h"
#include "runtime/collectives/ccl.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

using contract::isa::Opcode;
using contract::isa::UpdateOp;
using contract::isa::WaitCond;

constexpr uint64_t kProgramAlignment = 32 * 1024;  // spec/neff.md 5.1

// Bytes from which on a request per copy costs less than memory for all copies.
constexpr size_t kLongRing = 16384;

struct Signals {
  std::bitset<contract::sem::kIncCount> semaphores;
  std::bitset<contract::sem::kEventCount> events;

  void add(const contract::isa::Wait& wait) {
    if (wait.cond == WaitCond::kNone) return;
    const bool event = wait.cond == WaitCond::kEventSet || wait.cond == WaitCond::kEventClear;
    (event ? events : semaphores).set(wait.id);
  }
  void add(const contract::isa::Update& update) {
    if (update.op == UpdateOp::kNone) return;
    const bool event = update.op == UpdateOp::kEventSet || update.op == UpdateOp::kEventClear;
    (event ? events : semaphores).set(update.id);
  }
};

Signals used_signals(const neff::Subgraph& subgraph) {
  Signals used;
  for (const neff::EngineProgram& program : subgraph.programs) {
    for (const neff::ProgramStep& step : program.steps) {
      used.add(step.instruction.wait);
      used.add(step.instruction.read_update);
      used.add(step.instruction.complete_update);
      if (contract::dge::generates(step.instruction.opcode)) {
        used.semaphores.set(contract::dge::transfer_of(step.instruction).semaphore);
      }
    }
    for (const neff::DmaElement& element : program.dma) {
      if (element.semaphore) used.semaphores.set(*element.semaphore);
      if (element.event) used.events.set(*element.event);
    }
    for (const uint8_t i : barrier_semaphores(program)) used.semaphores.set(i);
  }
  return used;
}

// Of a table of DGE's: where a tensor is. Returns where the next entry goes.
uint8_t* store_entry(uint8_t* to, uint64_t address, uint64_t size) {
  base::store<uint64_t>(to, address);
  base::store<uint64_t>(to + 8, size);
  return to + contract::dge::kEntryBytes;
}

}  // namespace

base::Status Ring::create(const std::shared_ptr<Device>& device, const MemoryPlace& place) {
  copies = generated != 0 ? 1 : ccl::ring_copies(period.descriptors.size());
  const uint64_t entries =
      generated != 0 ? generated : static_cast<uint64_t>(period.descriptors.size()) * copies;
  if (entries > contract::ring::kMost) {
    return error(NRT_RESOURCE, "DMA ring size (" + std::to_string(entries) + ") too large");
  }
  MemoryPlace named = place;
  named.addressed = false;  // queues take handles
  auto buffer = DeviceBuffer::allocate(device, entries * sizeof(contract::Descriptor), named);
  if (!buffer) return buffer.error();
  memory = std::move(*buffer);
  length = static_cast<uint32_t>(entries);
  return {};
}

base::Status Ring::upload() {
  const size_t bytes = period.descriptors.size() * sizeof(contract::Descriptor);
  const auto* from = reinterpret_cast<const uint8_t*>(period.descriptors.data());
  if (bytes >= kLongRing) {
    base::Status s;
    for (uint32_t i = 0; i < copies && s.ok(); ++i) {
      s = memory.write_descriptors(i * bytes, {from, bytes}, receive);
    }
    return s;
  }
  std::vector<uint8_t> image;
  image.reserve(bytes * copies);
  for (uint32_t i = 0; i < copies; ++i) image.insert(image.end(), from, from + bytes);
  return memory.write_descriptors(0, image, receive);
}

// ---- Variables ----

base::Status CoreProgram::place_variables() {
  const neff::Subgraph& sg = subgraph_;
  variables_.resize(sg.variables.size());
  buffers_.resize(sg.variables.size());
  if (sg.scratchpad_bytes > 0) {
    auto scratchpad = core_.scratchpad(part_, sg.scratchpad_bytes);
    if (!scratchpad) return scratchpad.error();
    scratchpad_ = *scratchpad;
  }
  for (uint32_t i = 0; i < sg.variables.size(); ++i) {
    if (base::Status s = place_variable(sg.variables[i], i); !s.ok()) return s;
  }
  return {};
}

base::Status CoreProgram::place_variable(const neff::Variable& variable, uint32_t index) {
  uint32_t category = NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE;
  switch (variable.type) {
    case neff::VariableType::kStateBuffer:
      variables_[index].base = core_.map().nc(core_.nc() + part_).device;
      return {};
    case neff::VariableType::kInput:
    case neff::VariableType::kOutput:
      variables_[index].io = true;
      return {};
    case neff::VariableType::kVirtual:
      variables_[index].base = scratchpad_->address() + variable.scratchpad_offset;
      return {};
    case neff::VariableType::kFile:
      category = NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE;
      break;
    case neff::VariableType::kTmpBuf:
      break;
    case neff::VariableType::kPointer:
    case neff::VariableType::kDgeTable:
      category = NEURON_MEMALLOC_TYPE_MISC_DEVICE;
      break;
  }
  auto buffer = DeviceBuffer::allocate(core_.device_ptr(), std::max<uint64_t>(variable.size, 8),
                                       core_.place(category, variable.alignment));
  if (!buffer) return buffer.error();
  buffers_[index] = std::move(*buffer);
  variables_[index].base = buffers_[index].address();
  if (variable.type != neff::VariableType::kFile) return {};
  if (base::Status s = buffers_[index].write(0, variable.content); !s.ok()) return s;
  const uint64_t rest = variable.size - variable.content.size();
  return rest > 0 ? buffers_[index].fill(variable.content.size(), 0, rest) : base::Status();
}

// Pointers and address tables name other variables; those of I/O variables are written by bind().
base::Status CoreProgram::fill_tables() {
  const neff::Subgraph& sg = subgraph_;
  for (uint32_t i = 0; i < sg.variables.size(); ++i) {
    const neff::VariableType type = sg.variables[i].type;
    if (type != neff::VariableType::kPointer && type != neff::VariableType::kDgeTable) continue;
    if (base::Status s = write_table(sg.variables[i], &buffers_[i]); !s.ok()) return s;
  }
  return tensor_table_.valid() ? write_tensor_table() : base::Status();
}

base::Status CoreProgram::place_rank_tables(std::optional<uint32_t> rank) {
  auto tables = make_processing_ranks(core_, subgraph_, rank);
  if (!tables) return tables.error();
  rank_tables_ = std::move(*tables);
  if (rank_tables_.empty()) return {};
  const neff::Variable* named = subgraph_.dge_table();
  const size_t entries = (named == nullptr ? 0 : named->table_var_ids.size()) + rank_tables_.size();
  if (entries > contract::dge::kMostEntries) {
    return error(NRT_RESOURCE,
                 "The dge-table of " + subgraph_.name + " leaves no room for tables of ranks");
  }
  auto buffer = DeviceBuffer::allocate(core_.device_ptr(), entries * contract::dge::kEntryBytes,
                                       core_.place(NEURON_MEMALLOC_TYPE_MISC_DEVICE));
  if (!buffer) return buffer.error();
  tensor_table_ = std::move(*buffer);
  return {};
}

base::Status CoreProgram::write_tensor_table() {
  std::vector<uint8_t> bytes(tensor_table_.size());
  const neff::Variable* named = subgraph_.dge_table();
  if (named != nullptr) store_entries(*named, bytes.data());
  uint8_t* at = bytes.data() + bytes.size() - rank_tables_.size() * contract::dge::kEntryBytes;
  for (const ProcessingRanks& table : rank_tables_) {
    at = store_entry(at, table.memory.address(), table.bytes());
  }
  return tensor_table_.write(0, bytes);
}

base::Status CoreProgram::fill_rank_tables(const Communicator& communicator) {
  for (ProcessingRanks& table : rank_tables_) {
    if (base::Status s = fill_processing_ranks(communicator, &table); !s.ok()) return s;
  }
  return {};
}

void CoreProgram::store_entries(const neff::Variable& table, uint8_t* to) const {
  for (const uint32_t var_id : table.table_var_ids) {
    const neff::Variable* target = subgraph_.find_variable(var_id);
    const auto index = static_cast<size_t>(target - subgraph_.variables.data());
    to = store_entry(to, variables_[index].base, target->size);
  }
}

base::Status CoreProgram::write_table(const neff::Variable& variable, DeviceBuffer* memory) {
  std::vector<uint8_t> bytes(variable.size);
  if (variable.type == neff::VariableType::kPointer) {
    const neff::Variable* target = subgraph_.find_variable(variable.referenced_var_id);
    const auto index = static_cast<size_t>(target - subgraph_.variables.data());
    base::store<uint64_t>(bytes.data(), variables_[index].base);
  } else {
    store_entries(variable, bytes.data());
  }
  return memory->write(0, bytes);
}

// ---- Rings ----

base::Status CoreProgram::build_controls(uint32_t rank) {
  ControlPlace place;
  place.rank = rank;
  uint32_t entry = dge_table().entries - static_cast<uint32_t>(rank_tables_.size());
  for (const ProcessingRanks& table : rank_tables_) {
    place.rank_tables.push_back({table.group_id, table.channel_id, static_cast<uint16_t>(entry++),
                                 static_cast<uint32_t>(table.ranks.size())});
  }
  if (core_.lnc() > 1) {
    const uint32_t other = core_.nc() + 1 - part_;
    place.peer_increment = core_.map().nc_semaphores(other) + contract::sem::kInc;
  }
  return add_controls(subgraph_, place, &replacements_);
}

// One queue set as one engine uses it: its triggers as they run.
struct CoreProgram::QueueUse {
  uint32_t queue_set = 0;
  std::vector<neff::FlowStep> triggers;
};

// Rings are replayed, so what a queue consumes per execution must be known at load: a trigger that
// may run more or less than once is accepted only where the queue has no other.
base::Status CoreProgram::build_rings(uint32_t last_queue) {
  collect_signals();
  for (const neff::EngineProgram& program : subgraph_.programs) {
    std::vector<QueueUse> uses;
    for (const neff::FlowStep& flow : program.flow) {
      if (program.steps[flow.step].instruction.opcode != Opcode::kPseudoDmaTrigger) continue;
      const uint32_t set = program.blocks[flow.block].queue;
      auto use = std::find_if(uses.begin(), uses.end(),
                              [&](const QueueUse& u) { return u.queue_set == set; });
      if (use == uses.end()) use = uses.insert(uses.end(), QueueUse{set, {}});
      use->triggers.push_back(flow);
    }
    for (QueueUse& use : uses) {
      const auto bad = std::find_if(use.triggers.begin(), use.triggers.end(),
                                    [](const neff::FlowStep& f) { return f.repeated; });
      if (use.triggers.size() > 1 && bad != use.triggers.end()) {
        return unsupported(NRT_INVALID, "Queue set " + subgraph_.queues[use.queue_set].name +
                                            " has several triggers and one inside a loop or branch "
                                            "at record " +
                                            std::to_string(program.steps[bad->step].pc));
      }
      if (base::Status s = build_queue(program, &use, last_queue); !s.ok()) return s;
    }
    if (base::Status s = build_generated_queues(program, last_queue); !s.ok()) return s;
    std::vector<Replacement>& list = replacements_[static_cast<size_t>(program.engine)];
    std::sort(list.begin(), list.end(),
              [](const Replacement& a, const Replacement& b) { return a.pc < b.pc; });
  }
  return {};
}

base::Result<uint32_t> CoreProgram::free_queue(uint32_t last_queue) const {
  uint32_t queue = 0;
  for (const HardwareQueue& used : queues_) queue = std::max(queue, used.queue + 1);
  if (queue > last_queue) {
    return error(NRT_RESOURCE, "The program uses more queue sets than there are hardware queues");
  }
  return queue;
}

// Rings that the engine fills: each queue set that its instructions name gets a hardware queue,
// with room for so many of the largest transfers that the ring does not keep the next one waiting:
// they begin dma.t0_ns apart and take two microseconds.
base::Status CoreProgram::build_generated_queues(const neff::EngineProgram& program,
                                                 uint32_t last_queue) {
  namespace dge = contract::dge;
  constexpr uint64_t kInFlight = 8;
  struct Use {
    std::string name;
    uint64_t most = 0;
    std::vector<uint32_t> pcs;
  };
  std::vector<Use> uses;
  for (const neff::ProgramStep& step : program.steps) {
    if (!dge::generates(step.instruction.opcode)) continue;
    const dge::Transfer transfer = dge::transfer_of(step.instruction);
    const std::string& name = program.symbol(transfer.queue);
    auto use = std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.name == name; });
    if (use == uses.end()) use = uses.insert(uses.end(), Use{name, 0, {}});
    use->most = std::max(use->most, dge::most_descriptors(transfer));
    use->pcs.push_back(step.pc);
  }
  for (const Use& use : uses) {
    auto queue = free_queue(last_queue);
    if (!queue) return queue.error();
    if (use.most * kInFlight > contract::ring::kMost) {
      return error(NRT_RESOURCE, "A transfer on queue set " + use.name + " may need " +
                                     std::to_string(use.most) + " descriptors of a ring");
    }
    for (const uint32_t pc : use.pcs) {
      Replacement replacement;
      replacement.pc = pc;
      replacement.queue = *queue;
      replacements_[static_cast<size_t>(program.engine)].push_back(std::move(replacement));
    }
    for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
      HardwareQueue hardware;
      hardware.engine = part_ * contract::kDmaPerNc + e;
      hardware.queue = *queue;
      hardware.s2m.receive = true;
      hardware.m2s.generated = hardware.s2m.generated =
          contract::ring::length_for(static_cast<uint32_t>(use.most * kInFlight));
      queues_.push_back(std::move(hardware));
    }
  }
  return {};
}

TensorTable CoreProgram::table_of(const neff::Variable& variable) const {
  return {variables_[static_cast<size_t>(&variable - subgraph_.variables.data())].base,
          static_cast<uint32_t>(variable.table_var_ids.size())};
}

TensorTable CoreProgram::dge_table() const {
  if (tensor_table_.valid()) {
    return {tensor_table_.address(),
            static_cast<uint32_t>(tensor_table_.size() / contract::dge::kEntryBytes)};
  }
  const neff::Variable* table = subgraph_.dge_table();
  return table == nullptr ? TensorTable() : table_of(*table);
}

TensorTables CoreProgram::tables() const {
  TensorTables tables;
  for (const neff::Variable& variable : subgraph_.variables) {
    if (variable.type != neff::VariableType::kDgeTable) continue;
    tables.emplace(variable.var_id, table_of(variable));
  }
  return tables;
}

base::Status CoreProgram::build_queue(const neff::EngineProgram& program, QueueUse* use,
                                      uint32_t last_queue) {
  const neff::QueueSet& set = subgraph_.queues[use->queue_set];
  auto free = free_queue(last_queue);
  if (!free) return free.error();
  const uint32_t queue = *free;
  const DmaContext context = dma_context();
  const uint32_t first_engine = part_ * contract::kDmaPerNc;
  std::vector<uint64_t> units;
  for (uint32_t e = 0; e < set.num_queues; ++e) {
    units.push_back(core_.map().udma(core_.dma_engine(first_engine + e)).device);
  }
  std::vector<QueueImage> images(set.num_queues);
  std::map<uint32_t, std::vector<DoorbellCounts>> known;  // by step
  for (const neff::FlowStep& flow : use->triggers) {
    std::vector<const neff::DmaElement*> elements;
    for (const uint32_t i : program.blocks[flow.block].elements) {
      elements.push_back(&program.dma[i]);
    }
    auto counts = lower_block(context, elements, &images);
    if (!counts) return counts.error();
    const uint32_t pc = program.steps[flow.step].pc;
    const auto [first, fresh] = known.emplace(flow.step, *counts);
    if (!fresh) {
      if (first->second == *counts) continue;
      return unsupported(NRT_INVALID, "The trigger at record " + std::to_string(pc) +
                                          " starts blocks of different numbers of descriptors");
    }
    replacements_[static_cast<size_t>(program.engine)].push_back(
        {pc,
         to_instructions(
             doorbells(*counts, units, core_.map().broadcast(core_.nc() + part_).device, queue)),
         false});
  }
  for (uint32_t e = 0; e < set.num_queues; ++e) {
    if (images[e].m2s.descriptors.empty()) continue;
    HardwareQueue hardware;
    hardware.engine = first_engine + e;
    hardware.queue = queue;
    hardware.m2s.period = std::move(images[e].m2s);
    hardware.s2m.period = std::move(images[e].s2m);
    hardware.s2m.receive = true;
    queues_.push_back(std::move(hardware));
  }
  return {};
}

DmaContext CoreProgram::dma_context() const {
  const uint32_t nc = core_.nc() + part_;
  DmaContext context;
  context.subgraph = &subgraph_;
  context.variables = variables_;
  context.one_word = core_.one_word();
  context.semaphore_increment = core_.map().nc_semaphores(nc) + contract::sem::kInc;
  if (core_.lnc() > 1) {
    const uint32_t other = core_.nc() + 1 - part_;
    context.remote_increment = core_.map().nc_semaphores(other) + contract::sem::kInc;
  }
  context.events = core_.map().nc_semaphores(nc) + contract::sem::kEvent;
  context.packet_bytes = packet_bytes_from_environment();
  return context;
}

base::Status CoreProgram::create_rings() {
  const MemoryPlace place = core_.place(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE);
  for (HardwareQueue& queue : queues_) {
    for (Ring* ring : {&queue.m2s, &queue.s2m}) {
      if (base::Status s = ring->create(core_.device_ptr(), place); !s.ok()) return s;
      // Rings with I/O references get their addresses, and their place in memory, from bind().
      if (!ring->period.io.empty() || ring->generated != 0) continue;
      if (base::Status s = ring->upload(); !s.ok()) return s;
    }
  }
  return {};
}

// ---- Programs ----

bool CoreProgram::has_engines() const {
  return std::any_of(subgraph_.programs.begin(), subgraph_.programs.end(),
                     [](const neff::EngineProgram& p) { return !p.steps.empty(); });
}

base::Status CoreProgram::build_engines(const Prologue& first) {
  Prologue prologue = first;
  const TensorTables arguments = tables();
  for (const neff::EngineProgram& program : subgraph_.programs) {
    if (program.steps.empty()) continue;
    auto translated =
        translate(program, replacements_[static_cast<size_t>(program.engine)], prologue, arguments);
    if (!translated) return translated.error();
    prologue.leader = false;
    EngineImage image;
    image.part = part_;
    image.engine = program.engine;
    image.uses_tables =
        std::any_of(program.steps.begin(), program.steps.end(), [](const neff::ProgramStep& step) {
          return contract::dge::uses_tables(step.instruction.opcode) ||
                 step.instruction.opcode == Opcode::kGetCurProcessingRankId;
        });
    image.program = std::move(*translated);
    const uint64_t bytes = image.program.records.size() * contract::isa::kRecordBytes;
    auto memory =
        DeviceBuffer::allocate(core_.device_ptr(), bytes,
                               core_.place(NEURON_MEMALLOC_TYPE_CODE_DEVICE, kProgramAlignment));
    if (!memory) return memory.error();
    image.memory = std::move(*memory);
    const base::ConstByteSpan records(image.program.records[0].bytes, bytes);
    if (base::Status s = image.memory.write(0, records); !s.ok()) return s;
    engines_.push_back(std::move(image));
  }
  return {};
}

void CoreProgram::collect_signals() {
  const Signals used = used_signals(subgraph_);
  for (unsigned i = 0; i < used.semaphores.size(); ++i) {
    if (used.semaphores[i]) semaphores_.push_back(static_cast<uint8_t>(i));
    if (used.events[i]) events_.push_back(static_cast<uint8_t>(i));
  }
}

// ---- Before an execution ----

base::Status CoreProgram::rebind(const std::vector<uint64_t>& addresses) {
  for (HardwareQueue& queue : queues_) {
    for (Ring* ring : {&queue.m2s, &queue.s2m}) {
      bool touched = false;
      for (const IoReference& io : ring->period.io) {
        if (addresses[io.variable] == 0) continue;
        ring->period.descriptors[io.descriptor].address = addresses[io.variable] + io.offset;
        touched = true;
      }
      if (!touched) continue;
      if (base::Status s = ring->upload(); !s.ok()) return s;
    }
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] != 0) variables_[i].base = addresses[i];
  }
  return fill_tables();
}

}  // namespace nrt
