// Plays golden scripts to devices behind the PCIe seam, with a host's memory and its clock: writes,
// expected reads, polls with a limit in simulated time, events in host memory, content of HBM.
// Knows nothing else of the machine. The format of scripts is in README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "tests/golden/script.h"

namespace golden {

struct Host {
  std::vector<pcie::Device*> devices;
  pcie::HostMemory* memory = nullptr;  // of all devices
  pcie::HostExecutor* executor = nullptr;
};

struct Played {
  uint64_t steps = 0;
  uint64_t writes = 0;  // register accesses made
  uint64_t reads = 0;
  std::string failure;  // empty: every expectation held
};

class Player {
 public:
  explicit Player(Host host) : host_(std::move(host)) {}

  // Plays until the first expectation that fails. Runs as a task of the executor.
  Played play(const Script& script);

 private:
  // Empty, or what was expected and what was found.
  std::string perform(const Step& step);
  std::string read_step(const Step& step);
  std::string config_step(const Step& step);
  std::string memory_step(const Step& step);
  std::string poll_memory(const Step& step);
  std::string check_totals(const Step& step);
  uint32_t read_register(const Step& step);
  bool memory(const Step& step, bool write, base::ByteSpan bytes);
  pcie::Device& device(const Step& step) { return *host_.devices[step.device]; }

  Host host_;
  Played played_;
  uint64_t counted_writes_ = 0;  // since the last `count`
  uint64_t counted_reads_ = 0;
};

}  // namespace golden
