// The driver's files below /sys: device attributes, metric tree, class attributes, module
// parameters. Source: spec/driver-ioctl.md 7. Paths are listed below /sys/class/neuron_device; the
// same files answer below /sys/devices/virtual/neuron_device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "driver/kernel/char_device.h"

namespace driver {

class KernelDriver;
class NeuronDevice;
struct Params;

class SysfsTree {
 public:
  SysfsTree(const KernelDriver& driver, Params& params);

  // As CharDevice::sysfs_files.
  std::vector<SysfsFile> files(int minor);
  base::Result<std::string> read(const std::string& path);
  base::Status write(const std::string& path, const std::string& text);
  SysfsEvents events(const std::string& path);

 private:
  using Reader = std::function<std::string()>;
  using Writer = std::function<int(const std::string& text)>;  // 0 or -errno
  struct Attribute {
    Reader read;
    Writer write;  // empty: read-only
    uint32_t mode = 0444;
    const uint32_t* changes = nullptr;  // what pollers are told of; null: nothing
  };

  // Read-only files have mode 0444, others 0644 unless stated.
  Attribute& add(const std::string& path, Reader read, Writer write = {});
  // A file of mode 0644 whose writes are accepted and ignored.
  void add_metric(const std::string& path, Reader read);
  template <typename Counter>
  void add_counter(const std::string& directory, Counter& counter, bool with_peak);
  void add_device(NeuronDevice& device, const std::string& base);
  void add_info(NeuronDevice& device, const std::string& base);
  void add_hardware(NeuronDevice& device, const std::string& base);
  void add_core(NeuronDevice& device, uint32_t nc, const std::string& base);
  void add_class();
  void add_module();
  static std::string normalised(const std::string& path);
  Attribute* find(const std::string& path);
  void build(int minor);

  const KernelDriver& driver_;
  Params& params_;
  int notify_delay_ = -1;  // one switch for all devices
  uint64_t built_ = 0;     // devices whose files are in the table, by minor
  std::map<std::string, Attribute> attributes_;
};

}  // namespace driver
