// Exported functions: models, execution, host side of collectives (spec/nrt-api.md 6, 9, 10).
#include "runtime/nrt/exports.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/nrt/environment.h"
#include "runtime/nrt/runtime_state.h"
#include "runtime/nrt/sys_trace.h"

namespace {

using nrt::error;
using nrt::find_model;
using nrt::null_argument;

struct Callback {
  std::mutex mutex;
  NRT_ASYNC_EXEC_STATUS_CALLBACK function = nullptr;
  void* params = nullptr;
  uint64_t next_job = 1;
};
Callback& callback() {
  static auto* instance = new Callback;
  return *instance;
}

base::Status load(nrt::Runtime& runtime, const void* bytes, size_t size, int32_t vnc,
                  int32_t vnc_count, const neff::CollectiveContext& context, nrt_model_t** model) {
  if (bytes == nullptr || size == 0 || model == nullptr) return null_argument();
  if (vnc < -1) return error(NRT_INVALID, "Core " + std::to_string(vnc) + " is out of range");
  if (vnc_count < -1 || vnc_count > 1) {
    return error(NRT_INVALID, "vnc_count " + std::to_string(vnc_count) +
                                  " is not what the model needs; pass -1");
  }
  const uint64_t begin = nrt::realtime_ns();
  auto loaded = runtime.load({static_cast<const uint8_t*>(bytes), size}, vnc, context);
  nrt::sys_trace().add_host(vnc < 0 ? 0 : static_cast<uint32_t>(vnc), "nrt_load", begin,
                            nrt::realtime_ns(),
                            loaded.ok() ? 0 : static_cast<int>(nrt::status_of(loaded.error())));
  if (!loaded) {
    nrt::log(nrt::LogLevel::kError, nrt::Component::kNmgr, "kmgr_load_nn_post_metrics",
             "Failed to load NN: %s, err: %d", loaded.error().message().c_str(),
             static_cast<int>(nrt::status_of(loaded.error())));
    return loaded.error();
  }
  auto handle = std::make_unique<nrt_model>();
  handle->object = std::move(*loaded);
  nrt::process().models.add(handle.get());
  *model = handle.release();
  return {};
}

// 8-bit floats are reported as int8 (spec/nrt-api.md 6.4).
nrt_dtype_t reported_dtype(const neff::TensorInfo& info) {
  if (!info.dtype) return NRT_DTYPE_UINT8;
  switch (*info.dtype) {
    case neff::DataType::kFloat8e3:
    case neff::DataType::kFloat8e4:
    case neff::DataType::kFloat8e5:
      return NRT_DTYPE_INT8;
    default:
      return static_cast<nrt_dtype_t>(*info.dtype);
  }
}

base::Status fill(const neff::TensorInfo& from, nrt_tensor_info_t* to) {
  const size_t n = std::min<size_t>(from.name.size(), NRT_TENSOR_NAME_MAX - 1);
  std::memcpy(to->name, from.name.data(), n);
  to->usage = from.is_input ? NRT_TENSOR_USAGE_INPUT : NRT_TENSOR_USAGE_OUTPUT;
  to->size = from.size;
  to->dtype = reported_dtype(from);
  uint64_t product = from.dtype ? neff::data_type_bytes(*from.dtype) : 1;
  for (const uint64_t extent : from.shape) product *= extent;
  // Clients multiply the shape out: when it does not fit the size, the bytes are the truth.
  const bool known = from.dtype && !from.shape.empty() && product == from.size;
  const std::vector<uint64_t> shape = known ? from.shape : std::vector<uint64_t>{from.size};
  if (!known) to->dtype = NRT_DTYPE_UINT8;
  to->ndim = static_cast<uint32_t>(shape.size());
  to->shape = static_cast<uint32_t*>(std::calloc(shape.size(), sizeof(uint32_t)));
  if (to->shape == nullptr) return error(NRT_RESOURCE, "Out of host memory");
  for (size_t i = 0; i < shape.size(); ++i) to->shape[i] = static_cast<uint32_t>(shape[i]);
  return {};
}

void free_info(nrt_tensor_info_array_t* info) {
  for (uint64_t i = 0; i < info->tensor_count; ++i) std::free(info->tensor_array[i].shape);
  std::free(info);
}

// Behind the asynchronous requests that the core has (spec/nrt-api.md 11.2).
base::Status execute_in_turn(nrt::Runtime& runtime, nrt::Model& model, const nrt::TensorSet& inputs,
                             const nrt::TensorSet& outputs, int repeat) {
  if (repeat <= 0) return error(NRT_INVALID, "The repeat count must be positive");
  auto operands = model.take(inputs, outputs);
  if (!operands) return operands.error();
  base::Status status = error(NRT_FAILURE, "Unexpected failure", base::Fault::kInternal);
  const auto work = [&] { status = model.execute(std::move(*operands), repeat); };
  nrt::ExecutionUnit* unit = runtime.async().started(model.core().vnc(), nrt::UnitKind::kCompute);
  if (unit == nullptr || !unit->do_in_turn(work)) work();
  return status;
}

NRT_STATUS execute(const char* function, nrt_model_t* model, const nrt_tensor_set_t* inputs,
                   nrt_tensor_set_t* outputs, int repeat) {
  uint32_t model_id = 0;
  uint32_t vnc = 0;
  std::string name;
  const NRT_STATUS status = nrt::call(function, [&](nrt::Runtime& runtime) -> base::Status {
    auto found = find_model(model);
    if (!found) return found.error();
    const nrt::TensorSet* in = nrt::find_set(inputs);
    const nrt::TensorSet* out = nrt::find_set(outputs);
    if (in == nullptr || out == nullptr) return nrt::bad_set();
    model_id = (*found)->id();
    vnc = (*found)->core().vnc();
    name = (*found)->name();
    const uint64_t begin = nrt::realtime_ns();
    const base::Status s = execute_in_turn(runtime, **found, *in, *out, repeat);
    nrt::sys_trace().add_host(vnc, "nrt_execute", begin, nrt::realtime_ns(),
                              s.ok() ? 0 : static_cast<int>(nrt::status_of(s.error())));
    return s;
  });
  if (model_id == 0) return status;
  if (status != NRT_SUCCESS) {
    nrt::log(nrt::LogLevel::kError, nrt::Component::kNrt, "nrt_execute_repeat",
             "Failed to execute model %s with status %d", name.c_str(), static_cast<int>(status));
  }
  // The old asynchronous mode is served synchronously: completion is reported at once.
  if (nrt::environment_number("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", 0, ~0ull) == 0) {
    return status;
  }
  Callback& c = callback();
  std::unique_lock<std::mutex> lock(c.mutex);
  const NRT_ASYNC_EXEC_STATUS_CALLBACK function_pointer = c.function;
  void* params = c.params;
  const uint64_t job = c.next_job++;
  lock.unlock();
  if (function_pointer == nullptr) return status;
  function_pointer(params, model_id, vnc, job, status);
  return NRT_SUCCESS;
}

NRT_STATUS join_world(const char* function, int64_t vnc, uint32_t rank, uint32_t world) {
  return nrt::call(function, [&](nrt::Runtime& runtime) -> base::Status {
    auto core = runtime.core(vnc);
    if (!core) return core.error();
    auto communicator = runtime.communicator(**core, rank, world);
    return communicator ? (*communicator)->wait_all() : base::Status(communicator.error());
  });
}

}  // namespace

extern "C" {

NRT_STATUS nrt_load(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                    nrt_model_t** model) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) {
    return load(runtime, neff_bytes, size, vnc, vnc_count, {}, model);
  });
}

NRT_STATUS nrt_load_collectives(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                                uint32_t ctx_device_id, uint32_t ctx_device_count,
                                nrt_model_t** model) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    if (ctx_device_count == 0 || ctx_device_id >= ctx_device_count) {
      return error(NRT_INVALID, "Rank " + std::to_string(ctx_device_id) +
                                    " is outside a world of " + std::to_string(ctx_device_count));
    }
    return load(runtime, neff_bytes, size, vnc, vnc_count, {true, ctx_device_id, ctx_device_count},
                model);
  });
}

NRT_STATUS nrt_unload(nrt_model_t* model) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_model(model);
    if (!found) return found.error();
    if (!nrt::process().models.remove(model)) {
      return error(NRT_INVALID_HANDLE, "The model is being unloaded by another thread");
    }
    (*found)->unload();
    delete model;
    return {};
  });
}

NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t* model, uint32_t* vnc_count) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_model(model);
    if (!found) return found.error();
    if (vnc_count == nullptr) return null_argument();
    *vnc_count = 1;
    return {};
  });
}

NRT_STATUS nrt_get_model_nc_count(const nrt_model_t* model, uint32_t* vnc_count) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_model(model);
    if (!found) return found.error();
    if (vnc_count == nullptr) return null_argument();
    *vnc_count = 1;
    return {};
  });
}

NRT_STATUS nrt_get_model_instance_count(nrt_model_t* model, uint32_t* instance_count) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_model(model);
    if (!found) return found.error();
    if (instance_count == nullptr) return null_argument();
    *instance_count = 1;
    return {};
  });
}

NRT_STATUS nrt_get_model_info(const nrt_model_t* model, nrt_model_info_t* info, size_t info_size_in,
                              size_t* info_size_out) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_model(model);
    if (!found) return found.error();
    if (info == nullptr || info_size_in < sizeof info->vnc) return null_argument();
    nrt_model_info_t own{};
    own.vnc = (*found)->core().vnc();
    const size_t n = std::min(sizeof own, info_size_in);
    std::memcpy(info, &own, n);
    if (info_size_out != nullptr) *info_size_out = n;
    return {};
  });
}

NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model, nrt_tensor_info_array_t** tensor_info) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    auto found = find_model(model);
    if (!found) return found.error();
    if (tensor_info == nullptr) return null_argument();
    const std::vector<neff::TensorInfo>& tensors = (*found)->tensors();
    auto* array = static_cast<nrt_tensor_info_array_t*>(std::calloc(
        1, sizeof(nrt_tensor_info_array_t) + tensors.size() * sizeof(nrt_tensor_info_t)));
    if (array == nullptr) return error(NRT_RESOURCE, "Out of host memory");
    array->tensor_count = tensors.size();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (base::Status s = fill(tensors[i], &array->tensor_array[i]); !s.ok()) {
        free_info(array);
        return s;
      }
    }
    *tensor_info = array;
    return {};
  });
}

NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info) {
  if (tensor_info != nullptr) free_info(tensor_info);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                       nrt_tensor_set_t* output_set) {
  return execute(__func__, model, input_set, output_set, 1);
}

NRT_STATUS nrt_execute_repeat(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                              nrt_tensor_set_t* output_set, int repeat_count) {
  return execute(__func__, model, input_set, output_set, repeat_count);
}

NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK function, void* params) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    Callback& c = callback();
    const std::lock_guard<std::mutex> lock(c.mutex);
    c.function = function;
    c.params = params;
    return {};
  });
}

NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    auto core = runtime.core(vnc);
    return core ? base::Status() : base::Status(core.error());
  });
}

NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return join_world(__func__, vnc, g_device_id, g_device_count);
}

NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return join_world(__func__, vnc, g_device_id, g_device_count);
}

NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    auto core = runtime.core(vnc);
    if (!core) return core.error();
    auto communicator = runtime.communicator(**core, g_device_id, g_device_count);
    return communicator ? (*communicator)->barrier() : base::Status(communicator.error());
  });
}

NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                          uint32_t rank_input_size, void* input, void* output) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    if (input == nullptr || output == nullptr) return null_argument();
    auto core = runtime.core(vnc);
    if (!core) return core.error();
    auto communicator = runtime.communicator(**core, g_device_id, g_device_count);
    if (!communicator) return communicator.error();
    const auto* from = static_cast<const uint8_t*>(input);
    auto all = (*communicator)->all_gather(ccl::Blob(from, from + rank_input_size));
    if (!all) return all.error();
    auto* to = static_cast<uint8_t*>(output);
    for (size_t rank = 0; rank < all->size(); ++rank) {
      const ccl::Blob& blob = (*all)[rank];
      if (blob.size() != rank_input_size) {
        return error(NRT_INVALID, "The ranks gave inputs of different sizes");
      }
      to = std::copy(blob.begin(), blob.end(), to);
    }
    return {};
  });
}

}  // extern "C"
