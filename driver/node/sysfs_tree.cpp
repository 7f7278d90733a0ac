#include "driver/node/sysfs_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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
base::Status replace_file(const std::string& path, const std::string& text, bool writable) {
  const std::string fresh = path + ".new";
  if (auto status = write_file(fresh, text); !status) return status;
  chmod(fresh.c_str(), writable ? 0644 : 0444);
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
  for (const SysfsFile& file : device_.sysfs_files()) {
    const std::string path = canonical(file.path);
    attributes_[path] = {file.path, file.writable};
    if (auto status = add_file(path, file.writable, ""); !status) return status;
  }
  for (const auto& [path, text] : constants_) {
    if (auto status = add_file(path, false, text); !status) return status;
  }
  // The major number is dynamic on a real host: a line among those of the host's own drivers.
  std::string devices = host_text(kProcDevices);
  const std::string line = std::to_string(major_) + " neuron\n";
  const size_t block = devices.find("\nBlock devices:");
  devices.insert(block == std::string::npos ? devices.size() : block, line);
  return add_file(kProcDevices, false, devices);
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
  const std::string number = std::to_string(major_) + ":" + std::to_string(minor);
  if (auto status = add_file(kDevicesDir + name + "/dev", false, number + "\n"); !status) {
    return status;
  }
  return add_file(kDevicesDir + name + "/uevent", false,
                  "MAJOR=" + std::to_string(major_) + "\nMINOR=" + std::to_string(minor) +
                      "\nDEVNAME=" + name + "\n");
}

base::Status SysfsMirror::add_file(const std::string& path, bool writable,
                                   const std::string& text) {
  const std::string target = root_ + path;
  std::error_code failed;
  fs::create_directories(fs::path(target).parent_path(), failed);
  if (failed) return base::Error{base::Fault::kIo, failed.value(), target, failed.message()};
  return replace_file(target, text, writable);
}

const SysfsMirror::Attribute* SysfsMirror::find(const std::string& path) const {
  const auto found = attributes_.find(canonical(path));
  return found == attributes_.end() ? nullptr : &found->second;
}

base::Status SysfsMirror::refresh(const std::string& path) {
  if (auto status = prepare(); !status) return status;
  const Attribute* attribute = find(path);
  if (attribute == nullptr) return {};
  auto text = device_.sysfs_read(attribute->device_path);
  if (!text) return text.error();
  return replace_file(root_ + canonical(path), *text, attribute->writable);
}

base::Result<std::string> SysfsMirror::read_writable(const std::string& path) {
  if (auto status = prepare(); !status) return status.error();
  const Attribute* attribute = find(path);
  if (attribute == nullptr)
    return base::Error{base::Fault::kUsage, ENOENT, path, "no such attribute"};
  if (!attribute->writable) {
    return base::Error{base::Fault::kUsage, EACCES, path, "attribute is read-only"};
  }
  return device_.sysfs_read(attribute->device_path);
}

base::Status SysfsMirror::write(const std::string& path, const std::string& text) {
  if (auto status = prepare(); !status) return status;
  const Attribute* attribute = find(path);
  if (attribute == nullptr)
    return base::Error{base::Fault::kUsage, ENOENT, path, "no such attribute"};
  if (!attribute->writable) {
    return base::Error{base::Fault::kUsage, EACCES, path, "attribute is read-only"};
  }
  return device_.sysfs_write(attribute->device_path, text);
}

std::vector<std::string> SysfsMirror::extra_paths() const {
  std::vector<std::string> extra;
  for (const SysfsFile& file : device_.sysfs_files()) {
    if (!starts_with(file.path, kClassDir) && !starts_with(file.path, kDevicesDir) &&
        !starts_with(file.path, kModuleDir)) {
      extra.push_back(file.path);
    }
  }
  for (const auto& [path, text] : constants_) extra.push_back(path);
  return extra;
}

}  // namespace driver
