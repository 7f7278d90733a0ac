#include "runtime/nrt/status.h"

#include <cerrno>
#include <cstring>

namespace nrt {

const char* status_text(NRT_STATUS status) {
  switch (status) {
#define NRT_STATUS_TEXT(name) \
  case name:                  \
    return #name
    NRT_STATUS_TEXT(NRT_SUCCESS);
    NRT_STATUS_TEXT(NRT_FAILURE);
    NRT_STATUS_TEXT(NRT_INVALID);
    NRT_STATUS_TEXT(NRT_INVALID_HANDLE);
    NRT_STATUS_TEXT(NRT_RESOURCE);
    NRT_STATUS_TEXT(NRT_TIMEOUT);
    NRT_STATUS_TEXT(NRT_HW_ERROR);
    NRT_STATUS_TEXT(NRT_QUEUE_FULL);
    NRT_STATUS_TEXT(NRT_LOAD_NOT_ENOUGH_NC);
    NRT_STATUS_TEXT(NRT_UNSUPPORTED_NEFF_VERSION);
    NRT_STATUS_TEXT(NRT_FAIL_HOST_MEM_ALLOC);
    NRT_STATUS_TEXT(NRT_UNINITIALIZED);
    NRT_STATUS_TEXT(NRT_CLOSED);
    NRT_STATUS_TEXT(NRT_QUEUE_EMPTY);
    NRT_STATUS_TEXT(NRT_EXEC_UNIT_UNRECOVERABLE);
    NRT_STATUS_TEXT(NRT_EXEC_BAD_INPUT);
    NRT_STATUS_TEXT(NRT_EXEC_COMPLETED_WITH_NUM_ERR);
    NRT_STATUS_TEXT(NRT_EXEC_COMPLETED_WITH_ERR);
    NRT_STATUS_TEXT(NRT_EXEC_NC_BUSY);
    NRT_STATUS_TEXT(NRT_EXEC_OOB);
    NRT_STATUS_TEXT(NRT_COLL_PENDING);
    NRT_STATUS_TEXT(NRT_EXEC_HW_ERR_COLLECTIVES);
    NRT_STATUS_TEXT(NRT_EXEC_HW_ERR_HBM_UE);
    NRT_STATUS_TEXT(NRT_EXEC_HW_ERR_NC_UE);
    NRT_STATUS_TEXT(NRT_EXEC_HW_ERR_DMA_ABORT);
    NRT_STATUS_TEXT(NRT_EXEC_SW_NQ_OVERFLOW);
    NRT_STATUS_TEXT(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE);
    NRT_STATUS_TEXT(NRT_NETWORK_PROXY_FAILURE);
#undef NRT_STATUS_TEXT
  }
  return "UNKNOWN STATUS";
}

base::Error driver_error(const char* what, int error_number) {
  NRT_STATUS status = NRT_FAILURE;
  if (error_number == ENOMEM || error_number == ENOENT) status = NRT_RESOURCE;
  if (error_number == EPERM || error_number == ETIMEDOUT) status = NRT_HW_ERROR;
  return {base::Fault::kIo, static_cast<int>(status), what,
          std::string("driver request failed: ") + std::strerror(error_number) + " (errno " +
              std::to_string(error_number) + ")"};
}

}  // namespace nrt
