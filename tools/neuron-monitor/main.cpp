// neuron-monitor: one JSON report per line, whenever groups are due, until it is killed
// (spec/tools.md 5, spec/clients.md 3.2). Exit status 1: no device, a bad configuration, nobody
// reads.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "tools/neuron-monitor/config.h"
#include "tools/neuron-monitor/schedule.h"
#include "tools/neuron_host/fatal.h"

namespace {

using namespace neuron_monitor;  // of this program

// Readers take lines: each is one write, if the pipe has room for it.
bool print(const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = write(STDOUT_FILENO, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

base::Result<Config> read_config(const std::string& path) {
  constexpr size_t kLimit = 1 << 20;
  if (path.empty()) return default_config();
  const auto text = base::read_file(path, kLimit);
  if (!text) return text.error();
  return parse_config(*text);
}

bool wants(const Config& config, Group group) {
  return std::any_of(config.system.begin(), config.system.end(),
                     [group](const Metric& metric) { return metric.group == group; });
}

int monitor(const Config& config) {
  const auto devices = neuron_host::read_devices();
  if (!devices && devices.error().fault == base::Fault::kIo) return neuron_host::no_devices();
  if (!devices) {
    return neuron_host::fatal("Failed to read the configuration", devices.error().message());
  }
  const Json instance = instance_info(neuron_host::read_instance());
  const Json hardware = hardware_info(*devices);
  auto sample = std::make_shared<Sample>(take_sample(*devices));
  Schedule schedule(config, sample);
  const bool with_errors = wants(config, Group::kHwCounters);
  for (;;) {
    Json report = schedule.collect(sample, *devices);
    report["instance_info"] = instance;
    report["neuron_hardware_info"] = hardware;
    // Clients want a line at once, whatever is due in it (spec/clients.md C19.2); what takes time
    // comes behind it.
    if (!print(base::json_text(report) + "\n")) return 1;
    if (with_errors && sample->errors.empty()) sample->errors = read_errors(*devices);
    const Clock::time_point next = schedule.next();
    while (next == Clock::time_point::max()) pause();  // it runs until it is killed
    std::this_thread::sleep_until(next);
    sample = std::make_shared<Sample>(take_sample(*devices));
    if (with_errors) sample->errors = read_errors(*devices);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Reports what the Neuron devices of this host do.", "neuron-monitor"};
  std::string path;
  int verbose = 0;
  app.add_option("-c,--config-file", path, "What to report, and how often");
  app.add_option("--verbose", verbose, "0 (silent) to 4: messages on stderr")
      ->check(CLI::Range(0, 4));
  app.set_version_flag("--version", neuron_host::kToolsVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app.exit(end) == 0 ? 0 : 2;
  }
  const auto config = read_config(path);
  if (!config) {
    return neuron_host::fatal("Failed to load the configuration", config.error().message());
  }
  if (verbose > 0) std::fprintf(stderr, "neuron-monitor: started\n");
  return monitor(*config);
}
