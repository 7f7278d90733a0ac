/* A program that uses only libndl's public headers. */
#include <errno.h>
#include <ndl/ndl.h>
#include <nrt/nds/neuron_ds.h>
#include <stdio.h>
#include <string.h>

static int failures;
static void check(int ok, const char* what) {
  printf("%s %s\n", ok ? "ok" : "FAILED", what);
  failures += !ok;
}

static void memory(ndl_device_t* device) {
  uint64_t handle = 0;
  check(ndl_memory_alloc(device, 10000, 0, 0, 1, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE,
                         &handle) == 0 &&
            handle != 0,
        "alloc");
  char out[5000], in[5000];
  for (size_t i = 0; i < sizeof out; ++i) out[i] = (char)(i * 3);
  check(ndl_memory_buf_copyin(handle, out, 1000, sizeof out) == 0, "copyin");
  check(ndl_memory_buf_copyout(handle, in, 1000, sizeof in) == 0 && !memcmp(in, out, sizeof in),
        "copyout");
  errno = 0;
  check(ndl_memory_buf_copyin(handle, out, 9000, sizeof out) == -1 && errno == EINVAL, "bounds");
  void *va = NULL, *again = NULL;
  check(ndl_memory_map(handle, &va) == 0 && !memcmp((char*)va + 1000, out, sizeof out), "map");
  check(ndl_memory_map(handle, &again) == 0 && again == va, "map is idempotent");
  int index = 0, hbm = 0;
  check(ndl_get_va_placement((char*)va + 5, &index, &hbm) == 0 && index == 0, "placement");
  check(ndl_get_va_placement(&index, &index, &hbm) != 0 && errno == ENXIO && hbm == -1,
        "no placement of ordinary memory");
  memset(va, 0x5a, 8);
  check(ndl_memory_buf_zerocopyout(handle, in, 0, 8, NEURON_DMA_H2T_DEFAULT_QID) == 0 &&
            in[7] == 0x5a,
        "zero-copy falls back");
  nrt_tensor_batch_op_t ops[2] = {{0, 4, out}, {4, 4, out + 100}};
  neuron_memcpy_batch_t batch = {0};
  batch.mem_handle = handle;
  batch.ops_ptr = ops;
  batch.num_ops = 2;
  check(ndl_memory_buf_batch_copy(&batch, 1, 0, -1) == 0 && !memcmp((char*)va + 4, out + 100, 4),
        "batch falls back");
  check(ndl_memory_free(handle) == 0, "free");
  errno = 0;
  check(ndl_memory_free(handle) == -1 && errno == EINVAL, "double free");
  check(ndl_memory_alloc(device, 1ull << 40, 0, 0, 0, 0, 0, 9, &handle) == -1 && errno == ENOMEM,
        "too much");
}

static void datastore(ndl_device_t* device) {
  nds_instance_t *own = NULL, *reader = NULL;
  uint64_t value = 0, five = 5;
  check(nds_open(device, 0, &own) == 0, "nds_open");
  check(nds_increment_nc_counter(own, 1, NDS_NC_COUNTER_INFER_COMPLETED, 3) == 0, "increment");
  check(nds_decrement_nc_counter(own, 1, NDS_NC_COUNTER_INFER_COMPLETED, 1) == 0, "decrement");
  check(nds_get_nc_counter(own, 1, NDS_NC_COUNTER_INFER_COMPLETED, &value) == 0 && value == 2,
        "get");
  check(nds_set_nd_counter(own, NDS_ND_COUNTER_DEVICE_CLUSTER_ID, &five) == 0, "set");
  check(nds_increment_nc_counter(own, 16, 0, 1) != 0, "no such core");
  nds_obj_handle_t model = nds_obj_new(own, OBJECT_TYPE_MODEL_NODE_INFO);
  strcpy(nds_obj_handle_to_model_node_info(model)->name, "vadd");
  check(nds_obj_handle_to_process_info(model) == NULL, "type mismatch");
  check(nds_obj_commit(model) == 0, "commit");
  check(nds_open(device, 12345, &reader) == 0, "reader");
  check(nds_set_nd_counter(reader, NDS_ND_COUNTER_DEVICE_CLUSTER_ID, &five) != 0, "read-only");
  nds_obj_handle_t* models = NULL;
  size_t count = 0;
  check(nds_read_all_model_nodes(reader, &models, &count) == 0 && count == 1 &&
            !strcmp(nds_obj_handle_to_model_node_info(models[0])->name, "vadd"),
        "models");
  nds_close(reader);
  nds_close(own);
}

int main(void) {
  ndl_version_info_t version;
  check(ndl_get_version(&version) == 0 && version.driver_major_version == 2 &&
            !strcmp(version.driver_full_version, "2.26.5.0"),
        "version");
  uint32_t min = 0, max = 0;
  check(ndl_get_compatible_version(&min, &max) == 0 && min == 5 && max == 7, "compatible");
  int indexes[64];
  check(ndl_available_devices(indexes, 64) == 2 && indexes[1] == 3, "devices");
  check(ndl_available_devices(indexes, 1) == 1, "devices limited");
  check(ndl_feature_supported(-1, NEURON_DRIVER_FEATURE_DMABUF), "feature");
  ndl_device_t *device = NULL, *again = NULL, *none = NULL;
  ndl_device_init_param_t params = {0};
  params.map_hbm = true;
  check(ndl_open_device(0, &params, &device) == 0 && device->device_type == 2, "open");
  check(ndl_open_device(0, NULL, &again) == 0 && again == device, "second reference");
  check(ndl_open_device(9, NULL, &none) == -1 && errno == ENOENT, "no such device");
  void* va;
  size_t size;
  check(ndl_get_hbm_va(device, 0, &va, &size) == -ENOENT, "no HBM window");
  memory(device);
  datastore(device);
  check(ndl_close_device(device) == 0 && ndl_close_device(again) == 0, "close");
  check(ndl_close_device(device) == -1, "closed");
  ndl_device_cached_fd_close_all();
  return failures != 0;
}
