// Structures of the character-device ABI: spec/driver-ioctl.md section 3, field for field. Natural
// alignment, little-endian; layout.h asserts every size and offset. Names drop the prefix
// "neuron_ioctl_" of the document.
#pragma once

#include <cstdint>

namespace driver::uapi {

// 3.1 Identity
struct device_basic_info {
  uint32_t architecture;
  uint32_t revision;
};
struct host_device_id {
  uint32_t host_device_id;
};
struct device_info {
  uint32_t architecture;
  uint32_t revision;
  uint32_t connected_device_count;
  uint32_t connected_devices[8];
  uint64_t bar_address[2];
  uint64_t bar_size[2];
};
struct device_bdf {
  uint32_t bus_number;
  uint8_t slot;
  uint8_t func;
};
struct device_bdf_ext {
  uint32_t nd_index;
  uint32_t domain;
  uint32_t bus_number;
  uint8_t slot;
  uint8_t func;
};
struct host_device_id_to_rid_map {
  uint32_t count;
  uint32_t host_did_to_rid_map[64];
};
struct compatible_version {
  uint32_t max;
  uint32_t min;
};
struct device_driver_info {
  uint32_t architecture;
  uint32_t revision;
  uint32_t version;
  uint32_t size;
  uint64_t feature_flags1;
};
struct get_logical_to_physical_nc_map {
  uint64_t map;
  uint32_t max_map_entries;
  uint32_t mapping_version;
};
struct nc_map_entry {
  uint32_t device_id;
  uint32_t device_nc_idx;
};
struct get_apps_info {  // followed by `capacity` app_info
  uint16_t apps_info_flags;
  uint32_t capacity;
  uint32_t size;
};
struct app_info {
  int32_t pid;
  uint8_t nc_lock_map;
  uint8_t uuid_data[4][32];
  uint64_t host_mem_size;
  uint64_t device_mem_size;
};
constexpr uint32_t kAppInfoEntriesOffset = 16;  // get_apps_info.app_data

// 3.2 Registers, metrics
struct bar_rw {
  uint32_t bar;
  uint64_t address;
  uint64_t data;
  uint32_t count;
};
struct read_hw_counters {
  uint64_t address;
  uint64_t data;
  uint32_t count;
};
struct post_metric {
  uint64_t data;
  uint32_t data_size;
};
struct metrics_ctrl {
  uint32_t mode;
};

// 3.3 Memory
struct mem_alloc {
  uint64_t size;
  uint32_t host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  uint32_t nc_id;
  uint64_t mem_handle;
};
struct mem_alloc_v2 {
  uint64_t size;
  uint64_t align;
  uint32_t host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  uint32_t nc_id;
  uint64_t mem_handle;
};
struct mem_alloc_v2_mem_type {
  uint64_t size;
  uint64_t align;
  uint32_t host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  uint32_t nc_id;
  uint32_t mem_type;
  uint64_t mem_handle;
};
struct mem_alloc_v2_mem_type64 {
  uint64_t size;
  uint64_t align;
  uint32_t host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  uint32_t nc_id;
  uint32_t mem_type;
  uint64_t mem_handle;
  uint32_t pad;
};
struct mem_alloc_v2_mem_type64_pa {  // 2.30
  uint64_t size;
  uint64_t align;
  uint32_t host_memory;
  uint32_t hbm_index;
  uint32_t dram_region_unused;
  uint32_t nc_id;
  uint32_t mem_type;
  uint64_t mem_handle;
  uint32_t pad;
  uint64_t pa;
};
struct mem_free {
  uint64_t mem_handle;
};
struct mem_get_pa {
  uint64_t mem_handle;
  uint64_t pa;
};
struct mem_get_info {
  uint64_t mem_handle;
  uint64_t mmap_offset;
  uint64_t pa;
};
struct mem_get_extended_info {
  uint64_t mem_handle;
  uint32_t version;
  uint32_t host_memory;
  uint64_t mmap_offset;
  uint64_t pa;
  uint64_t pid;
  uint64_t size;
};
struct mem_get_mc_mmap_info {
  uint64_t pa;
  uint64_t mmap_offset;
  uint64_t size;
};
struct mem_get_mc_mmap_info_v2 {
  uint64_t pa;
  uint64_t mmap_offset;
  uint64_t size;
  uint64_t mem_handle;
};
struct dump_mem_chunks {
  uint32_t hbm_index;
  uint32_t num_entries_in;
  uint32_t num_entries_out;
  uint64_t data;
};
struct mem_chunk_info {
  uint64_t pa;
  uint64_t size;
  uint32_t mem_type;
};
struct get_va_placement {
  uint64_t va;
  int32_t device_index;
  int32_t hbm_index;
};

// 3.4 Copies
struct mem_copy {
  uint64_t src_mem_handle;
  uint64_t dst_mem_handle;
  uint32_t size;
  uint32_t src_offset;
  uint32_t dst_offset;
};
struct mem_copy64 {
  uint64_t src_mem_handle;
  uint64_t dst_mem_handle;
  uint64_t size;
  uint64_t src_offset;
  uint64_t dst_offset;
};
struct mem_copy_async {
  uint64_t src_mem_handle;
  uint64_t dst_mem_handle;
  uint32_t size;
  uint32_t src_offset;
  uint32_t dst_offset;
  uint64_t host_prefetch_addr;
  int32_t pwait_handle;
  int32_t wait_handle;
};
struct mem_copy_async64 {
  uint64_t src_mem_handle;
  uint64_t dst_mem_handle;
  uint64_t size;
  uint64_t src_offset;
  uint64_t dst_offset;
  uint64_t host_prefetch_addr;
  int32_t pwait_handle;
  int32_t wait_handle;
};
struct mem_copy_async_wait {
  uint64_t src_mem_handle;
  uint64_t dst_mem_handle;
  int32_t pwait_handle;
};
struct mem_buf_copy {
  uint64_t mem_handle;
  uint64_t buffer;
  uint32_t size;
  uint32_t offset;
  uint32_t copy_to_mem_handle;
};
struct mem_buf_copy64 {
  uint64_t mem_handle;
  uint64_t buffer;
  uint64_t size;
  uint64_t offset;
  uint32_t copy_to_mem_handle;
};
struct memset {
  uint64_t mem_handle;
  uint64_t offset;
  uint32_t value;
  uint32_t size;
};
struct memset64 {
  uint64_t mem_handle;
  uint64_t offset;
  uint32_t value;
  uint64_t size;
};
struct program_engine {
  uint64_t dst;
  uint64_t buffer;
  uint32_t size;
  uint32_t offset;
};
struct program_engine_nc {
  uint32_t nc_id;
  uint64_t dst;
  uint64_t buffer;
  uint32_t size;
  uint32_t offset;
};
struct program_engine_nc64 {
  uint32_t nc_id;
  uint64_t dst;
  uint64_t buffer;
  uint64_t size;
  uint64_t offset;
};
struct mem_buf_copy64zc {
  uint64_t mem_handle;
  uint64_t buffer;
  uint64_t size;
  uint64_t offset;
  uint32_t is_copy_to_device;
  uint32_t bar4_wr_threshold;
  int32_t h2t_qid;
  uint32_t dummy;
};
struct mem_buf_copy64zc_batches {
  uint64_t sequence_num;
  uint64_t batches_ptr;
  uint32_t num_batches;
  uint16_t is_copy_to_device;
  int32_t h2t_qid;
  uint16_t flags;
};
struct memcpy_batch {
  uint64_t mem_handle;
  uint64_t mem_handle_offset;
  uint64_t ops_ptr;
  uint32_t num_ops;
  uint16_t bar4_wr_threshold;
  uint16_t flags;
  uint64_t context;
};
struct tensor_batch_op {
  uint64_t offset;
  uint64_t size;
  uint64_t buffer;
};

// 3.5 DMA engines and queues
struct dma_eng_set_state {
  uint32_t eng_id;
  uint32_t state;
};
struct dma_eng_get_state {
  uint32_t eng_id;
  uint64_t state;
};
struct dma_eng_state {
  uint32_t revision_id;
  uint32_t max_queues;
  uint32_t num_queues;
  uint32_t tx_state;
  uint32_t rx_state;
};
struct dma_queue_init {
  uint32_t eng_id;
  uint32_t qid;
  uint32_t tx_desc_count;
  uint32_t rx_desc_count;
  uint64_t tx_handle;
  uint64_t rx_handle;
  uint64_t rxc_handle;
  uint32_t axi_port;
};
constexpr uint32_t kMaxQueueInitBatch = 256;
struct dma_queue_init_batch {
  uint32_t count;
  dma_queue_init entries[kMaxQueueInitBatch];
};
struct dma_queue_release {
  uint32_t eng_id;
  uint32_t qid;
};
struct dma_queue_copy_start {
  uint32_t eng_id;
  uint32_t qid;
  uint32_t tx_desc_count;
  uint32_t rx_desc_count;
};
struct dma_ack_completed {
  uint32_t eng_id;
  uint32_t qid;
  uint32_t count;
};
struct dma_queue_get_state {
  uint32_t eng_id;
  uint32_t qid;
  uint64_t tx;
  uint64_t rx;
};
struct dma_queue_state {
  uint32_t hw_status;
  uint32_t sw_status;
  uint64_t base_addr;
  uint32_t length;
  uint32_t head_pointer;
  uint32_t tail_pointer;
  uint64_t completion_base_addr;
  uint32_t completion_head;
};
struct dma_copy_descriptors {
  uint64_t mem_handle;
  uint64_t buffer;
  uint32_t num_descs;
  uint32_t offset;
  uint32_t queue_type;
};
struct dma_copy_descriptors64 {
  uint64_t mem_handle;
  uint64_t buffer;
  uint32_t num_descs;
  uint64_t offset;
  uint32_t queue_type;
};
struct dma_descriptor_copyout {
  uint32_t eng_id;
  uint32_t qid;
  uint32_t type;
  uint32_t start_index;
  uint32_t count;
  uint64_t buffer;
};

// 3.6, 3.7 Semaphores, events, notifications
struct semaphore {
  uint32_t nc_id;
  uint32_t semaphore_index;
  uint32_t value;
};
struct event {
  uint32_t nc_id;
  uint32_t event_index;
  uint32_t value;
};
struct notifications_init_v1 {
  uint32_t nc_id;
  uint32_t nq_type;
  uint32_t engine_index;
  uint32_t size;
  uint64_t mmap_offset;
};
struct notifications_init_v2 {
  uint32_t nq_dev_id;
  uint32_t nq_dev_type;
  uint32_t nq_type;
  uint32_t engine_index;
  uint32_t size;
  uint32_t on_host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  uint64_t mmap_offset;
  uint64_t mem_handle;
};
struct notifications_init_with_realloc_v2 {
  uint32_t nq_dev_id;
  uint32_t nq_dev_type;
  uint32_t nq_type;
  uint32_t engine_index;
  uint32_t size;
  uint32_t on_host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  uint32_t force_alloc_mem;
  uint64_t mmap_offset;
  uint64_t mem_handle;
};

// 3.8 - 3.12 Counters, datastore, locks, core state, reset
struct nc_model_started_count {
  uint32_t nc_id;
  uint64_t started_count;
};
struct neuron_ds_info {
  int32_t pid;
  uint64_t mmap_offset;
  uint32_t size;
};
struct crwl {
  uint32_t nc_id;
  uint8_t uuid[32];
};
struct crwl_nc_map {
  uint32_t nc_count;
  uint32_t start_nc_index;
  uint32_t end_nc_index;
  uint32_t max_nc_available;
  uint64_t bitmap;
};
struct crwl_nc_map_ext {
  uint32_t nc_count;
  uint32_t start_nc_index;
  uint32_t end_nc_index;
  uint32_t max_nc_available;
  uint64_t bitmap[8];
};
struct cinit_set {
  uint32_t nc_id;
  uint32_t state;
  uint32_t new_state;
};
struct device_reset {
  uint32_t nc_map;
  uint32_t request_id;
};
struct device_ready {
  uint32_t request_id;
  int32_t result;
};

// 3.13 - 3.19
struct dmabuf_fd {
  uint64_t va;
  uint64_t size;
  uint64_t fd;
};
struct resource_mmap_info {
  uint32_t block;
  uint32_t block_id;
  uint32_t resource;
  uint64_t offset;
  uint64_t size;
};
struct hbm_scrub_start {
  uint32_t nc_id;
  uint32_t hbm_index;
  uint32_t axi_port;
  uint32_t init_val;
};
struct hbm_scrub_wait {
  uint32_t nc_id;
  uint32_t hbm_index;
};
struct pod_info {
  uint16_t sz;
  uint8_t pod_type;
  uint8_t pod_id[256];
  uint8_t pod_sz;
};
struct pod_status {
  uint16_t sz;
  uint8_t pod_id[256];
  uint32_t state;
  uint8_t pod_type;
  uint8_t pod_sz;
  int8_t node_id;
};
struct pod_status_v2 {
  pod_status v1;
  uint32_t mode;
  uint32_t modes_supported;
};
struct pod_ctrl {
  uint16_t sz;
  uint32_t ctrl;
  uint32_t timeout;
  uint32_t state;
};
struct pod_ctrl_v2 {
  pod_ctrl v1;
  uint32_t mode;
};
struct power_profile {
  uint16_t sz;
  uint16_t ctrl;
  uint32_t profile;
};
struct throttling_notifications {
  uint32_t enable;
};
struct h2t_dma_alloc_queues {
  uint16_t sz;
  uint16_t nc_id;
  uint16_t copy_queue_cnt;
  uint16_t service_queue_cnt;
  uint32_t copy_queue_bmap;
  uint32_t service_queue_bmap;
  uint32_t copy_default_queue;
};
struct h2t_dma_free_queues {
  uint16_t sz;
  uint8_t nc_id;
  uint8_t fill0;
  uint32_t queue_bmap;
};
struct printk {
  uint64_t buffer;
  uint32_t size;
  uint32_t action;
};
struct nc_pid_state_dump {
  uint32_t size;
  uint32_t nc_id;
  uint32_t filter_log_owner;
  uint32_t log_dump_limit;
};

}  // namespace driver::uapi
