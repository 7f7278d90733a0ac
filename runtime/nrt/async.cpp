#include "runtime/nrt/async.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "runtime/nrt/model.h"
#include "runtime/nrt/runtime_state.h"
#include "runtime/nrt/sys_trace.h"
#include "runtime/nrt/tensor.h"

namespace nrt {
namespace {

// Failures after which nothing is known about the hardware behind a unit of tensor requests
// (spec/nrt-api.md 11.5).
bool kills_unit(NRT_STATUS status) {
  switch (status) {
    case NRT_TIMEOUT:
    case NRT_HW_ERROR:
    case NRT_EXEC_UNIT_UNRECOVERABLE:
    case NRT_EXEC_HW_ERR_HBM_UE:
    case NRT_EXEC_HW_ERR_NC_UE:
    case NRT_EXEC_HW_ERR_DMA_ABORT:
      return true;
    default:
      return false;
  }
}

// The failure of a request nobody waits for is told in the log.
ExecutionUnit::Outcome ended(const char* what, uint64_t sequence, base::Status status, bool fatal) {
  if (!status.ok()) {
    log(LogLevel::kError, Component::kNrt, what, "Request %llu of execution unit %llu: %s",
        static_cast<unsigned long long>(sequence & ExecutionUnit::kNumberMask),
        static_cast<unsigned long long>(sequence >> ExecutionUnit::kNumberBits),
        status.error().message().c_str());
  }
  return {std::move(status), fatal};
}

// The core whose unit serves a request on these tensors. Device memory has one core, host memory
// can be reached from all.
base::Result<int> core_for(int wanted, std::initializer_list<const TensorView*> views) {
  int vnc = wanted;
  for (const TensorView* view : views) {
    if (!view->storage || view->storage->placement != Placement::kDevice) continue;
    if (vnc < 0) vnc = view->storage->vnc;
    if (view->storage->vnc == vnc) continue;
    return error(NRT_INVALID, "A tensor of core " + std::to_string(view->storage->vnc) +
                                  " in a request to core " + std::to_string(vnc));
  }
  for (const TensorView* view : views) {
    if (vnc < 0 && view->storage) vnc = view->storage->vnc;
  }
  return std::max(vnc, 0);
}

base::Result<uint64_t> schedule_tensor_work(Runtime& runtime, base::Result<int> core,
                                            const TensorUnit& where, const char* what,
                                            std::function<base::Status()> work, Report report) {
  if (!core) return core.error();
  auto unit = runtime.async().unit(*core, where.kind, where.queue);
  if (!unit) return unit.error();
  ExecutionUnit::Request request;
  request.run = [work = std::move(work), what, vnc = *core](uint64_t sequence) {
    const uint64_t begin = realtime_ns();
    base::Status status = work();
    const NRT_STATUS result = status.ok() ? NRT_SUCCESS : status_of(status.error());
    sys_trace().add_host(static_cast<uint32_t>(vnc), what, begin, realtime_ns(),
                         static_cast<int>(result), sequence);
    return ended(what, sequence, std::move(status), kills_unit(result));
  };
  request.report = std::move(report);
  return (*unit)->schedule(std::move(request));
}

}  // namespace

// ---- Units ----

base::Result<ExecutionUnit*> AsyncUnits::unit(int64_t vnc, UnitKind kind, int queue) {
  const bool tensor = kind != UnitKind::kCompute && kind != UnitKind::kCollectives;
  if (vnc < 0 || vnc >= cores_) {
    return error(NRT_INVALID, "Core " + std::to_string(vnc) + " is not one of the " +
                                  std::to_string(cores_) + " cores of this process");
  }
  if (queue < 0 || queue >= (tensor ? 2 : 1)) {
    return error(NRT_INVALID, "The execution unit has no queue " + std::to_string(queue));
  }
  const uint32_t index = static_cast<uint32_t>(vnc) * kPerCore +
                         static_cast<uint32_t>(kind) * kQueues + static_cast<uint32_t>(queue);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<ExecutionUnit>& unit = units_[index];
  if (!unit) unit = std::make_unique<ExecutionUnit>(static_cast<uint16_t>(index + 1));
  return unit.get();
}

base::Result<ExecutionUnit*> AsyncUnits::of(uint64_t sequence) {
  const uint64_t id = sequence >> ExecutionUnit::kNumberBits;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (id == 0 || id > units_.size() || !units_[id - 1]) {
    return error(NRT_INVALID, "No execution unit has the number " + std::to_string(id));
  }
  return units_[id - 1].get();
}

ExecutionUnit* AsyncUnits::started(uint32_t vnc, UnitKind kind) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return units_[vnc * kPerCore + static_cast<uint32_t>(kind) * kQueues].get();
}

void AsyncUnits::close(std::chrono::milliseconds patience, const std::function<void()>& hurry) {
  for (const std::unique_ptr<ExecutionUnit>& unit : units_) {
    while (unit && !unit->wait_idle(patience)) hurry();
  }
  units_.clear();
}

// ---- Requests ----

base::Result<uint64_t> schedule_write(Runtime& runtime, nrt_tensor_t* tensor, const void* buffer,
                                      uint64_t offset, uint64_t size, const TensorUnit& where,
                                      Report report) {
  auto found = find_tensor(tensor);
  if (!found) return found.error();
  if (buffer == nullptr && size != 0) return null_argument();
  TensorView view = (*found)->view();
  if (base::Status s = check_range(view, offset, size); !s.ok()) return s.error();
  const auto core = core_for(where.vnc, {&view});
  auto work = [view = std::move(view), offset, buffer, size] {
    return write_tensor(view, offset, {static_cast<const uint8_t*>(buffer), size});
  };
  return schedule_tensor_work(runtime, core, where, "nrt_tensor_write", std::move(work),
                              std::move(report));
}

base::Result<uint64_t> schedule_read(Runtime& runtime, void* buffer, const nrt_tensor_t* tensor,
                                     uint64_t offset, uint64_t size, const TensorUnit& where,
                                     Report report) {
  auto found = find_tensor(tensor);
  if (!found) return found.error();
  if (buffer == nullptr && size != 0) return null_argument();
  TensorView view = (*found)->view();
  if (base::Status s = check_range(view, offset, size); !s.ok()) return s.error();
  const auto core = core_for(where.vnc, {&view});
  auto work = [view = std::move(view), offset, buffer, size] {
    return read_tensor(view, offset, {static_cast<uint8_t*>(buffer), size});
  };
  return schedule_tensor_work(runtime, core, where, "nrt_tensor_read", std::move(work),
                              std::move(report));
}

base::Result<uint64_t> schedule_copy(Runtime& runtime, const nrt_tensor_t* from,
                                     uint64_t from_offset, nrt_tensor_t* to, uint64_t to_offset,
                                     uint64_t size, const TensorUnit& where, Report report) {
  auto source = find_tensor(from);
  if (!source) return source.error();
  auto target = find_tensor(to);
  if (!target) return target.error();
  TensorView read = (*source)->view();
  TensorView write = (*target)->view();
  if (base::Status s = check_copy(read, from_offset, write, to_offset, size); !s.ok()) {
    return s.error();
  }
  const auto core = core_for(where.vnc, {&write, &read});
  auto work = [read = std::move(read), from_offset, write = std::move(write), to_offset, size] {
    return copy_tensor(read, from_offset, write, to_offset, size);
  };
  return schedule_tensor_work(runtime, core, where, "nrt_tensor_copy", std::move(work),
                              std::move(report));
}

base::Result<uint64_t> schedule_execution(Runtime& runtime, const nrt_model_t* model,
                                          const nrt_tensor_set_t* inputs,
                                          const nrt_tensor_set_t* outputs, int queue,
                                          Report report) {
  auto found = find_model(model);
  if (!found) return found.error();
  const TensorSet* in = find_set(inputs);
  const TensorSet* out = find_set(outputs);
  if (in == nullptr || out == nullptr) return bad_set();
  auto operands = (*found)->take(*in, *out);
  if (!operands) return operands.error();
  const uint32_t vnc = (*found)->core().vnc();
  auto unit = runtime.async().unit(vnc, UnitKind::kCompute, queue);
  if (!unit) return unit.error();
  ExecutionUnit::Request request;
  request.run = [model = *found, operands = std::move(*operands), vnc](uint64_t sequence) mutable {
    const uint64_t begin = realtime_ns();
    base::Status status = model->execute(std::move(operands), 1, sequence);
    sys_trace().add_host(vnc, "nrta_execute_schedule", begin, realtime_ns(),
                         status.ok() ? 0 : static_cast<int>(status_of(status.error())), sequence);
    return ended("nrta_execute_schedule", sequence, std::move(status), model->core().unusable);
  };
  request.report = std::move(report);
  auto sent = (*unit)->schedule(std::move(request));
  if (!sent && status_of(sent.error()) == NRT_QUEUE_FULL) {
    Core& core = (*found)->core();
    core.device().count_status(core.nc(), NRT_QUEUE_FULL);
  }
  return sent;
}

base::Status is_complete(Runtime& runtime, uint64_t sequence, bool* complete) {
  if (complete == nullptr) return null_argument();
  auto unit = runtime.async().of(sequence);
  if (!unit) return unit.error();
  auto answer = (*unit)->is_complete(sequence);
  if (!answer) return answer.error();
  *complete = *answer;
  return {};
}

base::Status last_complete(Runtime& runtime, uint32_t vnc, UnitKind kind, int queue,
                           uint64_t* sequence) {
  if (sequence == nullptr) return null_argument();
  auto unit = runtime.async().unit(vnc, kind, queue);
  if (!unit) return unit.error();
  *sequence = (*unit)->completed();
  return {};
}

base::Error no_host_collectives() {
  return unsupported(NRT_FAILURE, "Collectives driven by the host are not supported");
}

base::Result<base::UniqueFd> own_event(int fd) {
  if (fd < 0) return base::UniqueFd();
  char target[32] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), target, sizeof target - 1) < 0 ||
      std::strcmp(target, "anon_inode:[eventfd]") != 0) {
    return error(NRT_INVALID, "Descriptor " + std::to_string(fd) + " is not an eventfd");
  }
  base::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    return error(NRT_RESOURCE, std::string("No descriptor is left: ") + std::strerror(errno));
  }
  return copy;
}

}  // namespace nrt
