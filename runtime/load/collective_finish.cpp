// Second half of CollectiveSet: what the operations need, lowering, loading. The exchange with the
// peers between them is in collective_exchange.cpp.
#include <algorithm>
#include <cstring>
#include <new>

#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "driver/ndl/ndl.h"
#include "runtime/collectives/schedule/cycles.h"
#include "runtime/load/collective_set.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint64_t kChannelAlignment = 64;

bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

// Length of the shortest part that, repeated, is all of the sequence.
size_t period_of(const std::vector<uint32_t>& sequence) {
  for (size_t period = 1; period < sequence.size(); ++period) {
    if (sequence.size() % period != 0) continue;
    if (std::equal(sequence.begin() + static_cast<ptrdiff_t>(period), sequence.end(),
                   sequence.begin())) {
      return period;
    }
  }
  return sequence.size();
}

}  // namespace

base::Status CollectiveSet::finish() {
  if (finished_) return {};
  if (!failure_.ok()) return failure_;
  failure_ = do_finish();
  return failure_;
}

base::Status CollectiveSet::do_finish() {
  if (base::Status s = communicator_->wait_all(); !s.ok()) return s;
  std::vector<std::vector<ccl::RankResources>> by_operation;
  if (base::Status s = exchange(prepare(), &by_operation); !s.ok()) return s;
  if (base::Status s = confirm(load(&by_operation)); !s.ok()) return s;
  finished_ = true;
  return {};
}

// What a rank does once it knows what the others have.
base::Status CollectiveSet::load(std::vector<std::vector<ccl::RankResources>>* by_operation) {
  try {
    if (base::Status s = lower(by_operation); !s.ok()) return s;
    if (base::Status s = make_rings(); !s.ok()) return s;
    if (base::Status s = load_blocks(); !s.ok()) return s;
    if (base::Status s = load_programs(); !s.ok()) return s;
    return load_barrier();
  } catch (const std::bad_alloc&) {  // peers are to hear of it
    return error(NRT_RESOURCE, "Out of host memory", base::Fault::kResource);
  }
}

// What a rank does before it says what it has.
base::Status CollectiveSet::prepare() {
  if (base::Status s = make_groups(); !s.ok()) return s;
  if (base::Status s = choose_rings(); !s.ok()) return s;
  if (base::Status s = read_overrides(); !s.ok()) return s;
  for (Operation& operation : operations_) {
    if (base::Status s = make_resources(&operation); !s.ok()) return s;
    if (base::Status s = choose(&operation); !s.ok()) return s;
  }
  if (base::Status s = allocate_semaphores(); !s.ok()) return s;
  if (base::Status s = allocate_channels(); !s.ok()) return s;
  return allocate_blocks();
}

base::Status CollectiveSet::make_groups() {
  for (Group& group : groups_) {
    auto members = communicator_->group(group.ranks);
    if (!members) return members.error();
    group.members = std::move(*members);
  }
  return {};
}

// Implicit permutes: along the ring of their channel.
base::Status CollectiveSet::choose_rings() {
  for (Operation& operation : operations_) {
    const neff::CollectiveOp& op = *operation.op;
    if (op.type != neff::CollectiveType::kPermuteImplicit &&
        op.type != neff::CollectiveType::kPermuteReduceImplicit) {
      continue;
    }
    auto pairs = ccl::ring_pairs(groups_[operation.group].members, op.channel_id);
    if (!pairs) return pairs.error();
    operation.request.pairs = std::move(*pairs);
  }
  return {};
}

base::Status CollectiveSet::make_resources(Operation* operation) {
  const neff::CollectiveOp& op = *operation->op;
  const Stream& stream = streams_[op.stream_id];
  ccl::RankResources& r = operation->resources;
  r.gen = core_.map().gen;
  r.global_rank = communicator_->rank();
  r.chip = core_.device().chip();
  r.nc = core_.nc();
  r.lnc = core_.lnc();
  r.cc_count = static_cast<uint32_t>(stream.cc.size());
  for (uint32_t slot = 0; slot < r.cc_count; ++slot) {
    r.cc[slot].index = stream_core(op.stream_id, slot).index;
  }
  r.queue = lane(op).queue;
  r.weights = core_.weights();
  if (operation->request.kind == ccl::OpKind::kBarrier) return {};
  if (op.second_source) {
    r.second = program_.variables()[*op.second_source].base + op.second_source_offset;
  }
  r.src = program_.variables()[op.source].base + op.source_offset;
  r.dst = program_.variables()[op.destination].base + op.destination_offset;
  if (op.metadata) {
    r.metadata = program_.variables()[*op.metadata].base;
    r.block_queue = lane(op).block_queue;
    if (r.metadata % sizeof(uint32_t) != 0) {
      return error(NRT_INVALID, "The metadata tensor of a collective is not aligned to its words");
    }
  }
  if (op.type == neff::CollectiveType::kSendRecv &&
      overlap(r.src, op.source_bytes, r.dst, op.destination_bytes)) {
    return error(NRT_INVALID, "Source and destination of SEND_RECV overlap");
  }
  return {};
}

// What the operation needs, the same on all ranks: they run one program, so buffers overlap on all
// or none, except inputs and outputs, which each rank binds as it likes.
base::Status CollectiveSet::choose(Operation* operation) {
  const Group& group = groups_[operation->group];
  const ccl::RankResources& r = operation->resources;
  const ccl::OpRequest& request = operation->request;
  const neff::CollectiveOp& op = *operation->op;
  const ccl::PlanOptions options = plan_options(group.stream);
  const bool in_place = ccl::tensors_overlap(request, r);
  auto needs = ccl::needs(request, group.members, in_place, r.cc_count, options);
  if (!needs) return needs.error();
  operation->needs = std::move(*needs);
  const std::vector<VariableAddress>& variables = program_.variables();
  if (request.kind == ccl::OpKind::kBarrier) return {};
  if (!variables[op.source].io || !variables[op.destination].io) return {};
  const auto other = ccl::needs(request, group.members, !in_place, r.cc_count, options);
  if (!other) return {};
  ccl::Needs& both = operation->needs;
  both.channel_bytes = std::max(both.channel_bytes, other->channel_bytes);
  both.signals = std::max(both.signals, other->signals);
  both.completions = std::max(both.completions, other->completions);
  both.signature =
      in_place ? other->signature + "|" + both.signature : both.signature + "|" + other->signature;
  return {};
}

CollectiveSet::Semaphores& CollectiveSet::semaphores_of(const Operation& operation) {
  for (Semaphores& s : semaphores_) {
    if (s.group == operation.group && s.signature == operation.needs.signature) return s;
  }
  Semaphores made;
  made.group = operation.group;
  made.signature = operation.needs.signature;
  made.stream = operation.op->stream_id;
  semaphores_.push_back(made);
  return semaphores_.back();
}

base::Status CollectiveSet::allocate(Semaphores* semaphores) {
  const auto cores = static_cast<uint32_t>(streams_[semaphores->stream].cc.size());
  for (uint32_t slot = 0; slot < cores && semaphores->count != 0; ++slot) {
    RangeAllocator& allocator = stream_core(semaphores->stream, slot).semaphores;
    const uint32_t base = allocator.allocate(semaphores->count);
    if (base == allocator.size()) {
      return error(NRT_RESOURCE, "The CC-core has no semaphores left for another communicator");
    }
    semaphores->base[slot] = base;
    semaphores->allocated = slot + 1;
  }
  return {};
}

base::Status CollectiveSet::allocate_semaphores() {
  std::vector<Semaphores> completions(streams_.size());
  for (uint32_t s = 0; s < completions.size(); ++s) completions[s].stream = s;
  for (const Operation& operation : operations_) {
    Semaphores& signals = semaphores_of(operation);
    signals.count = std::max(signals.count, operation.needs.signals);
    uint32_t& count = completions[operation.op->stream_id].count;
    count = std::max(count, operation.needs.completions);
  }
  const size_t first = semaphores_.size();
  semaphores_.insert(semaphores_.end(), completions.begin(), completions.end());
  for (Semaphores& s : semaphores_) {
    if (base::Status status = allocate(&s); !status.ok()) return status;
  }
  for (Operation& operation : operations_) {
    ccl::RankResources& r = operation.resources;
    const Semaphores& signals = semaphores_of(operation);
    r.signals = signals.count;
    for (uint32_t slot = 0; slot < r.cc_count; ++slot) {
      r.cc[slot].signal_base = signals.base[slot];
      r.cc[slot].completion_base = semaphores_[first + operation.op->stream_id].base[slot];
    }
  }
  return {};
}

// One per group, for its most demanding operation.
base::Status CollectiveSet::allocate_channels() {
  for (const Operation& operation : operations_) {
    Group& group = groups_[operation.group];
    group.channel_bytes = std::max(group.channel_bytes, operation.needs.channel_bytes);
  }
  for (Group& group : groups_) {
    if (group.channel_bytes == 0) continue;
    auto buffer = DeviceBuffer::allocate(
        core_.device_ptr(), group.channel_bytes,
        core_.place(NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE, kChannelAlignment));
    if (!buffer) return buffer.error();
    group.channel = std::move(*buffer);
  }
  for (Operation& operation : operations_) {
    const Group& group = groups_[operation.group];
    operation.resources.channel_buffer = group.channel.address();
    operation.resources.channel_bytes = group.channel_bytes;
  }
  return {};
}

base::Status CollectiveSet::allocate_blocks() {
  for (Operation& operation : operations_) {
    if (operation.needs.blocks == 0) continue;
    auto buffer = DeviceBuffer::allocate(
        core_.device_ptr(), operation.needs.blocks * sizeof(contract::cc_program::Block),
        core_.place(NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE, kChannelAlignment));
    if (!buffer) return buffer.error();
    operation.blocks = std::move(*buffer);
    operation.resources.blocks = operation.blocks.address();
  }
  return {};
}

base::Status CollectiveSet::lower(std::vector<std::vector<ccl::RankResources>>* by_operation) {
  for (size_t i = 0; i < operations_.size(); ++i) {
    Operation& operation = operations_[i];
    const Group& group = groups_[operation.group];
    std::vector<ccl::RankResources>& members = (*by_operation)[i];
    members[group.own] = operation.resources;
    ccl::PlanOptions options = plan_options(group.stream);
    for (uint32_t slot = 0; slot < operation.resources.cc_count; ++slot) {
      options.triggers[slot] = trigger_word(operation, slot);
    }
    auto lowered = ccl::plan(operation.request, group.members, members, group.own,
                             operation.completion, options);
    if (!lowered) return lowered.error();
    operation.lowered = std::move(*lowered);
    members.clear();
  }
  return {};
}

// Per lane and engine: the operations of one execution one after the other, once as far as they
// repeat.
base::Status CollectiveSet::make_rings() {
  for (const Lane& lane : lanes_) {
    std::vector<uint32_t> sequence;
    for (const uint32_t i : streams_[lane.stream].sequence) {
      if (operations_[i].op->priority == lane.priority) sequence.push_back(i);
    }
    sequence.resize(period_of(sequence));
    for (uint32_t e = 0; e < core_.dma_engines(); ++e) {
      if (base::Status s = make_ring(e, lane, sequence); !s.ok()) return s;
    }
    if (base::Status s = make_block_rings(lane, sequence); !s.ok()) return s;
  }
  for (Operation& operation : operations_) operation.lowered.rings.clear();
  return {};
}

base::Status CollectiveSet::make_ring(uint32_t engine, const Lane& lane,
                                      const std::vector<uint32_t>& sequence) {
  HardwareQueue queue;
  queue.engine = engine;
  queue.queue = lane.queue;
  queue.service_class = lane.priority;
  queue.s2m.receive = true;
  for (const uint32_t i : sequence) {
    for (const ccl::EngineRing& ring : operations_[i].lowered.rings) {
      if (ring.engine != engine) continue;
      auto& m2s = queue.m2s.period.descriptors;
      auto& s2m = queue.s2m.period.descriptors;
      m2s.insert(m2s.end(), ring.m2s.begin(), ring.m2s.end());
      s2m.insert(s2m.end(), ring.s2m.begin(), ring.s2m.end());
    }
  }
  if (queue.m2s.period.descriptors.empty()) return {};
  for (Ring* ring : {&queue.m2s, &queue.s2m}) {
    const MemoryPlace place = core_.place(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE);
    if (base::Status st = ring->create(core_.device_ptr(), place); !st.ok()) return st;
    if (base::Status st = ring->upload(); !st.ok()) return st;
    ring->period = {};
  }
  queues_.push_back(std::move(queue));
  return {};
}

// Rings that the CC-cores fill: empty here, as long as the most demanding operation needs.
base::Status CollectiveSet::make_block_rings(const Lane& lane,
                                             const std::vector<uint32_t>& sequence) {
  constexpr uint32_t kMultiple = 16;  // hw-registers.md 3.5
  constexpr uint32_t kLeast = 32;
  std::vector<ccl::BlockRing> rings(core_.dma_engines());
  for (const uint32_t i : sequence) {
    for (const ccl::BlockRing& ring : operations_[i].lowered.block_rings) {
      rings[ring.engine].m2s = std::max(rings[ring.engine].m2s, ring.m2s);
      rings[ring.engine].s2m = std::max(rings[ring.engine].s2m, ring.s2m);
    }
  }
  const auto make = [&](Ring* ring, uint32_t in_flight) {
    ring->length = std::max(kLeast, (in_flight + kMultiple) / kMultiple * kMultiple);
    auto buffer =
        DeviceBuffer::allocate(core_.device_ptr(), ring->length * sizeof(contract::Descriptor),
                               core_.place(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE));
    if (!buffer) return base::Status(buffer.error());
    ring->memory = std::move(*buffer);
    return base::Status();
  };
  for (uint32_t e = 0; e < rings.size(); ++e) {
    if (rings[e].m2s == 0) continue;
    HardwareQueue queue;
    queue.engine = e;
    queue.queue = lane.block_queue;
    queue.service_class = lane.priority;
    queue.s2m.receive = true;
    if (base::Status s = make(&queue.m2s, rings[e].m2s); !s.ok()) return s;
    if (base::Status s = make(&queue.s2m, rings[e].s2m); !s.ok()) return s;
    queues_.push_back(std::move(queue));
  }
  return {};
}

base::Status CollectiveSet::load_blocks() {
  for (Operation& operation : operations_) {
    std::vector<contract::cc_program::Block>& blocks = operation.lowered.blocks;
    if (blocks.empty()) continue;
    const base::ConstByteSpan image{reinterpret_cast<const uint8_t*>(blocks.data()),
                                    blocks.size() * sizeof blocks[0]};
    if (base::Status s = operation.blocks.write(0, image); !s.ok()) return s;
    blocks.clear();
  }
  return {};
}

base::Status CollectiveSet::load_programs() {
  std::vector<RegisterWrite> clears;
  for (const Semaphores& s : semaphores_) {
    for (uint32_t slot = 0; slot < s.allocated; ++slot) {
      const uint64_t block = stream_core(s.stream, slot).window.bar0 + contract::sem::kSet;
      for (uint32_t i = 0; i < s.count; ++i)
        clears.push_back({block + 4ull * (s.base[slot] + i), 0});
    }
  }
  if (base::Status s = core_.device().write_registers(clears); !s.ok()) return s;
  for (Operation& operation : operations_) {
    for (uint32_t slot = 0; slot < operation.resources.cc_count; ++slot) {
      ccl::CcProgram& program = operation.lowered.programs[slot];
      Placed& placed = operation.placed[slot];
      const auto records = static_cast<uint32_t>(program.size());
      if (records == 0) continue;
      base::Status s = place_program(&stream_core(operation.op->stream_id, slot),
                                     std::move(program), placed.op_index, &placed.first_record);
      if (!s.ok()) return s;
      placed.records = records;
    }
  }
  return {};
}

base::Status CollectiveSet::place_program(CcCore* cc, ccl::CcProgram records, uint32_t op_index,
                                          uint32_t* first) {
  const auto count = static_cast<uint32_t>(records.size());
  const uint32_t at = cc->records.allocate(count);
  if (count == 0 || at == cc->records.size()) {
    return error(NRT_RESOURCE, "The CC-core's program memory is full: " + std::to_string(count) +
                                   " records do not fit");
  }
  *first = at;
  ccl::relocate(&records, at);
  // Word by word: the CC-core's window takes 32-bit stores (docs/hardware-contract.md 6).
  constexpr uint32_t kWords = sizeof(contract::cc_program::Record) / sizeof(uint32_t);
  const uint64_t program =
      cc->window.bar0 + contract::topsp::kProgram + at * sizeof(contract::cc_program::Record);
  std::vector<RegisterWrite> writes;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t words[kWords];
    std::memcpy(words, &records[i], sizeof words);
    for (uint32_t w = 0; w < kWords; ++w) {
      writes.push_back({program + (i * kWords + w) * sizeof(uint32_t), words[w]});
    }
  }
  const uint64_t entry = cc->window.bar0 + contract::cc::kOp + op_index * contract::cc::kOpStride;
  writes.push_back({entry + contract::cc::kOpEntry, at});
  writes.push_back({entry + contract::cc::kOpArgument, 0});
  base::Status status = core_.device().write_registers(writes);
  if (!status.ok()) cc->records.release(at, count);
  return status;
}

base::Status CollectiveSet::load_barrier() {
  auto root = communicator_->position(0);
  if (!root) return root.error();
  const contract::AddressMap& map = core_.map();
  // The cell lives in the last CC-core of rank 0's first NeuronCore; the number of members picks
  // it, so worlds of different size use different cells. Those whose sizes differ by a multiple of
  // kBarrierCells share one: if both wait there at once, the CC-core reports an error
  // (docs/hardware-contract.md 5).
  const uint32_t per_nc = map.topsps_per_nc();
  uint64_t cell =
      map.topsp(root->nc * per_nc + per_nc - 1).device + contract::cc::kBarrier +
      (communicator_->world() % contract::cc_program::kBarrierCells) * contract::cc::kBarrierStride;
  if (root->chip != core_.device().chip()) cell = map.peer_address(root->chip, cell);
  ccl::Completion completion;
  completion.address =
      map.nc_semaphores(core_.nc()) + contract::sem::kInc + 4ull * barrier_semaphore_;
  ccl::CcProgram records = ccl::barrier_program(cell, communicator_->world(), completion);
  const auto count = static_cast<uint32_t>(records.size());
  if (base::Status s =
          place_program(&core_.barrier_cc(), std::move(records), barrier_op_, &barrier_first_);
      !s.ok()) {
    return s;
  }
  barrier_records_ = count;
  return {};
}

}  // namespace nrt
