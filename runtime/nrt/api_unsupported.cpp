// Exported functions of families that are Unsupported: explicit asynchronous execution, send and
// receive, debug stream, network plug-in hooks (spec/nrt-api.md 7.8, 10.1, 11 to 13, 16). Each
// checks the runtime's state, logs one line, and returns NRT_FAILURE.
#include "runtime/nrt/exports.h"

#include <cstdio>

#include "runtime/nrt/runtime_state.h"

namespace {

NRT_STATUS refuse(const char* function) {
  return nrt::call(function, [&](nrt::Runtime&) -> base::Status {
    return nrt::unsupported(NRT_FAILURE, std::string(function) + " is not supported");
  });
}

}  // namespace

extern "C" {

NRT_STATUS nrta_tensor_write(nrt_tensor_t*, const void*, uint64_t, uint64_t, int,
                             nrta_error_tracker_t*, nrta_seq_t*) {
  return refuse(__func__);
}
NRT_STATUS nrta_tensor_read(void*, nrt_tensor_t*, uint64_t, uint64_t, int, nrta_error_tracker_t*,
                            nrta_seq_t*) {
  return refuse(__func__);
}
NRT_STATUS nrta_tensor_copy(nrt_tensor_t*, uint64_t, nrt_tensor_t*, uint64_t, uint64_t, int,
                            nrta_error_tracker_t*, nrta_seq_t*) {
  return refuse(__func__);
}
NRT_STATUS nrta_execute_schedule(nrt_model_t*, const nrt_tensor_set_t*, nrt_tensor_set_t*, int,
                                 nrta_error_tracker_t*, nrta_seq_t*) {
  return refuse(__func__);
}
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t*, nrt_tensor_list_t*, nrt_tensor_list_t*, nrt_dtype_t,
                           nrt_op_type_t, nrt_cc_op_type_t, nrt_cc_context_t**) {
  return refuse(__func__);
}
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t**, int, nrta_error_tracker_t*, nrta_seq_t*) {
  return refuse(__func__);
}
NRT_STATUS nrta_is_completed(nrta_seq_t, bool*) {
  return refuse(__func__);
}
NRT_STATUS nrta_get_sequence(uint32_t, nrta_xu_t, int, nrta_seq_t*) {
  return refuse(__func__);
}
NRT_STATUS nrta_get_completion_handle(nrta_seq_t, int*) {
  return refuse(__func__);
}
NRT_STATUS nrta_error_tracker_create(uint32_t, nrta_error_tracker_t**) {
  return refuse(__func__);
}
void nrta_error_tracker_destroy(nrta_error_tracker_t* error_tracker) {
  if (error_tracker != nullptr) (void)refuse(__func__);
}
NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t*, const nrta_error_t**, size_t*) {
  return refuse(__func__);
}

NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int*) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int*) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_init(int) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_close(int) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_connect(const char*, int, int, nrt_async_sendrecv_comm_t**) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_accept(const char*, int, int, nrt_async_sendrecv_comm_t**) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t*, bool*) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t*, size_t, size_t, nrt_async_sendrecv_comm_t*,
                                          nrt_async_sendrecv_request_t**) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t*, size_t, size_t, nrt_async_sendrecv_comm_t*,
                                          nrt_async_sendrecv_request_t**) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t*, bool*, size_t*) {
  return refuse(__func__);
}
NRT_STATUS nrt_async_sendrecv_flush(int) {
  return refuse(__func__);
}

NRT_STATUS nrt_debug_client_connect(int, int*) {
  return refuse(__func__);
}
void nrt_debug_client_connect_close(int) {
  (void)refuse(__func__);
}
NRT_STATUS nrt_debug_client_read_one_event(int, ndebug_stream_event_header_t*, void**) {
  return refuse(__func__);
}

NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info*) {
  return nrt::call_always(__func__, []() -> base::Status {
    return nrt::unsupported(NRT_FAILURE, "Replacing microcode is not supported");
  });
}

NRT_STATUS nrt_get_attached_efa_bdf(const void*, char*, size_t*) {
  return refuse(__func__);
}

void* nrt_get_libnccl_net(int* err, char* err_msg, size_t err_msg_size) {
  if (err != nullptr) *err = NRT_FAILURE;
  if (err_msg != nullptr && err_msg_size > 0) {
    std::snprintf(err_msg, err_msg_size, "%s", "no network plug-in is installed");
  }
  return nullptr;
}

}  // extern "C"
