#include "tools/soma/session.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "driver/node/client_launch.h"
#include "sim/main_loop.h"
#include "tools/soma/sdk.h"

namespace soma {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInspect = "/inspect";

base::Status make_directories(const std::string& place, size_t nodes) {
  for (size_t node = 0; node < nodes; ++node) {
    std::error_code error;
    fs::create_directories(place + "/" + std::to_string(node), error);
    if (error) return base::Error{base::Fault::kIo, error.value(), place, error.message()};
  }
  return {};
}

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
                            options.watch,
                            {},
                            options.profile,
                            options.checks()};
  // Runtimes say here which lines of source their programs come from: below it, by node.
  if (options.profile || options.checks() || !options.trace.empty()) {
    params.inspect = session->directory() + kInspect;
    base::Status made = make_directories(params.inspect, params.platform.nodes.size());
    if (!made) return made.error();
  }
  if (base::Status made = make_sdk(session->directory()); !made) return made.error();
  auto machine = sim::Machine::create(std::move(params));
  if (!machine) return machine.error();
  session->machine_ = std::move(*machine);
  return session;
}

base::Result<std::vector<std::string>> client_environment(const Running& running, uint32_t node) {
  const Installation installation = find_installation();
  if (installation.lib.empty()) {
    return base::Error{base::Fault::kConfig, 0, installation.bin.string(),
                       "libsoma-shim.so is not in ../lib; the installation is incomplete"};
  }
  driver::ClientLaunch launch;
  launch.shim_path = (installation.lib / "libsoma-shim.so").string();
  launch.library_dirs = {installation.lib.string()};
  launch.sdk = sdk_of(running.directory);
  launch.socket_path = running.socket_path;
  launch.clock =
      running.clock == "host" ? driver::ClientClock::kHost : driver::ClientClock::kVirtual;
  launch.node = node;
  const fs::path& bin = installation.bin;
  const std::string path = (bin.parent_path() / "libexec/soma").string() + ":" + bin.string() + ":";
  std::vector<std::string> environment = driver::client_environment(launch);
  for (std::string& variable : environment) {
    if (variable.rfind("PATH=", 0) == 0) variable.insert(5, path);
  }
  // The runtime's own way to be asked about programs (spec/nrt-api.md 14.3); who uses it already
  // goes without lines in trace and profile.
  std::error_code error;
  const std::string inspect = running.directory + kInspect + "/" + std::to_string(node);
  if (::getenv("NEURON_RT_INSPECT_OUTPUT_DIR") == nullptr && fs::exists(inspect, error)) {
    set_variable(environment, "NEURON_RT_INSPECT_ENABLE", "1");
    set_variable(environment, "NEURON_RT_INSPECT_OUTPUT_DIR", inspect);
  }
  return environment;
}

}  // namespace soma
