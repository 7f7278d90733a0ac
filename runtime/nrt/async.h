// The asynchronous API without its signatures: the execution units of all cores, and requests to
// them (spec/nrt-api.md 11). The exported functions of each generation of the API are wrappers:
// api_async.cpp the older one, api_async3.cpp generation 3.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <nrt/nrt.h>

#include "base/error.h"
#include "base/fd.h"
#include "runtime/exec/execution_unit.h"

namespace nrt {

class Runtime;

enum class UnitKind : uint8_t { kTensorRead, kTensorWrite, kTensorOp, kCompute, kCollectives };
constexpr uint32_t kUnitKinds = 5;

class AsyncUnits {
 public:
  explicit AsyncUnits(uint32_t cores) : cores_(cores), units_(cores * kPerCore) {}

  // NRT_INVALID: there is no such core or queue. Tensor kinds have two queues, the others one.
  base::Result<ExecutionUnit*> unit(int64_t vnc, UnitKind kind, int queue);
  // Of a sequence number. NRT_INVALID: no request was ever sent to such a unit.
  base::Result<ExecutionUnit*> of(uint64_t sequence);
  // Null: nothing was ever sent to it.
  ExecutionUnit* started(uint32_t vnc, UnitKind kind);

  // Ends all units after what they have queued. `hurry` is called when one has made no progress for
  // `patience`, and lets requests fail that wait for something.
  void close(std::chrono::milliseconds patience, const std::function<void()>& hurry);

 private:
  static constexpr uint32_t kQueues = 2;
  static constexpr uint32_t kPerCore = kUnitKinds * kQueues;

  uint32_t cores_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ExecutionUnit>> units_;  // made on first use
};

// Requests. The arguments are checked as those of the synchronous calls, before anything is queued;
// `report` hears of the end. The result is the sequence number.
using Report = std::function<void(uint64_t sequence, NRT_STATUS result)>;

// Where a request on tensors goes: the core of the tensors if `vnc` is negative, else that one,
// which must be theirs if they are on the device.
struct TensorUnit {
  UnitKind kind = UnitKind::kTensorOp;
  int vnc = -1;
  int queue = 0;
};
base::Result<uint64_t> schedule_write(Runtime& runtime, nrt_tensor_t* tensor, const void* buffer,
                                      uint64_t offset, uint64_t size, const TensorUnit& where,
                                      Report report);
base::Result<uint64_t> schedule_read(Runtime& runtime, void* buffer, const nrt_tensor_t* tensor,
                                     uint64_t offset, uint64_t size, const TensorUnit& where,
                                     Report report);
base::Result<uint64_t> schedule_copy(Runtime& runtime, const nrt_tensor_t* from,
                                     uint64_t from_offset, nrt_tensor_t* to, uint64_t to_offset,
                                     uint64_t size, const TensorUnit& where, Report report);
base::Result<uint64_t> schedule_execution(Runtime& runtime, const nrt_model_t* model,
                                          const nrt_tensor_set_t* inputs,
                                          const nrt_tensor_set_t* outputs, int queue,
                                          Report report);

// What both generations ask about requests; a null pointer is NRT_INVALID.
base::Status is_complete(Runtime& runtime, uint64_t sequence, bool* complete);
base::Status last_complete(Runtime& runtime, uint32_t vnc, UnitKind kind, int queue,
                           uint64_t* sequence);

// nrta_cc_prepare and nrta_cc_schedule.
base::Error no_host_collectives();

// A copy of an application's eventfd that stays valid whatever becomes of the original; none for a
// negative number. NRT_INVALID: not an eventfd.
base::Result<base::UniqueFd> own_event(int fd);

}  // namespace nrt
