// The points of a sweep, and the command that measures each.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "tools/soma/sweep.h"
#include "tools/soma/sweep_data.h"

namespace soma {

// A combination, and what its runs need beyond its name.
struct SweepCase {
  SweepSeries series;
  std::string platform;  // as given: name or path
  uint32_t dma_engines = 0;
};

// Fails for whatever no run could take: unknown platforms, parameters, operations, types, sizes.
base::Result<std::vector<SweepCase>> make_grid(const SweepOptions& options);

struct SweepCommand {
  std::vector<std::string> words;
  std::vector<std::string> environment;
};
// `bin`: where the programs are. nccom-test writes its result to `json`, the machine to `report`.
SweepCommand command_of(const SweepOptions& options, const SweepCase& of, uint64_t bytes,
                        const std::string& bin, const std::string& json, const std::string& report);

}  // namespace soma
