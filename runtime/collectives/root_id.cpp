// NEURON_RT_ROOT_COMM_ID (spec/nrt-api.md 10.2).
#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "runtime/collectives/bootstrap.h"
#include "runtime/collectives/types.h"

namespace ccl {
namespace {

bool is_address(int family, const std::string& text) {
  uint8_t bytes[16];
  return inet_pton(family, text.c_str(), bytes) == 1;
}

bool is_name(const std::string& text) {
  constexpr size_t kMaxName = 253;  // of a fully qualified domain name
  if (text.empty() || text.size() > kMaxName || text.front() == '-' || text.front() == '.') {
    return false;
  }
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  const auto numeric = [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; };
  return std::all_of(text.begin(), text.end(), allowed) &&
         !std::all_of(text.begin(), text.end(), numeric);
}

}  // namespace

base::Result<RootAddress> parse_root_id(const std::string& text) {
  const base::Error bad{base::Fault::kUsage, kNrtFailure, "NEURON_RT_ROOT_COMM_ID",
                        "Invalid NCCL_COMM_ID [" + text +
                            "], please use format: <ipv4>:<port> or [<ipv6>]:<port> or "
                            "<hostname>:<port>"};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad;
  const std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 ||
      !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); })) {
    return bad;
  }
  const unsigned long port = std::stoul(digits);
  if (port == 0 || port > 65535) return bad;
  RootAddress address;
  address.port = static_cast<uint16_t>(port);
  address.host = text.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
    if (!is_address(AF_INET6, address.host)) return bad;
    return address;
  }
  if (!is_address(AF_INET, address.host) && !is_name(address.host)) return bad;
  return address;
}

}  // namespace ccl
