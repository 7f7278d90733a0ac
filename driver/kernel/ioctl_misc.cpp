// Pod identity, power, sharing and diagnostics: spec/driver-ioctl.md 3.13, 3.16, 3.17, 3.19.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "driver/kernel/ioctl.h"

namespace driver::ioctls {
namespace {

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
    case PlatformType::kMax:
      return 2;
    case PlatformType::kStandard:
      return 0;
  }
  return 0;
}

void put_id(const Pod& pod, uint8_t (&id)[256]) {
  std::fill(std::begin(id), std::end(id), uint8_t{0});
  base::store(id, pod.serial);
}

// The structure goes back even with an error (3.16).
template <typename T>
int put_with(const Call& call, const T& value, int result) {
  return call.put(value) ? result : -EFAULT;
}

int fill_status(const Call& call, uapi::pod_status& status) {
  const Election& election = call.driver.election();
  status.state = Election::kSingleNode;
  const int result = standard(call) ? 0 : election.status(status.state);
  put_id(election.pod(), status.pod_id);
  status.pod_type = pod_type(call);
  status.pod_sz = static_cast<uint8_t>(election.pod().count);
  status.node_id = static_cast<int8_t>(election.pod().node);
  return result;
}

int control(const Call& call, uapi::pod_ctrl& request, uint32_t mode) {
  if (!call.device.dhal().pods) request.state = Election::kSingleNode;
  if (standard(call)) return 0;
  Election& election = call.driver.election();
  int result = -EINVAL;
  switch (request.ctrl) {
    case kCtrlRequestPod:
      result = election.start(request.timeout, call.driver.range_marks().any());
      break;
    case kCtrlSingleNode:
      result = election.set_mode(kModeX1);
      break;
    case kCtrlKill:
      result = election.kill();
      break;
    case kCtrlSetMode:
      result = election.set_mode(mode);
      break;
    default:
      break;
  }
  (void)election.status(request.state);
  return result;
}

}  // namespace

int pod_info(const Call& call) {
  uapi::pod_info info{};
  if (!call.get(info)) return -EFAULT;
  if (info.sz != sizeof info) return put_with(call, info, -EINVAL);
  info = {};
  info.sz = sizeof info;
  info.pod_type = pod_type(call);
  put_id(call.driver.election().pod(), info.pod_id);
  info.pod_sz = static_cast<uint8_t>(call.driver.election().pod().count);
  return call.put(info) ? 0 : -EFAULT;
}

int pod_status(const Call& call) {
  if (call.request == uapi::kPodStatusV2) {
    uapi::pod_status_v2 status{};
    if (!call.get(status)) return -EFAULT;
    if (status.v1.sz != sizeof status) return put_with(call, status, -EINVAL);
    const int result = fill_status(call, status.v1);
    const Election& election = call.driver.election();
    status.mode = election.mode();
    status.modes_supported = !standard(call) && election.settled() ? election.modes() : 0;
    return put_with(call, status, result);
  }
  uapi::pod_status status{};
  if (!call.get(status)) return -EFAULT;
  if (status.sz != sizeof status) return put_with(call, status, -EINVAL);
  return put_with(call, status, fill_status(call, status));
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
  if (!call.device.dhal().power_profiles) return 0;
  return call.device.firmware().set_power_profile(static_cast<uint8_t>(request.profile));
}

int throttling_notifications(const Call& call) {
  uapi::throttling_notifications request{};
  if (!call.get(request)) return -EFAULT;
  return call.device.firmware().set_features(request.enable != 0 ? 1 : 0);
}

// There is no periodic posting to pause (3.2.3).
int metrics_ctrl(const Call& call) {
  uapi::metrics_ctrl request{};
  return call.get(request) ? 0 : -EFAULT;
}

// Sharing with other kernel drivers: answered as a kernel that is too old for it (3.13.1).
int dmabuf_fd(const Call& call) {
  uapi::dmabuf_fd request{};
  if (!call.get(request)) return -EFAULT;
  call.unsupported("ioctl DMABUF_FD: EPROTONOSUPPORT, no dma-buf export");
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
