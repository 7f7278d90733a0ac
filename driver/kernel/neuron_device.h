// One Neuron device as the driver holds it: registers, firmware, memory, DMA, rings, queues, locks
// and attached processes, with its bring-up and process clean-up. Source:
// spec/hw-registers.md 10.1, 10.2, 10.6, 10.7; spec/driver-ioctl.md 1.3 - 1.5.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/kernel/context.h"
#include "driver/kernel/core_locks.h"
#include "driver/kernel/datastore.h"
#include "driver/kernel/dma_engines.h"
#include "driver/kernel/firmware_io.h"
#include "driver/kernel/h2t_ring.h"
#include "driver/kernel/hbm_scrub.h"
#include "driver/kernel/memory.h"
#include "driver/kernel/notification_queues.h"
#include "driver/kernel/products.h"
#include "driver/kernel/registers.h"

namespace driver {

struct PciLocation {
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint8_t slot = 0;
  uint8_t function = 0;
  int numa_node = 0;
};

enum class DeviceState : uint8_t { kReset = 0, kReady = 1, kInvalid = 2 };

// A client mapping of device memory or of a register window (spec/driver-ioctl.md 4.3).
struct MappingRecord {
  uint64_t va = 0;
  uint64_t length = 0;
  bool device_chunk = false;
  uint64_t pa = 0;
  uint32_t hbm = 0;
};

struct Process {
  int32_t tgid = 0;  // 0 = free entry
  uint32_t opens = 0;
  ProcessCharge charge;  // not reset when the entry is reused (spec/driver-ioctl.md 3.1.8)
  std::vector<MappingRecord> mappings;
};

class ResetManager;

class NeuronDevice {
 public:
  NeuronDevice(const Context& context, pcie::Device& device, const PciLocation& location,
               const Product& product, uint8_t revision);
  ~NeuronDevice();
  NeuronDevice(const NeuronDevice&) = delete;
  NeuronDevice& operator=(const NeuronDevice&) = delete;

  // spec/hw-registers.md 10.1 steps 4 to 8 without the reset; false when the device does not come
  // up.
  bool probe(bool read_routing_id = true);

  // What the tables of the product and the revision id say.
  const Context& context() const { return context_; }
  const Dhal& dhal() const { return *product_.dhal; }
  const Product& product() const { return product_; }
  const PciLocation& location() const { return location_; }
  pcie::Device& pci() const { return registers_.device(); }
  uint8_t revision() const { return revision_; }
  bool qemu() const { return revision_ == kRevisionQemu; }
  bool emulator() const { return revision_ == kRevisionEmulator; }
  uint32_t nc_count() const;       // cores per device as reported
  uint32_t active_nc_map() const;  // cores in use
  uint32_t routing_id() const { return routing_id_; }
  uint32_t index() const { return index_; }
  void set_index(uint32_t index) { index_ = index; }
  // The base that clients add register offsets to (DEVICE_INFO). Opaque to them; on a real host a
  // kernel address, so one that no client can map.
  uint64_t bar_cookie() const { return 0xffff'a000'0000'0000 + (uint64_t{index_} << 36); }
  uint64_t bar4_offset(uint64_t pa) const;  // of an HBM address
  std::optional<uint32_t> hbm_of(uint64_t pa) const;
  uint32_t timeout_factor() const;
  bool skips_reset() const {  // initialises engines without asking firmware for a reset
    return context_.params.no_reset || (emulator() && dhal().emulator_skips_reset);
  }

  Registers& registers() { return registers_; }
  FirmwareIo& firmware() { return firmware_; }
  Memory& memory() { return memory_; }
  DmaEngines& engines() { return engines_; }
  NotificationQueues& notifications() { return notifications_; }
  CrwlLocks& crwl() { return crwl_; }
  CoreInitStates& core_init() { return core_init_; }
  Datastore& datastore() { return datastore_; }
  HbmScrub& scrub() { return scrub_; }
  ResetManager& resets() { return *resets_; }

  // A chunk may be charged to any of 8 cores; the copies of those that a device lacks go by its
  // last one.
  H2tRing& default_ring(uint32_t nc) const {
    return *default_rings_[std::min<size_t>(nc, default_rings_.size() - 1)];
  }
  // Ring of the copy queue `queue` of `nc`, default or allocated, or null. A user keeps its share
  // over suspension points: a reset may drop the queue meanwhile.
  std::shared_ptr<H2tRing> copy_ring(uint32_t nc, uint32_t queue) const;
  int allocate_copy_queue(uint32_t nc, uint32_t queue);
  // Releases a queue obtained by allocate_copy_queue or reserved as a service queue.
  void free_extra_queue(uint32_t nc, uint32_t queue);

  // Copies between device addresses on the ring of `nc`; 0 or -errno.
  int copy(uint32_t nc, uint64_t from, uint64_t to, uint64_t bytes);
  int memset(uint32_t nc, uint64_t to, uint8_t value, uint64_t bytes);

  // Attached processes (spec/driver-ioctl.md 1.3, 1.4).
  int attach(int32_t tgid);  // 0 or -EBUSY
  Process* process(int32_t tgid);
  const std::array<Process, uapi::kMaxProcessesPerDevice>& processes() const { return processes_; }
  void detach(int32_t tgid);  // one open less, with clean-up on the last
  void last_close();          // the last open file of the device is gone
  uint32_t open_count = 0;    // normal opens
  TaskMutex node_mutex;       // held over open, flush and release (spec/driver-ioctl.md 2.4)

  DeviceState state = DeviceState::kReset;
  // Called in the reset task after each device reset, before the device is ready.
  std::function<void(bool ok)> after_device_reset;
  std::array<FoldedCounter, uapi::kMaxNcPerDevice> reset_requests{};
  std::array<FoldedCounter, uapi::kMaxNcPerDevice> reset_failures{};

  // Driver DMA state of a core after a reset (spec/hw-registers.md 8.3); `map` is the whole reset.
  int init_core_dma(uint32_t nc, uint32_t map);
  void free_core_rings(uint32_t nc);
  void end_core_reset(uint32_t nc);
  void remove();  // spec/hw-registers.md 10.7, steps 3 to 5

 private:
  void reclaim_queues(int32_t tgid);

  const Context& context_;
  const Product& product_;
  PciLocation location_;
  uint8_t revision_;
  uint32_t routing_id_ = 0;
  uint32_t index_ = 0;
  Registers registers_;
  FirmwareIo firmware_;
  Memory memory_;
  DmaEngines engines_;
  NotificationQueues notifications_;
  CrwlLocks crwl_;
  CoreInitStates core_init_;
  Datastore datastore_;
  HbmScrub scrub_;
  std::vector<std::shared_ptr<H2tRing>> default_rings_;
  std::vector<std::shared_ptr<H2tRing>> extra_rings_;
  std::unique_ptr<ResetManager> resets_;
  Chunk* dummy_ring_ = nullptr;
  Chunk* memset_buffer_ = nullptr;
  TaskMutex memset_mutex_;
  std::array<Process, uapi::kMaxProcessesPerDevice> processes_;
};

}  // namespace driver
