// Exported functions: asynchronous send and receive (spec/nrt-api.md 12).
#include "runtime/nrt/exports.h"

#include "runtime/nrt/environment.h"
#include "runtime/nrt/runtime_state.h"
#include "runtime/nrt/send_receive.h"

namespace {

using nrt::error;

constexpr const char* kEnable = "NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED";

// This family knows no NRT_INVALID.
base::Error null_here() {
  return error(NRT_FAILURE, "A required pointer is NULL");
}

NRT_STATUS limit(const char* function, int value, int* num) {
  return nrt::call(function, [&](nrt::Runtime&) -> base::Status {
    if (num == nullptr) return null_here();
    *num = value;
    return {};
  });
}

NRT_STATUS open_channel(const char* function, bool sender, const char* ip, int peer, int lnc,
                        nrt_async_sendrecv_comm_t** comm) {
  return nrt::call(function, [&](nrt::Runtime& runtime) -> base::Status {
    if (comm == nullptr) return null_here();
    auto handle = runtime.send_receive().open(sender, ip, peer, lnc);
    if (!handle) return handle.error();
    *comm = static_cast<nrt_async_sendrecv_comm_t*>(const_cast<void*>(*handle));
    return {};
  });
}

NRT_STATUS transfer(const char* function, bool send, const nrt_tensor_t* tensor, size_t offset,
                    size_t length, const nrt_async_sendrecv_comm_t* comm,
                    nrt_async_sendrecv_request_t** request) {
  return nrt::call(function, [&](nrt::Runtime& runtime) -> base::Status {
    if (request == nullptr) return null_here();
    auto found = nrt::find_tensor(tensor);
    if (!found) return error(NRT_FAILURE, "The tensor handle is NULL or not alive");
    auto handle = runtime.send_receive().start(comm, send, (*found)->view(), offset, length);
    if (!handle) return handle.error();
    *request = static_cast<nrt_async_sendrecv_request_t*>(const_cast<void*>(*handle));
    return {};
  });
}

}  // namespace

extern "C" {

NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int* num) {
  return limit(__func__, nrt::SendReceive::kMaxChannels, num);
}

NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int* num) {
  return limit(__func__, static_cast<int>(nrt::PeerChannel::kMaxPending), num);
}

NRT_STATUS nrt_async_sendrecv_init(int lnc) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    if (!nrt::environment_flag(kEnable, false)) {
      return error(NRT_FAILURE, std::string(kEnable) + "=1 is not set");
    }
    return runtime.send_receive().enable(lnc);
  });
}

NRT_STATUS nrt_async_sendrecv_close(int lnc) {
  return nrt::call(__func__,
                   [&](nrt::Runtime& runtime) { return runtime.send_receive().disable(lnc); });
}

NRT_STATUS nrt_async_sendrecv_connect(const char* peer_ip, int peer_lnc, int lnc,
                                      nrt_async_sendrecv_comm_t** send_comm) {
  return open_channel(__func__, true, peer_ip, peer_lnc, lnc, send_comm);
}

NRT_STATUS nrt_async_sendrecv_accept(const char* peer_ip, int peer_lnc, int lnc,
                                     nrt_async_sendrecv_comm_t** recv_comm) {
  return open_channel(__func__, false, peer_ip, peer_lnc, lnc, recv_comm);
}

NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t* comm, bool* done) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    if (done == nullptr) return null_here();
    auto ready = runtime.send_receive().connected(comm);
    if (!ready) return ready.error();
    *done = *ready;
    return {};
  });
}

NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t* tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t* send_comm,
                                          nrt_async_sendrecv_request_t** request) {
  return transfer(__func__, true, tensor, offset, length, send_comm, request);
}

NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t* tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t* recv_comm,
                                          nrt_async_sendrecv_request_t** request) {
  return transfer(__func__, false, tensor, offset, length, recv_comm, request);
}

NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t* request, bool* done,
                                           size_t* size) {
  return nrt::call(__func__, [&](nrt::Runtime& runtime) -> base::Status {
    if (done == nullptr) return null_here();
    auto moved = runtime.send_receive().finished(request);
    if (!moved) return moved.error();
    *done = moved->has_value();
    if (size != nullptr) *size = moved->value_or(0);
    return {};
  });
}

NRT_STATUS nrt_async_sendrecv_flush(int lnc) {
  return nrt::call(__func__,
                   [&](nrt::Runtime& runtime) { return runtime.send_receive().flush(lnc); });
}

}  // extern "C"
