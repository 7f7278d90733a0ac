#include "driver/kernel/neuron_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "contract/regs/misc.h"
#include "driver/kernel/reset_manager.h"

namespace driver {
namespace {

constexpr uint32_t kDummyRingLength = 64;  // spec/driver-ioctl.md 1.5
constexpr uint64_t kMemsetBuffer = 64 * base::kKiB;
constexpr int kRoutingTries = 20;  // spec/hw-registers.md 1.5

// PCI command register (standard configuration header).

int register_bar(const Product& product, uint8_t revision) {
  return revision == kRevisionQemu ? product.dhal->qemu_register_bar : 0;
}

// spec/hw-registers.md 1.2.
uint64_t stack_size(const Product& product, uint8_t revision, const pcie::Device& device) {
  const contract::AddressMap& map = product.dhal->map;
  if (revision == kRevisionQemu && product.dhal->qemu_bar4_sizes_hbm) {
    return device.identity().bar_size[4] / map.hbms();
  }
  return map.hbm_size();
}

}  // namespace

NeuronDevice::NeuronDevice(const Context& context, pcie::Device& device,
                           const PciLocation& location, const Product& product, uint8_t revision)
    : context_(context),
      product_(product),
      location_(location),
      revision_(revision),
      registers_(device, register_bar(product, revision)),
      firmware_(context, *product.dhal, registers_),
      memory_(context, *product.dhal, stack_size(product, revision, device)),
      engines_(*product.dhal, registers_),
      notifications_(context, *product.dhal, registers_, memory_, active_nc_map()),
      crwl_(context),
      core_init_(context),
      datastore_(memory_),
      scrub_(context, *product.dhal, engines_, memory_, timeout_factor()),
      resets_(std::make_unique<ResetManager>(*this)) {
  for (uint32_t n = 0; n < dhal().map.ncs(); ++n) {
    const H2tRing::Id id{n, dhal().map.h2t_engine(n), dhal().map.h2t_queue(n)};
    default_rings_.push_back(
        std::make_shared<H2tRing>(context, dhal(), engines_, memory_, id, timeout_factor()));
  }
}

NeuronDevice::~NeuronDevice() = default;

uint32_t NeuronDevice::nc_count() const {
  const uint32_t all = dhal().map.ncs();
  return emulator() ? std::min(context_.params.nc_per_dev_param, all) : all;
}

uint32_t NeuronDevice::active_nc_map() const {
  const uint32_t all = (1u << dhal().map.ncs()) - 1;
  return emulator() ? context_.params.dev_nc_map & all : all;
}

uint32_t NeuronDevice::timeout_factor() const {
  return qemu() ? dhal().qemu_timeout_factor : emulator() ? dhal().emulator_timeout_factor : 1;
}

std::optional<uint32_t> NeuronDevice::hbm_of(uint64_t pa) const {
  for (uint32_t h = 0; h < dhal().map.hbms(); ++h) {
    const uint64_t base = dhal().map.hbm_base(h);
    if (pa >= base && pa - base < memory_.hbm_size()) return h;
  }
  return std::nullopt;
}

uint64_t NeuronDevice::bar4_offset(uint64_t pa) const {
  const uint32_t h = hbm_of(pa).value_or(0);
  const uint64_t stride =
      qemu() && dhal().qemu_bar4_sizes_hbm ? memory_.hbm_size() : dhal().map.bar4_stride();
  return pa - dhal().map.hbm_base(h) + h * stride;
}

bool NeuronDevice::probe(bool read_routing_id) {
  if (!firmware_.allocate_mailbox()) return false;
  for (int attempt = 0; read_routing_id; ++attempt) {
    if (const auto id = firmware_.read_ready(contract::misc::kRoutingId)) {
      routing_id_ = *id;
      break;
    }
    if (attempt + 1 == kRoutingTries) return false;
    context_.executor.delay(base::kPsPerS);
  }
  AllocRequest request;
  request.host = true;
  request.category = uapi::kMemNcdevHost;
  request.lifespan = Lifespan::kDevice;
  request.size = kDummyRingLength * 16;
  if (memory_.allocate(request, &dummy_ring_) != 0) return false;
  request.size = kMemsetBuffer;
  if (memory_.allocate(request, &memset_buffer_) != 0) return false;
  return datastore_.allocate();
}

int NeuronDevice::init_core_dma(uint32_t nc, uint32_t map) {
  for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
    engines_.init_engine(nc * contract::kDmaPerNc + e);
  }
  // The engine that several cores share is touched only when all of them are reset, through the
  // first (spec/hw-registers.md 3.12).
  const uint32_t sharing = dhal().ncs_per_h2t_engine;
  const uint32_t group = ((1u << sharing) - 1) << (nc / sharing * sharing);
  const uint32_t active = group & active_nc_map();
  if (nc % sharing == 0 && (map & active) == active) {
    engines_.init_engine(dhal().map.h2t_engine(nc));
  }
  H2tRing& ring = *default_rings_[nc];
  if (const int error = ring.allocate_memory(); error != 0) return error;
  return ring.start();
}

void NeuronDevice::free_core_rings(uint32_t nc) {
  default_rings_[nc]->begin_reset();
  default_rings_[nc]->free_memory();
  for (uint32_t q = 0; q < uapi::kQueuesPerEngine; ++q) free_extra_queue(nc, q);
}

void NeuronDevice::end_core_reset(uint32_t nc) {
  default_rings_[nc]->end_reset();
}

std::shared_ptr<H2tRing> NeuronDevice::copy_ring(uint32_t nc, uint32_t queue) const {
  if (nc >= default_rings_.size()) return nullptr;
  if (queue == dhal().map.h2t_queue(nc)) return default_rings_[nc];
  for (const auto& ring : extra_rings_) {
    if (ring->id().nc == nc && ring->id().queue == queue) return ring;
  }
  return nullptr;
}

int NeuronDevice::allocate_copy_queue(uint32_t nc, uint32_t queue) {
  const H2tRing::Id id{nc, dhal().map.h2t_engine(nc), queue};
  auto ring = std::make_shared<H2tRing>(context_, dhal(), engines_, memory_, id, timeout_factor());
  if (const int error = ring->allocate_memory(); error != 0) return error;
  if (const int error = ring->start(); error != 0) return error;
  extra_rings_.push_back(std::move(ring));
  return 0;
}

void NeuronDevice::free_extra_queue(uint32_t nc, uint32_t queue) {
  if (queue == dhal().map.h2t_queue(nc)) return;
  DmaQueue& state = engines_.queue(dhal().map.h2t_engine(nc), queue);
  if (state.use == QueueUse::kClient || state.nc != static_cast<int32_t>(nc)) return;
  state.use = QueueUse::kClient;
  state.nc = -1;
  state.owner = 0;
  for (auto it = extra_rings_.begin(); it != extra_rings_.end(); ++it) {
    if ((*it)->id().nc != nc || (*it)->id().queue != queue) continue;
    (*it)->free_memory();
    extra_rings_.erase(it);
    break;
  }
}

int NeuronDevice::copy(uint32_t nc, uint64_t from, uint64_t to, uint64_t bytes) {
  return bytes == 0 ? 0 : default_ring(nc).copy(from, to, bytes);
}

int NeuronDevice::memset(uint32_t nc, uint64_t to, uint8_t value, uint64_t bytes) {
  if (bytes == 0) return 0;
  TaskLock lock(memset_mutex_, context_.executor);
  std::memset(memory_.host_bytes(*memset_buffer_), value, kMemsetBuffer);
  return default_ring(nc).fill(memset_buffer_->pa, to, bytes);
}

int NeuronDevice::attach(int32_t tgid) {
  Process* entry = process(tgid);
  if (entry == nullptr) entry = process(0);
  if (entry == nullptr) return -EBUSY;
  entry->tgid = tgid;
  ++entry->opens;
  return 0;
}

Process* NeuronDevice::process(int32_t tgid) {
  for (Process& entry : processes_) {
    if (entry.tgid == tgid) return &entry;
  }
  return nullptr;
}

// spec/driver-ioctl.md 1.5.
void NeuronDevice::detach(int32_t tgid) {
  Process* entry = tgid == 0 ? nullptr : process(tgid);
  if (entry == nullptr) return;
  if (entry->opens == 1) {
    const auto id = static_cast<uint32_t>(tgid);
    if (resets_->pending(id)) resets_->collect(id);
    if (context_.params.dma_teardown_on_exit) reclaim_queues(tgid);
    context_.executor.delay(base::ms(10));
    crwl_.release_process(tgid);
    datastore_.release(0, tgid);
    scrub_.release_process(tgid);
    memory_.release_process(tgid, &entry->charge);
    entry->mappings.clear();
  }
  if (--entry->opens == 0) entry->tgid = 0;
}

void NeuronDevice::reclaim_queues(int32_t tgid) {
  const RingSetup dummy{dummy_ring_->pa, kDummyRingLength};
  for (uint32_t e = 0; e < dhal().map.compute_engines(); ++e) {
    for (uint32_t q = 0; q < uapi::kQueuesPerEngine; ++q) {
      DmaQueue& queue = engines_.queue(e, q);
      if (queue.owner != tgid) continue;
      queue.owner = 0;
      if (!dhal().is_nx_ring(e, q)) (void)engines_.init_queue(e, q, dummy, dummy);
    }
  }
}

void NeuronDevice::last_close() {
  datastore_.release_all();
  memory_.release_all_processes();
}

void NeuronDevice::remove() {
  const uint32_t command = pci().config_read(pcie::kCommand, 2);
  pci().config_write(pcie::kCommand, 2, command & ~(pcie::kCommandMaster | pcie::kCommandMemory));
  notifications_.disable_all();
  state = DeviceState::kInvalid;
  context_.executor.wake(&state);
}

}  // namespace driver
