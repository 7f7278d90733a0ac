// What all parts of one driver instance share: host memory, the executor, parameters, counters.
// Also the two ways to wait that the parts use; see the notes at client_wait.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "arch/pcie/pcie.h"
#include "driver/kernel/host_arena.h"

namespace driver {

// Module parameters (spec/driver-ioctl.md 7.5) and the few choices of an emulated host.
struct Params {
  uint32_t nc_per_dev_param = 1;  // cores per device, revision 0xF0 only
  uint32_t dev_nc_map = 1;        // active cores, revision 0xF0 only
  bool dma_teardown_on_exit = true;
  bool zerocopy_trn1_override = false;
  uint32_t nmetric_metric_post_delay = 150000;
  uint32_t nmetric_log_posts = 1;
  uint64_t mempool_min_alloc_size = 4096;
  uint64_t mempool_host_memory_size = 32 * base::kMiB;
  uint64_t mempool_small_pool_size = base::kGiB;
  uint64_t mempool_small_alloc_max = 512 * base::kKiB;
  bool no_reset = false;
  bool dup_helper_enable = true;
  bool wc_enable = true;
  bool force_userver = false;
  bool force_die_flip = false;
  bool userver_ctl = false;
  uint32_t userver_etimeout = 600;
  uint32_t userver_pds_node_cnt = 2;
  uint32_t userver_pds_server_id = 1;
  uint64_t pds_reservation_id = 0;  // where the firmware names none; a later release's

  std::string product_name = "trn1.2xlarge";  // DMI product name: selects the platform type (3.16)
  std::string version = "2.26.5.0";           // /sys/module/neuron/version
  base::Ps copy_poll_period = base::us(1);    // spec/driver-ioctl.md 6.3
  // Waits for another client, which moves in host time: true when `channel` was woken, false
  // after `host_us`. Without it the driver waits in simulated time, which an idle machine skips.
  std::function<bool(const void* channel, uint64_t host_us)> client_wait;
  std::function<void(const std::string& line)> log;  // kernel log; dropped when empty
};

// What a fidelity report shows: calls that the driver could only refuse or answer trivially.
struct Counters {
  std::map<uint32_t, uint64_t> unknown_ioctls;  // request value -> calls, ended EINVAL
  std::map<std::string, uint64_t> unsupported;  // feature -> uses
  uint64_t copy_timeouts = 0;
  uint64_t copy_retries = 0;
};

// How software that shares one thread excludes others over a suspension point.
class TaskMutex {
 public:
  void lock(pcie::HostExecutor& executor) {
    while (locked_) executor.wait(this, pcie::HostExecutor::kForever);
    locked_ = true;
  }
  void unlock(pcie::HostExecutor& executor) {
    locked_ = false;
    executor.wake(this);
  }

 private:
  bool locked_ = false;
};

class TaskLock {
 public:
  TaskLock(TaskMutex& mutex, pcie::HostExecutor& executor) : mutex_(mutex), executor_(executor) {
    mutex_.lock(executor_);
  }
  ~TaskLock() { mutex_.unlock(executor_); }
  TaskLock(const TaskLock&) = delete;
  TaskLock& operator=(const TaskLock&) = delete;

 private:
  TaskMutex& mutex_;
  pcie::HostExecutor& executor_;
};

struct Context {
  HostArena& arena;
  pcie::HostExecutor& executor;
  const Params& params;
  Counters& counters;

  void log(const std::string& line) const {
    if (params.log) params.log(line);
  }
  bool client_wait(const void* channel, uint64_t host_us) const {
    if (params.client_wait) return params.client_wait(channel, host_us);
    return executor.wait(channel, base::us(host_us));
  }
};

}  // namespace driver
