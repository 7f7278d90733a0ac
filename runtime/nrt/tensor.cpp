#include "runtime/nrt/tensor.h"

#include <algorithm>
#include <cstring>

#include "driver/ndl/ndl.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint64_t kHostLimit = 4ull << 20;  // spec/nrt-api.md 7.1
constexpr uint64_t kBounceBytes = 16ull << 20;

base::Error no_device() {
  return error(NRT_INVALID, "The tensor's device memory is gone, the runtime was closed");
}

// Copies inside one piece of device memory in an order that keeps overlapping data intact.
base::Status move_on_device(Storage* storage, uint64_t from, uint64_t to, uint64_t size) {
  const bool disjoint = from + size <= to || to + size <= from;
  if (disjoint) return copy(storage->buffer, from, storage->buffer, to, size);
  std::vector<uint8_t> bounce(std::min(size, kBounceBytes));
  for (uint64_t done = 0; done < size;) {
    const uint64_t n = std::min<uint64_t>(bounce.size(), size - done);
    const uint64_t at = from < to ? size - done - n : done;
    if (base::Status s = storage->buffer.read(from + at, {bounce.data(), n}); !s.ok()) return s;
    if (base::Status s = storage->buffer.write(to + at, {bounce.data(), n}); !s.ok()) return s;
    done += n;
  }
  return {};
}

}  // namespace

base::Result<TensorView> allocate_tensor(Placement placement, Core* core, uint64_t size) {
  auto storage = std::make_shared<Storage>();
  storage->placement = placement;
  storage->size = size;
  if (placement == Placement::kVirtual) {
    storage->owned.assign(size, 0);
    storage->host = storage->owned.data();
    return TensorView{storage, 0, size};
  }
  storage->vnc = static_cast<int>(core->vnc());
  MemoryPlace place = core->place(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE);
  if (placement == Placement::kHost) {
    if (size > kHostLimit) {
      return error(NRT_RESOURCE, "Host tensors are limited to 4 MiB");
    }
    place.host = true;
    place.category = NEURON_MEMALLOC_TYPE_TENSORS_HOST;
  }
  auto buffer = DeviceBuffer::allocate(core->device_ptr(), size, place);
  if (!buffer) return buffer.error();
  storage->buffer = std::move(*buffer);
  if (placement == Placement::kHost) {
    auto va = storage->buffer.map();
    if (!va) return va.error();
    storage->host = static_cast<uint8_t*>(*va);
    std::memset(storage->host, 0, size);
  } else if (base::Status s = storage->buffer.fill(0, 0, size); !s.ok()) {
    return s.error();
  }
  return TensorView{storage, 0, size};
}

base::Status check_range(const TensorView& view, uint64_t offset, uint64_t size) {
  if (!view.storage) return error(NRT_INVALID, "The tensor has no storage");
  if (offset > view.size || size > view.size - offset) {
    return error(NRT_INVALID, "Range [" + std::to_string(offset) + ", +" + std::to_string(size) +
                                  ") is outside the tensor of " + std::to_string(view.size) +
                                  " bytes");
  }
  if (!view.storage->usable()) return no_device();
  return {};
}

base::Status read_tensor(const TensorView& view, uint64_t offset, base::ByteSpan to) {
  if (base::Status s = check_range(view, offset, to.size()); !s.ok()) return s;
  Storage& storage = *view.storage;
  if (to.empty()) return {};
  if (storage.host == nullptr) return storage.buffer.read(view.offset + offset, to);
  std::memcpy(to.data(), storage.host + view.offset + offset, to.size());
  return {};
}

base::Status write_tensor(const TensorView& view, uint64_t offset, base::ConstByteSpan from) {
  if (base::Status s = check_range(view, offset, from.size()); !s.ok()) return s;
  Storage& storage = *view.storage;
  if (from.empty()) return {};
  if (storage.host == nullptr) return storage.buffer.write(view.offset + offset, from);
  std::memcpy(storage.host + view.offset + offset, from.data(), from.size());
  return {};
}

base::Status fill_tensor(const TensorView& view, uint64_t offset, uint8_t value, uint64_t size) {
  if (base::Status s = check_range(view, offset, size); !s.ok()) return s;
  Storage& storage = *view.storage;
  if (size == 0) return {};
  if (storage.host == nullptr) return storage.buffer.fill(view.offset + offset, value, size);
  std::memset(storage.host + view.offset + offset, value, size);
  return {};
}

base::Status check_copy(const TensorView& from, uint64_t from_offset, const TensorView& to,
                        uint64_t to_offset, uint64_t size) {
  if (base::Status s = check_range(from, from_offset, size); !s.ok()) return s;
  if (base::Status s = check_range(to, to_offset, size); !s.ok()) return s;
  const Storage& source = *from.storage;
  const Storage& target = *to.storage;
  const bool same_memory = source.host != nullptr || target.host != nullptr ||
                           (source.buffer.device() == target.buffer.device() &&
                            source.buffer.place().hbm == target.buffer.place().hbm);
  if (!same_memory && size != 0) {
    return error(NRT_INVALID, "Device tensors of different cores cannot be copied directly");
  }
  return {};
}

base::Status copy_tensor(const TensorView& from, uint64_t from_offset, const TensorView& to,
                         uint64_t to_offset, uint64_t size) {
  if (base::Status s = check_copy(from, from_offset, to, to_offset, size); !s.ok()) return s;
  if (size == 0) return {};
  Storage& source = *from.storage;
  Storage& target = *to.storage;
  const uint64_t read = from.offset + from_offset;
  const uint64_t write = to.offset + to_offset;
  if (source.host != nullptr && target.host != nullptr) {
    std::memmove(target.host + write, source.host + read, size);
    return {};
  }
  if (source.host != nullptr) return target.buffer.write(write, {source.host + read, size});
  if (target.host != nullptr) return source.buffer.read(read, {target.host + write, size});
  if (&source == &target) return move_on_device(&source, read, write, size);
  return copy(source.buffer, read, target.buffer, write, size);
}

void* tensor_address(const TensorView& view) {
  if (!view.storage || !view.storage->usable()) return nullptr;
  Storage& storage = *view.storage;
  if (storage.host != nullptr) return storage.host + view.offset;
  const std::lock_guard<std::mutex> lock(storage.map_mutex);
  if (storage.mapped == nullptr) {
    auto va = storage.buffer.map();
    if (!va) return nullptr;
    storage.mapped = *va;
  }
  return static_cast<uint8_t*>(storage.mapped) + view.offset;
}

}  // namespace nrt
