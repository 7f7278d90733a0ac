#include "runtime/exec/core.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"
#include "driver/ndl/ndl.h"
#include "neff_loader/neff.h"
#include "runtime/collectives/ccl.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// Entries of 32 bytes; an execution's own entries are few, a program's NOTIFYs may be many.
constexpr uint32_t kQueueBytes = 256 * 1024;
constexpr uint64_t kConstantBytes = 4096;
constexpr uint64_t kScratchpadPage = 64ull << 20;  // spec/neff.md 3.13
// Secondary groups A and B of the interrupt block (spec/hw-registers.md 3.9).
constexpr uint64_t kAbortMaskM2s = 0x3A030;
constexpr uint64_t kAbortMaskS2m = 0x3A070;
constexpr uint32_t kRingIdM2s = 1u << 17;
constexpr uint32_t kRingIdS2m = 1u << 11;

}  // namespace

uint32_t RangeAllocator::allocate(uint32_t count) {
  const std::lock_guard<std::mutex> lock(*mutex_);
  uint32_t run = 0;
  for (uint32_t i = 0; i < size() && count != 0; ++i) {
    run = used_[i] ? 0 : run + 1;
    if (run < count) continue;
    const uint32_t first = i + 1 - count;
    std::fill(used_.begin() + first, used_.begin() + first + count, true);
    return first;
  }
  return size();
}

void RangeAllocator::release(uint32_t first, uint32_t count) {
  const std::lock_guard<std::mutex> lock(*mutex_);
  std::fill(used_.begin() + first, used_.begin() + first + count, false);
}

std::optional<Claim> Claim::take(RangeAllocator* from, uint32_t count) {
  const uint32_t first = from->allocate(count);
  if (first == from->size()) return std::nullopt;
  return Claim(from, first, count);
}

Claim::Claim(Claim&& other) noexcept
    : from_(std::exchange(other.from_, nullptr)), first_(other.first_), count_(other.count_) {}

Claim& Claim::operator=(Claim&& other) noexcept {
  std::swap(from_, other.from_);
  std::swap(first_, other.first_);
  std::swap(count_, other.count_);
  return *this;
}

Claim::~Claim() {
  if (from_ != nullptr) from_->release(first_, count_);
}

base::Result<std::unique_ptr<Core>> Core::bring_up(std::shared_ptr<Device> device,
                                                   const CorePlace& place, uint32_t vnc) {
  std::unique_ptr<Core> core(new Core(std::move(device), place, vnc));
  for (auto step : {&Core::make_queues, &Core::make_cc_cores, &Core::mask_ring_id_checks,
                    &Core::make_constants, &Core::start_cc_cores}) {
    if (base::Status status = (core.get()->*step)(); !status.ok()) return status.error();
  }
  return core;
}

base::Status Core::make_queues() {
  for (uint32_t part = 0; part < lnc(); ++part) {
    for (uint32_t engine = 0; engine < contract::kEnginesPerNc; ++engine) {
      auto queue = NotificationQueue::create(device_, NotificationQueue::Owner::kCore, nc() + part,
                                             engine, kQueueBytes);
      if (!queue) return queue.error();
      parts_[part].queues[engine] = std::move(*queue);
    }
  }
  return {};
}

base::Result<CcCore> Core::make_cc_core(uint32_t index) {
  CcCore cc;
  cc.index = index;
  cc.window = map().topsp(index);
  auto queue =
      NotificationQueue::create(device_, NotificationQueue::Owner::kCcCore, index, 0, kQueueBytes);
  if (!queue) return queue.error();
  cc.queue = std::move(*queue);
  return cc;
}

base::Status Core::make_cc_cores() {
  const uint32_t first = nc() * map().topsps_per_nc();
  const uint32_t count = lnc() * map().topsps_per_nc();
  for (uint32_t i = 0; i < count; ++i) {
    auto cc = make_cc_core(first + i);
    if (!cc) return cc.error();
    if (map().v2() && i + 1 == count) {
      barrier_cc_ = std::move(*cc);
    } else {
      cc_cores_.push_back(std::move(*cc));
    }
  }
  return {};
}

base::Status Core::start_cc_cores() {
  std::vector<RegisterWrite> writes;
  const auto start = [&](const CcCore& cc) {
    const uint64_t control = cc.window.bar0 + contract::cc::kControl;
    writes.push_back({control, contract::cc::kControlReset.mask()});
    writes.push_back({control, contract::cc::kControlRun.mask()});
  };
  for (const CcCore& cc : cc_cores_) start(cc);
  if (barrier_cc_) start(*barrier_cc_);
  return device_->write_registers(writes);
}

// Rings are replayed with one ring id (docs/hardware-contract.md 6). From v3 on the driver masks
// the check itself.
base::Status Core::mask_ring_id_checks() {
  if (!map().v2()) return {};
  std::vector<uint64_t> registers;
  for (uint32_t e = 0; e < dma_engines(); ++e) {
    const uint64_t unit = map().udma(dma_engine(e)).bar0;
    registers.push_back(unit + kAbortMaskM2s);
    registers.push_back(unit + kAbortMaskS2m);
  }
  auto values = device_->read_registers(registers);
  if (!values) return values.error();
  std::vector<RegisterWrite> writes;
  for (size_t i = 0; i < registers.size(); ++i) {
    writes.push_back({registers[i], (*values)[i] | (i % 2 == 0 ? kRingIdM2s : kRingIdS2m)});
  }
  return device_->write_registers(writes);
}

base::Status Core::make_constants() {
  auto buffer =
      DeviceBuffer::allocate(device_, kConstantBytes, place(NEURON_MEMALLOC_TYPE_MISC_DEVICE));
  if (!buffer) return buffer.error();
  constants_ = std::move(*buffer);
  constexpr auto words = ccl::weight_rows();
  static_assert(sizeof words <= kConstantBytes);
  std::vector<uint8_t> page(kConstantBytes, 0);
  std::memcpy(page.data(), words.data(), sizeof words);
  return constants_.write(0, page);
}

uint32_t Core::streams() const {
  return std::min(neff::kMaxStreams, static_cast<uint32_t>(cc_cores_.size()));
}

std::vector<uint32_t> Core::stream_cc(uint32_t stream, uint32_t streams_used) const {
  const auto count = static_cast<uint32_t>(cc_cores_.size());
  const uint32_t first_single = count - streams_used + 1;  // CC-core of stream 1
  if (stream > 0) return {first_single + stream - 1};
  std::vector<uint32_t> rest(first_single);
  std::iota(rest.begin(), rest.end(), 0u);
  return rest;
}

MemoryPlace Core::place(uint32_t category, uint64_t alignment) const {
  MemoryPlace place;
  place.nc = nc();
  place.hbm = hbm();
  place.category = category;
  place.alignment = alignment;
  return place;
}

base::Result<std::shared_ptr<DeviceBuffer>> Core::scratchpad(uint32_t part, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(scratchpad_mutex_);
  std::shared_ptr<DeviceBuffer>& current = parts_[part].scratchpad;
  if (current && current->size() >= bytes) return current;
  const uint64_t pages = (bytes + kScratchpadPage - 1) / kScratchpadPage;
  auto buffer = DeviceBuffer::allocate(device_, pages * kScratchpadPage,
                                       place(NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE));
  if (!buffer) return buffer.error();
  // Programs that are loaded keep the smaller one; variables never move.
  current = std::make_shared<DeviceBuffer>(std::move(*buffer));
  return current;
}

uint64_t Core::engine_register(uint32_t part, uint32_t engine, uint32_t reg) const {
  return map().nc(nc() + part).bar0 + contract::tpb::kEngine +
         engine * contract::tpb::kEngineStride + reg;
}

uint64_t Core::semaphore_register(uint32_t part, uint32_t alias, uint32_t index) const {
  return map().nc(nc() + part).bar0 + contract::tpb::kSemaphores + alias + 4 * index;
}

}  // namespace nrt
