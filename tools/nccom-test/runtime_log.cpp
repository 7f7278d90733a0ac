#include "runtime_log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <regex>

namespace nccom {
namespace {

constexpr const char* kComponents[] = {"TDRV", "NMGR", "NRT", "HAL"};

bool chosen_by_user() {
  for (const std::string name : {"NEURON_RT_LOG_LEVEL", "NEURON_RT_LOG_LOCATION"}) {
    if (::getenv(name.c_str()) != nullptr) return true;
    for (const std::string component : kComponents) {
      if (::getenv((name + "_" + component).c_str()) != nullptr) return true;
    }
  }
  return false;
}

}  // namespace

base::Result<RuntimeLog> RuntimeLog::open() {
  RuntimeLog log;
  if (chosen_by_user()) return log;
  log.fd_.reset(::memfd_create("runtime-log", MFD_CLOEXEC));
  if (!log.fd_.valid()) return base::errno_error("nccom-test", "memory for the runtime's log");
  // The runtime opens and appends to it by name, as to any file.
  const std::string place = "/proc/self/fd/" + std::to_string(log.fd_.get());
  for (const std::string component : kComponents) {
    ::setenv(("NEURON_RT_LOG_LOCATION_" + component).c_str(), place.c_str(), 1);
  }
  return log;
}

std::string RuntimeLog::take() {
  std::string text;
  if (!fd_.valid()) return text;
  std::array<char, 4096> part;
  for (ssize_t n; (n = ::read(fd_.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<size_t>(n));
  }
  return text;
}

std::string refusal_in(const std::string& log) {
  static const std::regex kRefusal(
      " ERROR +NRT:nrt_\\w+ +(?:Unsupported: )?collectives: (.*) \\(status 2 NRT_INVALID\\)");
  std::smatch found;
  return std::regex_search(log, found, kRefusal) ? found[1].str() : std::string();
}

}  // namespace nccom
