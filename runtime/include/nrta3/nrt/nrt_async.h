/* Explicit asynchronous calls, generation 3 (spec/nrt-api.md 11.10): the names
 * of generation 2 with other parameters. For libnrt.so.1 of the directory nrta3. As published, a C
 * program before C23 includes <assert.h> first. */
#ifndef NRT_ASYNC_H
#define NRT_ASYNC_H

#include <nrt/nrt.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t nrta_seq_t;
typedef uint16_t nrta_xu_id_t;

static_assert(sizeof(nrta_seq_t) == 8, "a sequence number holds 16 bits of unit, 48 of count");

#define NRTA_SEQ_NUM_MAX ((1ull << 48) - 1)
#define NRTA_SEQ_NUM_MASK NRTA_SEQ_NUM_MAX
#define NRTA_SEQ_GET_SEQ_NUM(seq) ((seq) & NRTA_SEQ_NUM_MASK)
#define NRTA_SEQ_GET_XU_ID(seq) ((seq) >> 48)

typedef enum {
  NRTA_XU_TENSOR_OP = 0,
  NRTA_XU_COMPUTE = 1,
  NRTA_XU_COLLECTIVES = 2,
  NRTA_XU_TYPE_NUM = 3
} nrta_xu_t;

/* *ret is written when the request completes and lives until then; NULL: failures are only logged.
 * lnc_idx: the core of the tensors; negative: that of the tensors. */
NRT_STATUS nrta_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size,
                             int lnc_idx, int queue, NRT_STATUS *ret, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size,
                            int lnc_idx, int queue, NRT_STATUS *ret, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst,
                            uint64_t dst_offset, uint64_t size, int lnc_idx, int queue,
                            NRT_STATUS *ret, nrta_seq_t *req_sequence);
NRT_STATUS nrta_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input,
                                 nrt_tensor_set_t *output, int queue, NRT_STATUS *ret,
                                 nrta_seq_t *req_sequence);
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t *comm, nrt_tensor_list_t *input,
                           nrt_tensor_list_t *output, nrt_dtype_t dtype, nrt_op_type_t op,
                           nrt_cc_op_type_t cc_op, nrt_cc_context_t **cc_ctx);
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t **cc_ctx, int queue, NRT_STATUS *ret,
                            nrta_seq_t *req_sequence);
NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool *is_completed);
NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq);
/* Adds 1 to an eventfd of the caller's when seq completes, at once if it has; -1: not any more. */
NRT_STATUS nrta_event_register_seq_id_completion(nrta_seq_t seq, int eventfd);
/* The same for every completion of the unit from now on. */
NRT_STATUS nrta_event_register_xu_completion(int lnc, nrta_xu_t xu, int queue, int fd);

#ifdef __cplusplus
}
#endif

#endif
