#include "driver/kernel/memory.h"

#include <algorithm>
#include <cerrno>

namespace driver {
namespace {

constexpr uint64_t kPage = uapi::kPageSize;
constexpr int kUncategorizedHost = 7;
constexpr int kUncategorizedDevice = 10;
constexpr int kNoDirectory = -1;

// Appendix A: category -> directory of its location; unknown ones fall under "uncategorized", those
// of the other location under none.
int host_directory(uint32_t category) {
  switch (category) {
    case uapi::kMemUnknownDevice:
    case uapi::kMemCodeDevice:
    case uapi::kMemTensorsDevice:
    case uapi::kMemConstantsDevice:
    case uapi::kMemScratchpadDevice:
    case uapi::kMemMiscDevice:
    case uapi::kMemNcdevDevice:
    case uapi::kMemCollectivesDevice:
    case uapi::kMemScratchpadNonsharedDevice:
    case uapi::kMemNotificationDevice:
    case uapi::kMemDmaRingsDevice:
      return kNoDirectory;
    case uapi::kMemCodeHost:
      return 0;
    case uapi::kMemTensorsHost:
      return 1;
    case uapi::kMemConstantsHost:
      return 2;
    case uapi::kMemMiscHost:
      return 3;
    case uapi::kMemNcdevHost:
      return 4;
    case uapi::kMemNotificationHost:
      return 5;
    case uapi::kMemDmaRingsHost:
      return 6;
    default:
      return kUncategorizedHost;
  }
}

int device_directory(uint32_t category) {
  switch (category) {
    case uapi::kMemUnknownHost:
    case uapi::kMemCodeHost:
    case uapi::kMemTensorsHost:
    case uapi::kMemConstantsHost:
    case uapi::kMemMiscHost:
    case uapi::kMemNcdevHost:
    case uapi::kMemNotificationHost:
    case uapi::kMemDmaRingsHost:
      return kNoDirectory;
    case uapi::kMemCodeDevice:
      return 0;
    case uapi::kMemTensorsDevice:
      return 1;
    case uapi::kMemConstantsDevice:
      return 2;
    case uapi::kMemScratchpadDevice:
    case uapi::kMemContiguousScratchpadDevice:
      return 3;
    case uapi::kMemMiscDevice:
      return 4;
    case uapi::kMemNcdevDevice:
      return 5;
    case uapi::kMemCollectivesDevice:
      return 6;
    case uapi::kMemScratchpadNonsharedDevice:
      return 7;
    case uapi::kMemNotificationDevice:
      return 8;
    case uapi::kMemDmaRingsDevice:
      return 9;
    default:
      return kUncategorizedDevice;
  }
}

void count(MemCounter& counter, uint64_t size, bool add) {
  if (size == 0) return;
  ++counter.changes;
  counter.total = add ? counter.total + size : counter.total - std::min(counter.total, size);
  counter.present = size;
  counter.peak = std::max(counter.peak, counter.total);
}

template <size_t kCount>
void count(std::array<MemCounter, kCount>& directories, int directory, uint64_t size, bool add) {
  if (directory != kNoDirectory) count(directories[static_cast<size_t>(directory)], size, add);
}

bool power_of_two(uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

}  // namespace

Memory::Memory(const Context& context, const Dhal& dhal, uint64_t hbm_size)
    : context_(context), dhal_(dhal), hbm_size_(hbm_size), hbms_(dhal.map.hbms()) {
  const Params& params = context.params;
  const uint64_t small = params.mempool_small_pool_size;
  const uint64_t granule = std::max<uint64_t>(1024, params.mempool_min_alloc_size);
  const bool has_small = small != 0 && small < hbm_size && small % granule == 0;
  for (uint32_t h = 0; h < dhal.map.hbms(); ++h) {
    const uint64_t base = dhal.map.hbm_base(h);
    const uint64_t main = has_small ? hbm_size - small : hbm_size;
    hbms_[h].main = FirstFitPool(base, main);
    hbms_[h].small = FirstFitPool(base + main, has_small ? small : 0);
    hbms_[h].has_small = has_small;
    carve_out(h);
  }
  // the carve-outs are counted before the sysfs tree exists (spec/driver-ioctl.md 7.3)
  stats_ = {};
}

Memory::~Memory() {
  for (const auto& entry : chunks_) {
    if (entry.second->host) context_.arena.free(host_phys(*entry.second));
  }
}

// The lowest bytes of a stack belong to firmware (spec/driver-ioctl.md 5.1).
void Memory::carve_out(uint32_t hbm) {
  AllocRequest request;
  request.size = contract::kFirmwareReserved;
  request.hbm = hbm;
  request.nc = hbm;
  request.category = uapi::kMemNcdevDevice;
  request.lifespan = Lifespan::kDevice;
  Chunk* chunk = nullptr;
  (void)allocate(request, &chunk);
}

std::optional<uint64_t> Memory::place_device(const AllocRequest& request, uint64_t size,
                                             Chunk& chunk) {
  Hbm& hbm = hbms_[request.hbm];
  if (request.category == uapi::kMemContiguousScratchpadDevice) {
    const uint64_t end = hbm.main.end() - hbm.scratchpad;
    if (size > end - hbm.main.base() || !hbm.main.allocate_at(end - size, size)) {
      return std::nullopt;
    }
    hbm.scratchpad += size;
    chunk.pool = &hbm.main;
    return end - size;
  }
  const bool small_first = size <= context_.params.mempool_small_alloc_max;
  FirstFitPool* const order[] = {small_first ? &hbm.small : &hbm.main,
                                 small_first ? &hbm.main : &hbm.small};
  // Alignments up to a page are none; others are honoured when they are a power of two
  // (spec/driver-ioctl.md 5.1). The driver looks at the address again as if every one were, so
  // another may pass or not.
  const uint64_t align =
      request.align > kPage && power_of_two(request.align) ? request.align : kPage;
  for (FirstFitPool* pool : order) {
    const auto at = pool->allocate(size, align);
    if (!at) continue;
    if (request.align > kPage && ((request.align - 1) & *at) != 0) {
      pool->free(*at, size);
      return std::nullopt;
    }
    chunk.pool = pool;
    return at;
  }
  return std::nullopt;
}

int Memory::allocate(const AllocRequest& request, Chunk** out, ProcessCharge* charged) {
  constexpr uint64_t kMaxSize = (1ull << 63) - 1;
  constexpr uint64_t kMaxAlign = (1ull << 31) - 1;
  if (request.size > kMaxSize) return -EINVAL;
  const uint64_t size = (request.size + kPage - 1) & ~(kPage - 1);
  if (request.hbm >= dhal_.map.hbms()) return -EINVAL;
  if (request.nc >= static_cast<uint32_t>(uapi::kMaxNcPerDevice)) return -EINVAL;
  if (request.host && request.align != 0) return -EINVAL;
  if (!request.host && request.align > kMaxAlign) return -EINVAL;

  auto chunk = std::make_unique<Chunk>();
  std::optional<uint64_t> at;
  if (request.host) {
    at = context_.arena.allocate(size);
    if (at) at = *at | dhal_.map.host_window();
  } else {
    at = place_device(request, size, *chunk);
  }
  if (!at) return -ENOMEM;
  chunk->pa = *at;
  chunk->size = size;
  chunk->host = request.host;
  chunk->hbm = request.hbm;
  chunk->nc = request.nc;
  chunk->category = request.category;
  chunk->lifespan = request.lifespan;
  chunk->pid = request.pid;
  chunk->serial = next_serial_++;
  account(*chunk, true, charged);
  *out = chunk.get();
  chunks_.emplace(*at, std::move(chunk));
  return 0;
}

void Memory::account(const Chunk& chunk, bool add, ProcessCharge* charged) {
  MemStats::PerNc* nc = chunk.nc < dhal_.map.ncs() ? &stats_.nc[chunk.nc] : nullptr;
  if (chunk.host) {
    count(stats_.host, host_directory(chunk.category), chunk.size, add);
    if (nc != nullptr) count(nc->host, chunk.size, add);
  } else if (nc != nullptr) {
    count(nc->device, chunk.size, add);
    count(nc->by_category, device_directory(chunk.category), chunk.size, add);
  }
  if (charged == nullptr) return;
  uint64_t& sum = chunk.host ? charged->host : charged->device;
  sum = add ? sum + chunk.size : sum - std::min(sum, chunk.size);
}

void Memory::release(Chunk* chunk, ProcessCharge* charged) {
  if (--chunk->references != 0) return;
  account(*chunk, false, charged);
  if (chunk->handle != 0) {
    handles_[chunk->handle] = nullptr;
    free_handles_.push_back(chunk->handle);
  }
  if (chunk->host) {
    context_.arena.free(host_phys(*chunk));
  } else {
    chunk->pool->free(chunk->pa, chunk->size);
    if (chunk->category == uapi::kMemContiguousScratchpadDevice) {
      Hbm& hbm = hbms_[chunk->hbm];
      if (chunk->pa != hbm.main.end() - hbm.scratchpad) {
        context_.log("contiguous scratchpad freed out of order");
      }
      hbm.scratchpad -= std::min(hbm.scratchpad, chunk->size);
    }
  }
  chunks_.erase(chunk->pa);
}

Chunk* Memory::by_handle(uint64_t handle) const {
  if (handles_disabled_ || handle == 0 || handle >= handles_.size()) return nullptr;
  return handles_[handle];
}

Chunk* Memory::containing(uint64_t pa) const {
  auto it = chunks_.upper_bound(pa);
  if (it == chunks_.begin()) return nullptr;
  --it;
  return pa - it->first < it->second->size ? it->second.get() : nullptr;
}

int Memory::assign_handle(Chunk* chunk) {
  if (handles_disabled_) return -ENOENT;
  if (chunk->handle != 0) return 0;
  if (!free_handles_.empty()) {
    chunk->handle = free_handles_.back();
    free_handles_.pop_back();
    handles_[chunk->handle] = chunk;
    return 0;
  }
  if (handles_.size() >= kHandleLimit) {
    handles_disabled_ = true;
    return -ENOENT;
  }
  chunk->handle = handles_.size();
  handles_.push_back(chunk);
  return 0;
}

uint64_t Memory::reach(const Chunk& chunk) const {
  if (chunk.category == uapi::kMemContiguousScratchpadDevice && !chunk.host) {
    return hbms_[chunk.hbm].main.end() - chunk.pa;
  }
  return chunk.size;
}

uint8_t* Memory::host_bytes(const Chunk& chunk) const {
  return context_.arena.at(host_phys(chunk));
}

void Memory::release_process(int32_t tgid, ProcessCharge* charged) {
  std::vector<Chunk*> mine;
  for (const auto& entry : chunks_) {
    Chunk* chunk = entry.second.get();
    if (chunk->lifespan == Lifespan::kProcess && chunk->pid == tgid) mine.push_back(chunk);
  }
  // Newest first, so that handles come back in the order of allocation.
  std::sort(mine.begin(), mine.end(),
            [](const Chunk* a, const Chunk* b) { return a->serial > b->serial; });
  for (Chunk* chunk : mine) {
    if (chunk->references > 1) {
      --chunk->references;
      chunk->lifespan = Lifespan::kAllProcesses;
    } else {
      release(chunk, charged);
    }
  }
}

void Memory::release_all_processes() {
  std::vector<Chunk*> orphans;
  for (const auto& entry : chunks_) {
    if (entry.second->lifespan == Lifespan::kAllProcesses) orphans.push_back(entry.second.get());
  }
  for (Chunk* chunk : orphans) {
    chunk->references = 1;
    release(chunk);
  }
}

std::vector<const Chunk*> Memory::chunks_of_hbm(uint32_t hbm) const {
  std::vector<const Chunk*> found;
  for (const auto& entry : chunks_) {
    if (!entry.second->host && entry.second->hbm == hbm) found.push_back(entry.second.get());
  }
  return found;
}

}  // namespace driver
