// Exported functions: life cycle, versions, instance and topology (spec/nrt-api.md 4, 5).
#include "runtime/nrt/exports.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "driver/ndl/ndl.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/instance.h"
#include "runtime/nrt/runtime_state.h"
#include "runtime/nrt/sys_trace.h"
#include "runtime/nrt/version.h"

namespace {

using nrt::error;
using nrt::kVersion;
using nrt::null_argument;
using nrt::Process;

base::Status copy_out(const void* from, size_t library_size, void* to, size_t caller_size,
                      size_t least, size_t* written) {
  if (to == nullptr) return null_argument();
  if (caller_size < least) {
    return error(NRT_INVALID, "The caller's structure is too small");
  }
  const size_t n = std::min(library_size, caller_size);
  std::memcpy(to, from, n);
  if (written != nullptr) *written = n;
  return {};
}

NRT_STATUS total(const char* function, uint32_t* count) {
  return nrt::call_always(function, [&]() -> base::Status {
    if (count == nullptr) return null_argument();
    auto cores = nrt::total_cores();
    if (!cores) return cores.error();
    *count = *cores;
    return {};
  });
}

NRT_STATUS visible(const char* function, uint32_t* count) {
  return nrt::call_always(function, [&]() -> base::Status {
    if (count == nullptr) return null_argument();
    Process& p = nrt::process();
    const std::shared_lock<std::shared_mutex> lock(p.mutex);
    if (nrt::gate(p) == NRT_SUCCESS) {
      *count = p.runtime->core_count();
      return {};
    }
    auto cores = nrt::total_cores();
    if (!cores) return cores.error();
    auto selection = nrt::read_core_selection(*cores);
    if (!selection) return selection.error();
    *count = selection->count != 0 ? selection->count : *cores;
    return {};
  });
}

// The driver's state belongs to the parent after a fork: forget it without touching a device.
void drop_inherited(Process* p) {
  if (p->state == Process::State::kRunning && p->owner_pid != getpid()) {
    // Devices notice by themselves that they are not ours.
    p->runtime.release();  // NOLINT: its threads do not exist in this process
    p->state = Process::State::kNeverInit;
  }
}

// When no call is under way. Calls end by themselves, but for those that wait without a limit.
std::unique_lock<std::shared_mutex> lock_at_rest(Process* p) {
  std::unique_lock<std::shared_mutex> lock(p->mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    {
      const std::shared_lock<std::shared_mutex> shared(p->mutex);
      const bool own = p->state == Process::State::kRunning && p->owner_pid == getpid();
      if (own) p->runtime->stop_waiting();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    (void)lock.try_lock();
  }
  return lock;
}

base::Status initialize(nrt_framework_type_t framework) {
  if (framework <= NRT_FRAMEWORK_TYPE_INVALID || framework > NRT_FRAMEWORK_TYPE_PRECHECK) {
    return error(NRT_INVALID,
                 "Unknown framework type " + std::to_string(static_cast<int>(framework)));
  }
  Process& p = nrt::process();
  const std::unique_lock<std::shared_mutex> lock(p.mutex);
  drop_inherited(&p);
  if (p.state == Process::State::kRunning) {
    return error(NRT_FAILURE, "The runtime is already initialized in this process");
  }
  auto runtime = nrt::Runtime::start();
  if (!runtime) {
    const base::Error& e = runtime.error();
    nrt::log(nrt::LogLevel::kError, nrt::Component::kNrt, "nrt_init",
             "Failed to initialize devices, error:%d", static_cast<int>(nrt::status_of(e)));
    return e;
  }
  p.runtime = std::move(*runtime);
  p.owner_pid = getpid();
  p.state = Process::State::kRunning;
  return {};
}

}  // namespace

extern "C" {

const char* nrt_get_status_as_str(NRT_STATUS status) {
  return nrt::status_text(status);
}

NRT_STATUS nrt_init(nrt_framework_type_t framework, const char*, const char*) {
  nrt::configure_log();
  for (const char* name : {"NEURONCORE_GROUP_SIZES", "NEURON_RT_INSPECT_ENABLE"}) {
    if (nrt::environment(name)) {
      nrt::log(nrt::LogLevel::kWarn, nrt::Component::kNrt, "nrt_init", "%s has no effect", name);
    }
  }
  return nrt::call_always("nrt_init", [&] { return initialize(framework); });
}

void nrt_close() {
  (void)nrt::call_always("nrt_close", [&]() -> base::Status {
    Process& p = nrt::process();
    const std::unique_lock<std::shared_mutex> lock = lock_at_rest(&p);
    drop_inherited(&p);
    if (p.state != Process::State::kRunning) return {};
    nrt::sys_trace().stop();
    p.runtime.reset();
    p.state = Process::State::kClosed;
    return {};
  });
}

NRT_STATUS nrt_get_version(nrt_version_t* ver, size_t size) {
  return nrt::call_always("nrt_get_version", [&]() -> base::Status {
    if (size == 0) return null_argument();
    nrt_version_t own{};
    own.rt_major = kVersion[0];
    own.rt_minor = kVersion[1];
    own.rt_patch = kVersion[2];
    own.rt_maintenance = kVersion[3];
    std::snprintf(
        own.rt_detail, sizeof own.rt_detail, "%llu.%llu.%llu.%llu",
        static_cast<unsigned long long>(kVersion[0]), static_cast<unsigned long long>(kVersion[1]),
        static_cast<unsigned long long>(kVersion[2]), static_cast<unsigned long long>(kVersion[3]));
    return copy_out(&own, sizeof own, ver, size, sizeof own.rt_major, nullptr);
  });
}

NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t instance_info_len) {
  return nrt::call_always("nrt_get_instance_info", [&]() -> base::Status {
    const nrt_instance_info_t own = nrt::read_instance_info();
    return copy_out(&own, sizeof own, info, instance_info_len, sizeof own.family, nullptr);
  });
}

NRT_STATUS nrt_get_total_nc_count(uint32_t* vnc_count) {
  return total(__func__, vnc_count);
}
NRT_STATUS nrt_get_total_vnc_count(uint32_t* vnc_count) {
  return total(__func__, vnc_count);
}
NRT_STATUS nrt_get_visible_nc_count(uint32_t* vnc_count) {
  return visible(__func__, vnc_count);
}
NRT_STATUS nrt_get_visible_vnc_count(uint32_t* vnc_count) {
  return visible(__func__, vnc_count);
}

NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t* host_device_id) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    nrt::Device* device = runtime.device(neuron_dev);
    if (host_device_id == nullptr || device == nullptr ||
        ndl_get_host_device_id(device->handle(), host_device_id) != 0) {
      return error(NRT_INVALID, "Device " + std::to_string(neuron_dev) + " is not available");
    }
    return {};
  });
}

NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t* count, uint32_t* host_did_to_rid_map) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (count == nullptr || host_did_to_rid_map == nullptr) return null_argument();
    if (ndl_get_host_device_id_to_rid_map(count, host_did_to_rid_map) != 0) {
      return error(NRT_INVALID, "The routing id map is not available or does not fit");
    }
    return {};
  });
}

NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats,
                                    size_t stats_size_in, size_t* stats_size_out) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    auto core = runtime.core(vnc);
    if (!core) return core.error();
    nrt_vnc_memory_stats_t own{};
    own.bytes_limit = (*core)->map().hbm_size();
    auto used = nrt::hbm_bytes_in_use((*core)->device(), (*core)->hbm());
    if (!used) return used.error();
    own.bytes_used = *used;
    return copy_out(&own, sizeof own, stats, stats_size_in, sizeof own.bytes_used, stats_size_out);
  });
}

NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void** addr, size_t* size) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    nrt::Device* device = runtime.device(device_id);
    if (addr == nullptr || size == nullptr || device == nullptr || hbm_idx < 0) {
      return error(NRT_INVALID, "Bad device, HBM or pointer");
    }
    if (static_cast<uint32_t>(hbm_idx) >= device->map().hbms()) {
      return error(NRT_INVALID_HANDLE, "There is no HBM " + std::to_string(hbm_idx));
    }
    if (ndl_get_hbm_va(device->handle(), hbm_idx, addr, size) != 0) {
      return nrt::unsupported(NRT_INVALID, "The driver does not map whole HBMs on this device");
    }
    return {};
  });
}

}  // extern "C"
