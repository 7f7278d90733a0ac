// The composition root for hosts outside the process: devices from a platform and a timing file,
// and front ends (driver/qemu) through which guests reach them. No kernel driver, no device nodes.
//
// The devices run freely: whenever they have something to do they get a slice of simulated time
// (time.attached_slice_us), then whatever the hosts sent is answered, at once and without waiting
// for simulated time. At rest the loop sleeps until a host sends something. When a request enters
// thus depends on wall time, so such a run is never repeatable (policy "free" in the report).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "sim/report.h"

namespace base {
class Logger;
class TraceSink;
}  // namespace base
namespace driver::qemu {
class FrontEnd;
}

namespace sim {

class AttachedMachine {
 public:
  struct Params {
    config::Platform platform;
    config::Timing timing;
    uint8_t revision = 0;  // PCI revision id: silicon, 0xF0 emulator, 0xFF QEMU
    pcie::BarLayout bars = pcie::BarLayout::kFull;
    // Where the DMA of each chip goes, by chip; they must outlive the machine.
    std::vector<pcie::HostMemory*> host_memory = {};
    // What the guest's firmware calls its product (SMBIOS type 1). Drivers number devices by it
    // (spec/hw-registers.md 1.5); empty is a name that they do not know, as those of QEMU.
    std::string product = {};
    bool timing_only = false;
    bool check = false;  // docs/checks.md
    base::TraceSink* trace = nullptr;
    base::Logger* logger = nullptr;  // must outlive the machine
  };

  // Builds and locks the parameters. The devices are as after power on; no driver has seen them.
  static base::Result<std::unique_ptr<AttachedMachine>> create(Params params);
  ~AttachedMachine();
  AttachedMachine(const AttachedMachine&) = delete;
  AttachedMachine& operator=(const AttachedMachine&) = delete;

  size_t chips() const;
  pcie::Device& device(size_t chip);

  // The calling thread becomes the kernel thread until stop(), until all hosts are gone, or until
  // the machine fails or a host breaks its protocol (the error).
  base::Status serve(const std::vector<driver::qemu::FrontEnd*>& hosts);
  void stop();  // any thread; serve() may be called again
  // Between serve() calls, on the same thread: what happened since the last report.
  Report take_report();

 private:
  struct Parts;
  explicit AttachedMachine(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace sim
