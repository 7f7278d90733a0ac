// `soma qemu`: a device for the guest of a stock QEMU. QEMU's exit code is ours; a failure of the
// machine has a code of its own (options.h).
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "driver/qemu/guest_memory.h"
#include "driver/qemu/remote_pci.h"
#include "sim/attached_machine.h"
#include "tools/soma/conclude.h"
#include "tools/soma/instruments.h"
#include "tools/soma/options.h"
#include "tools/soma/qemu_arguments.h"
#include "tools/soma/supervisor.h"
#include "tools/soma/watchdog.h"

namespace soma {
namespace {

// The process ends here: the simulation thread, which owns everything, does not answer.
[[noreturn]] void give_up() {
  complain("the machine does not come to an end; killed, without a report");
  Supervisor::kill_descendants();
  ::_exit(exit_code(base::Fault::kInternal));
}

// QEMU's proxy device has 32-bit BARs only.
base::Status check_platform(const config::Platform& platform) {
  const auto refuse = [&](const std::string& why) {
    return base::Error{base::Fault::kUnsupported, 0, platform.name,
                       why +
                           "; use soma vfio-user, or a platform of one v2 device (trn1.2xlarge, "
                           "inf2.xlarge, inf2.8xlarge)"};
  };
  if (platform.generation != config::Generation::kV2) {
    return refuse(
        "the BARs of its devices do not fit below 4 GiB, where QEMU's proxy device has "
        "them");
  }
  if (platform.chips.size() != 1) {
    return refuse("the BARs of " + std::to_string(platform.chips.size()) +
                  " devices do not fit below 4 GiB, where QEMU's proxy device has them");
  }
  return {};
}

struct Sockets {
  base::UniqueFd ours, theirs;
};

// Theirs outlives exec.
base::Result<Sockets> make_sockets() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return base::errno_error("qemu", "socketpair");
  }
  Sockets sockets{base::UniqueFd(pair[0]), base::UniqueFd(pair[1])};
  if (::fcntl(sockets.theirs.get(), F_SETFD, 0) != 0) return base::errno_error("qemu", "fcntl");
  return sockets;
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
  return all;
}

}  // namespace

int qemu(const QemuOptions& options) {
  Supervisor child;  // before any thread starts
  auto configuration = load_configuration(options.machine);
  if (!configuration) return fail(configuration.error());
  const base::Status fits = check_platform(configuration->platform);
  if (!fits) return fail(fits.error());
  const auto revision = pci_revision(options.revision);
  if (!revision) return fail(revision.error());
  auto sockets = make_sockets();
  if (!sockets) return fail(sockets.error());
  const auto command = qemu_command(options.arguments, sockets->theirs.get());
  if (!command) return fail(command.error());
  if (!command->warning.empty()) complain("warning: " + command->warning);
  const std::vector<std::string> variables = environment();
  if (!find_program(kQemuProgram, variables)) {
    complain(std::string(kQemuProgram) + " is not in PATH; install the Debian package " +
             kQemuPackage);
    return kExitNotFound;
  }

  Instruments instruments;
  const base::Status opened = instruments.open(options.machine);
  if (!opened) return fail(opened.error());
  driver::qemu::GuestMemory memory;
  sim::AttachedMachine::Params params{std::move(configuration->platform),
                                      std::move(configuration->timing)};
  params.revision = *revision;
  params.bars = pcie::BarLayout::k32Bit;
  params.host_memory = {&memory};
  params.timing_only = options.machine.timing_only;
  params.check = options.machine.checks();
  params.trace = instruments.trace();
  params.logger = &instruments.logger();
  Watchdog watchdog(give_up);
  auto built = sim::AttachedMachine::create(std::move(params));
  if (!built) return fail(built.error());
  sim::AttachedMachine& machine = **built;

  const base::Status started = child.start(command->words, variables);
  if (!started) {
    complain(started.error().message());
    return kExitNotFound;
  }
  sockets->theirs.reset();
  driver::qemu::RemotePci guest(machine.device(0), memory, std::move(sockets->ours));
  base::Status served;
  const int code = serve_child(
      child, watchdog, [&] { return machine.serve({&guest}); }, [&] { machine.stop(); }, served);
  return conclude(machine.take_report(), served, code, options.report, instruments,
                  options.machine.check == "on");
}

}  // namespace soma
