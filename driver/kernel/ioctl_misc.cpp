// Pod identity, power, sharing and diagnostics: driver-ioctl.md 3.13, 3.16, 3.17, 3.19.
// Missing: the UltraServer election and the PDS configuration (hw-registers.md 9). Such platforms
// report a failed election, that is a single node, and are counted as unsupported.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "driver/kernel/ioctl.h"

namespace driver::ioctls {
namespace {

constexpr uint32_t kStateSingleNode = 4;
constexpr uint32_t kModeX1 = 4;
constexpr uint32_t kCtrlRequestPod = 0;
constexpr uint32_t kCtrlSingleNode = 1;
constexpr uint32_t kCtrlKill = 2;
constexpr uint32_t kCtrlSetMode = 3;
constexpr uint32_t kMaxPrintk = 512;

bool standard(const Call& call) {
  return call.driver.platform() == PlatformType::kStandard;
}

uint8_t pod_type(const Call& call) {
  switch (call.driver.platform()) {
    case PlatformType::kUltraServer:
      return 1;
    case PlatformType::kPds:
      return 2;
    case PlatformType::kStandard:
      return 0;
  }
  return 0;
}

// The structure goes back even with an error (3.16).
template <typename T>
int put_with(const Call& call, const T& value, int result) {
  return call.put(value) ? result : -EFAULT;
}

void fill_status(const Call& call, uapi::pod_status& status) {
  std::fill(std::begin(status.pod_id), std::end(status.pod_id), uint8_t{0});
  status.state = kStateSingleNode;
  status.pod_type = pod_type(call);
  status.pod_sz = 0;
  status.node_id = -1;
}

int control(const Call& call, uapi::pod_ctrl& request, uint32_t mode) {
  if (call.device.dhal().map.v2()) request.state = kStateSingleNode;
  if (standard(call)) return 0;
  request.state = kStateSingleNode;
  switch (request.ctrl) {
    case kCtrlRequestPod:
      return call.driver.platform() == PlatformType::kPds ? 0 : -EAGAIN;
    case kCtrlSingleNode:
    case kCtrlKill:
      return 0;
    case kCtrlSetMode:
      return mode == kModeX1 ? 0 : -FirmwareIo::kNotSupported;
    default:
      return -EINVAL;
  }
}

}  // namespace

int pod_info(const Call& call) {
  uapi::pod_info info{};
  if (!call.get(info)) return -EFAULT;
  if (info.sz != sizeof info) return put_with(call, info, -EINVAL);
  info = {};
  info.sz = sizeof info;
  info.pod_type = pod_type(call);
  return call.put(info) ? 0 : -EFAULT;
}

int pod_status(const Call& call) {
  if (call.request == uapi::kPodStatusV2) {
    uapi::pod_status_v2 status{};
    if (!call.get(status)) return -EFAULT;
    if (status.v1.sz != sizeof status) return put_with(call, status, -EINVAL);
    fill_status(call, status.v1);
    status.mode = standard(call) ? 0 : kModeX1;
    status.modes_supported = standard(call) ? 0 : 1u << kModeX1;
    return call.put(status) ? 0 : -EFAULT;
  }
  uapi::pod_status status{};
  if (!call.get(status)) return -EFAULT;
  if (status.sz != sizeof status) return put_with(call, status, -EINVAL);
  fill_status(call, status);
  return call.put(status) ? 0 : -EFAULT;
}

int pod_ctrl(const Call& call) {
  if (call.request == uapi::kPodCtrlV2) {
    uapi::pod_ctrl_v2 request{};
    if (!call.get(request)) return -EFAULT;
    if (request.v1.sz != sizeof request) return put_with(call, request, -EINVAL);
    const int result = control(call, request.v1, request.mode);
    return put_with(call, request, result);
  }
  uapi::pod_ctrl request{};
  if (!call.get(request)) return -EFAULT;
  if (request.sz != sizeof request) return put_with(call, request, -EINVAL);
  const int result = control(call, request, 0);
  return put_with(call, request, result);
}

int power_profile(const Call& call) {
  uapi::power_profile request{};
  if (!call.get(request)) return -EFAULT;
  if (request.sz != sizeof request) return -ENXIO;
  if (request.ctrl != 0) return -FirmwareIo::kNotSupported;
  if (call.device.dhal().map.v2()) return 0;
  return call.device.firmware().set_power_profile(static_cast<uint8_t>(request.profile));
}

int throttling_notifications(const Call& call) {
  uapi::throttling_notifications request{};
  if (!call.get(request)) return -EFAULT;
  return call.device.firmware().set_features(request.enable != 0 ? 1 : 0);
}

// Sharing with other kernel drivers: answered as a kernel that is too old for it (3.13.1).
int dmabuf_fd(const Call& call) {
  uapi::dmabuf_fd request{};
  if (!call.get(request)) return -EFAULT;
  call.unsupported("dma-buf export");
  return -EPROTONOSUPPORT;
}

int printk(const Call& call) {
  uapi::printk request{};
  if (!call.get(request)) return -EFAULT;
  if (request.size > kMaxPrintk) return -EFAULT;
  if (request.size == 0) return -EBADMSG;
  std::vector<uint8_t> text(request.size);
  if (!call.caller.memory->read(request.buffer, text)) return -EFAULT;
  if (text.back() != 0) return -EBADMSG;
  call.driver.context().log(reinterpret_cast<const char*>(text.data()));
  return 0;
}

int nc_pid_state_dump(const Call& call) {
  uapi::nc_pid_state_dump request{};
  if (!call.get(request)) return -EFAULT;
  if (request.nc_id >= static_cast<uint32_t>(uapi::kMaxNcRangeMarks)) return -ENOENT;
  const int32_t owner = call.driver.range_marks().owner(request.nc_id);
  if (owner == 0) return 0;
  if (call.driver.device(static_cast<int>(request.nc_id / call.device.nc_count())) == nullptr) {
    return -EPERM;
  }
  call.driver.context().log("core " + std::to_string(request.nc_id) + " is owned by process " +
                            std::to_string(owner));
  return 0;
}

}  // namespace driver::ioctls
