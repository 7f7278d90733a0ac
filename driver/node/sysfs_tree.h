// The virtual sysfs of one node as real files below a private directory, at their usual absolute
// paths: <root>/sys/devices/virtual/neuron_device/neuronN/..., with
// <root>/sys/class/neuron_device/neuronN as the usual symbolic links (driver-ioctl.md 7). Contents
// are written when a client opens a file. Made on first use, because most programs never look and
// large machines have thousands of attributes. Kernel thread only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "driver/kernel/char_device.h"

namespace driver {

class SysfsMirror {
 public:
  // `constants`: files beside the driver's, by absolute path, whose text never changes.
  SysfsMirror(CharDevice& device, std::string root, unsigned major,
              std::map<std::string, std::string> constants)
      : device_(device), root_(std::move(root)), major_(major), constants_(std::move(constants)) {}

  const std::string& root() const { return root_; }
  // Creates directories, links and files; later calls do nothing.
  base::Status prepare();
  // Brings the file that a client names (class or devices form) up to date. Names of directories
  // and unknown names succeed without effect: the client's own open reports what is there.
  base::Status refresh(const std::string& path);
  // The text of an attribute that a client opens for writing.
  base::Result<std::string> read_writable(const std::string& path);
  base::Status write(const std::string& path, const std::string& text);
  // Files outside the standard directories, which clients must redirect one by one.
  std::vector<std::string> extra_paths() const;

 private:
  struct Attribute {
    std::string device_path;  // as the driver named it
    bool writable = false;
  };
  base::Status add_file(const std::string& path, bool writable, const std::string& text);
  base::Status add_device(int minor);
  const Attribute* find(const std::string& path) const;

  CharDevice& device_;
  std::string root_;
  unsigned major_;
  std::map<std::string, std::string> constants_;
  bool prepared_ = false;
  std::map<std::string, Attribute> attributes_;  // by canonical path
};

}  // namespace driver
