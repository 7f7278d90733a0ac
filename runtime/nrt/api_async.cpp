// Exported functions: the older form of the asynchronous API, with error trackers and completion
// handles (spec/nrt-api.md 11.1 to 11.6).
#include "runtime/nrt/exports.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "runtime/nrt/async.h"
#include "runtime/nrt/runtime_state.h"

namespace {

using nrt::error;
using nrt::null_argument;
using nrt::Report;
using nrt::UnitKind;

// Failures that nobody has fetched yet; requests hold it, so that a tracker may go first.
class ErrorList {
 public:
  void add(uint64_t sequence, NRT_STATUS status) noexcept {
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      errors_.push_back({sequence, static_cast<uint64_t>(status)});
    } catch (const std::bad_alloc&) {  // it is in the log
    }
  }
  std::vector<nrta_error_t> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(errors_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<nrta_error_t> errors_;
};

// Never destroyed: programs free trackers from exit handlers.
nrt::HandleSet& trackers() {
  static auto* set = new nrt::HandleSet;
  return *set;
}

}  // namespace

struct nrta_error_tracker {
  std::shared_ptr<ErrorList> list = std::make_shared<ErrorList>();
  std::mutex mutex;
  std::vector<nrta_error_t> snapshot;  // what the caller was given last
};

namespace {

base::Result<Report> report_to(nrta_error_tracker_t* tracker) {
  if (tracker == nullptr) return Report();
  if (!trackers().contains(tracker)) {
    return error(NRT_INVALID, "The error tracker is not alive");
  }
  return Report([list = tracker->list](uint64_t sequence, NRT_STATUS result) {
    if (result != NRT_SUCCESS) list->add(sequence, result);
  });
}

base::Result<UnitKind> kind_of(nrta_xu_t xu) {
  switch (xu) {
    case NRTA_XU_TENSOR_READ:
      return UnitKind::kTensorRead;
    case NRTA_XU_TENSOR_WRITE:
      return UnitKind::kTensorWrite;
    case NRTA_XU_TENSOR_OP:
      return UnitKind::kTensorOp;
    case NRTA_XU_COMPUTE:
      return UnitKind::kCompute;
    case NRTA_XU_COLLECTIVES:
      return UnitKind::kCollectives;
    default:
      return error(NRT_INVALID,
                   "Unknown execution unit type " + std::to_string(static_cast<int>(xu)));
  }
}

// `schedule`: base::Result<uint64_t> schedule(nrt::Runtime&, Report).
template <typename Schedule>
NRT_STATUS send(const char* function, nrta_error_tracker_t* tracker, nrta_seq_t* sequence,
                Schedule&& schedule) {
  return nrt::call(function, [&](nrt::Runtime& runtime) -> base::Status {
    if (sequence == nullptr) return null_argument();
    auto report = report_to(tracker);
    if (!report) return report.error();
    auto sent = schedule(runtime, std::move(*report));
    if (!sent) return sent.error();
    *sequence = *sent;
    return {};
  });
}

}  // namespace

extern "C" {

NRT_STATUS nrta_tensor_write(nrt_tensor_t* tensor, const void* buf, uint64_t offset, uint64_t size,
                             int queue, nrta_error_tracker_t* err, nrta_seq_t* req_sequence) {
  return send(__func__, err, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_write(runtime, tensor, buf, offset, size,
                               {UnitKind::kTensorWrite, -1, queue}, std::move(report));
  });
}

NRT_STATUS nrta_tensor_read(void* buf, nrt_tensor_t* tensor, uint64_t offset, uint64_t size,
                            int queue, nrta_error_tracker_t* err, nrta_seq_t* req_sequence) {
  return send(__func__, err, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_read(runtime, buf, tensor, offset, size,
                              {UnitKind::kTensorRead, -1, queue}, std::move(report));
  });
}

NRT_STATUS nrta_tensor_copy(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst,
                            uint64_t dst_offset, uint64_t size, int queue,
                            nrta_error_tracker_t* err, nrta_seq_t* req_sequence) {
  return send(__func__, err, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_copy(runtime, src, src_offset, dst, dst_offset, size,
                              {UnitKind::kTensorOp, -1, queue}, std::move(report));
  });
}

NRT_STATUS nrta_execute_schedule(nrt_model_t* model, const nrt_tensor_set_t* input,
                                 nrt_tensor_set_t* output, int queue, nrta_error_tracker_t* err,
                                 nrta_seq_t* req_sequence) {
  return send(__func__, err, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_execution(runtime, model, input, output, queue, std::move(report));
  });
}

NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t*, nrt_tensor_list_t*, nrt_tensor_list_t*, nrt_dtype_t,
                           nrt_op_type_t, nrt_cc_op_type_t, nrt_cc_context_t**) {
  return nrt::call(__func__,
                   [&](nrt::Runtime&) -> base::Status { return nrt::no_host_collectives(); });
}
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t**, int, nrta_error_tracker_t*, nrta_seq_t*) {
  return nrt::call(__func__,
                   [&](nrt::Runtime&) -> base::Status { return nrt::no_host_collectives(); });
}

NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool* is_completed) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    return nrt::is_complete(runtime, seq, is_completed);
  });
}

NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t* seq) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    auto kind = kind_of(xu);
    if (!kind) return kind.error();
    return nrt::last_complete(runtime, lnc, *kind, queue, seq);
  });
}

NRT_STATUS nrta_get_completion_handle(nrta_seq_t seq, int* fd) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    if (fd == nullptr) return null_argument();
    auto unit = runtime.async().of(seq);
    if (!unit) return unit.error();
    // Of the caller, who may close it at any time; the unit signals a copy.
    base::UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    base::UniqueFd copy(event.valid() ? ::fcntl(event.get(), F_DUPFD_CLOEXEC, 0) : -1);
    if (!copy.valid()) {
      return error(NRT_RESOURCE, std::string("No descriptor is left: ") + std::strerror(errno));
    }
    if (base::Status s = (*unit)->add_event(seq, std::move(copy)); !s.ok()) return s;
    *fd = event.release();
    return {};
  });
}

NRT_STATUS nrta_error_tracker_create(uint32_t lnc_idx, nrta_error_tracker_t** error_tracker) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    if (error_tracker == nullptr) return null_argument();
    if (auto core = runtime.core(lnc_idx); !core) return core.error();
    auto tracker = std::make_unique<nrta_error_tracker>();
    trackers().add(tracker.get());
    *error_tracker = tracker.release();
    return {};
  });
}

void nrta_error_tracker_destroy(nrta_error_tracker_t* error_tracker) {
  (void)nrt::call_always(__func__, [&]() -> base::Status {
    if (error_tracker == nullptr) return {};
    if (!trackers().remove(error_tracker)) {
      return error(NRT_INVALID, "The error tracker is not alive");
    }
    delete error_tracker;
    return {};
  });
}

NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t* error_tracker,
                                       const nrta_error_t** list, size_t* error_count) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (list == nullptr || error_count == nullptr) return null_argument();
    if (error_tracker == nullptr || !trackers().contains(error_tracker)) {
      return error(NRT_INVALID, "The error tracker is NULL or not alive");
    }
    const std::lock_guard<std::mutex> lock(error_tracker->mutex);
    error_tracker->snapshot = error_tracker->list->take();
    *list = error_tracker->snapshot.data();
    *error_count = error_tracker->snapshot.size();
    return {};
  });
}

}  // extern "C"
