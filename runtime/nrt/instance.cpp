#include "runtime/nrt/instance.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "driver/ndl/ndl.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

struct Family {
  const char* name;
  uint32_t number;
};
constexpr Family kFamilies[] = {
    {"inf1", NRT_INSTANCE_INF1},          {"trn1", NRT_INSTANCE_TRN1},
    {"trn1n", NRT_INSTANCE_TRN1N},        {"inf2", NRT_INSTANCE_INF2},
    {"trn2", NRT_INSTANCE_TRN2},          {"trn2n", NRT_INSTANCE_TRN2N},
    {"inf2e", NRT_INSTANCE_INF2E},        {"trn2p", NRT_INSTANCE_TRN2P},
    {"trn2u", NRT_INSTANCE_TRN2U},        {"trn2e", NRT_INSTANCE_TRN2E},
    {"trn2eu", NRT_INSTANCE_TRN2EU},      {"trn2ac", NRT_INSTANCE_TRN2AC},
    {"trn2uac", NRT_INSTANCE_TRN2UAC},    {"trn3", NRT_INSTANCE_TRN3},
    {"trn3pds98", NRT_INSTANCE_TRN3PDS98}};
constexpr Family kSizes[] = {
    {"xlarge", NRT_INSTANCE_SIZE_1XL},    {"2xlarge", NRT_INSTANCE_SIZE_2XL},
    {"3xlarge", NRT_INSTANCE_SIZE_3XL},   {"4xlarge", NRT_INSTANCE_SIZE_4XL},
    {"6xlarge", NRT_INSTANCE_SIZE_6XL},   {"8xlarge", NRT_INSTANCE_SIZE_8XL},
    {"24xlarge", NRT_INSTANCE_SIZE_24XL}, {"32xlarge", NRT_INSTANCE_SIZE_32XL},
    {"48xlarge", NRT_INSTANCE_SIZE_48XL}};

void set_text(char* field, size_t size, const std::string& text) {
  std::snprintf(field, size, "%s", text.c_str());
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

nrt_instance_info_t parse_instance_type(const std::string& product) {
  nrt_instance_info_t info{};
  info.family = NRT_INSTANCE_UNKNOWN;
  info.size = NRT_INSTANCE_SIZE_UNKNOWN;
  const size_t dot = product.find('.');
  const std::string family = product.substr(0, dot);
  for (const Family& entry : kFamilies) {
    if (family != entry.name) continue;
    info.family = entry.number;
    set_text(info.arch_name, sizeof info.arch_name, family.substr(0, 4));
  }
  if (info.family == NRT_INSTANCE_UNKNOWN || dot == std::string::npos) return info;
  for (const Family& entry : kSizes) {
    if (product.substr(dot + 1) == entry.name) info.size = entry.number;
  }
  return info;
}

nrt_instance_info_t read_instance_info() {
  nrt_instance_info_t info =
      parse_instance_type(first_line("/sys/devices/virtual/dmi/id/product_name"));
  uint32_t architecture = 0;
  uint32_t revision = 0;
  if (ndl_get_board_info(&architecture, &revision) != 0) return info;
  set_text(info.device_revision, sizeof info.device_revision, std::to_string(revision));
  if (info.family == NRT_INSTANCE_UNKNOWN && architecture >= 2 && architecture <= 4) {
    constexpr const char* kNames[] = {"trn1", "trn2", "trn3"};
    info = parse_instance_type(kNames[architecture - 2]);
    set_text(info.device_revision, sizeof info.device_revision, std::to_string(revision));
  }
  return info;
}

base::Result<uint64_t> hbm_bytes_in_use(Device& device, uint32_t hbm) {
  std::vector<neuron_ioctl_mem_chunk_info> chunks(256);
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto count = static_cast<uint32_t>(chunks.size());
    errno = 0;
    if (ndl_dump_device_allocation_info(device.handle(), hbm, chunks.data(), &count) == 0) {
      uint64_t bytes = 0;
      for (uint32_t i = 0; i < count && i < chunks.size(); ++i) bytes += chunks[i].size;
      return bytes;
    }
    if (errno != EAGAIN) return driver_error("memory list", errno);
    chunks.resize(count + 64);  // others may allocate meanwhile
  }
  return error(NRT_FAILURE, "The list of allocations keeps growing");
}

}  // namespace nrt
