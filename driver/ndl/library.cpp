#include "driver/ndl/library.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace driver::ndl {

int call(int fd, uint32_t request, void* arg) {
  const int result = ::ioctl(fd, static_cast<unsigned long>(request), arg);
  if (result > 0) return fail(EFAULT);
  return result;
}

int fail(int code) {
  errno = code;
  return -1;
}

Library& Library::get() {
  // Never destroyed: clients may call the library from their own exit handlers.
  static Library* library = new Library;
  return *library;
}

ndl_device_t* Library::device(int index) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  if (index < 0 || index >= NEURON_MAX_DEVICES || devices[index] == nullptr) {
    errno = ENODEV;
    return nullptr;
  }
  return devices[index];
}

bool Library::is_open(const ndl_device_t* device) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  for (const ndl_device_t* open : devices) {
    if (open == device && open != nullptr) return true;
  }
  errno = EINVAL;
  return false;
}

ndl_mem_info_t* Library::memory(uint64_t handle) {
  auto* info = reinterpret_cast<ndl_mem_info_t*>(handle);
  const std::lock_guard<std::recursive_mutex> guard(lock);
  if (chunks.count(info) != 0) return info;
  errno = EINVAL;
  return nullptr;
}

ndl_notification_context_t* Library::queue(uint64_t handle) {
  auto* context = reinterpret_cast<ndl_notification_context_t*>(handle);
  const std::lock_guard<std::recursive_mutex> guard(lock);
  if (queues.count(context) != 0) return context;
  errno = EINVAL;
  return nullptr;
}

int Library::control() {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  if (control_fd_ >= 0) return control_fd_;
  int lowest = 0;
  if (list_devices(&lowest, 1) == 0) return fail(ENODEV);
  char path[32];
  snprintf(path, sizeof path, NEURON_DEVICE_PREFIX "%d", lowest);
  control_fd_ = ::open(path, O_WRONLY | O_CLOEXEC);
  return control_fd_;
}

void Library::close_control() {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  if (control_fd_ >= 0) ::close(control_fd_);
  control_fd_ = -1;
}

const DriverVersion* Library::version() {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  if (version_read_) return &version_;
  FILE* file = fopen("/sys/module/neuron/version", "re");
  if (file == nullptr) return nullptr;
  DriverVersion read;
  const bool ok = fgets(read.text, sizeof read.text, file) != nullptr;
  fclose(file);
  read.text[strcspn(read.text, "\n")] = 0;
  unsigned major = 0;
  unsigned minor = 0;
  if (!ok || sscanf(read.text, "%u.%u", &major, &minor) != 2) return nullptr;
  read.major = static_cast<uint16_t>(major);
  read.minor = static_cast<uint16_t>(minor);
  version_ = read;
  version_read_ = true;
  return &version_;
}

int list_devices(int* indexes, int capacity) {
  constexpr char kPrefix[] = "neuron";
  std::vector<int> found;
  DIR* directory = opendir("/dev");
  if (directory == nullptr) return 0;
  while (const dirent* entry = readdir(directory)) {
    const char* name = entry->d_name;
    if (strncmp(name, kPrefix, sizeof kPrefix - 1) != 0) continue;
    const char* digits = name + sizeof kPrefix - 1;
    if (*digits == 0 || strspn(digits, "0123456789") != strlen(digits)) continue;
    const long index = strtol(digits, nullptr, 10);
    if (index < NEURON_MAX_DEVICES) found.push_back(static_cast<int>(index));
  }
  closedir(directory);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  const int count = static_cast<int>(found.size());
  if (indexes == nullptr || capacity <= 0) return count;
  const int kept = std::min(count, capacity);
  std::copy_n(found.begin(), kept, indexes);
  return kept;
}

namespace {

bool ask(ndl_device_t* device, uint64_t driver_handle, uapi::mem_get_extended_info* extended) {
  extended->mem_handle = driver_handle;
  // An unknown handle is reported as a positive EINVAL (spec/driver-ioctl.md 3.3.4).
  const int result = ::ioctl(fd_of(device), uapi::kMemGetExtendedInfo, extended);
  if (result > 0) errno = result == EINVAL ? EINVAL : EFAULT;
  return result == 0;
}

ndl_mem_info_t* add_chunk(const ndl_mem_info_t& facts, bool owned) {
  auto* info = static_cast<ndl_mem_info_t*>(calloc(1, sizeof(ndl_mem_info_t)));
  if (info == nullptr) return nullptr;
  *info = facts;
  Library& library = Library::get();
  const std::lock_guard<std::recursive_mutex> guard(library.lock);
  library.chunks.insert(info);
  priv(info->device)->chunks->emplace(info, owned);
  return info;
}

}  // namespace

ndl_mem_info_t* adopt_chunk(ndl_device_t* device, uint64_t driver_handle) {
  uapi::mem_get_extended_info extended = {};
  if (!ask(device, driver_handle, &extended)) return nullptr;
  ndl_mem_info_t facts = {};
  facts.device = device;
  facts.driver_handle = driver_handle;
  facts.pa = extended.pa;
  facts.mmap_offset = extended.mmap_offset;
  facts.size = extended.size;
  facts.host_memory = extended.host_memory;
  return add_chunk(facts, false);
}

ndl_mem_info_t* adopt_new_chunk(const ndl_mem_info_t& facts, bool owned) {
  ndl_mem_info_t rounded = facts;
  rounded.size = page_round(facts.size);
  return add_chunk(rounded, owned);
}

bool locate(ndl_mem_info_t* info) {
  Library& library = Library::get();
  {
    const std::lock_guard<std::recursive_mutex> guard(library.lock);
    if (info->pa != 0) return true;
  }
  // Without the lock: other threads' requests need not wait for this one.
  uapi::mem_get_extended_info extended = {};
  if (!ask(info->device, info->driver_handle, &extended)) return false;
  const std::lock_guard<std::recursive_mutex> guard(library.lock);
  info->pa = extended.pa;
  info->mmap_offset = extended.mmap_offset;
  info->size = extended.size;
  return true;
}

void forget_chunk(ndl_mem_info_t* info) {
  Library& library = Library::get();
  const std::lock_guard<std::recursive_mutex> guard(library.lock);
  if (info->mmap_va != nullptr) ndl_memory_unmap(reinterpret_cast<uint64_t>(info));
  library.chunks.erase(info);
  priv(info->device)->chunks->erase(info);
  free(info);
}

}  // namespace driver::ndl
