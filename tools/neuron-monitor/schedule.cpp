#include "tools/neuron-monitor/schedule.h"

#include <algorithm>
#include <map>

namespace neuron_monitor {

Schedule::Entry Schedule::entry_of(const Metric& metric,
                                   const std::shared_ptr<const Sample>& first) {
  const bool at_once = metric.group == Group::kMemoryInfo || metric.group == Group::kMemoryUsed;
  return {metric, at_once ? first->time : first->time + metric.period, first};
}

Schedule::Schedule(const Config& config, std::shared_ptr<const Sample> first) {
  for (const RuntimeFilter& filter : config.runtimes) {
    Filter compiled = {};
    if (regcomp(&compiled.expression, filter.tag_filter.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
      continue;  // parse_config lets none such through
    }
    for (const Metric& metric : filter.metrics) compiled.entries.push_back(entry_of(metric, first));
    filters_.push_back(std::move(compiled));
  }
  for (const Metric& metric : config.system) system_.push_back(entry_of(metric, first));
}

Schedule::~Schedule() {
  for (Filter& filter : filters_) regfree(&filter.expression);
}

Clock::time_point Schedule::next() const {
  Clock::time_point earliest = Clock::time_point::max();
  for (const Filter& filter : filters_) {
    for (const Entry& entry : filter.entries) earliest = std::min(earliest, entry.due);
  }
  for (const Entry& entry : system_) earliest = std::min(earliest, entry.due);
  return earliest;
}

// Periods that were missed (a host that slept) are skipped, not made up for.
void Schedule::collected(Entry& entry, const std::shared_ptr<const Sample>& now) {
  entry.last = now;
  entry.due += entry.metric.period;
  if (entry.due <= now->time) entry.due = now->time + entry.metric.period;
}

Json Schedule::collect(const std::shared_ptr<const Sample>& now,
                       const neuron_host::Devices& devices) {
  std::map<pid_t, Json> reports;
  for (Filter& filter : filters_) {
    std::vector<const Application*> passed;
    for (const Application& application : now->applications) {
      if (regexec(&filter.expression, application.tag.c_str(), 0, nullptr, 0) != 0) continue;
      passed.push_back(&application);
      // Listed in every report, also where no group is due: who is not has ended.
      reports.emplace(application.pid, Json::object());
    }
    for (Entry& entry : filter.entries) {
      if (entry.due > now->time) continue;
      for (const Application* application : passed) {
        reports[application->pid][name_of(entry.metric.group)] =
            runtime_group(entry.metric.group, {*entry.last, *now}, *application, devices);
      }
      collected(entry, now);
    }
  }
  Json runtimes = Json::array();
  for (auto& [pid, report] : reports) {
    Json entry;
    entry["pid"] = pid;
    entry["address"] = "";
    entry["neuron_runtime_tag"] = now->find(pid)->tag;
    entry["error"] = "";
    entry["report"] = std::move(report);
    runtimes.push_back(std::move(entry));
  }
  Json system = Json::object();
  for (Entry& entry : system_) {
    if (entry.due > now->time) continue;
    system[name_of(entry.metric.group)] = system_group(entry.metric.group, {*entry.last, *now});
    collected(entry, now);
  }
  Json groups;
  groups["neuron_runtime_data"] = std::move(runtimes);
  groups["system_data"] = std::move(system);
  return groups;
}

}  // namespace neuron_monitor
