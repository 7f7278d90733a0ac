// neuron-ls: lists the Neuron devices of this host and who uses them (spec/tools.md 3,
// spec/clients.md 3.1). Exit status 0; 1 for an unknown flag, or without driver or device.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "tools/neuron-ls/columns.h"
#include "tools/neuron-ls/json.h"
#include "tools/neuron-ls/topology.h"
#include "tools/neuron_host/fatal.h"

namespace {

struct Options {
  bool wide = false;
  bool all = false;
  bool topology = false;
  bool json = false;
};

std::string text_of(const Options& options, const neuron_host::Devices& devices) {
  using neuron_ls::View;
  const neuron_host::Instance instance = neuron_host::read_instance();
  if (options.json) return neuron_ls::json(instance, devices);
  std::string text = neuron_ls::heading(instance, devices);
  if (options.topology) {
    const View view = devices.all.size() > 1 ? View::kTopology : View::kDefault;
    return text + neuron_ls::table(devices, view) + neuron_ls::topology(devices);
  }
  const View view = options.all ? View::kAll : options.wide ? View::kWide : View::kDefault;
  return text + neuron_ls::table(devices, view);
}

int list(const Options& options) {
  const auto devices = neuron_host::read_devices();
  if (!devices && devices.error().fault == base::Fault::kIo) return neuron_host::no_devices();
  if (!devices) {
    return neuron_host::fatal("Failed to read the configuration", devices.error().message());
  }
  const std::string text = text_of(options, *devices);
  std::fwrite(text.data(), 1, text.size(), stdout);
  // Each device takes a driver 10 ms to close (spec/driver-ioctl.md 1.5): that is left to the
  // process's end, for which nobody on an emulated driver waits.
  std::_Exit(base::flush_stdout().ok() ? 0 : 1);
}

// The published tool complains on stdout.
int complain(const std::string& what) {
  std::printf("%s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Lists the Neuron devices of this host.", "neuron-ls"};
  Options options;
  app.add_flag("-w,--wide", options.wide, "Processes with commands of up to 80 characters");
  app.add_flag("-a,--show-all-procs", options.all,
               "All processes that hold a device, with commands of up to 40 characters");
  app.add_flag("-t,--topology", options.topology, "A drawing of the links");
  app.add_flag("-j,--json-output", options.json, "JSON");
  app.set_version_flag("--version", neuron_host::kToolsVersion);
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return complain(error.what());
  }
  for (const std::string& word : app.remaining()) {
    const bool flag = word.size() > 1 && word[0] == '-';
    return complain((flag ? "unknown flag \"" : "unexpected argument \"") + word + "\"");
  }
  return list(options);
}
