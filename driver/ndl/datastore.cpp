// The datastore (spec/ndl-api.md 6). Counters lie where the driver reads them
// (spec/driver-ioctl.md 3.9). The interior of the object area is not published; ours is private to
// this library and marked by format version 1.
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "driver/ndl/library.h"
#include "driver/ndl/nrt/nds/neuron_ds.h"
#include "driver/uapi/limits.h"

using driver::ndl::fail;
namespace uapi = driver::uapi;

namespace {

constexpr int kFormatVersion = 1;
constexpr char kSignature[4] = {'n', 'd', 's', 0};

// Object area [1248, 44588): process info, model-node slots, and at its very end the extended
// process info.
constexpr size_t kProcessInfo = uapi::kDsObjects;
constexpr size_t kProcessInfoRoom = NDS_ALIGN(sizeof(nds_process_info_t));
constexpr size_t kProcessInfoExt = NDS_EXT_OFFSET_OLD - sizeof(nds_process_info_ext_t);
struct ModelSlot {
  uint32_t state;  // kFree or kUsed
  nds_model_node_info_t info;
  unsigned char usage[sizeof(nds_model_node_mem_usage_info_t)];  // 4-byte aligned in the area
};
static_assert(sizeof(ModelSlot) == 4 + 284 + 384, "spec/ndl-api.md 6.2");
constexpr size_t kModelSlots = kProcessInfo + kProcessInfoRoom;
constexpr size_t kModelSlotCount = (kProcessInfoExt - kModelSlots) / sizeof(ModelSlot);
constexpr uint32_t kUsed = 1;

struct Object {
  nds_instance_t* instance;
  int type;
  int slot;  // model nodes: -1 until committed
  nds_model_node_info_t model;
  nds_model_node_mem_usage_info_t usage;
  nds_process_info_t process;
  nds_process_info_ext_t process_ext;
};

}  // namespace

struct nds_instance {
  ndl_device_t* device;
  int32_t pid;  // 0: own, writable
  unsigned char* data;
  size_t size;
  std::mutex lock;  // of the object area

  bool writable() const { return pid == 0; }
  ModelSlot* slot(size_t index) {
    return reinterpret_cast<ModelSlot*>(data + kModelSlots + index * sizeof(ModelSlot));
  }
};

namespace {

std::atomic<uint64_t>* word_at(nds_instance_t* instance, uint32_t offset) {
  if (instance == nullptr || offset > instance->size - sizeof(uint64_t)) return nullptr;
  return reinterpret_cast<std::atomic<uint64_t>*>(instance->data + offset);
}

std::atomic<uint64_t>* core_counter(nds_instance_t* instance, int core, uint32_t index) {
  if (core < 0) return nullptr;
  const uint32_t offset = uapi::ds_nc_counter_offset(static_cast<uint32_t>(core), index);
  return offset == uapi::kDsInvalidOffset ? nullptr : word_at(instance, offset);
}

std::atomic<uint64_t>* device_counter(nds_instance_t* instance, uint32_t index) {
  if (index >= NDS_ND_COUNTER_COUNT) return nullptr;
  return word_at(instance, uapi::kDsDeviceCounters + index * 8);
}

// Monitors tolerate torn objects, not torn counters: single words, relaxed order
// (spec/ndl-api.md 6.1).
int add_to(nds_instance_t* instance, std::atomic<uint64_t>* counter, uint64_t amount) {
  if (counter == nullptr || !instance->writable()) return fail(EINVAL);
  counter->fetch_add(amount, std::memory_order_relaxed);
  return 0;
}

int read_from(std::atomic<uint64_t>* counter, uint64_t* value) {
  if (counter == nullptr || value == nullptr) return fail(EINVAL);
  *value = counter->load(std::memory_order_relaxed);
  return 0;
}

int write_to(nds_instance_t* instance, std::atomic<uint64_t>* counter, const uint64_t* value) {
  if (counter == nullptr || value == nullptr || !instance->writable()) return fail(EINVAL);
  counter->store(*value, std::memory_order_relaxed);
  return 0;
}

Object* object_of(nds_obj_handle_t handle, int type) {
  auto* object = static_cast<Object*>(handle);
  return object != nullptr && object->type == type ? object : nullptr;
}

Object* make_object(nds_instance_t* instance, int type) {
  auto* object = static_cast<Object*>(calloc(1, sizeof(Object)));
  if (object == nullptr) return nullptr;
  object->instance = instance;
  object->type = type;
  object->slot = -1;
  return object;
}

int commit_model(nds_instance_t* instance, Object* object) {
  for (size_t i = 0; object->slot < 0 && i < kModelSlotCount; ++i) {
    if (instance->slot(i)->state != kUsed) object->slot = static_cast<int>(i);
  }
  if (object->slot < 0) return fail(ENOSPC);
  ModelSlot* slot = instance->slot(static_cast<size_t>(object->slot));
  slot->info = object->model;
  memcpy(slot->usage, &object->usage, sizeof slot->usage);
  // Monitors in other processes look at the state first.
  __atomic_store_n(&slot->state, kUsed, __ATOMIC_RELEASE);
  return 0;
}

}  // namespace

int nds_open(ndl_device_t* device, pid_t pid, nds_instance_t** inst) {
  if (inst == nullptr) return fail(EINVAL);
  void* data = nullptr;
  size_t size = 0;
  if (ndl_nds_open(device, pid, &data, &size) != 0) return -1;
  auto* header = static_cast<nds_header_t*>(data);
  static const char kNothing[sizeof(kSignature)] = {};
  const bool fresh = memcmp(header->signature, kNothing, sizeof kNothing) == 0;
  if (pid == 0 && fresh) {
    header->version = kFormatVersion;
    memcpy(header->signature, kSignature, sizeof kSignature);
  } else if (memcmp(header->signature, kSignature, sizeof kSignature) != 0 ||
             header->version != kFormatVersion) {
    ndl_nds_close(device, pid, data, size);
    return fail(EPROTO);
  }
  *inst = new nds_instance_t{device, pid, static_cast<unsigned char*>(data), size, {}};
  return 0;
}

int nds_close(nds_instance_t* inst) {
  if (inst == nullptr) return fail(EINVAL);
  const int result = ndl_nds_close(inst->device, inst->pid, inst->data, inst->size);
  delete inst;
  return result;
}

int nds_increment_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t increment) {
  return add_to(inst, core_counter(inst, pnc_index, counter_index), increment);
}

int nds_decrement_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t decrement) {
  return add_to(inst, core_counter(inst, pnc_index, counter_index), ~decrement + 1);
}

int nds_get_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                       uint64_t* value) {
  return read_from(core_counter(inst, pnc_index, counter_index), value);
}

int nds_set_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                       uint64_t* value) {
  return write_to(inst, core_counter(inst, pnc_index, counter_index), value);
}

int nds_increment_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t increment) {
  return add_to(inst, device_counter(inst, counter_index), increment);
}

int nds_decrement_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t decrement) {
  return add_to(inst, device_counter(inst, counter_index), ~decrement + 1);
}

int nds_get_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value) {
  return read_from(device_counter(inst, counter_index), value);
}

int nds_set_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value) {
  return write_to(inst, device_counter(inst, counter_index), value);
}

int nds_or_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t bit_index) {
  std::atomic<uint64_t>* counter = device_counter(inst, counter_index);
  if (counter == nullptr || !inst->writable() || bit_index >= 64) return fail(EINVAL);
  counter->fetch_or(uint64_t{1} << bit_index, std::memory_order_relaxed);
  return 0;
}

nds_obj_handle_t nds_obj_new(nds_instance_t* inst, int type) {
  if (inst == nullptr || type < OBJECT_TYPE_MODEL_NODE_INFO ||
      type > OBJECT_TYPE_PROCESS_INFO_EXT) {
    errno = EINVAL;
    return nullptr;
  }
  return make_object(inst, type);
}

int nds_obj_commit(nds_obj_handle_t obj) {
  auto* object = static_cast<Object*>(obj);
  if (object == nullptr || !object->instance->writable()) return fail(EINVAL);
  nds_instance_t* instance = object->instance;
  const std::lock_guard<std::mutex> guard(instance->lock);
  switch (object->type) {
    case OBJECT_TYPE_MODEL_NODE_INFO:
      return commit_model(instance, object);
    case OBJECT_TYPE_PROCESS_INFO:
      memcpy(instance->data + kProcessInfo, &object->process, sizeof object->process);
      return 0;
    default:
      memcpy(instance->data + kProcessInfoExt, &object->process_ext, sizeof object->process_ext);
      return 0;
  }
}

int nds_obj_delete(nds_obj_handle_t obj) {
  auto* object = static_cast<Object*>(obj);
  if (object == nullptr) return fail(EINVAL);
  nds_instance_t* instance = object->instance;
  if (instance->writable()) {
    const std::lock_guard<std::mutex> guard(instance->lock);
    if (object->type == OBJECT_TYPE_MODEL_NODE_INFO) {
      if (object->slot >= 0) {
        memset(instance->slot(static_cast<size_t>(object->slot)), 0, sizeof(ModelSlot));
      }
    } else if (object->type == OBJECT_TYPE_PROCESS_INFO) {
      memset(instance->data + kProcessInfo, 0, sizeof object->process);
    } else {
      memset(instance->data + kProcessInfoExt, 0, sizeof object->process_ext);
    }
  }
  free(object);
  return 0;
}

nds_model_node_info_t* nds_obj_handle_to_model_node_info(nds_obj_handle_t obj) {
  Object* object = object_of(obj, OBJECT_TYPE_MODEL_NODE_INFO);
  return object == nullptr ? nullptr : &object->model;
}

nds_model_node_mem_usage_info_t* nds_obj_handle_to_model_node_mem_usage(nds_obj_handle_t obj) {
  Object* object = object_of(obj, OBJECT_TYPE_MODEL_NODE_INFO);
  return object == nullptr ? nullptr : &object->usage;
}

nds_process_info_t* nds_obj_handle_to_process_info(nds_obj_handle_t obj) {
  Object* object = object_of(obj, OBJECT_TYPE_PROCESS_INFO);
  return object == nullptr ? nullptr : &object->process;
}

nds_process_info_ext_t* nds_obj_handle_to_process_info_ext(nds_obj_handle_t obj) {
  Object* object = object_of(obj, OBJECT_TYPE_PROCESS_INFO_EXT);
  return object == nullptr ? nullptr : &object->process_ext;
}

int nds_read_all_model_nodes(nds_instance_t* inst, nds_obj_handle_t** models, size_t* count) {
  if (inst == nullptr || models == nullptr || count == nullptr) return fail(EINVAL);
  auto* handles = static_cast<nds_obj_handle_t*>(calloc(kModelSlotCount, sizeof(void*)));
  if (handles == nullptr) return -1;
  size_t found = 0;
  const std::lock_guard<std::mutex> guard(inst->lock);
  for (size_t i = 0; i < kModelSlotCount; ++i) {
    const ModelSlot* slot = inst->slot(i);
    if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != kUsed) continue;
    Object* object = make_object(inst, OBJECT_TYPE_MODEL_NODE_INFO);
    if (object == nullptr) continue;
    object->slot = static_cast<int>(i);
    object->model = slot->info;
    memcpy(&object->usage, slot->usage, sizeof object->usage);
    handles[found++] = object;
  }
  *models = handles;
  *count = found;
  return 0;
}

nds_obj_handle_t nds_read_process_info(nds_instance_t* inst) {
  Object* object = inst == nullptr ? nullptr : make_object(inst, OBJECT_TYPE_PROCESS_INFO);
  if (object == nullptr) return nullptr;
  memcpy(&object->process, inst->data + kProcessInfo, sizeof object->process);
  return object;
}

nds_obj_handle_t nds_read_process_info_ext(nds_instance_t* inst) {
  Object* object = inst == nullptr ? nullptr : make_object(inst, OBJECT_TYPE_PROCESS_INFO_EXT);
  if (object == nullptr) return nullptr;
  memcpy(&object->process_ext, inst->data + kProcessInfoExt, sizeof object->process_ext);
  return object;
}
