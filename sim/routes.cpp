#include "sim/routes.h"

#include <exception>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "hw/link/router.h"
#include "sim/extensions.h"
#include "sim/machine_params.h"

namespace sim {

base::Result<RouteTable> routes(const config::Platform& platform, const config::Timing& timing) {
  // Routes do not depend on blocks: their libraries need not be there.
  config::Platform joined = platform;
  joined.blocks.clear();
  try {
    hw::MachineParams params = machine_params(joined, timing, {});
    if (base::Status added = add_extensions(joined, params); !added) return added.error();
    const auto chips = static_cast<uint32_t>(params.chips.size());
    const hw::Router router(params.routes, chips, params.links, params.switches);
    RouteTable out;
    for (uint32_t chip = 0; chip < chips; ++chip) out.push_back(router.routes(chip));
    return out;
  } catch (const std::exception& error) {
    return base::Error{base::Fault::kConfig, 0, "routes of " + platform.name, error.what()};
  }
}

}  // namespace sim
