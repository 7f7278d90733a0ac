#include "tests/driver_node/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "driver/uapi/requests.h"
#include "driver/uapi/structs.h"

namespace bench {
namespace {

namespace uapi = driver::uapi;
using std::chrono::milliseconds;

constexpr uint64_t kMemorySize = 16 * base::kMiB;

thread_local std::unique_lock<std::mutex>* baton = nullptr;

base::Error error(int code) {
  return {base::Fault::kUsage, code, "fake", "refused"};
}

template <typename T>
bool get(const driver::Caller& caller, uint64_t address, T* value) {
  return caller.memory->read(address, {reinterpret_cast<uint8_t*>(value), sizeof(T)});
}

template <typename T>
bool put(const driver::Caller& caller, uint64_t address, const T& value) {
  return caller.memory->write(address, {reinterpret_cast<const uint8_t*>(&value), sizeof(T)});
}

}  // namespace

BatonExecutor::~BatonExecutor() {
  stop();
}

void BatonExecutor::stop() {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void BatonExecutor::spawn(std::string /*name*/, std::function<void()> task) {
  std::unique_lock<std::mutex> lock(lock_);
  ++running_;
  threads_.emplace_back([this, task = std::move(task)] {
    std::unique_lock<std::mutex> mine(lock_);
    baton = &mine;
    task();
    --running_;
    changed_.notify_all();
  });
  changed_.wait(lock, [this] { return running_ == 0 && (woken_.empty() || stopping_); });
}

void BatonExecutor::delay(base::Ps time) {
  now_ += time;
}

bool BatonExecutor::wait(const void* channel, base::Ps /*timeout*/) {
  waiting_.insert(channel);
  --running_;
  changed_.notify_all();
  changed_.wait(*baton, [&] { return stopping_ || woken_.count(channel) != 0; });
  ++running_;
  waiting_.erase(waiting_.find(channel));
  const auto woken = woken_.find(channel);
  if (woken == woken_.end()) return false;
  woken_.erase(woken);
  return true;
}

void BatonExecutor::wake(const void* channel) {
  const size_t sleepers = waiting_.count(channel) - woken_.count(channel);
  for (size_t i = 0; i < sleepers; ++i) woken_.insert(channel);
  changed_.notify_all();
}

FakeDevice::FakeDevice(pcie::HostExecutor& executor) : executor_(executor) {
  auto fd = base::make_memfd("fake-device", kMemorySize);
  if (!fd) throw std::runtime_error(fd.error().message());
  fd_ = std::move(*fd);
  auto mapping = base::Mapping::map_shared(fd_.get(), 0, kMemorySize, true);
  if (!mapping) throw std::runtime_error(mapping.error().message());
  memory_ = std::move(*mapping);
  const std::string base = "/sys/class/neuron_device/neuron0/";
  attributes_[base + "core_count"] = "2";
  attributes_[base + "stats/hardware/sram_ecc_uncorrected"] = "0\n";
  attributes_[base + "reset"] = "1\n";
  attributes_["/sys/class/neuron_device/node_id_4"] = "-1\n";
  attributes_["/sys/module/neuron/version"] = "2.26.5.0\n";
  attributes_["/sys/class/infiniband/efa_0/node_desc"] =
      "efa\n";  // not below the driver's directories
}

void FakeDevice::note(const std::string& what) {
  const std::lock_guard<std::mutex> guard(lock_);
  log_.push_back(what);
}

std::vector<std::string> FakeDevice::log() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return log_;
}

size_t FakeDevice::count(const std::string& prefix) const {
  const std::lock_guard<std::mutex> guard(lock_);
  return static_cast<size_t>(std::count_if(log_.begin(), log_.end(), [&](const std::string& entry) {
    return entry.compare(0, prefix.size(), prefix) == 0;
  }));
}

std::map<uint64_t, uint32_t> FakeDevice::registers() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return registers_;
}

int FakeDevice::attached() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return static_cast<int>(attach_.size());
}

base::Result<int> FakeDevice::open(int minor, int flags, const driver::Caller& caller) {
  const std::lock_guard<std::mutex> guard(lock_);
  const int file = next_file_++;
  files_[file] = {minor, flags};
  if ((flags & O_ACCMODE) != O_WRONLY) ++attach_[caller.tgid];
  log_.push_back("open " + std::to_string(minor));
  return file;
}

int FakeDevice::ioctl(int file, uint32_t request, uint64_t arg, const driver::Caller& caller) {
  if (files_.count(file) == 0) return -EBADF;
  switch (request) {
    case kSwap: {
      uint64_t words[2];
      if (!get(caller, arg, &words)) return -EFAULT;
      std::swap(words[0], words[1]);
      return put(caller, arg, words) ? 0 : -EFAULT;
    }
    case kBulkInvert: {
      uint64_t range[2];
      if (!get(caller, arg, &range) || range[1] > 64 * base::kMiB) return -EFAULT;
      std::vector<uint8_t> bytes(range[1]);
      if (!caller.memory->read(range[0], bytes)) return -EFAULT;
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(~byte);
      return caller.memory->write(range[0], bytes) ? 0 : -EFAULT;
    }
    case kBlock:
      note("block");
      return executor_.wait(&channel_, pcie::HostExecutor::kForever) ? 7 : -EINTR;
    case kWake:
      executor_.wake(&channel_);
      return 0;
    case kFail:
      return -EBUSY;
    case kSpend:
      executor_.delay(arg * base::kPsPerUs);
      std::this_thread::sleep_for(milliseconds(30));
      return 0;
    case kPoke:
      std::this_thread::sleep_for(milliseconds(30));
      reinterpret_cast<std::atomic<uint32_t>*>(memory_.data() + kPlainOffset)
          ->store(static_cast<uint32_t>(arg));
      return 0;
    case kWho:
      return caller.tgid;
    case kAttached:
      return attach_.count(caller.tgid) != 0 ? 0 : -EACCES;
    default:
      return neuron_ioctl(request, arg, caller);
  }
}

int FakeDevice::neuron_ioctl(uint32_t request, uint64_t arg, const driver::Caller& caller) {
  switch (request) {
    case uapi::kDeviceInfo: {
      uapi::device_info info = {};
      info.architecture = 2;
      info.connected_device_count = 1;
      info.connected_devices[0] = 3;
      info.bar_address[0] = 0x7f0000000000;
      info.bar_size[0] = 0x40000000;
      return put(caller, arg, info) ? 0 : -EFAULT;
    }
    case uapi::kDriverInfoGet: {
      const uapi::device_driver_info info = {2, 0, 0, 24, 0x1ff};
      return put(caller, arg, info) ? 0 : -EFAULT;
    }
    case uapi::kCompatibleVersion: {
      const uapi::compatible_version range = {7, 5};
      return put(caller, arg, range) ? 0 : -EFAULT;
    }
    case uapi::kMemAllocV2Mt64:
      return allocate(arg, caller);
    case uapi::kMemGetExtendedInfo: {
      uapi::mem_get_extended_info info;
      if (!get(caller, arg, &info)) return -EFAULT;
      const auto chunk = chunks_.find(info.mem_handle);
      if (chunk == chunks_.end()) return EINVAL;  // positive: spec/driver-ioctl.md 3.3.4
      info.mmap_offset = info.pa = chunk->second.pa;
      info.size = chunk->second.size;
      return put(caller, arg, info) ? 0 : -EFAULT;
    }
    case uapi::kMemFree: {
      uapi::mem_free what;
      if (!get(caller, arg, &what)) return -EFAULT;
      return chunks_.erase(what.mem_handle) != 0 ? 0 : -EINVAL;
    }
    case uapi::kMemBufCopy64:
      return buffer_copy(arg, caller);
    case uapi::kGetVaPlacement: {
      uapi::get_va_placement where;
      if (!get(caller, arg, &where)) return -EFAULT;
      const auto next = placed_.upper_bound(where.va);
      if (next == placed_.begin()) return -ENXIO;
      const auto& [va, placed] = *std::prev(next);
      if (where.va - va >= placed.length) return -ENXIO;
      where.device_index = 0;
      where.hbm_index = static_cast<int32_t>(placed.offset >> 36);
      return put(caller, arg, where) ? 0 : -EFAULT;
    }
    case uapi::kAcquireNeuronDs: {
      uapi::neuron_ds_info info;
      if (!get(caller, arg, &info)) return -EFAULT;
      info.mmap_offset = 0x800000;
      info.size = 256 * 1024;
      return put(caller, arg, info) ? 0 : -EFAULT;
    }
    case uapi::kReleaseNeuronDs:
      return 0;
    default:
      return -EINVAL;
  }
}

int FakeDevice::allocate(uint64_t arg, const driver::Caller& caller) {
  uapi::mem_alloc_v2_mem_type64 request;
  if (!get(caller, arg, &request)) return -EFAULT;
  const uint64_t size = (request.size + 4095) & ~uint64_t{4095};
  if (size == 0 || size > base::kMiB) return -ENOMEM;
  const uint64_t handle = chunks_.size() + 1;
  chunks_[handle] = {next_chunk_, size, caller.tgid};
  next_chunk_ += size;
  return put(caller, request.mem_handle, handle) ? 0 : -EFAULT;
}

int FakeDevice::buffer_copy(uint64_t arg, const driver::Caller& caller) {
  uapi::mem_buf_copy64 request;
  if (!get(caller, arg, &request)) return -EFAULT;
  const auto chunk = chunks_.find(request.mem_handle);
  if (chunk == chunks_.end() || request.size > chunk->second.size ||
      request.offset > chunk->second.size - request.size) {
    return -EINVAL;
  }
  uint8_t* bytes = memory_.data() + chunk->second.pa + request.offset;
  const bool ok = request.copy_to_mem_handle != 0
                      ? caller.memory->read(request.buffer, {bytes, request.size})
                      : caller.memory->write(request.buffer, {bytes, request.size});
  return ok ? 0 : -EFAULT;
}

base::Result<driver::MmapTarget> FakeDevice::mmap(int /*file*/, uint64_t offset, uint64_t length,
                                                  bool /*read*/, bool /*write*/,
                                                  const driver::Caller& /*caller*/) {
  driver::MmapTarget target;
  target.fd = fd_.get();
  target.fd_offset = offset;
  target.length = length;
  target.writable = offset != kReadOnlyOffset && offset != kWindowOffset;
  if (offset == kWindowOffset) {
    target.store_is_mmio = true;
    target.mmio_bar_offset = kWindowBar;
  }
  if (offset < kPlainOffset || offset + length > kMemorySize) return error(EPERM);
  note("mmap " + std::to_string(offset) + " " + std::to_string(length));
  return target;
}

void FakeDevice::mmap_done(int /*file*/, uint64_t va, uint64_t offset, uint64_t length,
                           const driver::Caller& /*caller*/) {
  placed_[va] = {offset, length};
}

void FakeDevice::munmap(int /*file*/, uint64_t offset, uint64_t length,
                        const driver::Caller& /*caller*/) {
  note("munmap " + std::to_string(offset) + " " + std::to_string(length));
}

int FakeDevice::mmio_write(int /*file*/, uint64_t bar_offset, uint32_t value,
                           const driver::Caller& /*caller*/) {
  const std::lock_guard<std::mutex> guard(lock_);
  registers_[bar_offset] = value;
  // Read aliases show what was written, as a semaphore's would.
  base::store(memory_.data() + kWindowOffset + (bar_offset - kWindowBar), value);
  return 0;
}

void FakeDevice::flush(int file, const driver::Caller& caller) {
  const std::lock_guard<std::mutex> guard(lock_);
  log_.push_back("flush " + std::to_string(files_.at(file).minor));
  const auto slot = attach_.find(caller.tgid);
  if ((files_.at(file).flags & O_ACCMODE) == O_WRONLY || slot == attach_.end()) return;
  if (--slot->second > 0) return;
  attach_.erase(slot);
  for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
    chunk = chunk->second.owner == caller.tgid ? chunks_.erase(chunk) : std::next(chunk);
  }
}

void FakeDevice::release(int file) {
  const std::lock_guard<std::mutex> guard(lock_);
  log_.push_back("release " + std::to_string(files_.at(file).minor));
  files_.erase(file);
}

std::vector<driver::SysfsFile> FakeDevice::sysfs_files(int minor) const {
  std::vector<driver::SysfsFile> files;
  for (const auto& [path, text] : attributes_) {
    const size_t at = path.find("/neuron_device/neuron");
    const int owner = at == std::string::npos
                          ? kNoDevice
                          : std::atoi(path.c_str() + at + sizeof "/neuron_device/neuron" - 1);
    if (owner != minor) continue;
    files.push_back({path, path.find("/reset") != std::string::npos ? 0600u : 0444u});
  }
  return files;
}

base::Result<std::string> FakeDevice::sysfs_read(const std::string& path) {
  const std::lock_guard<std::mutex> guard(lock_);
  const auto found = attributes_.find(path);
  if (found == attributes_.end()) return error(ENOENT);
  return found->second;
}

base::Status FakeDevice::sysfs_write(const std::string& path, const std::string& text) {
  const std::lock_guard<std::mutex> guard(lock_);
  attributes_[path] = "written:" + text;
  log_.push_back("sysfs write " + text);
  return {};
}

Bench::Bench() {
  auto server =
      driver::NodeServer::start({{&device_}, {{"node-0.test", "trn1.2xlarge"}}, &executor_, ""});
  if (!server) throw std::runtime_error(server.error().message());
  server_ = std::move(*server);
  machine_ = std::thread([this] {
    while (!stop_) {
      if (!server_->requests().wait_for_request(milliseconds(50))) continue;
      const base::Ps before = executor_.now();
      server_->status().machine_busy();
      server_->requests().admit_one();
      server_->status().machine_idle(executor_.now() - before);
    }
  });
}

Bench::~Bench() {
  stop_machine();
  executor_.stop();
}

void Bench::stop_machine() {
  stop_ = true;
  server_->requests().interrupt();
  if (machine_.joinable()) machine_.join();
}

void Bench::on_kernel_thread(std::function<void()> work) {
  std::mutex lock;
  std::condition_variable finished;
  bool done = false;
  server_->requests().push("test", [&] {
    work();
    const std::lock_guard<std::mutex> guard(lock);
    done = true;
    finished.notify_all();
  });
  std::unique_lock<std::mutex> guard(lock);
  finished.wait(guard, [&] { return done; });
}

bool Bench::eventually(const std::function<bool()>& done) {
  for (int i = 0; i < 1000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return done();
}

pid_t Bench::start(const std::vector<std::string>& command, int stdout_fd,
                   driver::ClientClock clock) {
  driver::ClientLaunch launch;
  launch.socket_path = server_->socket_path();
  launch.shim_path = SHIM_PATH;
  launch.library_dirs = {LIBRARY_DIR};
  launch.clock = clock;
  auto environment = driver::client_environment(launch);
  // Instrumented libraries find the shim in front of the sanitizer's runtime, which is as intended.
  environment.emplace_back("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0");
  std::vector<char*> arguments;
  std::vector<char*> variables;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& word : environment) variables.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (stdout_fd >= 0) posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
  pid_t pid = -1;
  const int failed =
      posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : -1;
}

Bench::Outcome Bench::run(const std::vector<std::string>& command, driver::ClientClock clock) {
  Outcome outcome;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;
  const pid_t pid = start(command, ends[1], clock);
  close(ends[1]);
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    outcome.out.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (pid > 0) waitpid(pid, &outcome.status, 0);
  return outcome;
}

std::string client_program(const std::string& name) {
  return std::string(CLIENT_DIR) + "/" + name;
}

}  // namespace bench
