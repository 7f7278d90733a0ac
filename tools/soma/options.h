// The command line of `soma`, as parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "base/error.h"

namespace soma {

// Exit codes. An application's own code passes through; those of the machine keep clear of it.
constexpr int kExitUsage = 2;       // the command line, a platform, option or timing name
constexpr int kExitFindings = 119;  // the command succeeded, and --check found something
constexpr int kExitNotFound = 127;  // as a shell: the command cannot be started
int exit_code(base::Fault fault);   // 120-126, a failure of the machine
int start_code(base::Fault fault);  // of a machine that does not start: kExitUsage, or as above

constexpr const char* kDefaultPlatform = "trn1.2xlarge";
constexpr uint64_t kDefaultTraceLimit = 256 << 20;

// What a machine is made of.
struct MachineOptions {
  std::string platform = kDefaultPlatform;
  std::string timing;  // empty: the platform's own
  std::vector<std::string> sets;
  bool timing_only = false;
  std::string policy = "epoch";
  std::string clock = "virtual";
  std::string log;
  std::string trace;
  uint64_t trace_limit = kDefaultTraceLimit;
  std::string vcd;
  std::vector<std::string> watch;
  bool profile = false;  // reports say what lines of source cost, and when engines did what
  std::string check;  // "on" or "off"; empty: on in debug builds, without an exit code of its own

  bool checks() const;
};

struct RunOptions {
  MachineOptions machine;
  std::string report;
  std::vector<std::string> command;
};

constexpr const char* kDefaultName = "default";

struct UpOptions {
  MachineOptions machine;
  std::string name = kDefaultName;
};

struct ExecOptions {
  std::optional<std::string> name;
  std::optional<uint32_t> node;  // default: that of the caller, inside a command of the machine
  std::string report;
  std::vector<std::string> command;
};

struct FaultOptions {
  std::optional<std::string> name;
  std::string link;
  std::optional<uint64_t> after_us;  // the next release of barriers; default: now
  bool up = false;
};

struct QemuOptions {
  MachineOptions machine;
  std::string revision = "silicon";
  std::string report;
  std::vector<std::string> arguments;
};

struct VfioUserOptions {
  MachineOptions machine;
  std::string socket;
  std::optional<int> fd;         // a connected socket instead
  std::optional<size_t> device;  // one of the platform's; all of them without
  std::string revision = "silicon";
  std::string product;  // SMBIOS name of the guests' host
  std::string report;
};

// `describe --schedule`: a collective on the first ranks of the platform.
struct ScheduleOptions {
  std::string operation;
  uint32_t ranks = 0;  // 0: all
  uint64_t size = 1 << 20;
  std::string algorithm;  // or a text of NCCOM_CC_ALGO
  uint32_t lnc = 0;       // 0: the platform's default
  bool in_place = false;
  bool steps = false;
  std::string svg;
};

struct DescribeOptions {
  MachineOptions machine;
  bool platform_given = false;
  bool json = false;
  bool timing = false;
  bool support = false;
  bool registers = false;
  bool hierarchy = false;
  ScheduleOptions schedule;
  bool unsupported = false;  // of the registers, only those that are known but not modelled
};

struct ReportOptions {
  std::string file;
  std::string html;
  std::string timeline;  // SVG files
  std::string roofline;
  std::optional<double> from_us;  // of the timeline
  std::optional<double> to_us;
};

// The platform and its timing with the overrides applied; every error is one of the command line.
struct Configuration {
  config::Platform platform;
  config::Timing timing;
};
base::Result<Configuration> load_configuration(const MachineOptions& options);

// Each runs one command and returns the exit code of the process.
int describe(const DescribeOptions& options);
void describe_registers(const config::Platform& platform, bool unsupported, bool json);
int describe_schedule(const Configuration& configuration, const ScheduleOptions& options);
int run(const RunOptions& options);
int up(const UpOptions& options);
int exec(const ExecOptions& options);
int fault(const FaultOptions& options);
int down(const std::string& name);
int qemu(const QemuOptions& options);
int vfio_user(const VfioUserOptions& options);
int report(const ReportOptions& options);

// "soma: message" on stderr.
void complain(const std::string& message);

}  // namespace soma
