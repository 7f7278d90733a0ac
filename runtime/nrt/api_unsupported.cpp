// Exported functions of families that are Unsupported: debug stream, network plug-in hooks
// (spec/nrt-api.md 7.8, 10.1, 13, 16). Each checks the runtime's state, logs one
// line, and returns NRT_FAILURE.
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
