// A whole driver instance: the devices of one host, their character nodes, ioctls, mappings and
// sysfs files, as spec/driver-ioctl.md describes release 2.26.5.0. Reaches hardware only through
// arch/pcie.
//
// Use: construct, call start(), then serve clients from driver tasks. open() waits until the device
// is ready. Nothing here runs by itself: there are no periodic tasks (power samples, metric posts),
// so an idle driver never moves simulated time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arch/pcie/pcie.h"
#include "driver/kernel/char_device.h"
#include "driver/kernel/context.h"
#include "driver/kernel/core_locks.h"
#include "driver/kernel/election.h"
#include "driver/kernel/neuron_device.h"

namespace driver {

struct DevicePlace {
  pcie::Device* device = nullptr;
  PciLocation location;
};

class SysfsTree;

struct OpenFile {
  int minor = 0;
  int flags = 0;
  bool free_access = false;  // opened O_WRONLY (spec/driver-ioctl.md 1.3)
};

class KernelDriver : public CharDevice {
 public:
  KernelDriver(std::vector<DevicePlace> places, HostArena& arena, pcie::HostExecutor& executor,
               Params params);
  ~KernelDriver() override;
  KernelDriver(const KernelDriver&) = delete;
  KernelDriver& operator=(const KernelDriver&) = delete;

  // Spawns the probe task; it probes the devices in order and spawns a reset task for each.
  void start();
  // From a driver task: waits until every device is ready or has failed.
  void wait_ready();
  // From a driver task: stops the reset tasks and takes the devices down
  // (spec/hw-registers.md 10.7).
  void remove();

  bool probed() const { return probed_; }
  // One line per device that did not come up.
  const std::vector<std::string>& probe_errors() const { return probe_errors_; }
  const Counters& counters() const { return counters_; }
  NeuronDevice* device(int minor) const;
  const Params& params() const { return params_; }
  PlatformType platform() const;
  Election& election() const { return *election_; }
  uint32_t device_count() const { return static_cast<uint32_t>(devices_.size()); }
  RangeMarks& range_marks() { return range_marks_; }
  std::vector<uint32_t> neighbours(const NeuronDevice& device) const;  // 3.1.2
  bool is_host_chunk(uint64_t pa, int32_t tgid) const;                 // 3.5.4
  const Context& context() const { return context_; }
  Counters& mutable_counters() { return counters_; }

  std::vector<int> minors() const override;
  base::Result<int> open(int minor, int flags, const Caller& caller) override;
  int ioctl(int file, uint32_t request, uint64_t arg, const Caller& caller) override;
  base::Result<MmapTarget> mmap(int file, uint64_t offset, uint64_t length, bool read, bool write,
                                const Caller& caller) override;
  void mmap_done(int file, uint64_t va, uint64_t offset, uint64_t length,
                 const Caller& caller) override;
  void munmap(int file, uint64_t offset, uint64_t length, const Caller& caller) override;
  int mmio_write(int file, uint64_t bar_offset, uint32_t value, const Caller& caller) override;
  void flush(int file, const Caller& caller) override;
  void release(int file) override;
  std::vector<SysfsFile> sysfs_files(int minor) const override;
  base::Result<std::string> sysfs_read(const std::string& path) override;
  base::Status sysfs_write(const std::string& path, const std::string& text) override;
  SysfsEvents sysfs_events(const std::string& path) override;

 private:
  void probe_all();
  std::string probe_one(const DevicePlace& place);
  bool assign_index(NeuronDevice& device) const;
  int await_pod_configuration() const;
  SysfsTree* sysfs() const;  // null while probing

  std::vector<DevicePlace> places_;
  mutable Params params_;  // sysfs may change them at any time
  Counters counters_;
  Context context_;
  PlatformType platform_;
  std::map<int, std::unique_ptr<NeuronDevice>> devices_;  // by minor
  std::unique_ptr<Election> election_;
  const Product* product_ = nullptr;  // the first device fixes the architecture
  uint8_t revision_ = 0;              // and the revision
  RangeMarks range_marks_;
  std::map<int, OpenFile> files_;
  int next_file_ = 1;
  mutable std::unique_ptr<SysfsTree> sysfs_;  // built when first asked for
  bool probed_ = false;
  std::vector<std::string> probe_errors_;
};

}  // namespace driver
