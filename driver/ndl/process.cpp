// Datastore mapping, process listing, logging, pods (spec/ndl-api.md 3.10 and 3.11).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver/ndl/library.h"

using driver::ndl::call;
using driver::ndl::fail;
using driver::ndl::fd_of;
using driver::ndl::Library;
namespace uapi = driver::uapi;

int ndl_nds_open(ndl_device_t* device, int32_t pid, void** data, size_t* size) {
  if (data == nullptr || size == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::neuron_ds_info info = {};
  info.pid = pid;
  if (call(fd_of(device), uapi::kAcquireNeuronDs, &info) != 0) return -1;
  // The driver would map any slot writable (spec/driver-ioctl.md 3.9); only the owner may write.
  const int protection = pid == 0 ? PROT_READ | PROT_WRITE : PROT_READ;
  void* mapped = mmap(nullptr, info.size, protection, MAP_SHARED, fd_of(device),
                      static_cast<off_t>(info.mmap_offset));
  if (mapped == MAP_FAILED) return -1;
  *data = mapped;
  *size = info.size;
  return 0;
}

int ndl_nds_close(ndl_device_t* device, int32_t pid, void* data, size_t size) {
  if (data == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  const int unmapped = munmap(data, size);
  uapi::neuron_ds_info info = {};
  info.pid = pid;
  if (call(fd_of(device), uapi::kReleaseNeuronDs, &info) != 0) return -1;
  return unmapped;
}

int ndl_get_all_apps_info(ndl_device_t* device, struct neuron_app_info** info, size_t* count,
                          uint16_t apps_info_flags) {
  if (info == nullptr || count == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  constexpr size_t kHeader = uapi::kAppInfoEntriesOffset;
  alignas(8) char buffer[kHeader + NEURON_MAX_PROCESS_PER_DEVICE * sizeof(neuron_app_info)] = {};
  auto* request = reinterpret_cast<uapi::get_apps_info*>(buffer);
  request->apps_info_flags = apps_info_flags;
  request->capacity = NEURON_MAX_PROCESS_PER_DEVICE;
  if (call(fd_of(device), uapi::kDeviceGetAllAppsInfo, static_cast<void*>(buffer)) != 0) return -1;
  if (request->size > NEURON_MAX_PROCESS_PER_DEVICE) return fail(EINVAL);
  const size_t bytes = request->size * sizeof(neuron_app_info);
  auto* copy = static_cast<neuron_app_info*>(calloc(1, bytes + 1));
  if (copy == nullptr) return -1;
  memcpy(copy, buffer + kHeader, bytes);
  *info = copy;
  *count = request->size;
  return 0;
}

int ndl_printk(char* str, uint32_t size, uint32_t action) {
  constexpr uint32_t kMaxLine = 512;  // including the terminator
  if (str == nullptr || size > kMaxLine) return fail(EFAULT);
  if (size == 0 || str[size - 1] != 0) return fail(EBADMSG);
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::printk request = {reinterpret_cast<uint64_t>(str), size, action};
  return call(fd, uapi::kPrintk, &request);
}

namespace {

int pod_status(uapi::pod_status_v2* status) {
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  *status = {};
  status->v1.sz = sizeof *status;
  if (call(fd, uapi::kPodStatusV2, status) == 0) return 0;
  if (errno != EINVAL) return -1;
  *status = {};
  status->v1.sz = sizeof status->v1;
  return call(fd, uapi::kPodStatus, &status->v1);
}

}  // namespace

int ndl_pod_info(uint32_t* pod_type, uint32_t* pod_sz) {
  if (pod_type == nullptr || pod_sz == nullptr) return fail(EINVAL);
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::pod_info info = {};
  info.sz = sizeof info;
  if (call(fd, uapi::kPodInfo, &info) != 0) return -1;
  *pod_type = info.pod_type;
  *pod_sz = info.pod_sz;
  return 0;
}

int ndl_pod_election_state(uint32_t* state) {
  if (state == nullptr) return fail(EINVAL);
  uapi::pod_status_v2 status;
  // The structure is written back even when an error is returned (spec/driver-ioctl.md 3.16).
  const int result = pod_status(&status);
  if (result != 0 && errno != EBUSY) return -1;
  *state = status.v1.state;
  return 0;
}

int ndl_pod_mapping_info(int* node_id) {
  if (node_id == nullptr) return fail(EINVAL);
  uapi::pod_status_v2 status;
  if (pod_status(&status) != 0) return -1;
  *node_id = status.v1.node_id;
  return 0;
}

int ndl_pod_status(uint8_t* pod_id, uint32_t* state, uint32_t* pod_type, uint32_t* pod_sz,
                   int* node_id, enum neuron_ultraserver_mode* mode, uint32_t* modes_supported) {
  if (pod_id == nullptr || state == nullptr || pod_type == nullptr || pod_sz == nullptr ||
      node_id == nullptr || mode == nullptr || modes_supported == nullptr) {
    return fail(EINVAL);
  }
  uapi::pod_status_v2 status;
  if (pod_status(&status) != 0) return -1;
  memcpy(pod_id, status.v1.pod_id, sizeof status.v1.pod_id);
  *state = status.v1.state;
  *pod_type = status.v1.pod_type;
  *pod_sz = status.v1.pod_sz;
  *node_id = status.v1.node_id;
  *mode = static_cast<neuron_ultraserver_mode>(status.mode);
  *modes_supported = status.modes_supported;
  return 0;
}

int ndl_pod_ctrl(uint32_t ctrl, enum neuron_ultraserver_mode mode, uint32_t timeout,
                 uint32_t* state) {
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::pod_ctrl_v2 request = {};
  request.v1.sz = sizeof request;
  request.v1.ctrl = ctrl;
  request.v1.timeout = timeout;
  request.mode = static_cast<uint32_t>(mode);
  int result = call(fd, uapi::kPodCtrlV2, &request);
  // Drivers before the modes know only the shorter form, which cannot set one.
  if (result != 0 && errno == EINVAL && ctrl < NEURON_NPE_POD_CTRL_SET_MODE) {
    request.v1.sz = sizeof request.v1;
    result = call(fd, uapi::kPodCtrl, &request.v1);
  }
  if (state != nullptr) *state = request.v1.state;
  return result;
}
