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
  path.memory = fabric_.plain(address, &path.offset);
  if (path.memory != nullptr) {
    const uint64_t begin = address - path.offset;
    const uint64_t size = path.memory->size();
    uint64_t offset = 0;
    if (fabric_.reach(begin, size) == path.space && fabric_.plain(begin, &offset) == path.memory &&
        offset == 0) {
      path.begin = begin;
      path.size = size;
      path.offset = 0;
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
    if (path.memory != nullptr) path.memory = fabric_.plain(begin, &path.offset);
    return;
  }
}

const Path& PathCache::resolve(uint32_t domain, uint64_t address, bool write) {
  const Space space = fabric_.reach(address, 1);
  Path found;
  found.space = space;
  set_range(found, address);
  if (space == Space::kRegister) found.block = fabric_.block(found.begin, &found.offset);
  found.kind = kind(domain, write);
  found.latency = write ? fabric_.write_latency(address) : fabric_.read_latency(address);
  scratch_.clear();
  fabric_.path(domain, address, write, 1, scratch_);
  for (const Charge& of_one : scratch_) found.shares.push_back({of_one.resource, of_one.bytes});
  const uint32_t bits = found.size >> kLargeBits != 0 ? kLargeBits : kSmallBits;
  // What cannot be reached today may be tomorrow.
  const bool kept = found.size > 1 && space != Space::kNone && space != Space::kNoLink;
  Path& place = kept ? table_[index(address >> bits, found.kind)] : single_;
  place = std::move(found);
  return place;
}

}  // namespace hw
