// neuron-top: a screen of what the Neuron devices of this host do, every second, until somebody
// presses q (spec/tools.md 4). Exit status 1: no device, no terminal; 2: arguments.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "tools/neuron-monitor/sample.h"
#include "tools/neuron-top/screen.h"
#include "tools/neuron-top/terminal.h"
#include "tools/neuron_host/fatal.h"

namespace {

using namespace neuron_top;  // of this program
using neuron_monitor::Sample;

class Top {
 public:
  Top(const neuron_host::Devices& devices, Terminal& terminal)
      : devices_(devices),
        terminal_(terminal),
        instance_(neuron_host::read_instance()),
        before_(neuron_monitor::take_sample(devices)),
        now_(before_) {}

  int run() {
    refresh();
    while (terminal_.show(picture())) {
      const Terminal::News news = terminal_.wait();
      for (const Press& press : decode(news.bytes)) {
        apply(press, tabs_, rows_, state_);
        refresh();
      }
      if (state_.quit || news.end) return 0;
      if (!news.refresh) continue;
      before_ = std::move(now_);
      now_ = neuron_monitor::take_sample(devices_);
      refresh();
    }
    return 1;
  }

 private:
  void refresh() {
    tabs_ = tabs_of(now_);
    state_.pid = tabs_[current_tab(state_, tabs_)].pid;  // "all" when the process has ended
    figures_ = figures_of({before_, now_}, devices_, state_.pid);
    rows_ = memory_rows(figures_, devices_, state_.expanded);
  }
  std::vector<std::string> picture() const {
    return draw({instance_, devices_, figures_, tabs_, rows_, state_}, terminal_.look());
  }

  const neuron_host::Devices& devices_;
  Terminal& terminal_;
  neuron_host::Instance instance_;
  Sample before_;
  Sample now_;
  State state_;
  std::vector<Tab> tabs_;
  Figures figures_;
  std::vector<MemoryRow> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Shows what the Neuron devices of this host do, until q is pressed.", "neuron-top"};
  app.set_version_flag("--version", neuron_host::kToolsVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app.exit(end) == 0 ? 0 : 2;
  }
  const auto devices = neuron_host::read_devices();
  if (!devices && devices.error().fault == base::Fault::kIo) return neuron_host::no_devices();
  if (!devices) {
    return neuron_host::fatal("Failed to read the configuration", devices.error().message());
  }
  auto terminal = Terminal::open();
  if (!terminal) {
    std::fprintf(stderr, "%s\n", terminal.error().message().c_str());
    return 1;
  }
  return Top(*devices, **terminal).run();
}
