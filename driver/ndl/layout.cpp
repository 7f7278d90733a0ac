// Every size and offset of the public structures, from the tables of spec/ndl-api.md 5 and 6.6.
#include <cstddef>

#include "driver/ndl/ndl.h"
#include "driver/ndl/nrt/nds/neuron_ds.h"

static_assert(sizeof(struct ndl_version_info) == 40, "ndl_version_info");
static_assert(offsetof(struct ndl_version_info, driver_major_version) == 0,
              "ndl_version_info.driver_major_version");
static_assert(offsetof(struct ndl_version_info, driver_minor_version) == 2,
              "ndl_version_info.driver_minor_version");
static_assert(offsetof(struct ndl_version_info, driver_full_version) == 4,
              "ndl_version_info.driver_full_version");
static_assert(offsetof(struct ndl_version_info, library_major_version) == 36,
              "ndl_version_info.library_major_version");
static_assert(offsetof(struct ndl_version_info, library_minor_version) == 38,
              "ndl_version_info.library_minor_version");
static_assert(sizeof(struct ndl_device_init_param) == 12, "ndl_device_init_param");
static_assert(offsetof(struct ndl_device_init_param, initialize_device) == 0,
              "ndl_device_init_param.initialize_device");
static_assert(offsetof(struct ndl_device_init_param, num_dram_regions) == 4,
              "ndl_device_init_param.num_dram_regions");
static_assert(offsetof(struct ndl_device_init_param, map_hbm) == 8,
              "ndl_device_init_param.map_hbm");
static_assert(sizeof(struct ndl_copy_buf) == 56, "ndl_copy_buf");
static_assert(offsetof(struct ndl_copy_buf, mem_handle) == 0, "ndl_copy_buf.mem_handle");
static_assert(offsetof(struct ndl_copy_buf, mmap_va) == 8, "ndl_copy_buf.mmap_va");
static_assert(offsetof(struct ndl_copy_buf, lock) == 16, "ndl_copy_buf.lock");
static_assert(sizeof(struct ndl_device) == 632, "ndl_device");
static_assert(offsetof(struct ndl_device, device_index) == 0, "ndl_device.device_index");
static_assert(offsetof(struct ndl_device, device_type) == 1, "ndl_device.device_type");
static_assert(offsetof(struct ndl_device, device_revision) == 2, "ndl_device.device_revision");
static_assert(offsetof(struct ndl_device, connected_device_count) == 4,
              "ndl_device.connected_device_count");
static_assert(offsetof(struct ndl_device, connected_devices) == 5, "ndl_device.connected_devices");
static_assert(offsetof(struct ndl_device, csr_base) == 72, "ndl_device.csr_base");
static_assert(offsetof(struct ndl_device, csr_size) == 88, "ndl_device.csr_size");
static_assert(offsetof(struct ndl_device, cpy_bufs) == 104, "ndl_device.cpy_bufs");
static_assert(offsetof(struct ndl_device, hbm_va) == 552, "ndl_device.hbm_va");
static_assert(offsetof(struct ndl_device, hbm_size) == 584, "ndl_device.hbm_size");
static_assert(offsetof(struct ndl_device, hbm_va_cnt) == 592, "ndl_device.hbm_va_cnt");
static_assert(offsetof(struct ndl_device, shift_hbm_size) == 596, "ndl_device.shift_hbm_size");
static_assert(offsetof(struct ndl_device, hbm_offset) == 600, "ndl_device.hbm_offset");
static_assert(offsetof(struct ndl_device, context) == 632, "ndl_device.context");
static_assert(sizeof(struct ndl_device_nc) == 16, "ndl_device_nc");
static_assert(offsetof(struct ndl_device_nc, device) == 0, "ndl_device_nc.device");
static_assert(offsetof(struct ndl_device_nc, nc_id) == 8, "ndl_device_nc.nc_id");
static_assert(sizeof(struct ndl_device_context) == 4, "ndl_device_context");
static_assert(offsetof(struct ndl_device_context, nd_fd) == 0, "ndl_device_context.nd_fd");
static_assert(sizeof(struct ndl_mem_info) == 64, "ndl_mem_info");
static_assert(offsetof(struct ndl_mem_info, device) == 0, "ndl_mem_info.device");
static_assert(offsetof(struct ndl_mem_info, driver_handle) == 8, "ndl_mem_info.driver_handle");
static_assert(offsetof(struct ndl_mem_info, pa) == 16, "ndl_mem_info.pa");
static_assert(offsetof(struct ndl_mem_info, mmap_offset) == 24, "ndl_mem_info.mmap_offset");
static_assert(offsetof(struct ndl_mem_info, size) == 32, "ndl_mem_info.size");
static_assert(offsetof(struct ndl_mem_info, align) == 40, "ndl_mem_info.align");
static_assert(offsetof(struct ndl_mem_info, mmap_va) == 48, "ndl_mem_info.mmap_va");
static_assert(offsetof(struct ndl_mem_info, host_memory) == 56, "ndl_mem_info.host_memory");
static_assert(offsetof(struct ndl_mem_info, nc_id) == 60, "ndl_mem_info.nc_id");
static_assert(sizeof(struct ndl_notification_context) == 56, "ndl_notification_context");
static_assert(offsetof(struct ndl_notification_context, nc_id) == 0,
              "ndl_notification_context.nc_id");
static_assert(offsetof(struct ndl_notification_context, nq_dev_id) == 0,
              "ndl_notification_context.nq_dev_id");
static_assert(offsetof(struct ndl_notification_context, nq_dev_type) == 4,
              "ndl_notification_context.nq_dev_type");
static_assert(offsetof(struct ndl_notification_context, nq_type) == 8,
              "ndl_notification_context.nq_type");
static_assert(offsetof(struct ndl_notification_context, engine_index) == 9,
              "ndl_notification_context.engine_index");
static_assert(offsetof(struct ndl_notification_context, size) == 12,
              "ndl_notification_context.size");
static_assert(offsetof(struct ndl_notification_context, fd) == 16, "ndl_notification_context.fd");
static_assert(offsetof(struct ndl_notification_context, offset) == 24,
              "ndl_notification_context.offset");
static_assert(offsetof(struct ndl_notification_context, mem_handle) == 32,
              "ndl_notification_context.mem_handle");
static_assert(offsetof(struct ndl_notification_context, va) == 40, "ndl_notification_context.va");
static_assert(offsetof(struct ndl_notification_context, mem_info) == 48,
              "ndl_notification_context.mem_info");
static_assert(sizeof(struct ndl_queue_init) == 48, "ndl_queue_init");
static_assert(offsetof(struct ndl_queue_init, eng_id) == 0, "ndl_queue_init.eng_id");
static_assert(offsetof(struct ndl_queue_init, qid) == 4, "ndl_queue_init.qid");
static_assert(offsetof(struct ndl_queue_init, tx_desc_count) == 8, "ndl_queue_init.tx_desc_count");
static_assert(offsetof(struct ndl_queue_init, rx_desc_count) == 12, "ndl_queue_init.rx_desc_count");
static_assert(offsetof(struct ndl_queue_init, tx_handle) == 16, "ndl_queue_init.tx_handle");
static_assert(offsetof(struct ndl_queue_init, rx_handle) == 24, "ndl_queue_init.rx_handle");
static_assert(offsetof(struct ndl_queue_init, rxc_handle) == 32, "ndl_queue_init.rxc_handle");
static_assert(offsetof(struct ndl_queue_init, axi_port) == 40, "ndl_queue_init.axi_port");
static_assert(sizeof(struct ndl_queue_init_batch) == 12296, "ndl_queue_init_batch");
static_assert(offsetof(struct ndl_queue_init_batch, count) == 0, "ndl_queue_init_batch.count");
static_assert(offsetof(struct ndl_queue_init_batch, entries) == 8, "ndl_queue_init_batch.entries");
static_assert(sizeof(struct neuron_dma_eng_state) == 20, "neuron_dma_eng_state");
static_assert(offsetof(struct neuron_dma_eng_state, revision_id) == 0,
              "neuron_dma_eng_state.revision_id");
static_assert(offsetof(struct neuron_dma_eng_state, max_queues) == 4,
              "neuron_dma_eng_state.max_queues");
static_assert(offsetof(struct neuron_dma_eng_state, num_queues) == 8,
              "neuron_dma_eng_state.num_queues");
static_assert(offsetof(struct neuron_dma_eng_state, tx_state) == 12,
              "neuron_dma_eng_state.tx_state");
static_assert(offsetof(struct neuron_dma_eng_state, rx_state) == 16,
              "neuron_dma_eng_state.rx_state");
static_assert(sizeof(struct neuron_dma_queue_state) == 48, "neuron_dma_queue_state");
static_assert(offsetof(struct neuron_dma_queue_state, hw_status) == 0,
              "neuron_dma_queue_state.hw_status");
static_assert(offsetof(struct neuron_dma_queue_state, sw_status) == 4,
              "neuron_dma_queue_state.sw_status");
static_assert(offsetof(struct neuron_dma_queue_state, base_addr) == 8,
              "neuron_dma_queue_state.base_addr");
static_assert(offsetof(struct neuron_dma_queue_state, length) == 16,
              "neuron_dma_queue_state.length");
static_assert(offsetof(struct neuron_dma_queue_state, head_pointer) == 20,
              "neuron_dma_queue_state.head_pointer");
static_assert(offsetof(struct neuron_dma_queue_state, tail_pointer) == 24,
              "neuron_dma_queue_state.tail_pointer");
static_assert(offsetof(struct neuron_dma_queue_state, completion_base_addr) == 32,
              "neuron_dma_queue_state.completion_base_addr");
static_assert(offsetof(struct neuron_dma_queue_state, completion_head) == 40,
              "neuron_dma_queue_state.completion_head");
static_assert(sizeof(struct neuron_uuid) == 32, "neuron_uuid");
static_assert(offsetof(struct neuron_uuid, value) == 0, "neuron_uuid.value");
static_assert(sizeof(struct neuron_app_info) == 152, "neuron_app_info");
static_assert(offsetof(struct neuron_app_info, pid) == 0, "neuron_app_info.pid");
static_assert(offsetof(struct neuron_app_info, nc_lock_map) == 4, "neuron_app_info.nc_lock_map");
static_assert(offsetof(struct neuron_app_info, uuid_data) == 5, "neuron_app_info.uuid_data");
static_assert(offsetof(struct neuron_app_info, host_mem_size) == 136,
              "neuron_app_info.host_mem_size");
static_assert(offsetof(struct neuron_app_info, device_mem_size) == 144,
              "neuron_app_info.device_mem_size");
static_assert(sizeof(union nmetric_version) == 8, "nmetric_version");
static_assert(offsetof(union nmetric_version, all) == 0, "nmetric_version.all");
static_assert(sizeof(struct neuron_ioctl_mem_chunk_info) == 24, "neuron_ioctl_mem_chunk_info");
static_assert(offsetof(struct neuron_ioctl_mem_chunk_info, pa) == 0,
              "neuron_ioctl_mem_chunk_info.pa");
static_assert(offsetof(struct neuron_ioctl_mem_chunk_info, size) == 8,
              "neuron_ioctl_mem_chunk_info.size");
static_assert(offsetof(struct neuron_ioctl_mem_chunk_info, mem_type) == 16,
              "neuron_ioctl_mem_chunk_info.mem_type");
static_assert(sizeof(struct neuron_ioctl_nc_map_entry) == 8, "neuron_ioctl_nc_map_entry");
static_assert(offsetof(struct neuron_ioctl_nc_map_entry, device_id) == 0,
              "neuron_ioctl_nc_map_entry.device_id");
static_assert(offsetof(struct neuron_ioctl_nc_map_entry, device_nc_idx) == 4,
              "neuron_ioctl_nc_map_entry.device_nc_idx");
static_assert(sizeof(struct neuron_ioctl_nc_map) == 4, "neuron_ioctl_nc_map");
static_assert(offsetof(struct neuron_ioctl_nc_map, num_entries) == 0,
              "neuron_ioctl_nc_map.num_entries");
static_assert(offsetof(struct neuron_ioctl_nc_map, mappings) == 4, "neuron_ioctl_nc_map.mappings");
static_assert(sizeof(struct neuron_memcpy_batch) == 40, "neuron_memcpy_batch");
static_assert(offsetof(struct neuron_memcpy_batch, mem_handle) == 0,
              "neuron_memcpy_batch.mem_handle");
static_assert(offsetof(struct neuron_memcpy_batch, mem_handle_offset) == 8,
              "neuron_memcpy_batch.mem_handle_offset");
static_assert(offsetof(struct neuron_memcpy_batch, ops_ptr) == 16, "neuron_memcpy_batch.ops_ptr");
static_assert(offsetof(struct neuron_memcpy_batch, num_ops) == 24, "neuron_memcpy_batch.num_ops");
static_assert(offsetof(struct neuron_memcpy_batch, bar4_wr_threshold) == 28,
              "neuron_memcpy_batch.bar4_wr_threshold");
static_assert(offsetof(struct neuron_memcpy_batch, flags) == 30, "neuron_memcpy_batch.flags");
static_assert(offsetof(struct neuron_memcpy_batch, context) == 32, "neuron_memcpy_batch.context");
static_assert(sizeof(struct nrt_tensor_batch_op) == 24, "nrt_tensor_batch_op");
static_assert(offsetof(struct nrt_tensor_batch_op, offset) == 0, "nrt_tensor_batch_op.offset");
static_assert(offsetof(struct nrt_tensor_batch_op, size) == 8, "nrt_tensor_batch_op.size");
static_assert(offsetof(struct nrt_tensor_batch_op, buffer) == 16, "nrt_tensor_batch_op.buffer");
static_assert(sizeof(struct nds_header) == 8, "nds_header");
static_assert(offsetof(struct nds_header, signature) == 0, "nds_header.signature");
static_assert(offsetof(struct nds_header, version) == 4, "nds_header.version");
static_assert(sizeof(struct nds_mem_usage_info) == 16, "nds_mem_usage_info");
static_assert(offsetof(struct nds_mem_usage_info, total_size) == 0,
              "nds_mem_usage_info.total_size");
static_assert(offsetof(struct nds_mem_usage_info, chunk_count) == 8,
              "nds_mem_usage_info.chunk_count");
static_assert(sizeof(struct nds_model_node_info) == 284, "nds_model_node_info");
static_assert(offsetof(struct nds_model_node_info, model_id) == 0, "nds_model_node_info.model_id");
static_assert(offsetof(struct nds_model_node_info, model_node_id) == 4,
              "nds_model_node_info.model_node_id");
static_assert(offsetof(struct nds_model_node_info, name) == 8, "nds_model_node_info.name");
static_assert(offsetof(struct nds_model_node_info, uuid) == 264, "nds_model_node_info.uuid");
static_assert(offsetof(struct nds_model_node_info, nc_index) == 280,
              "nds_model_node_info.nc_index");
static_assert(offsetof(struct nds_model_node_info, sg_index) == 281,
              "nds_model_node_info.sg_index");
static_assert(sizeof(struct nds_model_node_mem_usage_info) == 384, "nds_model_node_mem_usage_info");
static_assert(offsetof(struct nds_model_node_mem_usage_info, model_mem_usage) == 0,
              "nds_model_node_mem_usage_info.model_mem_usage");
static_assert(sizeof(struct nds_version_info) == 8, "nds_version_info");
static_assert(offsetof(struct nds_version_info, major) == 0, "nds_version_info.major");
static_assert(offsetof(struct nds_version_info, minor) == 1, "nds_version_info.minor");
static_assert(offsetof(struct nds_version_info, build) == 4, "nds_version_info.build");
static_assert(sizeof(struct nds_process_info) == 60, "nds_process_info");
static_assert(offsetof(struct nds_process_info, framework_type) == 0,
              "nds_process_info.framework_type");
static_assert(offsetof(struct nds_process_info, tag) == 1, "nds_process_info.tag");
static_assert(offsetof(struct nds_process_info, framework_version) == 36,
              "nds_process_info.framework_version");
static_assert(offsetof(struct nds_process_info, fal_version) == 44, "nds_process_info.fal_version");
static_assert(offsetof(struct nds_process_info, runtime_version) == 52,
              "nds_process_info.runtime_version");
static_assert(sizeof(struct nds_process_info_ext) == 256, "nds_process_info_ext");
static_assert(offsetof(struct nds_process_info_ext, tag) == 0, "nds_process_info_ext.tag");
