#include "tools/soma/options.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace soma {

int exit_code(base::Fault fault) {
  switch (fault) {
    case base::Fault::kConfig:
      return 120;
    case base::Fault::kUsage:
      return 121;
    case base::Fault::kProgram:
    case base::Fault::kUndefined:
      return 122;
    case base::Fault::kUnsupported:
      return 123;
    case base::Fault::kResource:
      return 124;
    case base::Fault::kIo:
      return 125;
    case base::Fault::kInternal:
      return 126;
  }
  return 126;
}

bool MachineOptions::checks() const {
#ifdef NDEBUG
  return check == "on";
#else
  return check != "off";
#endif
}

int start_code(base::Fault fault) {
  return fault == base::Fault::kConfig ? kExitUsage : exit_code(fault);
}

base::Result<Configuration> load_configuration(const MachineOptions& options) {
  auto platform = config::load_platform(options.platform);
  if (!platform) return platform.error();
  auto timing = config::Timing::load(options.timing.empty() ? platform->timing : options.timing);
  if (!timing) return timing.error();
  for (const std::string& assignment : options.sets) {
    base::Status status = timing->set(assignment);
    if (!status) return status.error();
  }
  base::Status fits = config::check_timing(*platform, *timing);
  if (!fits) return fits.error();
  return Configuration{std::move(platform.value()), std::move(timing.value())};
}

void complain(const std::string& message) {
  fmt::print(stderr, "soma: {}\n", message);
}

}  // namespace soma
