/* The public headers in plain C, with every warning an error. */
#include <assert.h>
#include <nrt/nrt.h>

#include <ndl/neuron_driver_shared_tensor_batch_op.h>
#include <nrt/ndebug_stream.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_async_sendrecv.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <nrt/nrt_version.h>

_Static_assert(sizeof(nrt_tensor_info_t) == 296, "nrt_tensor_info_t");
_Static_assert(sizeof(nrt_version_t) == 224, "nrt_version_t");
_Static_assert(sizeof(NRT_STATUS) == 4, "NRT_STATUS");

const char* headers_c_status(void);
const char* headers_c_status(void) {
  return nrt_get_status_as_str(NRT_SUCCESS);
}
