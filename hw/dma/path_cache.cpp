#include "hw/dma/path_cache.h"

namespace hw {

void PathCache::forget() {
  version_ = fabric_.version();
  table_.resize(kEntries);
  for (Path& path : table_) path.size = 0;
}

// A whole memory, else the largest of some aligned blocks around the address that lies in one
// place, else the byte alone.
void PathCache::set_range(Path& path, uint64_t address) {
  uint64_t offset = 0;
  if (Memory* memory = fabric_.plain(address, &offset)) {
    const uint64_t begin = address - offset;
    if (fabric_.reach(begin, memory->size()) == path.space &&
        fabric_.plain(begin, &offset) == memory && offset == 0) {
      path.begin = begin;
      path.size = memory->size();
      return;
    }
  }
  path.begin = address;
  path.size = 1;
  for (const uint32_t bits : {36u, 20u, 18u, 17u, 16u, 14u, 12u}) {
    const uint64_t size = uint64_t{1} << bits;
    const uint64_t begin = address & ~(size - 1);
    if (fabric_.reach(begin, size) != path.space) continue;
    path.begin = begin;
    path.size = size;
    return;
  }
}

const Path& PathCache::resolve(uint32_t domain, uint64_t address, bool write) {
  Path found;
  found.space = fabric_.reach(address, 1);
  set_range(found, address);
  if (Memory* memory = fabric_.plain(found.begin, &found.offset)) {
    found.holder = Holder::kMemory;
    found.by.memory = memory;
  } else if (found.space == Space::kRegister) {
    found.by.block = fabric_.block(found.begin, &found.offset);
    if (found.by.block != nullptr) found.holder = Holder::kBlock;
  }
  found.kind = kind(domain, write);
  found.latency = write ? fabric_.write_latency(address) : fabric_.read_latency(address);
  scratch_.clear();
  fabric_.path(domain, address, write, 1, scratch_);
  found.shares = static_cast<uint16_t>(scratch_.size());
  found.share = std::make_unique<Path::Share[]>(scratch_.size());
  for (size_t i = 0; i < scratch_.size(); ++i) {
    found.share[i] = {scratch_[i].resource, scratch_[i].bytes};
  }
  const uint32_t bits = found.size >> kLargeBits != 0 ? kLargeBits : kSmallBits;
  // What cannot be reached today may be tomorrow.
  const bool kept = found.size > 1 && found.space != Space::kNone && found.space != Space::kNoLink;
  Path& place = kept ? table_[index(address >> bits, found.kind)] : single_;
  place = std::move(found);
  return place;
}

}  // namespace hw
