// Exported functions: tensors, batches and tensor sets (spec/nrt-api.md 7, 8).
#include "runtime/nrt/exports.h"

#include <cstring>
#include <thread>

#include "driver/ndl/ndl.h"
#include "runtime/nrt/runtime_state.h"
#include "runtime/nrt/sys_trace.h"

namespace {

using nrt::bad_set;
using nrt::error;
using nrt::find_set;
using nrt::find_tensor;
using nrt::null_argument;
using nrt::Tensor;
using nrt::TensorView;

void publish(const char* name, TensorView view, nrt_tensor_t** out) {
  auto handle = std::make_unique<nrt_tensor>();
  handle->object = std::make_shared<Tensor>(name == nullptr ? "" : name, std::move(view));
  nrt::process().tensors.add(handle.get());
  *out = handle.release();
}

base::Status allocate(nrt::Runtime& runtime, int placement, int vnc, size_t size, const char* name,
                      nrt_tensor_t** tensor) {
  if (tensor == nullptr || size == 0) {
    return error(NRT_INVALID, "A tensor needs a size and a place for its handle");
  }
  if (placement < NRT_TENSOR_PLACEMENT_DEVICE || placement > NRT_TENSOR_PLACEMENT_VIRTUAL) {
    return error(NRT_INVALID, "Unknown placement " + std::to_string(placement));
  }
  nrt::Core* core = nullptr;
  if (placement == NRT_TENSOR_PLACEMENT_DEVICE || vnc >= 0) {
    auto found = runtime.core(vnc);
    if (!found) return found.error();
    core = *found;
  } else {
    core = *runtime.core(0);
  }
  auto view = nrt::allocate_tensor(static_cast<nrt::Placement>(placement), core, size);
  if (!view) return view.error();
  publish(name, std::move(*view), tensor);
  return {};
}

// All elements are checked before any byte moves (spec/nrt-api.md 7.5).
base::Status batch(const nrt_tensor_batch_t* batches, uint64_t count, bool write) {
  if (count == 0) return {};
  if (batches == nullptr) return null_argument();
  for (const bool check_only : {true, false}) {
    for (uint64_t b = 0; b < count; ++b) {
      if (batches[b].num_ops == 0) continue;
      auto tensor = find_tensor(batches[b].tensor);
      if (!tensor) return tensor.error();
      if (batches[b].ops == nullptr) return null_argument();
      const TensorView view = (*tensor)->view();
      for (uint32_t i = 0; i < batches[b].num_ops; ++i) {
        const nrt_tensor_batch_op_t& op = batches[b].ops[i];
        auto* buffer = static_cast<uint8_t*>(op.buffer);
        base::Status s;
        if (check_only) {
          s = buffer == nullptr && op.size != 0 ? base::Status(null_argument())
                                                : nrt::check_range(view, op.offset, op.size);
        } else {
          s = write ? nrt::write_tensor(view, op.offset, {buffer, op.size})
                    : nrt::read_tensor(view, op.offset, {buffer, op.size});
        }
        if (!s.ok()) return s;
      }
    }
  }
  return {};
}

// Host side of a transfer, for the trace; the core is known for device storage only.
class TraceSpan {
 public:
  TraceSpan(const char* type) : type_(type), start_(nrt::realtime_ns()) {}
  void finish(const base::Status& status) {
    if (!nrt::sys_trace().active()) return;
    nrt::sys_trace().add_host(0, type_, start_, nrt::realtime_ns(),
                              status.ok() ? 0 : static_cast<int>(nrt::status_of(status.error())));
  }

 private:
  const char* type_;
  uint64_t start_;
};

}  // namespace

extern "C" {

NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc, size_t size,
                               const char* name, nrt_tensor_t** tensor) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) {
    return allocate(runtime, static_cast<int>(tensor_placement), vnc, size, name, tensor);
  });
}

void nrt_tensor_free(nrt_tensor_t** tensor) {
  (void)nrt::call_always(__func__, [&]() -> base::Status {
    if (tensor == nullptr || *tensor == nullptr) return {};
    // Serialised with nrt_close, which takes the memory away.
    const std::shared_lock<std::shared_mutex> lock(nrt::process().mutex);
    if (!nrt::process().tensors.remove(*tensor)) {
      return error(NRT_INVALID, "The tensor handle is not alive");
    }
    delete *tensor;
    *tensor = nullptr;
    return {};
  });
}

NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buf, size_t offset, size_t size) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    if (buf == nullptr && size != 0) return null_argument();
    TraceSpan span("nrt_tensor_read");
    const base::Status status =
        nrt::read_tensor((*found)->view(), offset, {static_cast<uint8_t*>(buf), size});
    span.finish(status);
    return status;
  });
}

NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buf, size_t offset, size_t size) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    if (buf == nullptr && size != 0) return null_argument();
    TraceSpan span("nrt_tensor_write");
    const base::Status status =
        nrt::write_tensor((*found)->view(), offset, {static_cast<const uint8_t*>(buf), size});
    span.finish(status);
    return status;
  });
}

NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches, bool) {
  return nrt::call(__func__, [&](nrt::Runtime&) { return batch(batches, num_batches, false); });
}

NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches, bool) {
  return nrt::call(__func__, [&](nrt::Runtime&) { return batch(batches, num_batches, true); });
}

NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* src, size_t src_offset, nrt_tensor_t* dst,
                           size_t dst_offset, size_t size) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto from = find_tensor(src);
    if (!from) return from.error();
    auto to = find_tensor(dst);
    if (!to) return to.error();
    return nrt::copy_tensor((*from)->view(), src_offset, (*to)->view(), dst_offset, size);
  });
}

size_t nrt_tensor_get_size(const nrt_tensor_t* tensor) {
  size_t size = 0;
  if (tensor == nullptr) return size;
  (void)nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    size = (*found)->view().size;
    return {};
  });
  return size;
}

NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value, size_t size) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    return nrt::fill_tensor((*found)->view(), offset, static_cast<uint8_t>(value & 0xFF), size);
  });
}

NRT_STATUS nrt_tensor_allocate_empty(const char* name, nrt_tensor_t** tensor) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (tensor == nullptr) return null_argument();
    publish(name, {}, tensor);
    return {};
  });
}

NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t* tensor, void* buffer, size_t size) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    if (buffer == nullptr || size == 0) return null_argument();
    auto storage = std::make_shared<nrt::Storage>();
    storage->placement = nrt::Placement::kVirtual;
    storage->size = size;
    storage->host = static_cast<uint8_t*>(buffer);
    (*found)->attach({std::move(storage), 0, size});
    return {};
  });
}

NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* tensor_source, size_t offset, size_t size,
                                     const char* name, nrt_tensor_t** tensor_slice) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor_source);
    if (!found) return found.error();
    if (tensor_slice == nullptr || size == 0) {
      return error(NRT_INVALID, "A slice needs a size and a place for its handle");
    }
    const TensorView view = (*found)->view();
    if (base::Status s = nrt::check_range(view, offset, size); !s.ok()) return s;
    publish(name, {view.storage, view.offset + offset, size}, tensor_slice);
    return {};
  });
}

void* nrt_tensor_get_va(const nrt_tensor_t* tensor) {
  void* va = nullptr;
  (void)nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    va = nrt::tensor_address((*found)->view());
    return {};
  });
  return va;
}

NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t* tensor,
                                                 nrt_tensor_device_allocation_info_t* alloc_info) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    if (alloc_info == nullptr) return null_argument();
    const TensorView view = (*found)->view();
    if (!view.storage || view.storage->placement != nrt::Placement::kDevice) {
      return error(NRT_INVALID, "The tensor is not in device memory");
    }
    alloc_info->physical_address = view.storage->buffer.address() + view.offset;
    alloc_info->size = view.storage->buffer.size() - view.offset;
    alloc_info->hbm_index = static_cast<int>(view.storage->buffer.place().hbm);
    return {};
  });
}

NRT_STATUS nrt_tensor_get_lnc_index(const nrt_tensor_t* tensor, int* lnc_idx) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    if (lnc_idx == nullptr) return null_argument();
    const TensorView view = (*found)->view();
    const bool device = view.storage && view.storage->placement == nrt::Placement::kDevice;
    *lnc_idx = device ? view.storage->vnc : -1;
    return {};
  });
}

NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t* output_tensor, int64_t timeout,
                                              uint64_t expected_completion_count) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(output_tensor);
    if (!found) return found.error();
    const TensorView view = (*found)->view();
    if (!view.storage) return error(NRT_INVALID, "The tensor has no storage");
    const uint64_t begin = nrt::realtime_ns();
    constexpr uint64_t kWarnNs = 30'000'000'000;
    bool warned = false;
    while (view.storage->completions < expected_completion_count) {
      const uint64_t waited = nrt::realtime_ns() - begin;
      if (timeout >= 0 && waited >= static_cast<uint64_t>(timeout) * 1000) {
        return error(NRT_TIMEOUT, "The output is not complete");
      }
      if (!warned && waited > kWarnNs) {
        warned = true;
        nrt::log(nrt::LogLevel::kWarn, nrt::Component::kNrt, "nrt_tensor_check_output_completion",
                 "Waiting for more than 30 s for tensor %s", (*found)->name().c_str());
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return {};
  });
}

NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t* output_tensor) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_tensor(output_tensor);
    if (!found) return found.error();
    const TensorView view = (*found)->view();
    if (!view.storage) return error(NRT_INVALID, "The tensor has no storage");
    view.storage->completions = 0;
    return {};
  });
}

NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int* fd) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (fd == nullptr || size == 0) return null_argument();
    if (ndl_get_dmabuf_fd(va, size, fd) != 0) {
      return error(NRT_INVALID, "The range cannot be exported as a dma-buf");
    }
    return {};
  });
}

NRT_STATUS nrt_memcpy_to_device(void* dest, const void* src, size_t size) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (dest == nullptr || src == nullptr) return null_argument();
    int device = -1;
    int hbm = -1;
    if (ndl_get_va_placement(dest, &device, &hbm) != 0) {
      return error(NRT_INVALID, "The destination is not mapped device memory");
    }
    std::memcpy(dest, src, size);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return {};
  });
}

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** result) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (result == nullptr) return null_argument();
    auto set = std::make_unique<nrt::TensorSet>();
    nrt::process().sets.add(set.get());
    *result = set.release();
    return {};
  });
}

void nrt_destroy_tensor_set(nrt_tensor_set_t** tensor_set) {
  (void)nrt::call_always(__func__, [&]() -> base::Status {
    if (tensor_set == nullptr || *tensor_set == nullptr) return {};
    nrt::Process& p = nrt::process();
    if (nrt::gate(p) != NRT_SUCCESS) {
      nrt::log(nrt::LogLevel::kError, nrt::Component::kNrt, "nrt_destroy_tensor_set",
               "Unexpected runtime state: tensor set destroyed outside nrt_init and nrt_close");
    }
    if (!p.sets.remove(*tensor_set)) return bad_set();
    delete static_cast<nrt::TensorSet*>(*tensor_set);
    *tensor_set = nullptr;
    return {};
  });
}

NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name,
                                        nrt_tensor_t* tensor) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    nrt::TensorSet* set = find_set(tensor_set);
    if (set == nullptr) return bad_set();
    if (tensor_name == nullptr) return null_argument();
    auto found = find_tensor(tensor);
    if (!found) return found.error();
    set->add(tensor_name, tensor, *found);
    return {};
  });
}

NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name,
                                          nrt_tensor_t** tensor) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    nrt::TensorSet* set = find_set(tensor_set);
    if (set == nullptr) return bad_set();
    if (tensor_name == nullptr || tensor == nullptr) return null_argument();
    nrt::TensorSet::Entry entry;
    if (!set->find(tensor_name, &entry)) {
      return error(NRT_FAILURE, std::string("No tensor named ") + tensor_name + " in the set");
    }
    *tensor = static_cast<nrt_tensor_t*>(entry.handle);
    return {};
  });
}

}  // extern "C"
