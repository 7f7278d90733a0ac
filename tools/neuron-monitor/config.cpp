#include "tools/neuron-monitor/config.h"

#include <regex.h>

#include <charconv>
#include <iterator>

#include "base/json.h"

namespace neuron_monitor {
namespace {

using Tree = nlohmann::json;

struct Name {
  Group group;
  const char* text;
  bool of_runtime;
};
constexpr Name kNames[] = {
    {Group::kNeuroncoreCounters, "neuroncore_counters", true},
    {Group::kMemoryUsed, "memory_used", true},
    {Group::kRuntimeVcpuUsage, "neuron_runtime_vcpu_usage", true},
    {Group::kExecutionStats, "execution_stats", true},
    {Group::kVcpuUsage, "vcpu_usage", false},
    {Group::kMemoryInfo, "memory_info", false},
    {Group::kHwCounters, "neuron_hw_counters", false},
};

base::Error mistake(const std::string& where, const std::string& what) {
  return {base::Fault::kConfig, 0, where, what};
}

base::Result<Period> period_of(const Tree& object, Period outer, const std::string& where) {
  const auto found = object.find("period");
  if (found == object.end()) return outer;
  if (!found->is_string()) return mistake(where + ".period", "is no text such as \"5s\"");
  return parse_period(found->get<std::string>());
}

// The list at `key`; an absent one and null are empty.
base::Result<const Tree*> list_of(const Tree& object, const char* key, const std::string& where) {
  static const Tree kEmpty = Tree::array();
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return &kEmpty;
  if (!found->is_array()) return mistake(where + key, "is no list");
  return &*found;
}

base::Result<std::vector<Metric>> metrics_of(const Tree& object, const char* key, bool of_runtime,
                                             Period outer, const std::string& where) {
  auto list = list_of(object, key, where);
  if (!list) return list.error();
  std::vector<Metric> metrics;
  for (size_t i = 0; i < (*list)->size(); ++i) {
    const std::string place = where + key + "[" + std::to_string(i) + "]";
    const Tree& entry = (**list)[i];
    if (!entry.is_object()) return mistake(place, "is no object");
    const auto type = entry.find("type");
    if (type == entry.end() || !type->is_string()) return mistake(place, "has no text \"type\"");
    const auto period = period_of(entry, outer, place);
    if (!period) return period.error();
    const auto text = type->get<std::string>();
    const Name* known = nullptr;
    for (const Name& name : kNames) {
      if (name.text == text && name.of_runtime == of_runtime) known = &name;
    }
    if (known == nullptr) return mistake(place, "there is no metric '" + text + "' here");
    metrics.push_back({known->group, *period});
  }
  return metrics;
}

base::Status check_filter(const std::string& filter, const std::string& where) {
  constexpr size_t kLongest = 256;  // tags have 255 characters at most
  regex_t compiled;
  if (filter.size() > kLongest || filter.find('\0') != std::string::npos ||
      regcomp(&compiled, filter.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    return mistake(where + "tag_filter", "is no regular expression");
  }
  regfree(&compiled);
  return {};
}

base::Result<RuntimeFilter> filter_of(const Tree& entry, Period outer, const std::string& where) {
  if (!entry.is_object()) return mistake(where, "is no object");
  RuntimeFilter filter;
  const auto period = period_of(entry, outer, where);
  if (!period) return period.error();
  if (const auto tag = entry.find("tag_filter"); tag != entry.end()) {
    if (!tag->is_string()) return mistake(where + "tag_filter", "is no text");
    filter.tag_filter = tag->get<std::string>();
    if (base::Status checked = check_filter(filter.tag_filter, where); !checked) {
      return checked.error();
    }
  }
  auto metrics = metrics_of(entry, "metrics", true, *period, where);
  if (!metrics) return metrics.error();
  filter.metrics = std::move(*metrics);
  return filter;
}

}  // namespace

const char* name_of(Group group) {
  for (const Name& name : kNames) {
    if (name.group == group) return name.text;
  }
  return "";
}

Period parse_period(const std::string& text) {
  constexpr struct {
    std::string_view unit;
    int64_t milliseconds;
  } kUnits[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
  constexpr int64_t kMost = 1'000'000;  // of any unit
  int64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  if (parsed.ec != std::errc() || count <= 0 || count > kMost) return kDefaultPeriod;
  const std::string_view unit(parsed.ptr,
                              static_cast<size_t>(text.data() + text.size() - parsed.ptr));
  for (const auto& known : kUnits) {
    if (known.unit == unit) return Period(count * known.milliseconds);
  }
  return kDefaultPeriod;
}

Config default_config() {
  Config config;
  config.runtimes.emplace_back();
  for (const Name& name : kNames) {
    (name.of_runtime ? config.runtimes[0].metrics : config.system)
        .push_back({name.group, kDefaultPeriod});
  }
  return config;
}

base::Result<Config> parse_config(std::string_view text) {
  const Tree root = base::parse_json(text);
  if (!root.is_object()) return mistake("configuration", "is no JSON object");
  Config config;
  const auto period = period_of(root, kDefaultPeriod, "configuration");
  if (!period) return period.error();
  auto runtimes = list_of(root, "neuron_runtimes", "");
  if (!runtimes) return runtimes.error();
  for (size_t i = 0; i < (*runtimes)->size(); ++i) {
    const std::string place = "neuron_runtimes[" + std::to_string(i) + "].";
    auto filter = filter_of((**runtimes)[i], *period, place);
    if (!filter) return filter.error();
    config.runtimes.push_back(std::move(*filter));
  }
  auto system = metrics_of(root, "system_metrics", false, *period, "");
  if (!system) return system.error();
  config.system = std::move(*system);
  return config;
}

}  // namespace neuron_monitor
