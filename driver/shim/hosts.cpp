// Names of the machine's nodes: all of them are this host, so each is its loopback address.
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "driver/shim/client.h"
#include "driver/shim/real.h"

namespace shim = driver::shim;

namespace {

constexpr char kLoopback[] = "127.0.0.1";

// Nodes are called alike but for the number at the end.
bool is_node(const char* name) {
  const char* own = shim::facts.host_name;
  if (!shim::facts.active || name == nullptr || own[0] == 0) return false;
  if (strcmp(name, own) == 0) return true;
  size_t stem = strlen(own);
  while (stem > 0 && own[stem - 1] >= '0' && own[stem - 1] <= '9') --stem;
  if (own[stem] == 0 || strncmp(name, own, stem) != 0) return false;
  const char* digits = name + stem;
  const size_t length = strlen(digits);
  if (length == 0 || length > 4 || strspn(digits, "0123456789") != length) return false;
  if (digits[0] == '0' && length > 1) return false;
  return strtoul(digits, nullptr, 10) < shim::facts.node_count;
}

}  // namespace

SHIM_EXPORT int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                            addrinfo** result) {
  return SHIM_REAL(getaddrinfo)(is_node(name) ? kLoopback : name, service, hints, result);
}

SHIM_EXPORT hostent* gethostbyname(const char* name) {
  return SHIM_REAL(gethostbyname)(is_node(name) ? kLoopback : name);
}
