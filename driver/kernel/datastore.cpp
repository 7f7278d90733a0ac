#include "driver/kernel/datastore.h"

#include <cerrno>
#include <cstring>

#include "base/span.h"

namespace driver {

bool Datastore::allocate() {
  for (Slot& slot : slots_) {
    AllocRequest request;
    request.size = uapi::kDatastoreSize;
    request.host = true;
    request.category = uapi::kMemNcdevHost;
    request.lifespan = Lifespan::kDevice;
    if (memory_.allocate(request, &slot.chunk) != 0) return false;
  }
  return true;
}

Datastore::Slot* Datastore::find(int32_t tgid) {
  for (Slot& slot : slots_) {
    if (slot.owner == tgid) return &slot;
  }
  return nullptr;
}

int Datastore::acquire(int32_t pid, int32_t caller, const Chunk** out) {
  if (pid != 0) {
    const Slot* slot = find(pid);
    if (slot == nullptr) return -ENOENT;
    *out = slot->chunk;
    return 0;
  }
  Slot* slot = find(caller);
  if (slot == nullptr) {
    for (Slot& candidate : slots_) {
      if (candidate.owner != 0) continue;
      if (slot == nullptr || candidate.cleared_at < slot->cleared_at) slot = &candidate;
    }
    if (slot == nullptr) return -ENOMEM;
    slot->owner = caller;
  }
  *out = slot->chunk;
  return 0;
}

void Datastore::release(int32_t pid, int32_t caller) {
  if (pid != 0 && pid != caller) return;
  if (Slot* slot = find(caller)) clear(*slot);
}

void Datastore::release_all() {
  for (Slot& slot : slots_) {
    if (slot.owner != 0) clear(slot);
  }
}

void Datastore::clear(Slot& slot) {
  uint8_t* const bytes = memory_.host_bytes(*slot.chunk);
  for (uint32_t nc = 0; nc < folded_.size(); ++nc) {
    for (uint32_t id = 0; id < uapi::kDsTotalCounters; ++id) {
      folded_[nc][id].add(base::load<uint64_t>(bytes + uapi::ds_nc_counter_offset(nc, id)));
    }
  }
  std::memset(bytes, 0, uapi::kDatastoreSize);
  slot.owner = 0;
  slot.cleared_at = ++clock_;
}

}  // namespace driver
