// The process's runtime: state machine, owned devices and cores, live handles, and the wrapper that
// every exported function goes through (spec/nrt-api.md 1.6, 4).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "runtime/exec/core.h"
#include "runtime/exec/device.h"
#include "runtime/load/communicator.h"
#include "runtime/nrt/async.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/handles.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/model.h"
#include "runtime/nrt/status.h"

namespace nrt {

class SendReceive;

// What exists between nrt_init and nrt_close.
class Runtime {
 public:
  static base::Result<std::unique_ptr<Runtime>> start();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  base::Result<Core*> core(int64_t vnc);
  uint32_t core_count() const { return static_cast<uint32_t>(cores_.size()); }
  Device* device(int index);
  AsyncUnits& async() { return *async_; }
  SendReceive& send_receive() { return *send_receive_; }
  const contract::AddressMap& map() const { return devices_.front()->map(); }

  base::Result<std::shared_ptr<Model>> load(base::ConstByteSpan file, int32_t vnc,
                                            const neff::CollectiveContext& context);
  // The core's communicator, made on first use.
  base::Result<std::shared_ptr<Communicator>> communicator(Core& core, uint32_t rank,
                                                           uint32_t world);
  // Before it ends: calls that wait for peers fail, for these may never come, and executions get a
  // time limit if they have none.
  void stop_waiting();

 private:
  Runtime() = default;
  base::Status reserve();
  int mark(CoreRange range, uint32_t count, uint32_t* available);
  base::Status find_places();
  base::Status open_devices();
  base::Status reset_cores();
  base::Status bring_up_cores();
  base::Status set_state(const Device& device, uint32_t nc, uint32_t state) const;
  Core& least_loaded();
  RankPosition position_of(const Core& core) const;

  std::mutex mutex_;
  std::mutex load_mutex_;  // one load at a time
  uint32_t lnc_ = 1;       // physical cores per logical core
  uint32_t first_core_ = 0;
  uint32_t per_device_ = 0;  // logical cores per chip
  std::vector<uint64_t> marks_;
  bool marked_ = false;
  std::vector<std::shared_ptr<Device>> devices_;
  HostPlace host_;
  std::vector<CorePlace> places_;  // by vnc
  std::vector<std::unique_ptr<Core>> cores_;
  std::unordered_map<uint32_t, std::shared_ptr<Communicator>> communicators_;  // by vnc
  std::vector<std::weak_ptr<Model>> models_;
  uint32_t next_model_ = 1001;  // spec/nrt-api.md 19.4
  std::unique_ptr<AsyncUnits> async_;
  std::unique_ptr<SendReceive> send_receive_;
};

// Logical cores of the instance, without a running runtime.
base::Result<uint32_t> total_cores();
base::Result<contract::AddressMap> instance_map();

struct Process {
  enum class State { kNeverInit, kRunning, kClosed };

  std::shared_mutex mutex;  // held shared by every gated call, exclusively by init and close
  State state = State::kNeverInit;
  int owner_pid = 0;
  std::unique_ptr<Runtime> runtime;
  HandleSet tensors;
  HandleSet sets;
  HandleSet models;
};
Process& process();  // never destroyed: programs free tensors from exit handlers

// NRT_SUCCESS if the runtime runs in this process. The lock is held.
NRT_STATUS gate(const Process& p);

NRT_STATUS report(const char* function, const base::Error& e);

// Runs `body` of a gated function: `base::Status body(Runtime&)`. No exception leaves.
template <typename Body>
NRT_STATUS call(const char* function, Body&& body) {
  try {
    Process& p = process();
    const std::shared_lock<std::shared_mutex> lock(p.mutex);
    if (const NRT_STATUS state = gate(p); state != NRT_SUCCESS) {
      log(LogLevel::kError, Component::kNrt, function,
          "Unexpected runtime state: the runtime is %s",
          state == NRT_CLOSED ? "closed" : "not initialized");
      return state;
    }
    const base::Status status = body(*p.runtime);
    return status.ok() ? NRT_SUCCESS : report(function, status.error());
  } catch (const std::bad_alloc&) {
    return report(function, error(NRT_RESOURCE, "Out of host memory", base::Fault::kResource));
  } catch (...) {
    return report(function, error(NRT_FAILURE, "Unexpected failure", base::Fault::kInternal));
  }
}

// The same for functions that work in every state: `base::Status body()`.
template <typename Body>
NRT_STATUS call_always(const char* function, Body&& body) {
  try {
    const base::Status status = body();
    return status.ok() ? NRT_SUCCESS : report(function, status.error());
  } catch (const std::bad_alloc&) {
    return report(function, error(NRT_RESOURCE, "Out of host memory", base::Fault::kResource));
  } catch (...) {
    return report(function, error(NRT_FAILURE, "Unexpected failure", base::Fault::kInternal));
  }
}

// What a handle stands for; errors carry the status of spec/nrt-api.md 7 to 9 for one that is NULL
// or not alive. find_set() gives null, bad_set() is the error for it.
base::Result<std::shared_ptr<Tensor>> find_tensor(const nrt_tensor_t* tensor);
base::Result<std::shared_ptr<Model>> find_model(const nrt_model_t* model);
TensorSet* find_set(const nrt_tensor_set_t* set);
base::Error bad_set();

inline base::Error null_argument() {
  return error(NRT_INVALID, "A required pointer is NULL");
}

}  // namespace nrt
