#include "driver/node/sysfs_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/fd.h"

namespace driver {
namespace {

namespace fs = std::filesystem;

constexpr char kClassDir[] = "/sys/class/neuron_device/";
constexpr char kDevicesDir[] = "/sys/devices/virtual/neuron_device/";
constexpr char kModuleDir[] = "/sys/module/neuron/";
constexpr char kProcDevices[] = "/proc/devices";

bool starts_with(const std::string& text, const char* prefix) {
  return text.rfind(prefix, 0) == 0;
}

// One name per file: the class directory's neuronN entries are links into the devices directory;
// class attributes such as node_id_4 live in the class directory itself.
std::string canonical(const std::string& path) {
  const std::string clean = fs::path(path).lexically_normal().string();
  if (!starts_with(clean, kClassDir)) return clean;
  const std::string rest = clean.substr(sizeof kClassDir - 1);
  constexpr char kDevice[] = "neuron";
  const bool is_device = starts_with(rest, kDevice) && rest.size() > sizeof kDevice - 1 &&
                         rest[sizeof kDevice - 1] >= '0' && rest[sizeof kDevice - 1] <= '9';
  return is_device ? kDevicesDir + rest : clean;
}

base::Status write_file(const std::string& path, const std::string& text) {
  const base::UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd.valid()) return base::errno_error(path.c_str(), "open");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd.get(), text.data() + done, text.size() - done);
    if (wrote < 0) return base::errno_error(path.c_str(), "write");
    done += static_cast<size_t>(wrote);
  }
  return {};
}

// A reader that has the old file open keeps seeing it, as it keeps one page of sysfs text.
base::Status replace_file(const std::string& path, const std::string& text, uint32_t mode) {
  const std::string fresh = path + ".new";
  if (auto status = write_file(fresh, text); !status) return status;
  chmod(fresh.c_str(), mode);
  if (rename(fresh.c_str(), path.c_str()) != 0) return base::errno_error(path.c_str(), "rename");
  return {};
}

std::string host_text(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

base::Status SysfsMirror::prepare() {
  if (prepared_) return {};
  prepared_ = true;
  std::error_code failed;
  fs::create_directories(root_ + kClassDir, failed);
  fs::create_directories(root_ + kDevicesDir, failed);
  fs::create_directories(root_ + kModuleDir, failed);
  fs::create_directories(root_ + "/proc", failed);
  if (failed) return base::Error{base::Fault::kIo, failed.value(), root_, failed.message()};
  for (const int minor : device_.minors()) {
    if (auto status = add_device(minor); !status) return status;
  }
  if (auto status = add_attributes(CharDevice::kNoDevice); !status) return status;
  for (const auto& [path, text] : constants_) {
    if (auto status = add_file(path, text); !status) return status;
  }
  // The major number is dynamic on a real host: a line among those of the host's own drivers.
  std::string devices = host_text(kProcDevices);
  const std::string line = std::to_string(major_) + " neuron\n";
  const size_t block = devices.find("\nBlock devices:");
  devices.insert(block == std::string::npos ? devices.size() : block, line);
  return add_file(kProcDevices, devices);
}

base::Status SysfsMirror::prepare_for(const std::string& path) {
  if (auto status = prepare(); !status) return status;
  const std::string name = canonical(path);
  const std::string prefix = std::string(kDevicesDir) + "neuron";
  if (name.rfind(prefix, 0) != 0) return {};
  char* end = nullptr;
  const long minor = strtol(name.c_str() + prefix.size(), &end, 10);
  if (end == name.c_str() + prefix.size() || (*end != 0 && *end != '/')) return {};
  const auto minors = device_.minors();
  const bool exists = std::find(minors.begin(), minors.end(), minor) != minors.end();
  return exists ? add_attributes(static_cast<int>(minor)) : base::Status();
}

base::Status SysfsMirror::add_attributes(int minor) {
  if (!prepared_devices_.insert(minor).second) return {};
  for (const SysfsFile& file : device_.sysfs_files(minor)) {
    Attribute attribute;
    attribute.mode = file.mode;
    attribute.device_path = file.path;
    if (auto status = add_attribute(canonical(file.path), std::move(attribute)); !status) {
      return status;
    }
  }
  return minor == CharDevice::kNoDevice ? base::Status() : add_kernel_files(minor);
}

// What every device of a class has, a virtual one without power management.
base::Status SysfsMirror::add_kernel_files(int minor) {
  const std::string name = "neuron" + std::to_string(minor);
  const std::string number = std::to_string(major_) + ":" + std::to_string(minor);
  const std::pair<const char*, Attribute> files[] = {
      {"dev", {0444, {}, number + "\n", 0}},
      {"uevent",
       {0644,
        {},
        "MAJOR=" + std::to_string(major_) + "\nMINOR=" + std::to_string(minor) +
            "\nDEVNAME=" + name + "\n",
        0}},
      {"power/autosuspend_delay_ms", {0644, {}, {}, EIO}},
      {"power/control", {0644, {}, "auto\n", 0}},
      {"power/runtime_active_time", {0444, {}, "0\n", 0}},
      {"power/runtime_status", {0444, {}, "unsupported\n", 0}},
      {"power/runtime_suspended_time", {0444, {}, "0\n", 0}},
  };
  for (const auto& [file, attribute] : files) {
    if (auto status = add_attribute(kDevicesDir + name + "/" + file, attribute); !status) {
      return status;
    }
  }
  return {};
}

base::Status SysfsMirror::add_device(int minor) {
  const std::string name = "neuron" + std::to_string(minor);
  const std::string directory = root_ + kDevicesDir + name;
  std::error_code failed;
  fs::create_directories(directory + "/power", failed);
  fs::create_directory_symlink("../../devices/virtual/neuron_device/" + name,
                               root_ + kClassDir + name, failed);
  fs::create_directory_symlink("../../../../class/neuron_device", directory + "/subsystem", failed);
  if (failed) return base::Error{base::Fault::kIo, failed.value(), directory, failed.message()};
  return {};
}

base::Status SysfsMirror::make_parent(const std::string& path) {
  std::string parent = path.substr(0, path.rfind('/'));
  if (parent == last_parent_) return {};
  std::error_code failed;
  fs::create_directories(root_ + parent, failed);
  if (failed) return base::Error{base::Fault::kIo, failed.value(), parent, failed.message()};
  last_parent_ = std::move(parent);
  return {};
}

base::Status SysfsMirror::add_attribute(const std::string& path, Attribute attribute) {
  const uint32_t mode = attribute.mode;
  attributes_[path] = std::move(attribute);
  if (auto status = make_parent(path); !status) return status;
  const std::string target = root_ + path;
  std::string& blank = blanks_[mode];
  if (!blank.empty() && link(blank.c_str(), target.c_str()) == 0) return {};
  // The first one, or no more links to it are possible. What is there already keeps its text.
  if (!blank.empty() && errno == EEXIST) return {};
  blank = root_ + "/.blank" + std::to_string(mode);
  unlink(blank.c_str());
  if (auto status = replace_file(blank, "", mode); !status) return status;
  return link(blank.c_str(), target.c_str()) == 0 || errno == EEXIST
             ? base::Status()
             : base::errno_error(target.c_str(), "link");
}

base::Status SysfsMirror::add_file(const std::string& path, const std::string& text) {
  if (auto status = make_parent(path); !status) return status;
  return replace_file(root_ + path, text, 0444);
}

const SysfsMirror::Attribute* SysfsMirror::find(const std::string& path) const {
  const auto found = attributes_.find(canonical(path));
  return found == attributes_.end() ? nullptr : &found->second;
}

base::Result<std::string> SysfsMirror::read(const Attribute& attribute) const {
  if (!attribute.device_path.empty()) return device_.sysfs_read(attribute.device_path);
  if (attribute.read_error == 0) return attribute.text;
  return base::Error{base::Fault::kUsage, attribute.read_error, "attribute", "cannot be read"};
}

base::Result<uint32_t> SysfsMirror::refresh(const std::string& path) {
  if (auto status = prepare_for(path); !status) return status.error();
  const Attribute* attribute = find(path);
  if (attribute == nullptr) return 0u;
  // Before the text: a change in between is told rather than missed.
  const uint32_t changes = events(path).changes;
  auto text = read(*attribute);
  if (!text) return text.error();
  auto replaced = replace_file(root_ + canonical(path), *text, attribute->mode);
  if (!replaced) return replaced.error();
  return changes;
}

SysfsEvents SysfsMirror::events(const std::string& path) {
  const Attribute* attribute = find(path);
  return attribute == nullptr || attribute->device_path.empty()
             ? SysfsEvents{}
             : device_.sysfs_events(attribute->device_path);
}

base::Result<const SysfsMirror::Attribute*> SysfsMirror::find_writable(const std::string& path) {
  if (auto status = prepare_for(path); !status) return status.error();
  const Attribute* attribute = find(path);
  if (attribute == nullptr) {
    return base::Error{base::Fault::kUsage, ENOENT, path, "no such attribute"};
  }
  if (!attribute->writable()) {
    return base::Error{base::Fault::kUsage, EACCES, path, "attribute is read-only"};
  }
  return attribute;
}

base::Result<std::string> SysfsMirror::read_writable(const std::string& path) {
  const auto attribute = find_writable(path);
  if (!attribute) return attribute.error();
  // Who only writes need not be able to read.
  auto text = read(**attribute);
  return text ? *text : std::string();
}

base::Status SysfsMirror::write(const std::string& path, const std::string& text) {
  const auto attribute = find_writable(path);
  if (!attribute) return attribute.error();
  // Stores into the kernel's own files concern nobody here.
  return (*attribute)->device_path.empty() ? base::Status()
                                           : device_.sysfs_write((*attribute)->device_path, text);
}

std::vector<std::string> SysfsMirror::extra_paths() const {
  std::vector<std::string> extra;
  for (const SysfsFile& file : device_.sysfs_files(CharDevice::kNoDevice)) {
    if (!starts_with(file.path, kClassDir) && !starts_with(file.path, kDevicesDir) &&
        !starts_with(file.path, kModuleDir)) {
      extra.push_back(file.path);
    }
  }
  for (const auto& [path, text] : constants_) extra.push_back(path);
  return extra;
}

}  // namespace driver
