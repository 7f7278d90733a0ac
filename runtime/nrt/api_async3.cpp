// Exported functions: the asynchronous API of generation 3, with status words and eventfds of the
// caller's (spec/nrt-api.md 11.10). Built with its own header in front of the
// older one.
#include "runtime/nrt/exports.h"

#include <string>
#include <utility>

#include "runtime/nrt/async.h"
#include "runtime/nrt/runtime_state.h"

namespace {

using nrt::error;
using nrt::null_argument;
using nrt::Report;
using nrt::UnitKind;

base::Result<UnitKind> kind_of3(nrta_xu_t xu) {
  switch (xu) {
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
NRT_STATUS send3(const char* function, NRT_STATUS* ret, nrta_seq_t* sequence, Schedule&& schedule) {
  return nrt::call(function, [&](nrt::Runtime& runtime) -> base::Status {
    if (sequence == nullptr) return null_argument();
    Report report;
    if (ret != nullptr) {
      report = [ret](uint64_t, NRT_STATUS result) {
        __atomic_store_n(ret, result, __ATOMIC_RELEASE);
      };
    }
    auto sent = schedule(runtime, std::move(report));
    if (!sent) return sent.error();
    *sequence = *sent;
    return {};
  });
}

}  // namespace

extern "C" {

NRT_STATUS nrta_tensor_write(nrt_tensor_t* tensor, const void* buf, uint64_t offset, uint64_t size,
                             int lnc_idx, int queue, NRT_STATUS* ret, nrta_seq_t* req_sequence) {
  return send3(__func__, ret, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_write(runtime, tensor, buf, offset, size,
                               {UnitKind::kTensorOp, lnc_idx, queue}, std::move(report));
  });
}

NRT_STATUS nrta_tensor_read(void* buf, nrt_tensor_t* tensor, uint64_t offset, uint64_t size,
                            int lnc_idx, int queue, NRT_STATUS* ret, nrta_seq_t* req_sequence) {
  return send3(__func__, ret, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_read(runtime, buf, tensor, offset, size,
                              {UnitKind::kTensorOp, lnc_idx, queue}, std::move(report));
  });
}

NRT_STATUS nrta_tensor_copy(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst,
                            uint64_t dst_offset, uint64_t size, int lnc_idx, int queue,
                            NRT_STATUS* ret, nrta_seq_t* req_sequence) {
  return send3(__func__, ret, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_copy(runtime, src, src_offset, dst, dst_offset, size,
                              {UnitKind::kTensorOp, lnc_idx, queue}, std::move(report));
  });
}

NRT_STATUS nrta_execute_schedule(nrt_model_t* model, const nrt_tensor_set_t* input,
                                 nrt_tensor_set_t* output, int queue, NRT_STATUS* ret,
                                 nrta_seq_t* req_sequence) {
  return send3(__func__, ret, req_sequence, [&](nrt::Runtime& runtime, Report report) {
    return nrt::schedule_execution(runtime, model, input, output, queue, std::move(report));
  });
}

NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t*, nrt_tensor_list_t*, nrt_tensor_list_t*, nrt_dtype_t,
                           nrt_op_type_t, nrt_cc_op_type_t, nrt_cc_context_t**) {
  return nrt::call(__func__,
                   [&](nrt::Runtime&) -> base::Status { return nrt::no_host_collectives(); });
}
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t**, int, NRT_STATUS*, nrta_seq_t*) {
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
    auto kind = kind_of3(xu);
    if (!kind) return kind.error();
    return nrt::last_complete(runtime, lnc, *kind, queue, seq);
  });
}

NRT_STATUS nrta_event_register_seq_id_completion(nrta_seq_t seq, int eventfd) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    auto unit = runtime.async().of(seq);
    if (!unit) return unit.error();
    auto event = nrt::own_event(eventfd);
    if (!event) return event.error();
    return event->valid() ? (*unit)->add_event(seq, std::move(*event)) : (*unit)->drop_events(seq);
  });
}

NRT_STATUS nrta_event_register_xu_completion(int lnc, nrta_xu_t xu, int queue, int fd) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    auto kind = kind_of3(xu);
    if (!kind) return kind.error();
    auto unit = runtime.async().unit(lnc, *kind, queue);
    if (!unit) return unit.error();
    auto event = nrt::own_event(fd);
    if (!event) return event.error();
    (*unit)->set_unit_event(std::move(*event));
    return {};
  });
}

}  // extern "C"
