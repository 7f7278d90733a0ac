// The virtual sysfs of one node as real files below a private directory, at their usual absolute
// paths: <root>/sys/devices/virtual/neuron_device/neuronN/..., with
// <root>/sys/class/neuron_device/neuronN as the usual symbolic links (spec/driver-ioctl.md 7).
// The kernel's own files of a device (dev, uevent, power/) come from here, the others from the
// driver. Contents are written when a client opens a file. Made on first use, device by device,
// because most programs never look and a large host has tens of thousands of attributes. Kernel
// thread only.
#pragma once

#include <map>
#include <set>
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
  // Brings the file that a client names (class or devices form) up to date. Names of directories
  // and unknown names succeed without effect: the client's own open reports what is there.
  // Returns how often the value has changed (SysfsEvents).
  base::Result<uint32_t> refresh(const std::string& path);
  // The text of an attribute that a client opens for writing.
  base::Result<std::string> read_writable(const std::string& path);
  base::Status write(const std::string& path, const std::string& text);
  SysfsEvents events(const std::string& path);
  // Files outside the standard directories, which clients must redirect one by one.
  std::vector<std::string> extra_paths() const;

 private:
  struct Attribute {
    uint32_t mode = 0444;
    std::string device_path;  // as the driver named it; empty: one of the kernel's
    std::string text;         // of a kernel's file
    int read_error = 0;       // of a kernel's file that cannot be read
    bool writable() const { return (mode & 0222) != 0; }
  };
  // Create directories, links and files; later calls do nothing.
  base::Status prepare();
  base::Status prepare_for(const std::string& path);
  base::Status add_attributes(int minor);
  base::Status add_attribute(const std::string& path, Attribute attribute);
  base::Status add_kernel_files(int minor);
  base::Result<std::string> read(const Attribute& attribute) const;
  base::Status add_file(const std::string& path, const std::string& text);
  base::Status add_device(int minor);
  base::Status make_parent(const std::string& path);
  const Attribute* find(const std::string& path) const;
  base::Result<const Attribute*> find_writable(const std::string& path);

  CharDevice& device_;
  std::string root_;
  unsigned major_;
  std::map<std::string, std::string> constants_;
  bool prepared_ = false;
  std::set<int> prepared_devices_;
  std::string last_parent_;  // the directory made last
  // A file of no text stands for all of a mode that nobody has opened: a link is cheaper than a
  // file.
  std::map<uint32_t, std::string> blanks_;
  std::map<std::string, Attribute> attributes_;  // by canonical path
};

}  // namespace driver
