// One logical NeuronCore owned by this process: one or two physical cores with their engines,
// CC-cores and notification rings, the small resources that programs share on it, and which program
// it is set up for. A "part" is a physical core of it, 0 or 1; all parts share one HBM.
// Source of truth: docs/hardware-contract.md 3 to 7, spec/platforms.md 4.1,
// spec/collectives.md 3.3.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "arch/contract/address_map.h"
#include "arch/contract/cc_program.h"
#include "base/error.h"
#include "contract/regs/sem.h"
#include "runtime/exec/device.h"
#include "runtime/exec/notification_queue.h"

namespace nrt {

class LoadedProgram;

// First-fit allocator of small index ranges (CC program records, operations, semaphores); for any
// thread.
class RangeAllocator {
 public:
  explicit RangeAllocator(uint32_t size)
      : mutex_(std::make_unique<std::mutex>()), used_(size, false) {}
  // First index of `count` free ones, or `size` if there are none.
  uint32_t allocate(uint32_t count);
  void release(uint32_t first, uint32_t count);
  uint32_t size() const { return static_cast<uint32_t>(used_.size()); }

 private:
  std::unique_ptr<std::mutex> mutex_;
  std::vector<bool> used_;
};

// A range of an allocator, given back at the end. Of none: holds nothing.
class Claim {
 public:
  Claim() = default;
  // None: there are no `count` free ones in a row. The allocator outlives the claim.
  static std::optional<Claim> take(RangeAllocator* from, uint32_t count);
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim();

  uint32_t first() const { return first_; }

 private:
  Claim(RangeAllocator* from, uint32_t first, uint32_t count)
      : from_(from), first_(first), count_(count) {}

  RangeAllocator* from_ = nullptr;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

struct CcCore {
  uint32_t index = 0;  // software index on the chip
  contract::Window window;
  NotificationQueue queue;
  RangeAllocator records{contract::cc_program::kMaxRecords};
  RangeAllocator operations{contract::cc_program::kOperations};
  RangeAllocator semaphores{contract::sem::kIncCount};
};

struct CorePlace {
  uint32_t index = 0;  // logical core of the chip, as the API counts
  uint32_t nc = 0;     // its first physical core
  uint32_t lnc = 1;    // number of physical cores
};

class Core {
 public:
  // The physical cores are freshly reset (or at least idle); makes rings, starts the CC-cores'
  // firmware. `vnc`: number in this process.
  static base::Result<std::unique_ptr<Core>> bring_up(std::shared_ptr<Device> device,
                                                      const CorePlace& place, uint32_t vnc);

  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& device_ptr() const { return device_; }
  const contract::AddressMap& map() const { return device_->map(); }
  uint32_t nc() const { return place_.nc; }  // the first physical core
  uint32_t lnc() const { return place_.lnc; }
  uint32_t vnc() const { return vnc_; }
  uint32_t index_on_chip() const { return place_.index; }  // logical core
  uint32_t hbm() const { return map().hbm_of_nc(nc()); }
  uint32_t dma_engines() const { return lnc() * contract::kDmaPerNc; }
  // Device id of DMA engine `e` (0..dma_engines()-1) of this core, as the driver counts them.
  uint32_t dma_engine(uint32_t e) const { return nc() * contract::kDmaPerNc + e; }

  NotificationQueue& engine_queue(uint32_t part, uint32_t engine) {
    return parts_[part].queues[engine];
  }
  // CC-cores that streams may use, by software index.
  std::vector<CcCore>& cc_cores() { return cc_cores_; }
  // The one that carries execution barriers: v2 has one that streams do not use, later ones share
  // the first; barriers come first there, because a CC-core runs operations in order.
  CcCore& barrier_cc() { return barrier_cc_ ? *barrier_cc_ : cc_cores_.front(); }
  bool own_barrier_cc() const { return barrier_cc_.has_value(); }
  uint32_t streams() const;
  // Indices in cc_cores() of a stream when `streams_used` of them are in use: one each for the
  // streams above 0, the rest for stream 0 (spec/collectives.md 3.3).
  std::vector<uint32_t> stream_cc(uint32_t stream, uint32_t streams_used) const;

  // Device address of a 4-byte word that holds 1.
  uint64_t one_word() const { return constants_.address(); }
  // Of six such words: 1, 2, 4, 8, 16, 32.
  uint64_t weights() const { return constants_.address(); }

  MemoryPlace place(uint32_t category, uint64_t alignment = 0) const;
  // Scratch memory of at least `bytes`, shared by the programs of one physical core.
  base::Result<std::shared_ptr<DeviceBuffer>> scratchpad(uint32_t part, uint64_t bytes);

  // BAR0 offsets.
  uint64_t engine_register(uint32_t part, uint32_t engine, uint32_t reg) const;
  uint64_t semaphore_register(uint32_t part, uint32_t alias, uint32_t index) const;

  // Held while a program runs or is set up on the core.
  std::mutex& mutex() { return mutex_; }
  LoadedProgram* active = nullptr;    // program whose rings are attached; guarded by mutex()
  std::atomic<bool> unusable{false};  // after a fatal error, until the next nrt_init
  std::atomic<uint32_t> loaded_models{0};
  std::atomic<bool> closing{false};  // the runtime ends: nothing may run without a limit
  // The driver's reader lock that tells who runs what; guarded by mutex().
  bool has_lock = false;
  std::array<uint8_t, 32> lock_uuid{};

 private:
  // What each physical core has.
  struct Part {
    std::array<NotificationQueue, contract::kEnginesPerNc> queues;
    std::shared_ptr<DeviceBuffer> scratchpad;
  };

  Core(std::shared_ptr<Device> device, const CorePlace& place, uint32_t vnc)
      : device_(std::move(device)), place_(place), vnc_(vnc), parts_(place.lnc) {}
  base::Status make_queues();
  base::Result<CcCore> make_cc_core(uint32_t index);
  base::Status make_cc_cores();
  base::Status start_cc_cores();
  base::Status mask_ring_id_checks();
  base::Status make_constants();

  std::shared_ptr<Device> device_;
  CorePlace place_;
  uint32_t vnc_;
  std::mutex mutex_;
  std::vector<Part> parts_;
  std::vector<CcCore> cc_cores_;
  std::optional<CcCore> barrier_cc_;
  DeviceBuffer constants_;
  std::mutex scratchpad_mutex_;
};

}  // namespace nrt
