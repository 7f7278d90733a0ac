// Layout of the public structures (spec/nrt-api.md 3) as a C++ client sees them.
#include <gtest/gtest.h>

#include <cassert>
#include <cstddef>

#include <nrt/nrt.h>

#include <nrt/ndebug_stream.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_async_sendrecv.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <nrt/nrt_version.h>

#include "arch/contract/dtype.h"

namespace {

#define CHECK_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#define CHECK_OFFSET(type, field, bytes) \
  static_assert(offsetof(type, field) == (bytes), #type "." #field)

CHECK_SIZE(NRT_STATUS, 4);
CHECK_SIZE(nrt_dtype_t, 4);
// The types of the interface are those of the hardware, by number (spec/neff.md 3.6).
#define CHECK_DTYPE(ours, theirs) \
  static_assert(static_cast<int>(contract::DType::ours) == static_cast<int>(theirs), #theirs)
CHECK_DTYPE(kInvalid, NRT_DTYPE_INVALID);
CHECK_DTYPE(kUint64, NRT_DTYPE_UINT64);
CHECK_DTYPE(kInt8, NRT_DTYPE_INT8);
CHECK_DTYPE(kUint8, NRT_DTYPE_UINT8);
CHECK_DTYPE(kInt16, NRT_DTYPE_INT16);
CHECK_DTYPE(kUint16, NRT_DTYPE_UINT16);
CHECK_DTYPE(kBf16, NRT_DTYPE_BFLOAT16);
CHECK_DTYPE(kFp16, NRT_DTYPE_FLOAT16);
CHECK_DTYPE(kInt32, NRT_DTYPE_INT32);
CHECK_DTYPE(kUint32, NRT_DTYPE_UINT32);
CHECK_DTYPE(kFp32, NRT_DTYPE_FLOAT32);
CHECK_DTYPE(kFp32r, NRT_DTYPE_FP32R);
CHECK_DTYPE(kInt64, NRT_DTYPE_INT64);
CHECK_DTYPE(kFp8E3, NRT_DTYPE_FP8_E3);
CHECK_DTYPE(kFp8E4, NRT_DTYPE_FP8_E4);
CHECK_DTYPE(kFp8E5, NRT_DTYPE_FP8_E5);
CHECK_SIZE(nrt_instance_info_t, 32);
CHECK_OFFSET(nrt_instance_info_t, size, 4);
CHECK_OFFSET(nrt_instance_info_t, arch_name, 8);
CHECK_OFFSET(nrt_instance_info_t, device_revision, 24);
CHECK_SIZE(nrt_tensor_batch_op_t, 24);
CHECK_OFFSET(nrt_tensor_batch_op_t, size, 8);
CHECK_OFFSET(nrt_tensor_batch_op_t, buffer, 16);
CHECK_SIZE(nrt_tensor_batch_t, 24);
CHECK_OFFSET(nrt_tensor_batch_t, ops, 8);
CHECK_OFFSET(nrt_tensor_batch_t, num_ops, 16);
CHECK_SIZE(nrt_tensor_device_allocation_info_t, 24);
CHECK_OFFSET(nrt_tensor_device_allocation_info_t, hbm_index, 16);
CHECK_SIZE(nrt_vnc_memory_stats_t, 16);
CHECK_SIZE(nrt_cc_comm_t, 32);
CHECK_OFFSET(nrt_cc_comm_t, vnc, 24);
CHECK_SIZE(nrt_tensor_list_t, 16);
CHECK_SIZE(nrt_version_t, 224);
CHECK_OFFSET(nrt_version_t, rt_detail, 32);
CHECK_OFFSET(nrt_version_t, git_hash, 160);
CHECK_SIZE(nrt_tensor_info_t, 296);
CHECK_OFFSET(nrt_tensor_info_t, usage, 256);
CHECK_OFFSET(nrt_tensor_info_t, size, 264);
CHECK_OFFSET(nrt_tensor_info_t, dtype, 272);
CHECK_OFFSET(nrt_tensor_info_t, shape, 280);
CHECK_OFFSET(nrt_tensor_info_t, ndim, 288);
CHECK_SIZE(nrt_tensor_info_array_t, 8);
CHECK_OFFSET(nrt_tensor_info_array_t, tensor_array, 8);
CHECK_SIZE(nrt_ucode_img, 16);
CHECK_SIZE(nrt_ucode_info, 32);
CHECK_SIZE(nrt_model_info_t, 4);
CHECK_SIZE(nrta_error_t, 16);
CHECK_SIZE(ndebug_stream_event_header_t, 64);
CHECK_OFFSET(ndebug_stream_event_header_t, reserved, 12);
CHECK_SIZE(ndebug_stream_payload_debug_tensor_read_t, 1024);
CHECK_OFFSET(ndebug_stream_payload_debug_tensor_read_t, tensor_dtype, 520);
CHECK_OFFSET(ndebug_stream_payload_debug_tensor_read_t, tensor_shape, 536);
CHECK_OFFSET(ndebug_stream_payload_debug_tensor_read_t, reserved0, 608);

TEST(Abi, EnumeratorsHaveThePublishedNumbers) {
  EXPECT_EQ(NRT_EXEC_UNIT_UNRECOVERABLE, 101);
  EXPECT_EQ(NRT_EXEC_HW_ERR_DMA_ABORT, 1203);
  EXPECT_EQ(NRT_NETWORK_PROXY_FAILURE, 1206);
  EXPECT_EQ(NRT_DTYPE_FP8_E5, 0xF);
  EXPECT_EQ(NRT_OP_INVALID, 15);
  EXPECT_EQ(NRT_CC_REDUCESCATTER, 2);
  EXPECT_EQ(NRT_FRAMEWORK_TYPE_PRECHECK, 5);
  EXPECT_EQ(NRT_INSTANCE_TRN3PDS98, 15);
  EXPECT_EQ(NRT_INSTANCE_SIZE_3XL, 8);
  EXPECT_EQ(NRTA_XU_TYPE_NUM, 5);
}

TEST(Abi, SequenceNumbersSplitAt48Bits) {
  const nrta_seq_t seq = (7ull << 48) | 123;
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(seq), 123u);
  EXPECT_EQ(NRTA_SEQ_GET_XU_ID(seq), 7u);
}

}  // namespace
