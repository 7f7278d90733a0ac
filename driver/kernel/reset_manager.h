// Reset requests of one device and the task that serves them (spec/hw-registers.md 8;
// spec/driver-ioctl.md 3.12). Exact: request merging, register accesses, waits, re-issue and
// give-up limits, results.
#pragma once

#include <cstdint>
#include <list>

#include "driver/kernel/context.h"
#include "driver/uapi/limits.h"

namespace driver {

class NeuronDevice;

class ResetManager {
 public:
  // Request ids are tgids; the driver's own full resets use this one.
  static constexpr uint32_t kInternalId = 0xffffffffu;

  explicit ResetManager(NeuronDevice& device) : device_(device) {}

  // The body of the reset task; returns after stop().
  void run();
  void stop();
  bool stopped() const { return stopped_; }
  void wait_stopped();

  // In the caller's context: tears down what the cores held, queues the request. 0, or 1 when a
  // request with this id is still queued or uncollected.
  int request(uint32_t nc_map, uint32_t id);
  void request_full();  // load time and sysfs
  // Waits for a request and removes it: 0 success, 1 failure or unknown id.
  int collect(uint32_t id);
  bool pending(uint32_t id) const;

 private:
  enum class Status { kPreparing, kQueued, kRunning, kDone, kFailed };
  struct Request {
    uint32_t id = 0;
    uint32_t nc_map = 0;
    Status status = Status::kQueued;
  };

  void enqueue(uint32_t nc_map, uint32_t cores, uint32_t id);
  void serve(uint32_t nc_map, bool internal);
  bool reset_hardware(uint32_t nc_map);
  bool reset_by_mailbox(uint32_t nc_map);
  bool wait_qemu_register();
  bool wait_idle();
  uint32_t selected(uint32_t nc_map) const;

  NeuronDevice& device_;
  std::list<Request> requests_;  // references stay valid while a request waits
  bool stopped_ = false;
  bool stop_ = false;
};

}  // namespace driver
