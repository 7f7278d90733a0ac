// A server with a fake character device and a fake machine, for tests of the transport. The fake
// device logs every call that the kernel's VFS would have made, and serves a few requests of the
// real ABI over one memfd.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/fd.h"
#include "driver/kernel/char_device.h"
#include "driver/node/client_launch.h"
#include "driver/node/node_server.h"

namespace bench {

// Coroutines as threads of which one runs at a time: spawn returns when the task has ended or
// waits.
class BatonExecutor final : public pcie::HostExecutor {
 public:
  ~BatonExecutor() override;
  void spawn(std::string name, std::function<void()> task) override;
  void delay(base::Ps time) override;
  bool wait(const void* channel, base::Ps timeout) override;
  void wake(const void* channel) override;
  base::Ps now() const override { return now_; }
  void stop();

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  int running_ = 0;
  bool stopping_ = false;
  std::multiset<const void*> waiting_;
  std::multiset<const void*> woken_;
  std::atomic<base::Ps> now_{0};
  std::vector<std::thread> threads_;
};

// Requests of the fake only ('N' numbers that the real ABI does not use).
constexpr uint32_t kSwap = 0x4e08;        // two words at arg change places
constexpr uint32_t kBulkInvert = 0x4e09;  // {address, size}: inverts every byte
constexpr uint32_t kBlock = 0x4e0e;       // waits until kWake
constexpr uint32_t kWake = 0x4e0f;
constexpr uint32_t kFail = 0x4e10;   // EBUSY
constexpr uint32_t kSpend = 0x4e11;  // arg = simulated microseconds; takes 30 ms of wall time
constexpr uint32_t kPoke = 0x4e12;  // arg = value stored at byte 0 of the plain window, after 30 ms
constexpr uint32_t kWho = 0x4e13;   // tgid of the caller
constexpr uint32_t kAttached = 0x4e14;  // 0, or EACCES when the caller has not opened

constexpr uint64_t kPlainOffset = 0x100000;   // mmap offsets
constexpr uint64_t kWindowOffset = 0x200000;  // a register window
constexpr uint64_t kReadOnlyOffset = 0x300000;
constexpr uint64_t kMapLength = 0x2000;
constexpr uint64_t kWindowBar = 0x2700000;  // BAR0 offset of the register window

class FakeDevice final : public driver::CharDevice {
 public:
  explicit FakeDevice(pcie::HostExecutor& executor);

  std::vector<int> minors() const override { return {0, 3}; }
  base::Result<int> open(int minor, int flags, const driver::Caller& caller) override;
  int ioctl(int file, uint32_t request, uint64_t arg, const driver::Caller& caller) override;
  base::Result<driver::MmapTarget> mmap(int file, uint64_t offset, uint64_t length, bool read,
                                        bool write, const driver::Caller& caller) override;
  void mmap_done(int file, uint64_t va, uint64_t offset, uint64_t length,
                 const driver::Caller& caller) override;
  void munmap(int file, uint64_t offset, uint64_t length, const driver::Caller& caller) override;
  int mmio_write(int file, uint64_t bar_offset, uint32_t value,
                 const driver::Caller& caller) override;
  void flush(int file, const driver::Caller& caller) override;
  void release(int file) override;
  std::vector<driver::SysfsFile> sysfs_files(int minor) const override;
  base::Result<std::string> sysfs_read(const std::string& path) override;
  base::Status sysfs_write(const std::string& path, const std::string& text) override;

  std::vector<std::string> log() const;
  size_t count(const std::string& prefix) const;
  std::map<uint64_t, uint32_t> registers() const;
  int attached() const;
  uint8_t* memory() { return memory_.data(); }

 private:
  struct File {
    int minor;
    int flags;
  };
  struct Placed {
    uint64_t offset;
    uint64_t length;
  };
  struct Chunk {
    uint64_t pa;
    uint64_t size;
    int32_t owner;
  };
  void note(const std::string& what);
  int neuron_ioctl(uint32_t request, uint64_t arg, const driver::Caller& caller);
  int allocate(uint64_t arg, const driver::Caller& caller);
  int buffer_copy(uint64_t arg, const driver::Caller& caller);

  pcie::HostExecutor& executor_;
  base::UniqueFd fd_;
  base::Mapping memory_;
  mutable std::mutex lock_;
  int next_file_ = 1;
  int channel_ = 0;
  std::map<int, File> files_;
  std::map<int32_t, int> attach_;
  std::map<uint64_t, Chunk> chunks_;
  uint64_t next_chunk_ = 0x400000;
  std::map<uint64_t, uint32_t> registers_;
  std::map<uint64_t, Placed> placed_;  // by client address
  std::map<std::string, std::string> attributes_;
  std::vector<std::string> log_;
};

class Bench {
 public:
  Bench();
  ~Bench();
  driver::NodeServer& server() { return *server_; }
  FakeDevice& device() { return device_; }
  void stop_machine();

  // Runs `work` as a driver task, between the requests of clients.
  void on_kernel_thread(std::function<void()> work);
  // Waits until `done` holds or some seconds have passed; whether it held.
  static bool eventually(const std::function<bool()>& done);

  struct Outcome {
    int status = -1;  // as waitpid gives it
    std::string out;
  };
  // Starts a program as a client; its standard output is collected.
  Outcome run(const std::vector<std::string>& command,
              driver::ClientClock clock = driver::ClientClock::kVirtual);
  pid_t start(const std::vector<std::string>& command, int stdout_fd,
              driver::ClientClock clock = driver::ClientClock::kVirtual);

 private:
  BatonExecutor executor_;
  FakeDevice device_{executor_};
  std::unique_ptr<driver::NodeServer> server_;
  std::atomic<bool> stop_{false};
  std::thread machine_;
};

std::string client_program(const std::string& name);  // path of a program of tests/client

}  // namespace bench
