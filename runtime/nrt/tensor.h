// Tensors: named views of reference-counted storage in device memory, host memory that the device
// can reach, or ordinary process memory (spec/nrt-api.md 7). Sets map names to tensors (8).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/span.h"
#include "runtime/exec/core.h"
#include "runtime/exec/device.h"

namespace nrt {

enum class Placement { kDevice, kHost, kVirtual };

struct Storage {
  Placement placement = Placement::kVirtual;
  int vnc = -1;  // core it was allocated for, -1: process memory
  uint64_t size = 0;
  DeviceBuffer buffer;         // kDevice, kHost
  std::vector<uint8_t> owned;  // kVirtual, allocated here
  uint8_t* host = nullptr;     // kHost, kVirtual
  std::mutex map_mutex;
  void* mapped = nullptr;  // kDevice, made on first request
  std::atomic<uint64_t> completions{0};

  // Device memory that the driver has taken back cannot be touched any more.
  bool usable() const { return !buffer.valid() || buffer.device()->usable(); }
};

struct TensorView {
  std::shared_ptr<Storage> storage;  // null: empty tensor
  uint64_t offset = 0;
  uint64_t size = 0;
};

class Tensor {
 public:
  Tensor(std::string name, TensorView view) : name_(std::move(name)), view_(std::move(view)) {}

  const std::string& name() const { return name_; }
  TensorView view() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return view_;
  }
  void attach(TensorView view) {
    const std::lock_guard<std::mutex> lock(mutex_);
    view_ = std::move(view);
  }

 private:
  std::string name_;
  mutable std::mutex mutex_;
  TensorView view_;
};

class TensorSet {
 public:
  struct Entry {
    void* handle = nullptr;        // as the caller knows it, perhaps freed meanwhile
    std::weak_ptr<Tensor> tensor;  // the set owns nothing
  };
  void add(const std::string& name, void* handle, std::weak_ptr<Tensor> tensor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[name] = {handle, std::move(tensor)};
  }
  bool find(const std::string& name, Entry* entry) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = entries_.find(name);
    if (at == entries_.end()) return false;
    *entry = at->second;
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

// Zero-filled storage. `core` is needed for the device and host placements.
base::Result<TensorView> allocate_tensor(Placement placement, Core* core, uint64_t size);

// Checks offset + size without wrap-around, and that there is storage.
base::Status check_range(const TensorView& view, uint64_t offset, uint64_t size);

// The range is checked by these.
base::Status read_tensor(const TensorView& view, uint64_t offset, base::ByteSpan to);
base::Status write_tensor(const TensorView& view, uint64_t offset, base::ConstByteSpan from);
base::Status fill_tensor(const TensorView& view, uint64_t offset, uint8_t value, uint64_t size);
// What copy_tensor() refuses.
base::Status check_copy(const TensorView& from, uint64_t from_offset, const TensorView& to,
                        uint64_t to_offset, uint64_t size);
base::Status copy_tensor(const TensorView& from, uint64_t from_offset, const TensorView& to,
                         uint64_t to_offset, uint64_t size);

// CPU address of the first byte, null if there is none.
void* tensor_address(const TensorView& view);

}  // namespace nrt

// The handle types of the C interface.
struct nrt_tensor {
  std::shared_ptr<nrt::Tensor> object;
};
