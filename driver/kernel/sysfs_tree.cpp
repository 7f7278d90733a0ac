#include "driver/kernel/sysfs_tree.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "contract/regs/misc.h"
#include "driver/kernel/kernel_driver.h"
#include "driver/kernel/reset_manager.h"

namespace driver {
namespace {

namespace misc = contract::misc;

constexpr char kClassDir[] = "/sys/class/neuron_device/";
constexpr char kDeviceDir[] = "/sys/devices/virtual/neuron_device/";
constexpr char kModuleDir[] = "/sys/module/neuron/";

constexpr const char* kHostDirs[kHostCategories] = {
    "dma_buffers",   "tensors",       "constants", "application_memory",
    "driver_memory", "notifications", "dma_rings", "uncategorized"};
constexpr const char* kDeviceDirs[kDeviceCategories] = {
    "model_code",     "tensors",       "constants",    "model_shared_scratchpad",
    "runtime_memory", "driver_memory", "collectives",  "nonshared_scratchpad",
    "notifications",  "dma_rings",     "uncategorized"};

struct StatusCounter {
  const char* name;
  uint32_t id;  // datastore counter
};
constexpr StatusCounter kStatusCounters[] = {{"success", 1},
                                             {"failure", 16},
                                             {"timeout", 4},
                                             {"exec_bad_input", 5},
                                             {"hw_error", 11},
                                             {"execute_completed_with_error", 2},
                                             {"execute_completed_with_num_error", 3},
                                             {"generic_error", 7},
                                             {"resource_error", 17},
                                             {"resource_nc_error", 18},
                                             {"execute_failed_to_queue", 6},
                                             {"invalid_error", 19},
                                             {"unsupported_neff_version", 20},
                                             {"oob_error", 30},
                                             {"hw_collectives_error", 31},
                                             {"hw_hbm_ue_error", 32},
                                             {"hw_nc_ue_error", 33},
                                             {"hw_dma_abort_error", 34},
                                             {"execute_sw_nq_overflow", 35},
                                             {"execute_sw_semaphore_error", 36},
                                             {"execute_sw_event_error", 37},
                                             {"execute_sw_psum_collision", 38},
                                             {"execute_sw_sequencer_fatal", 39},
                                             {"hw_repairable_hbm_ue_error", 40}};
constexpr StatusCounter kOtherCounters[] = {
    {"model_load_count", 27}, {"inference_count", 28}, {"nc_time_in_use", 0}};
constexpr uint32_t kMacCounter = 29;

std::string line(const std::string& text) {
  return text + "\n";
}
std::string line(uint64_t value) {
  return std::to_string(value) + "\n";
}

uint32_t low16(uint32_t word) {
  return word == FirmwareIo::kNotReady ? 0 : word & 0xffff;
}

// Per-stack ECC words (7.3): firmware from version 6 on splits the low half.
uint64_t hbm_ecc(NeuronDevice& device, bool repairable) {
  constexpr uint32_t kSplitApi = 6;
  const bool split = device.firmware().read(misc::kFwApiVersion) >= kSplitApi;
  if (repairable && (!split || !device.dhal().hbm_repairable_ecc)) return 0;
  uint64_t sum = 0;
  for (uint32_t h = 0; h < device.dhal().map.hbms(); ++h) {
    const uint32_t low = low16(device.firmware().read(misc::kHbmEcc + h * misc::kHbmEccStride));
    sum += !split ? low : repairable ? low & 0xfff : low >> 12;
  }
  return sum;
}

std::string hex16(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string mode_list(uint32_t modes) {
  std::string text;
  for (uint32_t mode = 0; mode <= kModeX1; ++mode) {
    if ((modes >> mode & 1) == 0) continue;
    if (!text.empty()) text += ",";
    text += std::to_string(mode);
  }
  return text;
}

std::string serial(NeuronDevice& device) {
  const uint64_t high = device.firmware().read(misc::kSerialHi);
  const uint64_t number = high << 32 | device.firmware().read(misc::kSerialLo);
  return number == 0 ? "\n" : hex16(number) + "\n";
}

// spec/hw-registers.md 2.7.
std::string pe_counters(NeuronDevice& device, uint32_t nc) {
  const Dhal& dhal = device.dhal();
  const uint64_t base = device.dhal().map.pe_counters(nc).bar0;
  const auto read = [&](uint32_t group, uint32_t offset) {
    const uint64_t at = base + group * dhal.pe_group_stride + offset;
    const uint64_t high = device.registers().read(at + 4);
    return high << 32 | device.registers().read(at);
  };
  std::string out = "xrow_grp,mm_active,wl_active,idle\n";
  for (uint32_t row = 0; row < 4; ++row) {
    const uint32_t first = dhal.pe_groups_per_row * row;
    uint64_t loads = dhal.pe_fast_weight_loads ? read(first + 8, 8) : 0;
    for (uint32_t column = 0; column < 4; ++column) loads += read(first + column, 8);
    out += std::to_string(row) + "," + std::to_string(read(first + 4, 0)) + "," +
           std::to_string(loads) + "," + std::to_string(read(first + 4, 0x10)) + "\n";
  }
  return out;
}

std::string connected(const KernelDriver& driver, const NeuronDevice& device) {
  std::string text;
  for (const uint32_t id : driver.neighbours(device)) {
    if (!text.empty()) text += ", ";
    text += std::to_string(id);
  }
  constexpr size_t kBuffer = 20;  // 7.1: a longer text reads as nothing
  return text.size() >= kBuffer ? "" : text + "\n";
}

// The device whose file it is, by a normalised path.
int device_of(const std::string& path) {
  int minor = CharDevice::kNoDevice;
  const int fields = std::sscanf(path.c_str(), "/sys/class/neuron_device/neuron%d/", &minor);
  return fields == 1 ? minor : CharDevice::kNoDevice;
}

bool ends_text(const char* end, const std::string& text) {
  if (errno != 0 || end == text.c_str()) return false;
  return *end == '\0' || (*end == '\n' && end[1] == '\0');
}

bool parse(const std::string& text, uint64_t& value) {
  char* end = nullptr;
  errno = 0;
  value = std::strtoull(text.c_str(), &end, 0);
  return ends_text(end, text);
}

bool parse_signed(const std::string& text, int64_t& value) {
  char* end = nullptr;
  errno = 0;
  value = std::strtoll(text.c_str(), &end, 10);
  return ends_text(end, text);
}

// Who may read how many cores there are: everybody from release 2.30 on (7.1).
uint32_t lister_mode(const std::string& version) {
  unsigned major = 0, minor = 0;
  const int fields = std::sscanf(version.c_str(), "%u.%u", &major, &minor);
  const bool since_2_30 = fields == 2 && (major > 2 || (major == 2 && minor >= 30));
  return since_2_30 ? 0444 : 0400;
}

}  // namespace

SysfsTree::SysfsTree(const KernelDriver& driver, Params& params)
    : driver_(driver), params_(params) {
  add_class();
  add_module();
}

SysfsTree::Attribute& SysfsTree::add(const std::string& path, Reader read, Writer write) {
  Attribute& added = attributes_[path];
  const uint32_t mode = write ? 0644 : 0444;
  added = {std::move(read), std::move(write), mode, nullptr};
  return added;
}

void SysfsTree::add_metric(const std::string& path, Reader read) {
  add(path, std::move(read), [](const std::string&) { return 0; });
}

template <typename Counter>
void SysfsTree::add_counter(const std::string& directory, Counter& counter, bool with_peak) {
  const auto value = [&](const char* name, uint64_t& field) {
    Attribute& added = add(
        directory + "/" + name, [&field] { return line(field); },
        [&field](const std::string&) {
          field = 0;  // any write zeroes just this value
          return 0;
        });
    added.changes = &counter.changes;
  };
  value("total", counter.total);
  value("present", counter.present);
  if constexpr (std::is_same_v<Counter, MemCounter>) {
    if (with_peak) value("peak", counter.peak);
  }
}

void SysfsTree::add_device(NeuronDevice& device, const std::string& base) {
  Attribute& reset = add(
      base + "reset", [&device] { return line(static_cast<uint64_t>(device.state)); },
      [&device](const std::string&) {
        if (device.open_count == 0) device.resets().request_full();
        return 0;
      });
  reset.mode = 0600;
  const uint32_t mode = lister_mode(params_.version);
  add(base + "core_count", [&device] { return std::to_string(device.nc_count()); }).mode = mode;
  add(base + "connected_devices", [this, &device] { return connected(driver_, device); }).mode =
      mode;
  add_info(device, base);
  add_hardware(device, base);
  MemStats& stats = device.memory().stats();
  for (size_t i = 0; i < stats.host.size(); ++i) {
    add_counter(base + "stats/memory_usage/host_mem/" + kHostDirs[i], stats.host[i], true);
  }
  for (uint32_t nc = 0; nc < device.nc_count(); ++nc) {
    add_core(device, nc, base + "neuron_core" + std::to_string(nc) + "/");
  }
}

void SysfsTree::add_info(NeuronDevice& device, const std::string& base) {
  add(
      base + "info/notify_delay", [this] { return line(std::to_string(notify_delay_)); },
      [this](const std::string& text) {
        int64_t value = 0;
        const bool number = parse_signed(text, value);
        // Others, and what is no number, are rejected silently.
        if (number && (value == 0 || value == -1)) notify_delay_ = static_cast<int>(value);
        return 0;
      });
  add_metric(base + "info/serial_number", [&device] { return serial(device); });
  const std::string architecture = base + "info/architecture/";
  const Product& product = device.product();
  add_metric(architecture + "arch_type", [&product] { return line(product.arch_type); });
  add_metric(architecture + "instance_type", [&product] { return line(product.instance_type); });
  add_metric(architecture + "device_name", [&product] { return line(product.device_name); });
}

void SysfsTree::add_hardware(NeuronDevice& device, const std::string& base) {
  const std::string hardware = base + "stats/hardware/";
  add_metric(hardware + "sram_ecc_uncorrected",
             [&device] { return line(low16(device.firmware().read(misc::kSramEcc))); });
  add_metric(hardware + "mem_ecc_uncorrected", [&device] { return line(hbm_ecc(device, false)); });
  add_metric(hardware + "mem_ecc_repairable_uncorrected",
             [&device] { return line(hbm_ecc(device, true)); });
  // Power is never sampled: that would need a timer.
  add_metric(base + "stats/power/utilization",
             [] { return line("POWER_STATUS_NO_DATA,0,0.00,0.00,0.00"); });
}

void SysfsTree::add_core(NeuronDevice& device, uint32_t nc, const std::string& base) {
  const char* const core = device.dhal().core_arch;
  add_metric(base + "info/architecture/arch_type", [core] { return line(core); });
  Datastore& datastore = device.datastore();
  for (const StatusCounter& counter : kStatusCounters) {
    add_counter(base + "stats/status/" + counter.name, datastore.counter(nc, counter.id), false);
  }
  const std::string other = base + "stats/other_info/";
  for (const StatusCounter& counter : kOtherCounters) {
    add_counter(other + counter.name, datastore.counter(nc, counter.id), false);
  }
  FoldedCounter& macs = datastore.counter(nc, kMacCounter);
  const auto flops = [&](const char* name, uint64_t& field) {
    Attribute& added = add(
        other + "flop_count/" + name, [&field] { return line(2 * field); },
        [&field](const std::string&) {
          field = 0;
          return 0;
        });
    added.changes = &macs.changes;
  };
  flops("total", macs.total);
  flops("present", macs.present);
  add_counter(other + "reset_req_count", device.reset_requests[nc], false);
  add_counter(other + "reset_fail_count", device.reset_failures[nc], false);
  MemStats::PerNc& stats = device.memory().stats().nc[nc];
  const std::string memory = base + "stats/memory_usage/";
  add_counter(memory + "host_mem", stats.host, true);
  add_counter(memory + "device_mem", stats.device, true);
  for (size_t i = 0; i < stats.by_category.size(); ++i) {
    add_counter(memory + "device_mem/" + kDeviceDirs[i], stats.by_category[i], true);
  }
  add_metric(base + "stats/tensor_engine/pe_cntrs",
             [&device, nc] { return pe_counters(device, nc); });
}

// 7.4. A node has an id among two or among four, whichever its pod is.
void SysfsTree::add_class() {
  const std::string base = kClassDir;
  const Election& election = driver_.election();
  const bool standard = driver_.platform() == PlatformType::kStandard;
  const auto settled = [&election, standard](auto text) {
    return Reader([&election, standard, text] {
      return standard || election.settled() ? line(text(election)) : line("busy");
    });
  };
  for (const uint32_t size : {2u, 4u}) {
    add(base + "node_id_" + std::to_string(size), settled([size](const Election& e) {
          return std::to_string(e.pod().count == size ? e.pod().node : -1);
        }));
    add(base + "server_id_" + std::to_string(size), settled([size](const Election& e) {
          return hex16(e.pod().count == size ? e.pod().serial : 0);
        }));
  }
  add(base + "ultraserver_mode", settled([standard](const Election& e) {
        return standard ? std::string() : mode_list(e.modes());
      }));
  if (driver_.platform() != PlatformType::kPds && driver_.platform() != PlatformType::kMax) return;
  // Files of later releases, which alone know some of these platforms.
  add(base + "node_id", settled([](const Election& e) { return std::to_string(e.pod().node); }));
  add(base + "node_cnt", settled([](const Election& e) { return std::to_string(e.pod().count); }));
  add(base + "reservation_id", settled([](const Election& e) { return hex16(e.pod().serial); }));
}

void SysfsTree::add_module() {
  const std::string base = kModuleDir;
  add(base + "version", [this] { return line(params_.version); });
  const auto parameter = [&](const char* name, auto& field) {
    Attribute& added = add(
        base + "parameters/" + name, [&field] { return line(static_cast<uint64_t>(field)); },
        [&field](const std::string& text) {
          uint64_t value = 0;
          if (!parse(text, value)) return -EINVAL;
          field = static_cast<std::decay_t<decltype(field)>>(value);
          return 0;
        });
    added.mode = 0660;
  };
  parameter("nc_per_dev_param", params_.nc_per_dev_param);
  parameter("dev_nc_map", params_.dev_nc_map);
  parameter("dma_teardown_on_exit", params_.dma_teardown_on_exit);
  parameter("zerocopy_trn1_override", params_.zerocopy_trn1_override);
  parameter("nmetric_metric_post_delay", params_.nmetric_metric_post_delay);
  parameter("nmetric_log_posts", params_.nmetric_log_posts);
  parameter("mempool_min_alloc_size", params_.mempool_min_alloc_size);
  parameter("mempool_host_memory_size", params_.mempool_host_memory_size);
  parameter("mempool_small_pool_size", params_.mempool_small_pool_size);
  parameter("mempool_small_alloc_max", params_.mempool_small_alloc_max);
  parameter("no_reset", params_.no_reset);
  parameter("dup_helper_enable", params_.dup_helper_enable);
  parameter("wc_enable", params_.wc_enable);
  parameter("force_userver", params_.force_userver);
  parameter("force_die_flip", params_.force_die_flip);
  parameter("userver_ctl", params_.userver_ctl);
  parameter("userver_etimeout", params_.userver_etimeout);
  parameter("userver_pds_node_cnt", params_.userver_pds_node_cnt);
  parameter("userver_pds_server_id", params_.userver_pds_server_id);
}

std::string SysfsTree::normalised(const std::string& path) {
  const std::string other = kDeviceDir;
  if (path.compare(0, other.size(), other) != 0) return path;
  return kClassDir + path.substr(other.size());
}

void SysfsTree::build(int minor) {
  NeuronDevice* device = minor < 0 || minor >= 64 ? nullptr : driver_.device(minor);
  if (device == nullptr || (built_ >> minor & 1) != 0) return;
  built_ |= uint64_t{1} << minor;
  add_device(*device, kClassDir + ("neuron" + std::to_string(minor) + "/"));
}

std::vector<SysfsFile> SysfsTree::files(int minor) {
  build(minor);
  std::vector<SysfsFile> all;
  for (const auto& [path, attribute] : attributes_) {
    if (device_of(path) == minor) all.push_back({path, attribute.mode});
  }
  return all;
}

SysfsTree::Attribute* SysfsTree::find(const std::string& path) {
  const std::string name = normalised(path);
  build(device_of(name));
  const auto it = attributes_.find(name);
  return it == attributes_.end() ? nullptr : &it->second;
}

base::Result<std::string> SysfsTree::read(const std::string& path) {
  const Attribute* attribute = find(path);
  if (attribute == nullptr) {
    return base::Error{base::Fault::kUsage, ENOENT, path, "no such attribute"};
  }
  return attribute->read();
}

SysfsEvents SysfsTree::events(const std::string& path) {
  const Attribute* attribute = find(path);
  if (attribute == nullptr || attribute->changes == nullptr) return {};
  return {*attribute->changes, notify_delay_ == 0};
}

base::Status SysfsTree::write(const std::string& path, const std::string& text) {
  const Attribute* attribute = find(path);
  if (attribute == nullptr) {
    return base::Error{base::Fault::kUsage, ENOENT, path, "no such attribute"};
  }
  if (!attribute->write) return base::Error{base::Fault::kUsage, EACCES, path, "read-only"};
  if (const int error = attribute->write(text); error != 0) {
    return base::Error{base::Fault::kUsage, -error, path, "cannot take \"" + text + "\""};
  }
  return {};
}

}  // namespace driver
