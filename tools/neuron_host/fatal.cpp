#include "tools/neuron_host/fatal.h"

#include <cstdio>
#include <ctime>

namespace neuron_host {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

int fatal(const std::string& message, const std::string& error) {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  char stamp[32] = {};
  gmtime_r(&now, &parts);
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
  std::fprintf(stderr, "time=\"%s\" level=fatal msg=%s error=%s\n", stamp, quoted(message).c_str(),
               quoted(error).c_str());
  return 1;
}

int no_devices() {
  return fatal("Failed to load MLA system information", "failed to discover Neuron devices");
}

}  // namespace neuron_host
