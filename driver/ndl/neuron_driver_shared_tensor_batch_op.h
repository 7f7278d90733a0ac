/* Element of a batched host/device transfer (spec/ndl-api.md 5.2). Shared by the runtime's batch
 * calls, the library and the driver's request 129. */
#ifndef NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H
#define NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H

#include <stdint.h>

typedef uint64_t nrt_tensor_batch_offset_t;
typedef uint64_t nrt_tensor_batch_size_t;

typedef struct nrt_tensor_batch_op {
  nrt_tensor_batch_offset_t offset; /* relative to the batch base */
  nrt_tensor_batch_size_t size;     /* bytes */
  void* buffer;                     /* host address */
} nrt_tensor_batch_op_t;

#endif
