#include "tools/soma/session.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "driver/node/client_launch.h"
#include "sim/main_loop.h"

namespace soma {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShim = "libsoma-shim.so";

}  // namespace

base::Result<std::unique_ptr<Session>> Session::create(const MachineOptions& options,
                                                       RuntimeDir directory) {
  auto configuration = load_configuration(options);
  if (!configuration) return configuration.error();
  std::unique_ptr<Session> session(new Session(std::move(directory)));
  base::Status opened = session->instruments_.open(options);
  if (!opened) return opened.error();
  sim::MachineParams params{std::move(configuration->platform),
                            std::move(configuration->timing),
                            options.timing_only,
                            options.policy == "epoch" ? sim::Policy::kEpoch : sim::Policy::kOverlap,
                            session->directory() + "/server",
                            session->instruments_.trace(),
                            &session->instruments_.logger(),
                            options.vcd,
                            options.watch};
  auto machine = sim::Machine::create(std::move(params));
  if (!machine) return machine.error();
  session->machine_ = std::move(*machine);
  return session;
}

base::Result<std::vector<std::string>> client_environment(const Running& running, uint32_t node) {
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  driver::ClientLaunch launch;
  for (const char* place : {"lib", "lib/soma"}) {
    const fs::path library = bin.parent_path() / place;
    if (launch.shim_path.empty() && fs::exists(library / kShim, error)) {
      launch.shim_path = (library / kShim).string();
      launch.library_dirs = {library.string()};
    }
  }
  if (launch.shim_path.empty()) {
    return base::Error{base::Fault::kConfig, 0, bin.string(),
                       std::string(kShim) + " is not in ../lib; the installation is incomplete"};
  }
  launch.socket_path = running.socket_path;
  launch.clock =
      running.clock == "host" ? driver::ClientClock::kHost : driver::ClientClock::kVirtual;
  launch.node = node;
  const std::string path = (bin.parent_path() / "libexec/soma").string() + ":" + bin.string() + ":";
  std::vector<std::string> environment = driver::client_environment(launch);
  for (std::string& variable : environment) {
    if (variable.rfind("PATH=", 0) == 0) variable.insert(5, path);
  }
  return environment;
}

}  // namespace soma
