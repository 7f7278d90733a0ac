// Identity, discovery and compatibility: spec/driver-ioctl.md 3.1.
#include <algorithm>
#include <vector>

#include "contract/regs/misc.h"
#include "driver/kernel/ioctl.h"

namespace driver::ioctls {
namespace {

constexpr uint32_t kMapEntries = 128;  // 16 devices x 8 cores
constexpr uint64_t kFeatures = 0x1ff;  // 3.1.6, release 2.26

uint32_t architecture(const NeuronDevice& device) {
  return static_cast<uint32_t>(device.dhal().map.gen);
}

}  // namespace

int device_info(const Call& call) {
  uapi::device_info info{};
  info.architecture = architecture(call.device);
  info.revision = call.device.revision();
  const std::vector<uint32_t> neighbours = call.driver.neighbours(call.device);
  if (neighbours.size() > 8) return -EINVAL;
  info.connected_device_count = static_cast<uint32_t>(neighbours.size());
  std::copy(neighbours.begin(), neighbours.end(), info.connected_devices);
  info.bar_address[0] = call.device.bar_cookie();
  info.bar_size[0] = call.device.registers().size();
  return call.put(info) ? 0 : -EFAULT;
}

int device_basic_info(const Call& call) {
  const uapi::device_basic_info info{architecture(call.device), call.device.revision()};
  return call.put(info) ? 0 : -EFAULT;
}

int device_bdf(const Call& call) {
  uapi::device_bdf bdf{};
  bdf.bus_number = call.device.location().bus;
  bdf.slot = call.device.location().slot;
  bdf.func = call.device.location().function;
  return call.put(bdf) ? 0 : -EFAULT;
}

int device_bdf_ext(const Call& call) {
  uapi::device_bdf_ext bdf{};
  if (!call.get(bdf)) return -EFAULT;
  const uint32_t sum = (call.device.index() + bdf.nd_index) & 0xff;
  const NeuronDevice* target = sum < static_cast<uint32_t>(uapi::kMaxDevices)
                                   ? call.driver.device(static_cast<int>(sum))
                                   : nullptr;
  if (target == nullptr) return -EINVAL;
  bdf.domain = target->location().domain;
  bdf.bus_number = target->location().bus;
  bdf.slot = target->location().slot;
  bdf.func = target->location().function;
  return call.put(bdf) ? 0 : -EFAULT;
}

int host_device_id(const Call& call) {
  const uapi::host_device_id id{call.device.index()};
  return call.put(id) ? 0 : -EFAULT;
}

int host_device_id_to_rid_map(const Call& call) {
  uapi::host_device_id_to_rid_map map{};
  map.count = call.driver.device_count();
  const Product& product = call.device.product();
  // The ids of a PDS server count on from those of the servers before it; word 0x70 has its number.
  const bool pds = call.driver.platform() == PlatformType::kPds;
  const uint32_t first =
      pds ? (call.device.firmware().read(contract::misc::kServerRack) & 0x7FFF) * map.count : 0;
  for (uint32_t i = 0; i < map.count && i < 64; ++i) {
    uint32_t user = i;
    if (!pds && product.routing != nullptr) {
      user = (*product.routing)[i % 16] + (product.routing_blocks ? i / 16 * 16 : 0);
    }
    if (user < 64) map.host_did_to_rid_map[user] = first + i;
  }
  return call.put(map) ? 0 : -EFAULT;
}

int compatible_version(const Call& call) {
  const Dhal& dhal = call.device.dhal();
  const uapi::compatible_version version{dhal.compatible_max, dhal.compatible_min};
  return call.put(version) ? 0 : -EFAULT;
}

int driver_info(const Call& call) {
  if (uapi::request_direction(call.request) == uapi::kDirWrite) return -FirmwareIo::kNotSupported;
  if (uapi::request_direction(call.request) != uapi::kDirRead ||
      uapi::request_size(call.request) < sizeof(uapi::device_driver_info)) {
    return -EINVAL;
  }
  uapi::device_driver_info info{};
  info.architecture = architecture(call.device);
  info.revision = call.device.revision();
  info.size = sizeof info;
  info.feature_flags1 = kFeatures;
  return call.put(info) ? 0 : -EFAULT;
}

int logical_to_physical_nc_map(const Call& call) {
  uapi::get_logical_to_physical_nc_map request{};
  if (!call.device.dhal().nc_map) return -FirmwareIo::kNotSupported;
  if (!call.get(request)) return -EFAULT;
  if (request.max_map_entries > kMapEntries || request.mapping_version != 0) return -EINVAL;
  const bool own_order = call.device.dhal().switched_nc_order;
  const bool pds = own_order && call.driver.platform() == PlatformType::kPds;
  const bool max = own_order && call.driver.platform() == PlatformType::kMax;
  // A flipped die looks up L xor 6; orders of PDS and MAX platforms never flip (3.1.7).
  const bool flipped = call.driver.params().force_die_flip || call.driver.election().die_flipped();
  const uint32_t flip = flipped && !pds && !max ? 6 : 0;
  std::vector<uint8_t> out(4 + sizeof(uapi::nc_map_entry) * request.max_map_entries);
  base::store(out.data(), request.max_map_entries);
  for (uint32_t logical = 0; logical < request.max_map_entries; ++logical) {
    const uint32_t entry = logical ^ flip;
    const uapi::nc_map_entry mapped{entry / 8, nc_order(entry / 8, pds, max)[entry % 8]};
    base::store(out.data() + 4 + logical * sizeof mapped, mapped);
  }
  return call.caller.memory->write(request.map, {out.data(), out.size()}) ? 0 : -EFAULT;
}

int device_app_pid(const Call& call) {
  return call.put(call.device.processes()[0].tgid) ? 0 : -EFAULT;
}

int get_all_apps_info(const Call& call) {
  constexpr uint16_t kLockInfo = 1;
  constexpr uint16_t kMemoryUse = 2;
  constexpr uint32_t kReportedNcs = 4;
  uapi::get_apps_info request{};
  if (!call.get(request)) return -EFAULT;
  std::vector<uapi::app_info> apps;
  for (const Process& process : call.device.processes()) {
    if (process.tgid == 0 || apps.size() >= request.capacity) continue;
    uapi::app_info app{};
    app.pid = process.tgid;
    for (uint32_t n = 0; n < kReportedNcs && (request.apps_info_flags & kLockInfo) != 0; ++n) {
      const CrwlLocks::State& lock = call.device.crwl().state(n);
      if (lock.owner != process.tgid || (!lock.writer && lock.readers == 0)) continue;
      app.nc_lock_map = static_cast<uint8_t>(app.nc_lock_map | 1u << n);
      std::copy(lock.uuid.begin(), lock.uuid.end(), app.uuid_data[n]);
    }
    if ((request.apps_info_flags & kMemoryUse) != 0) {
      app.host_mem_size = process.charge.host;
      app.device_mem_size = process.charge.device;
    }
    apps.push_back(app);
  }
  request.size = static_cast<uint32_t>(apps.size());
  if (!call.put(request)) return -EFAULT;
  for (size_t i = 0; i < apps.size(); ++i) {
    const uint64_t at = call.arg + uapi::kAppInfoEntriesOffset + i * sizeof(uapi::app_info);
    if (!call.write(at, apps[i])) return -EFAULT;
  }
  return 0;
}

}  // namespace driver::ioctls
