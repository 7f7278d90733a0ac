// What the composition root needs of the assembled devices. Keeps SystemC out of everything else in
// sim/: one file implements it with the machine of hw/, tests implement it in a few lines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "base/units.h"

namespace base {
class Logger;
class TraceSink;
}  // namespace base
namespace config {
class Timing;
struct Platform;
}  // namespace config

namespace sim {

class Report;

class Hardware {
 public:
  virtual ~Hardware() = default;

  virtual pcie::Device& device(size_t chip) = 0;
  virtual pcie::HostExecutor& executor() = 0;
  virtual base::Ps now() const = 0;
  // Runs until nothing is scheduled any more (true) or `limit` of simulated time has passed
  // (false).
  virtual bool run(base::Ps limit) = 0;
  // Times from each release of an on-device barrier to the rest after it, since the last call.
  virtual std::vector<base::Ps> take_released() = 0;
  // Changes whenever programs or transfers get anywhere; reads and writes of registers do not
  // count.
  virtual uint64_t progress() const = 0;
  // Takes a link down or up: two chips, "0-1", or a name as in reports, "link.d0-d1". The error is
  // that there is none.
  virtual base::Status set_link(const std::string& link, bool up) = 0;
  // The same, once, `after` the next release of on-device barriers.
  virtual base::Status plan_link(const std::string& link, bool up, base::Ps after) = 0;
  // A defect that stopped the simulation, if any.
  virtual std::optional<base::Error> failure() const = 0;
  // Adds what was counted since the last call.
  virtual void collect(Report& report) = 0;
  // At rest: one line for each block that waits, and for what.
  virtual std::vector<std::string> waiting() const = 0;
};

struct HardwareParams {
  const config::Platform& platform;
  const config::Timing& timing;
  std::vector<pcie::HostMemory*> host_memory;  // one per node
  bool timing_only = false;
  base::TraceSink* trace = nullptr;
  base::Logger* logger = nullptr;
  std::vector<pcie::HostMemory*> chip_memory = {};  // one per chip, in place of host_memory
  uint8_t revision = 0;                             // PCI revision id (spec/hw-registers.md 1.2)
  pcie::BarLayout bars = pcie::BarLayout::kFull;
  bool standard_hosts = false;  // drivers do not know their names (sim/machine_params.h)
  bool coalesce = true;         // many packets as one event where nobody can tell
  std::string vcd = {};         // signals that match a pattern go to this file (hw/machine/watch.h)
  std::vector<std::string> watch = {};
  // Where runtimes say which lines of source their programs come from, and whether reports have
  // profiles (sim/source_lines.h, sim/profile.h).
  std::string inspect = {};
  bool profile = false;
  bool check = false;      // hw/check: races and the like
  bool touch_all = false;  // every part has its name in SystemC's hierarchy from the start
};

// The real devices. One per process: SystemC elaborates once.
base::Result<std::unique_ptr<Hardware>> build_hardware(const HardwareParams& params);

}  // namespace sim
