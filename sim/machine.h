// The composition root: devices from a platform and a timing file, a kernel driver per node, the
// device-node server in front. Everything of a machine is reachable from here; one per process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "base/error.h"
#include "sim/report.h"

namespace base {
class Logger;
class TraceSink;
}  // namespace base

namespace sim {

enum class Policy;

struct MachineParams {
  config::Platform platform;
  config::Timing timing;
  bool timing_only = false;
  Policy policy;
  std::string directory;  // of the server's socket; must not exist yet
  base::TraceSink* trace = nullptr;
  base::Logger* logger = nullptr;  // must outlive the machine
  std::string vcd;                 // signals that match a pattern go to this file
  std::vector<std::string> watch;
  std::string inspect;  // as in HardwareParams
  bool profile = false;
  bool check = false;  // races, reads of what was never written, ... (docs/checks.md)
};

class Machine {
 public:
  // Builds, locks the parameters, resets every device and opens the socket.
  static base::Result<std::unique_ptr<Machine>> create(MachineParams params);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const std::string& socket_path() const;
  std::vector<std::string> host_names() const;  // by node; empty: that of the real host

  // The calling thread becomes the kernel thread until stop() or a failure of the machine.
  base::Status serve();
  void stop();  // any thread
  // Any thread: takes a link down or up (Hardware::set_link) between two steps of the machine.
  // `done` is called on the kernel thread.
  // With `after`: not now but so long after the next release of on-device barriers.
  void set_link(std::string link, bool up, std::optional<base::Ps> after,
                std::function<void(const base::Status&)> done);
  // Between serve() calls, on the same thread: lets clients that have ended go, then says what
  // happened since the last report.
  Report take_report();

 private:
  struct Parts;
  explicit Machine(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace sim
