#include "runtime/exec/host.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "driver/ndl/ndl.h"
#include "runtime/nrt/instance.h"

namespace nrt {
namespace {

uint64_t hash(const std::string& text) {  // FNV-1a
  uint64_t value = 0xCBF2'9CE4'8422'2325;
  for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100'0000'01B3;
  return value;
}

// Names may repeat among hosts, boot ids among the nodes of one emulated UltraServer.
uint64_t identity() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return hash(std::string(name) + "/" + boot);
}

uint32_t pod_nodes() {
  std::array<uint8_t, 256> id{};
  uint32_t state = 0;
  uint32_t type = 0;
  uint32_t size = 0;
  int node = -1;
  neuron_ultraserver_mode mode{};
  uint32_t modes = 0;
  if (ndl_pod_status(id.data(), &state, &type, &size, &node, &mode, &modes) != 0) return 1;
  return state == NEURON_POD_E_STATE_ULTRASERVER ? std::max(size, 1u) : 1;
}

}  // namespace

HostPlace read_host(contract::Gen gen) {
  HostPlace host;
  host.gen = gen;
  host.devices = static_cast<uint32_t>(std::max(ndl_available_devices(nullptr, 0), 1));
  host.nodes = gen == contract::Gen::kV2 ? 1 : pod_nodes();
  const nrt_instance_info_t info = read_instance_info();
  host.open_chain = info.family == NRT_INSTANCE_INF2 && info.size == NRT_INSTANCE_SIZE_24XL;
  host.identity = identity();
  return host;
}

}  // namespace nrt
