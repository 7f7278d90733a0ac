// Which groups are due when, and the reports that they make (spec/tools.md 5.2 at its end).
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/neuron-monitor/config.h"
#include "tools/neuron-monitor/report.h"
#include "tools/neuron-monitor/sample.h"

namespace neuron_monitor {

class Schedule {
 public:
  // What needs no interval is due at once, the rest after its period. The configuration has been
  // checked by parse_config.
  Schedule(const Config& config, std::shared_ptr<const Sample> first);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  ~Schedule();

  Clock::time_point next() const;  // when a group is due; time_point::max() if there is none
  // Groups that are due by the sample's time, as the members neuron_runtime_data and system_data.
  Json collect(const std::shared_ptr<const Sample>& now, const neuron_host::Devices& devices);

 private:
  struct Entry {
    Metric metric;
    Clock::time_point due;
    std::shared_ptr<const Sample> last;
  };
  struct Filter {
    regex_t expression;
    std::vector<Entry> entries;
  };
  static Entry entry_of(const Metric& metric, const std::shared_ptr<const Sample>& first);
  static void collected(Entry& entry, const std::shared_ptr<const Sample>& now);

  std::vector<Filter> filters_;
  std::vector<Entry> system_;
};

}  // namespace neuron_monitor
