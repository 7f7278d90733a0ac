#include "tests/runtime/fake_ndl.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"
#include "arch/contract/isa.h"
#include "arch/contract/notification.h"
#include "contract/regs/engine.h"
#include "contract/regs/sem.h"
#include "driver/ndl/ndl.h"
#include "driver/ndl/nrt/nds/neuron_ds.h"

namespace fake {
namespace {

namespace isa = contract::isa;
constexpr uint32_t kCores = 8;
constexpr uint64_t kBarBase = 0x7700'0000'0000;  // opaque to clients

struct Chunk {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
  bool host = false;
};

struct HalfQueue {
  Chunk* ring = nullptr;
  uint32_t length = 0;
  uint32_t head = 0;
  uint32_t available = 0;
};

struct Engine {
  bool running = false;
  uint64_t program = 0;
  uint32_t pc = 0;
};

struct Ring {
  std::vector<uint8_t> bytes;
  uint32_t at = 0;
  bool phase = true;
};

struct Machine {
  Options options;
  uint64_t next_handle = 1;
  uint64_t next_address[4] = {0, 0, 0, 0};  // past the firmware's part, once used
  uint64_t next_host = 1ull << 46;
  uint64_t allocated = 0;
  std::map<uint64_t, std::unique_ptr<Chunk>> chunks;
  std::map<uint64_t, uint32_t> registers;
  std::vector<std::pair<uint64_t, uint32_t>> writes;
  std::map<std::pair<uint32_t, uint32_t>, HalfQueue> queues[2];  // m2s, s2m by (engine, queue)
  std::map<uint32_t, std::vector<uint8_t>> on_chip;              // SBUF by core
  std::map<std::pair<int, int>, std::unique_ptr<Ring>> rings;    // (type * 256 + block, slot)
  Engine engines[kCores][contract::kEnginesPerNc];
  int32_t semaphores[kCores][256] = {};
  std::set<uint32_t> marked;
  std::map<uint32_t, std::vector<uint32_t>> core_states;
  size_t queue_inits = 0;
  size_t uploads = 0;
  uint64_t time = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> counters;
  std::map<uint32_t, uint64_t> device_counters;
  std::map<int, std::string> labels;  // by type of object
};

// An object of the datastore, of whichever type.
struct PublishedObject {
  int type;
  nds_process_info_t process;
  nds_process_info_ext_t extended;
};

Machine* machine = new Machine;
std::recursive_mutex guard;

contract::AddressMap map() {
  return {machine->options.gen};
}

Chunk* find(uint64_t handle) {
  const auto at = machine->chunks.find(handle);
  return at == machine->chunks.end() ? nullptr : at->second.get();
}

uint8_t* memory_at(uint64_t address, uint64_t size) {
  for (auto& [handle, chunk] : machine->chunks) {
    if (address >= chunk->address && address + size <= chunk->address + chunk->bytes.size()) {
      return chunk->bytes.data() + (address - chunk->address);
    }
  }
  for (uint32_t nc = 0; nc < map().ncs(); ++nc) {
    const uint64_t base = map().nc(nc).device;
    if (address < base || address >= base + contract::tpb::kSbufWindow) continue;
    std::vector<uint8_t>& sbuf = machine->on_chip[nc];
    sbuf.resize(contract::tpb::kSbufWindow);
    return sbuf.data() + (address - base);
  }
  return nullptr;
}

void post(uint32_t nc, uint32_t engine, contract::NqType type, uint32_t payload, uint32_t pc) {
  Ring& ring = *machine->rings.at(
      {NQ_DEV_TYPE_NEURON_CORE * 256 + static_cast<int>(nc), static_cast<int>(engine)});
  contract::NqEntry entry;
  entry.header = contract::NqEntry::make_header(type, engine, ring.phase);
  entry.payload = payload;
  entry.timestamp = machine->time += 1000;
  entry.pc = pc;
  std::memcpy(ring.bytes.data() + ring.at, &entry, sizeof entry);
  ring.at += sizeof entry;
  if (ring.at == ring.bytes.size()) {
    ring.at = 0;
    ring.phase = !ring.phase;
  }
}

// A 32-bit store to a device address: semaphores, doorbells, memory.
void store(uint64_t address, uint32_t value);

void ring_doorbell(uint32_t engine, uint64_t offset, uint32_t count) {
  const bool s2m = offset >= contract::kS2mOffset;
  const uint64_t in = offset - (s2m ? contract::kS2mOffset : 0);
  const auto queue = static_cast<uint32_t>(in / 0x1000 - 1);
  machine->queues[s2m ? 1 : 0][{engine, queue}].available += count;
}

void store(uint64_t address, uint32_t value) {
  for (uint32_t nc = 0; nc < map().ncs(); ++nc) {
    const uint64_t block = map().nc_semaphores(nc);
    if (address >= block && address < block + contract::kSemaphoreBlock) {
      const uint64_t alias = (address - block) & ~uint64_t{0x3FF};
      int32_t& semaphore = machine->semaphores[nc][(address - block) % 0x400 / 4];
      if (alias == contract::sem::kSet) semaphore = static_cast<int32_t>(value);
      if (alias == contract::sem::kInc) semaphore += static_cast<int32_t>(value);
      if (alias == contract::sem::kDec) semaphore -= static_cast<int32_t>(value);
      return;
    }
    const contract::Window broadcast = map().broadcast(nc);
    if (address >= broadcast.device && address < broadcast.device + broadcast.size) {
      for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
        ring_doorbell(nc * contract::kDmaPerNc + e, address - broadcast.device, value);
      }
      return;
    }
  }
  for (uint32_t e = 0; e < map().compute_engines(); ++e) {
    const contract::Window unit = map().udma(e);
    if (address >= unit.device && address < unit.device + unit.size) {
      ring_doorbell(e, address - unit.device, value);
      return;
    }
  }
  if (uint8_t* at = memory_at(address, 4)) std::memcpy(at, &value, 4);
}

contract::Descriptor take(HalfQueue* queue) {
  contract::Descriptor d;
  std::memcpy(&d, queue->ring->bytes.data() + queue->head * sizeof d, sizeof d);
  queue->head = (queue->head + 1) % queue->length;
  --queue->available;
  return d;
}

// Moves one packet of plain copies; false if there is none. The rings are trusted to be
// well-formed.
bool move_packet(HalfQueue* m2s, HalfQueue* s2m) {
  if (m2s->available == 0 || s2m->available == 0) return false;
  std::vector<uint8_t> stream;
  for (bool last = false; !last;) {
    const contract::Descriptor d = take(m2s);
    const uint32_t n = contract::desc::length(d.w0);
    const uint8_t* from = memory_at(d.address, n);
    stream.insert(stream.end(), from, from + n);
    last = (d.w0 & contract::desc::kLast) != 0;
  }
  for (size_t at = 0; at < stream.size();) {
    const contract::Descriptor d = take(s2m);
    const uint32_t n = contract::desc::length(d.w0);
    if (uint8_t* to = memory_at(d.address, n)) {
      std::memcpy(to, stream.data() + at, n);
    } else {
      uint32_t word = 0;
      std::memcpy(&word, stream.data() + at, sizeof word);
      store(d.address, word);
    }
    at += n;
  }
  return true;
}

bool satisfied(uint32_t nc, const isa::Wait& wait) {
  const int32_t value = machine->semaphores[nc][wait.id];
  return wait.cond == isa::WaitCond::kNone ||
         (wait.cond == isa::WaitCond::kGe && value >= static_cast<int32_t>(wait.value));
}

void add_tensors(uint32_t nc, const isa::TensorTensor& op) {
  const uint64_t sbuf = map().nc(nc).device;
  for (uint32_t p = 0; p < op.partitions; ++p) {
    for (uint32_t i = 0; i < op.dst.dims[0].count; ++i) {
      const auto at = [&](const isa::TensorOperand& t) {
        return reinterpret_cast<float*>(
            memory_at(sbuf + p * contract::tpb::kPartitionStride + t.byte_offset + 4 * i, 4));
      };
      *at(op.dst) = *at(op.src0) + *at(op.src1);
    }
  }
}

// Executes one instruction; false if the engine is stopped or waits.
bool step(uint32_t nc, uint32_t index) {
  Engine& engine = machine->engines[nc][index];
  if (!engine.running) return false;
  const uint8_t* record = memory_at(engine.program + engine.pc * isa::kRecordBytes, 128);
  size_t room = 128;
  if (record == nullptr) {
    record = memory_at(engine.program + engine.pc * isa::kRecordBytes, room = 64);
  }
  isa::Instruction in;
  if (isa::decode(record, room, &in) != isa::DecodeError::kNone || !satisfied(nc, in.wait)) {
    return false;
  }
  switch (in.opcode) {
    case isa::Opcode::kWrite:
      store(in.operands.write.dst0, in.operands.write.data0);
      if (in.operands.write.size1 != 0) store(in.operands.write.dst1, in.operands.write.data1);
      break;
    case isa::Opcode::kNotify:
      post(nc, index, contract::NqType::kNotify, in.operands.notify.payload, engine.pc);
      break;
    case isa::Opcode::kTensorTensor:
      add_tensors(nc, in.operands.tensor_tensor);
      break;
    case isa::Opcode::kHalt:
      engine.running = false;
      break;
    default:
      break;
  }
  if (in.complete_update.op == isa::UpdateOp::kInc)
    ++machine->semaphores[nc][in.complete_update.id];
  engine.pc += in.records();
  return true;
}

void run() {
  if (machine->options.hang) return;
  for (bool progress = true; progress;) {
    progress = false;
    for (uint32_t nc = 0; nc < map().ncs(); ++nc) {
      for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
        while (step(nc, e)) progress = true;
      }
    }
    for (auto& [key, m2s] : machine->queues[0]) {
      while (move_packet(&m2s, &machine->queues[1][key])) progress = true;
    }
  }
}

void write_register(uint64_t bar0, uint32_t value) {
  machine->writes.push_back({bar0, value});
  machine->registers[bar0] = value;
  for (uint32_t nc = 0; nc < map().ncs(); ++nc) {
    const uint64_t base = map().nc(nc).bar0;
    for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
      const uint64_t block = base + contract::tpb::kEngine + e * contract::tpb::kEngineStride;
      Engine& engine = machine->engines[nc][e];
      if (bar0 == block + contract::engine::kProgramLo) {
        engine.program = (engine.program & ~0xFFFFFFFFull) | value;
      }
      if (bar0 == block + contract::engine::kProgramHi) {
        engine.program = (engine.program & 0xFFFFFFFFull) | static_cast<uint64_t>(value) << 32;
      }
      if (bar0 != block + contract::engine::kControl) continue;
      if (contract::engine::kControlReset.get(value) != 0) engine.pc = 0;
      if (contract::engine::kControlStart.get(value) == 0) continue;
      engine.running = true;
      if (machine->options.error_engine == static_cast<int>(e)) {
        engine.running = false;
        post(nc, e, contract::NqType::kError, machine->options.error_code, 1);
      }
    }
    const uint64_t block = base + contract::tpb::kSemaphores;
    if (bar0 >= block && bar0 < block + contract::kSemaphoreBlock) {
      store(map().nc_semaphores(nc) + (bar0 - block), value);
    }
  }
}

}  // namespace

void reset(const Options& o) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  delete machine;
  machine = new Machine;
  machine->options = o;
}
Options& options() {
  return machine->options;
}
uint32_t busy_cores() {
  return static_cast<uint32_t>(machine->marked.size());
}
std::vector<uint32_t> core_states(uint32_t nc) {
  return machine->core_states[nc];
}
size_t live_chunks() {
  return machine->chunks.size();
}
size_t queue_inits() {
  return machine->queue_inits;
}
size_t descriptor_uploads() {
  return machine->uploads;
}
const std::vector<std::pair<uint64_t, uint32_t>>& writes() {
  return machine->writes;
}
uint32_t register_value(uint64_t bar0) {
  return machine->registers[bar0];
}
uint64_t counter(uint32_t core, uint32_t index) {
  return machine->counters[{core, index}];
}
uint64_t device_counter(uint32_t index) {
  return machine->device_counters[index];
}
std::string label(int object_type) {
  const auto found = machine->labels.find(object_type);
  return found == machine->labels.end() ? "" : found->second;
}
void mark_core_busy(uint32_t core) {
  machine->marked.insert(core);
}

namespace {

int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace
}  // namespace fake

using fake::fail;
using fake::guard;
using fake::machine;
using fake::PublishedObject;
using Lock = std::lock_guard<std::recursive_mutex>;

extern "C" {

int ndl_get_version(ndl_version_info_t* version) {
  if (!machine->options.driver_present) return -1;
  *version = {};
  version->driver_major_version = 2;
  version->driver_minor_version = 26;
  return 0;
}
int ndl_get_compatible_version(uint32_t* min, uint32_t* max) {
  *min = 5;
  *max = machine->options.gen == contract::Gen::kV2 ? 7 : 11;
  return 0;
}
int ndl_available_devices(int*, int) {
  return machine->options.driver_present ? machine->options.devices : 0;
}
int ndl_get_board_info(uint32_t* architecture, uint32_t* revision) {
  *architecture = static_cast<uint32_t>(machine->options.gen);
  *revision = 1;
  return 0;
}
int ndl_open_device(int index, ndl_device_init_param_t*, ndl_device_t** device) {
  if (index >= machine->options.devices) return fail(ENOENT);
  auto* d = static_cast<ndl_device_t*>(std::calloc(1, sizeof(ndl_device_t) + 64));
  d->device_index = static_cast<uint8_t>(index);
  d->device_type = static_cast<uint8_t>(machine->options.gen);
  d->csr_base[0] = fake::kBarBase;
  *device = d;
  return 0;
}
int ndl_close_device(ndl_device_t* device) {
  const Lock lock(guard);
  std::free(device);
  machine->chunks.clear();
  machine->rings.clear();
  machine->allocated = 0;
  return 0;
}
void ndl_device_cached_fd_close_all(void) {}
int ndl_get_host_device_id(ndl_device_t* device, uint32_t* id) {
  *id = device->device_index;
  return 0;
}
int ndl_get_host_device_id_to_rid_map(uint32_t* count, uint32_t* map) {
  if (*count < 1) return fail(EINVAL);
  *count = 1;
  map[0] = 0;
  return 0;
}
int ndl_pod_status(uint8_t*, uint32_t*, uint32_t*, uint32_t*, int*, enum neuron_ultraserver_mode*,
                   uint32_t*) {
  return fail(EINVAL);
}
int ndl_get_logical_to_physical_nc_map(struct neuron_ioctl_nc_map* map, uint32_t max,
                                       enum neuron_ioctl_nc_mapping_type) {
  if (machine->options.gen == contract::Gen::kV2) return fail(524);
  constexpr uint32_t kOrder[] = {4, 5, 6, 7, 2, 3, 0, 1};  // spec/hw-registers.md 1.6, device 0
  map->num_entries = max;
  for (uint32_t i = 0; i < max; ++i) map->mappings[i] = {i / 8, kOrder[i % 8]};
  return 0;
}
int ndl_bar_write(ndl_device_t*, uint8_t, uint64_t* addresses, uint32_t count, uint32_t* data) {
  const Lock lock(guard);
  for (uint32_t i = 0; i < count; ++i) fake::write_register(addresses[i] - fake::kBarBase, data[i]);
  fake::run();
  return 0;
}
int ndl_bar_read(ndl_device_t*, uint8_t, uint64_t* addresses, uint32_t count, uint32_t* buffer) {
  const Lock lock(guard);
  if (count > 100) return fail(EINVAL);
  for (uint32_t i = 0; i < count; ++i) {
    buffer[i] = machine->registers[addresses[i] - fake::kBarBase];
  }
  return 0;
}
int ndl_memory_alloc(ndl_device_t*, size_t size, uint64_t, uint32_t host, uint32_t channel,
                     uint32_t, uint32_t, uint32_t, uint64_t* handle) {
  const Lock lock(guard);
  if (channel >= fake::map().hbms()) return fail(EINVAL);
  if (machine->allocated + size > machine->options.memory_limit) return fail(ENOMEM);
  machine->allocated += size;
  auto chunk = std::make_unique<fake::Chunk>();
  chunk->bytes.assign(size, 0xCD);  // nothing is zeroed for anybody
  chunk->host = host != 0;
  uint64_t& next = host != 0 ? machine->next_host : machine->next_address[channel];
  if (next == 0) next = fake::map().hbm_base(channel) + contract::kFirmwareReserved;
  chunk->address = next;
  next += (size + 0xFFFF) & ~uint64_t{0xFFFF};
  *handle = machine->next_handle++;
  machine->chunks[*handle] = std::move(chunk);
  return 0;
}
int ndl_memory_free(uint64_t handle) {
  const Lock lock(guard);
  const fake::Chunk* chunk = fake::find(handle);
  if (chunk == nullptr) return fail(EINVAL);
  machine->allocated -= chunk->bytes.size();
  machine->chunks.erase(handle);
  return 0;
}
int ndl_memory_get_pa(uint64_t handle, uint64_t* pa) {
  const Lock lock(guard);
  *pa = fake::find(handle)->address;
  return 0;
}
int ndl_memory_map(uint64_t handle, void** va) {
  const Lock lock(guard);
  *va = fake::find(handle)->bytes.data();
  return 0;
}
int ndl_memory_buf_copyin(uint64_t handle, void* buffer, uint64_t offset, size_t size) {
  const Lock lock(guard);
  fake::Chunk* chunk = fake::find(handle);
  if (chunk == nullptr || offset + size > chunk->bytes.size()) return fail(EINVAL);
  std::memcpy(chunk->bytes.data() + offset, buffer, size);
  return 0;
}
int ndl_memory_buf_copyout(uint64_t handle, void* buffer, uint64_t offset, size_t size) {
  const Lock lock(guard);
  fake::Chunk* chunk = fake::find(handle);
  if (chunk == nullptr || offset + size > chunk->bytes.size()) return fail(EINVAL);
  std::memcpy(buffer, chunk->bytes.data() + offset, size);
  return 0;
}
int ndl_memory_copy(uint64_t from, uint64_t to, uint64_t from_offset, uint64_t to_offset,
                    size_t size) {
  const Lock lock(guard);
  std::memcpy(fake::find(to)->bytes.data() + to_offset,
              fake::find(from)->bytes.data() + from_offset, size);
  return 0;
}
int ndl_memset(const uint64_t handle, uint64_t offset, const int value, const size_t size) {
  const Lock lock(guard);
  fake::Chunk* chunk = fake::find(handle);
  if (chunk == nullptr || offset + size > chunk->bytes.size()) return fail(EINVAL);
  std::memset(chunk->bytes.data() + offset, value, size);
  return 0;
}
int ndl_dma_copy_descriptors(uint64_t handle, void* buffer, uint64_t offset, uint32_t count,
                             enum neuron_dma_queue_type) {
  const Lock lock(guard);
  ++machine->uploads;
  return ndl_memory_buf_copyin(handle, buffer, offset, count * sizeof(contract::Descriptor));
}
int ndl_dma_queue_init_batch(int, struct ndl_queue_init_batch* batch) {
  const Lock lock(guard);
  for (uint32_t i = 0; i < batch->count; ++i) {
    const ndl_queue_init& e = batch->entries[i];
    for (const uint32_t count : {e.tx_desc_count, e.rx_desc_count}) {
      if (count % 16 != 0) return fail(EPERM);
      if (count < 32) return fail(EINVAL);
    }
    machine->queues[0][{e.eng_id, e.qid}] = {fake::find(e.tx_handle), e.tx_desc_count, 0, 0};
    machine->queues[1][{e.eng_id, e.qid}] = {fake::find(e.rx_handle), e.rx_desc_count, 0, 0};
    ++machine->queue_inits;
  }
  return 0;
}
int ndl_dma_eng_get_state(int, uint32_t engine, struct neuron_dma_eng_state* state) {
  *state = {4, 16, 16, 1, 1};
  if (machine->options.dma_abort && engine == 0) state->tx_state = 3;
  return 0;
}
int ndl_reset_ncs(int, int, uint32_t* request) {
  *request = 1;
  return 0;
}
int ndl_ready_ncs(int, uint32_t, uint8_t* result) {
  *result = 1;
  return 0;
}
int ndl_nc_init_set_state(ndl_device_t*, uint32_t nc, uint32_t state, uint32_t* new_state) {
  const Lock lock(guard);
  machine->core_states[nc].push_back(state);
  *new_state = state;
  return 0;
}
int ndl_notification_init_with_realloc(ndl_device_t*, int block, ndl_nq_dev_t type, uint8_t,
                                       uint8_t slot, uint32_t size, bool, uint32_t, uint32_t, bool,
                                       uint64_t* context) {
  const Lock lock(guard);
  auto ring = std::make_unique<fake::Ring>();
  ring->bytes.assign(size, 0);
  *context = reinterpret_cast<uint64_t>(ring.get());
  machine->rings[{static_cast<int>(type) * 256 + block, slot}] = std::move(ring);
  return 0;
}
int ndl_notification_map(uint64_t context, void** va) {
  *va = reinterpret_cast<fake::Ring*>(context)->bytes.data();
  return 0;
}
int ndl_notification_destroy(uint64_t) {
  return 0;
}
int ndl_crwl_nc_range_mark(uint32_t count, uint32_t start, uint32_t end, uint32_t* available,
                           uint64_t* bitmap, size_t) {
  const Lock lock(guard);
  uint32_t run = 0;
  *available = 0;
  for (uint32_t i = start; i <= end; ++i) {
    run = machine->marked.count(i) != 0 ? 0 : run + 1;
    *available = std::max(*available, run);
    if (run != count) continue;
    for (uint32_t c = i + 1 - count; c <= i; ++c) {
      machine->marked.insert(c);
      nbitmap_set_bit(c, bitmap);
    }
    return 0;
  }
  return fail(EBUSY);
}
int ndl_crwl_nc_range_unmark(uint64_t* bitmap, size_t) {
  const Lock lock(guard);
  for (uint32_t c = 0; c < 512; ++c) {
    if (nbitmap_test_bit(c, bitmap) != 0) machine->marked.erase(c);
  }
  return 0;
}
int ndl_crwl_reader_exit(ndl_device_t*, int, struct neuron_uuid) {
  return 0;
}
int ndl_crwl_writer_enter(ndl_device_t*, int, struct neuron_uuid) {
  return 0;
}
int ndl_crwl_writer_downgrade(ndl_device_t*, int, struct neuron_uuid) {
  return 0;
}
int nds_open(ndl_device_t*, pid_t, nds_instance_t** instance) {
  *instance = reinterpret_cast<nds_instance_t*>(machine);
  return 0;
}
int nds_close(nds_instance_t*) {
  return 0;
}
int nds_increment_nc_counter(nds_instance_t*, int core, uint32_t index, uint64_t increment) {
  const Lock lock(guard);
  machine->counters[{static_cast<uint32_t>(core), index}] += increment;
  return 0;
}
int nds_set_nd_counter(nds_instance_t*, uint32_t index, uint64_t* value) {
  const Lock lock(guard);
  machine->device_counters[index] = *value;
  return 0;
}
nds_obj_handle_t nds_obj_new(nds_instance_t*, int type) {
  return new PublishedObject{type, {}, {}};
}
nds_process_info_t* nds_obj_handle_to_process_info(nds_obj_handle_t object) {
  return &static_cast<PublishedObject*>(object)->process;
}
nds_process_info_ext_t* nds_obj_handle_to_process_info_ext(nds_obj_handle_t object) {
  return &static_cast<PublishedObject*>(object)->extended;
}
int nds_obj_commit(nds_obj_handle_t object) {
  const Lock lock(guard);
  const auto* published = static_cast<PublishedObject*>(object);
  const bool extended = published->type == OBJECT_TYPE_PROCESS_INFO_EXT;
  machine->labels[published->type] = extended ? published->extended.tag : published->process.tag;
  return 0;
}
int nds_obj_delete(nds_obj_handle_t object) {
  const Lock lock(guard);
  const auto* published = static_cast<PublishedObject*>(object);
  machine->labels.erase(published->type);
  delete published;
  return 0;
}
int ndl_get_dmabuf_fd(uint64_t, uint64_t, int*) {
  return fail(EPROTONOSUPPORT);
}
int ndl_get_hbm_va(ndl_device_t*, int, void**, size_t*) {
  return -EINVAL;
}
int ndl_get_va_placement(const void*, int*, int*) {
  return fail(ENXIO);
}
int ndl_dump_device_allocation_info(ndl_device_t*, uint32_t,
                                    struct neuron_ioctl_mem_chunk_info* data, uint32_t* count) {
  const Lock lock(guard);
  const bool fits = *count >= machine->chunks.size();
  *count = static_cast<uint32_t>(machine->chunks.size());
  if (!fits) return fail(EAGAIN);
  for (auto& [handle, chunk] : machine->chunks) {
    *data++ = {chunk->address, chunk->bytes.size(), 0};
  }
  return 0;
}

}  // extern "C"
