// A driver over fake devices, with client calls made as driver tasks.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "driver/kernel/host_arena.h"
#include "driver/kernel/kernel_driver.h"
#include "driver/uapi/requests.h"
#include "driver/uapi/structs.h"
#include "tests/driver_kernel/fake_device.h"
#include "tests/driver_kernel/task_executor.h"
#include "tests/golden/core_reset.h"
#include "tests/golden/trace.h"

namespace driver_test {

namespace uapi = driver::uapi;

// The test's own memory is the client's; the lowest page is never accessible.
class SelfMemory : public driver::UserMemory {
 public:
  bool read(uint64_t address, base::ByteSpan to) override {
    if (address < 4096) return to.empty();
    std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
    return true;
  }
  bool write(uint64_t address, base::ConstByteSpan from) override {
    if (address < 4096) return from.empty();
    std::memcpy(reinterpret_cast<void*>(address), from.data(), from.size());
    return true;
  }
};

template <typename T>
uint64_t address_of(T& value) {
  return reinterpret_cast<uint64_t>(&value);
}

constexpr uint16_t kTrn1 = 0x7164;
constexpr uint16_t kInf2 = 0x7264;
constexpr uint16_t kTrn2 = 0x7364;
constexpr uint16_t kTrn3 = 0x7564;

struct BenchOptions {
  uint16_t device_id = kTrn1;
  uint8_t revision = 0;
  int devices = 1;
  driver::Params params;
};

class DriverBench {
 public:
  explicit DriverBench(BenchOptions options = {}) {
    arena_ = std::move(*driver::HostArena::create(4 * base::kGiB));
    std::vector<driver::DevicePlace> slots;
    for (int i = 0; i < options.devices; ++i) {
      devices_.push_back(std::make_unique<FakeDevice>(options.device_id, options.revision, *arena_,
                                                      static_cast<uint32_t>(i)));
      driver::DevicePlace slot;
      slot.device = devices_.back().get();
      slot.location.bus = static_cast<uint32_t>(16 + i);
      slot.location.slot = 0x1e;
      slots.push_back(slot);
    }
    driver_ = std::make_unique<driver::KernelDriver>(slots, *arena_, executor, options.params);
  }
  ~DriverBench() {
    if (driver_->probed()) task([&] { driver_->remove(); });
  }

  // Brings the devices up.
  void start() {
    driver_->start();
    task([&] { driver_->wait_ready(); });
  }

  // Runs `body` as a driver task until nothing can go on; true when it came to its end.
  template <typename Body>
  bool task(Body body) {
    bool done = false;
    executor.spawn("client", [&] {
      body();
      done = true;
    });
    executor.run();
    return done;
  }

  driver::Caller caller(int32_t tgid) { return {tgid, tgid, &memory_}; }

  int open(int32_t tgid, int flags = O_RDWR, int minor = 0) {
    int result = 0;
    task([&] {
      auto file = driver_->open(minor, flags, caller(tgid));
      result = file ? *file : -file.error().code;
    });
    return result;
  }
  void close(int file, int32_t tgid) {
    task([&] {
      driver_->flush(file, caller(tgid));
      driver_->release(file);
    });
  }
  template <typename T>
  int ioctl(int file, uint32_t request, T& arg, int32_t tgid = kTgid) {
    return ioctl_at(file, request, address_of(arg), tgid);
  }
  int ioctl_at(int file, uint32_t request, uint64_t arg, int32_t tgid = kTgid) {
    int result = kNotReturned;
    task([&] { result = driver_->ioctl(file, request, arg, caller(tgid)); });
    return result;
  }
  base::Result<driver::MmapTarget> mmap(int file, uint64_t offset, uint64_t length, bool write,
                                        int32_t tgid = kTgid) {
    base::Result<driver::MmapTarget> result = driver::MmapTarget{};
    task([&] { result = driver_->mmap(file, offset, length, true, write, caller(tgid)); });
    return result;
  }

  // Allocates; 0 when refused.
  uint64_t alloc(int file, uint64_t size, bool host, uint32_t hbm = 0, uint32_t nc = 0,
                 uint32_t type = 0, uint64_t align = 0, int32_t tgid = kTgid) {
    uint64_t handle = 0;
    uapi::mem_alloc_v2_mem_type64 request{};
    request.size = size;
    request.align = align;
    request.host_memory = host ? 1 : 0;
    request.dram_channel = hbm;
    request.nc_id = nc;
    request.mem_type = type != 0 ? type : host ? 2 : 9;
    request.mem_handle = address_of(handle);
    last_alloc_error = ioctl(file, uapi::kMemAllocV2Mt64, request, tgid);
    return last_alloc_error == 0 ? handle : 0;
  }
  uint64_t pa(int file, uint64_t handle) {
    uint64_t value = 0;
    uapi::mem_get_pa request{handle, address_of(value)};
    return ioctl(file, uapi::kMemGetPa, request) == 0 ? value : 0;
  }
  int buf_copy(int file, uint64_t handle, void* buffer, uint64_t size, uint64_t offset,
               bool to_device, int32_t tgid = kTgid) {
    uapi::mem_buf_copy64 request{handle, reinterpret_cast<uint64_t>(buffer), size, offset,
                                 to_device ? 1u : 0u};
    return ioctl(file, uapi::kMemBufCopy64, request, tgid);
  }

  FakeDevice& fake(int i = 0) { return *devices_[static_cast<size_t>(i)]; }
  driver::KernelDriver& driver() { return *driver_; }
  driver::HostArena& arena() { return *arena_; }

  static constexpr int32_t kTgid = 100;
  static constexpr int kNotReturned = -9999;  // the call is still waiting
  int last_alloc_error = 0;
  TaskExecutor executor;

 private:
  SelfMemory memory_;
  std::unique_ptr<driver::HostArena> arena_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
  std::unique_ptr<driver::KernelDriver> driver_;
};

// One v2 device, opened by process kTgid.
class Ioctl : public ::testing::Test {
 protected:
  void SetUp() override {
    bench.start();
    file = bench.open(DriverBench::kTgid);
    ASSERT_GT(file, 0);
  }
  DriverBench bench;
  int file = 0;
};

inline std::vector<golden::Step> golden_trace(const std::string& file,
                                              const golden::Names& names = {}) {
  return golden::driver_accesses(GOLDEN_DIR, file, names);
}

// Compares a log from entry `from` on with a golden script; reports the first difference.
inline void expect_trace(const std::vector<LoggedAccess>& log, size_t from,
                         const std::vector<golden::Step>& want, bool whole = true) {
  EXPECT_EQ(golden::difference(log, from, want, whole), "");
}

}  // namespace driver_test
