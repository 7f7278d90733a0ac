#include "sim/hardware.h"

namespace sim {

base::Result<std::unique_ptr<Hardware>> build_hardware(const HardwareParams& params) {
  (void)params;
  return base::Error{base::Fault::kUnsupported, 0, "hw", "this build has no device model"};
}

}  // namespace sim
