#include "sim/report.h"

#include <algorithm>
#include <utility>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "base/file.h"
#include "base/json.h"

namespace sim {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSchema = "report/1";
constexpr uint64_t kMillion = 1000000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The run of digits at the front, without leading zeros.
std::string_view digits(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  size_t start = 0;
  while (start + 1 < end && text[start] == '0') ++start;
  return text.substr(start, end - start);
}

uint64_t parts_per_million(base::Ps part, base::Ps whole) {
  return whole == 0
             ? 0
             : static_cast<uint64_t>(static_cast<unsigned __int128>(part) * kMillion / whole);
}

ordered_json counts(const std::map<std::string, uint64_t, NaturalLess>& table) {
  ordered_json rows = ordered_json::array();
  for (const auto& [name, count] : table) rows.push_back({{"name", name}, {"count", count}});
  return rows;
}

}  // namespace

bool NaturalLess::operator()(std::string_view a, std::string_view b) const {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view x = digits(a.substr(i)), y = digits(b.substr(j));
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      while (i < a.size() && is_digit(a[i])) ++i;
      while (j < b.size() && is_digit(b[j])) ++j;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if ((a.size() - i) != (b.size() - j)) return a.size() - i < b.size() - j;
  return a < b;  // equal but for leading zeros
}

void Durations::add(base::Ps duration) {
  min = count == 0 ? duration : std::min(min, duration);
  max = std::max(max, duration);
  total += duration;
  ++count;
}

Report::Report(const config::Platform& platform, const config::Timing& timing, std::string policy,
               bool repeatable, bool timing_only)
    : platform_(platform.name),
      validated_(platform.validated),
      timing_(timing.name()),
      policy_(std::move(policy)),
      repeatable_(repeatable),
      timing_only_(timing_only) {
  for (const config::Parameter& parameter : timing.parameters()) {
    if (parameter.overridden()) {
      overrides_.push_back({parameter.name, parameter.value, parameter.unit});
    }
    if ((parameter.status == 'M' || parameter.status == 'A') && timing.was_read(parameter.name)) {
      estimates_.push_back({parameter.name, std::string(1, parameter.status), {}});
    }
  }
}

void Durations::add(const Durations& other) {
  if (other.count == 0) return;
  min = count == 0 ? other.min : std::min(min, other.min);
  max = std::max(max, other.max);
  total += other.total;
  count += other.count;
}

void Report::add_activity(std::string_view kind, base::Ps duration) {
  activities_[std::string(kind)].add(duration);
}

void Report::add_activities(std::string_view kind, const Durations& durations) {
  if (durations.count > 0) activities_[std::string(kind)].add(durations);
}

void Report::add_usage(std::string_view resource, const Usage& more) {
  if (more.bytes == 0 && more.busy == 0) return;
  Usage& usage = usage_[std::string(resource)];
  usage.bytes += more.bytes;
  usage.busy += more.busy;
  usage.signals += more.signals;
}

void Report::add_count(std::string_view counter, uint64_t value, std::string_view unit) {
  Counter& entry = counters_[std::string(counter)];
  entry.value += value;
  entry.unit = unit;
}

void Report::add_elided(std::string_view what, uint64_t count) {
  if (count != 0) elided_[std::string(what)] += count;
}

void Report::add_unsupported(std::string_view feature, uint64_t count) {
  if (count != 0) unsupported_[std::string(feature)] += count;
}

void Report::add_inert(std::string_view name, uint64_t count) {
  if (count != 0) inert_[std::string(name)] += count;
}

void Report::add_unknown(std::string_view name, uint64_t reads, uint64_t writes) {
  if (reads == 0 && writes == 0) return;
  Accesses& accesses = unknown_[std::string(name)];
  accesses.reads += reads;
  accesses.writes += writes;
}

void Report::add_slices(uint64_t count) {
  slices_ += count;
  if (count != 0) repeatable_ = false;
}
void Report::add_late_faults(uint64_t count) {
  late_faults_ += count;
  if (count != 0) repeatable_ = false;
}

void Report::add_fault(std::string_view what, uint64_t count) {
  faults_[std::string(what)] += count;
}

void Report::set_checks(std::vector<CheckRow> rows, uint64_t more) {
  checked_ = true;
  checks_ = std::move(rows);
  more_checks_ = more;
}

void Report::set_failure(const base::Error& error) {
  failure_ = base::to_string(error.fault);
  failure_text_ = error.message();
}

namespace {

ordered_json nonzero(const std::vector<std::pair<std::string, uint64_t>>& values) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, value] : values) {
    if (value != 0) object[name] = value;
  }
  return object;
}

ordered_json execution_json(const ExecutionRow& row) {
  ordered_json engines = ordered_json::array();
  for (const EngineRow& engine : row.engines) {
    if (engine.instructions == 0) continue;
    engines.push_back({{"name", engine.name},
                       {"instructions", engine.instructions},
                       {"busy_ps", engine.busy},
                       {"stalled_ps", nonzero(engine.stalled)},
                       {"waited_for_ps", nonzero(engine.waited_for)},
                       {"bytes", nonzero(engine.bytes)}});
  }
  ordered_json kinds = ordered_json::array();
  for (const OperationsRow& each : row.operations_by_kind) {
    if (each.operations == 0) continue;
    kinds.push_back(
        {{"kind", each.kind}, {"operations", each.operations}, {"peak_per_us", each.peak_per_us}});
  }
  ordered_json json = {{"core", row.core},
                       {"program", row.program},
                       {"count", row.times.count},
                       {"total_ps", row.times.total},
                       {"min_ps", row.times.min},
                       {"max_ps", row.times.max},
                       {"hbm_bytes", row.hbm_bytes},
                       {"operations", row.operations},
                       {"peak_operations_per_us", row.peak_operations_per_us},
                       {"operations_by_kind", kinds},
                       {"peak_hbm_bytes_per_us", row.peak_hbm_bytes_per_us},
                       {"critical_path_ps", nonzero(row.critical_path)},
                       {"engines", engines}};
  if (row.profile) json["profile"] = profile_json(*row.profile);
  return json;
}

std::string site_text(const CheckSite& site) {
  std::string text = site.dma.empty() ? site.who : "DMA (" + site.dma + ") of " + site.who;
  if (!site.operation.empty()) {
    text += " " + site.operation + " at record " + std::to_string(site.record);
  }
  return site.line.empty() ? text : text + ", " + site.line;
}

std::string range_text(const char* one, const char* many, const std::vector<uint64_t>& range) {
  if (range.empty()) return "";
  if (range[0] == range[1]) return std::string(" ") + one + " " + std::to_string(range[0]);
  return std::string(" ") + many + " " + std::to_string(range[0]) + "-" + std::to_string(range[1]);
}

ordered_json check_json(const CheckRow& row) {
  ordered_json sites = ordered_json::array();
  for (const CheckSite& site : row.sites) {
    ordered_json each{{"who", site.who}};
    if (!site.dma.empty()) each["dma"] = site.dma;
    if (!site.operation.empty()) {
      each["operation"] = site.operation;
      each["record"] = site.record;
    }
    if (!site.line.empty()) each["line"] = site.line;
    sites.push_back(std::move(each));
  }
  ordered_json json{{"kind", row.kind}, {"where", row.where}};
  if (!row.partitions.empty()) json["partitions"] = row.partitions;
  if (!row.bytes.empty()) json["bytes"] = row.bytes;
  json["count"] = row.count;
  json["instructions"] = sites;
  return json;
}

}  // namespace

std::string CheckRow::text() const {
  std::string text = kind + ": " + where + range_text("partition", "partitions", partitions) +
                     range_text("byte", "bytes", bytes);
  if (count > 1) text += ", " + std::to_string(count) + " times";
  for (const CheckSite& site : sites) text += "\n    " + site_text(site);
  return text;
}

std::string Report::to_json() const {
  ordered_json overrides = ordered_json::array();
  for (const auto& [name, value, unit] : overrides_) {
    overrides.push_back({{"name", name}, {"value", value}, {"unit", unit}});
  }
  ordered_json activities = ordered_json::array();
  for (const auto& [name, times] : activities_) {
    activities.push_back({{"name", name},
                          {"count", times.count},
                          {"total_ps", times.total},
                          {"min_ps", times.min},
                          {"max_ps", times.max}});
  }
  ordered_json resources = ordered_json::array();
  for (const auto& [name, usage] : usage_) {
    ordered_json row{{"name", name}, {"bytes", usage.bytes}};
    if (usage.signals != 0) row["signals"] = usage.signals;
    row["busy_ps"] = usage.busy;
    row["utilisation_ppm"] = parts_per_million(usage.busy, active_);
    resources.push_back(std::move(row));
  }
  ordered_json counters = ordered_json::array();
  for (const auto& [name, counter] : counters_) {
    counters.push_back({{"name", name}, {"value", counter.value}, {"unit", counter.unit}});
  }
  ordered_json executions = ordered_json::array();
  for (const ExecutionRow& row : executions_) executions.push_back(execution_json(row));

  ordered_json exact{"values read back by software", "ordering"};
  if (!timing_only_) exact.push_back("data");
  ordered_json approximate = ordered_json::array();
  for (const auto& [name, status, unused] : estimates_) {
    approximate.push_back({{"parameter", name}, {"status", status}});
  }
  ordered_json unknown = ordered_json::array();
  for (const auto& [name, accesses] : unknown_) {
    unknown.push_back({{"name", name}, {"reads", accesses.reads}, {"writes", accesses.writes}});
  }

  ordered_json report;
  report["schema"] = kSchema;
  report["platform"] = platform_;
  report["durations"] = validated_ ? "approximate" : "unvalidated";
  report["timing"] = {{"file", timing_}, {"overrides", overrides}};
  report["policy"] = policy_;
  report["repeatable"] = repeatable_;
  report["timing_only"] = timing_only_;
  report["slices"] = slices_;
  report["active_ps"] = active_;
  report["activities"] = activities;
  report["resources"] = resources;
  report["counters"] = counters;
  report["executions"] = executions;
  report["fidelity"] = {{"exact", exact},
                        {"approximate", approximate},
                        {"elided_bytes", elided_bytes_},
                        {"elided", counts(elided_)},
                        {"unsupported", counts(unsupported_)},
                        {"inert_registers", counts(inert_)},
                        {"unknown", unknown}};
  if (checked_) {
    ordered_json findings = ordered_json::array();
    for (const CheckRow& row : checks_) findings.push_back(check_json(row));
    report["checks"] = {{"findings", findings}, {"more", more_checks_}};
  }
  report["faults"] = counts(faults_);
  report["failure"] = nullptr;
  if (!failure_.empty()) report["failure"] = {{"fault", failure_}, {"what", failure_text_}};
  return base::json_text(report, 1) + "\n";
}

base::Status Report::write(const std::string& path) const {
  return base::replace_file(path, to_json());
}

std::vector<std::string> Report::warnings() const {
  std::vector<std::string> lines;
  const auto add = [&](const Table<uint64_t>& table, const char* what) {
    for (const auto& [name, count] : table) {
      lines.push_back(std::to_string(count) + " x " + what + ": " + name);
    }
  };
  add(elided_, "a value that timing-only did not compute was read");
  add(unsupported_, "not supported");
  for (const auto& [name, accesses] : unknown_) {
    lines.push_back(std::to_string(accesses.reads) + " reads and " +
                    std::to_string(accesses.writes) + " writes of something unknown: " + name);
  }
  for (const CheckRow& row : checks_) lines.push_back(row.text());
  if (more_checks_ != 0) {
    lines.push_back(std::to_string(more_checks_) + " more findings of the checks");
  }
  if (slices_ != 0) {
    lines.push_back("the machine did not come to rest " + std::to_string(slices_) +
                    " times (time.slice_us); durations are not repeatable");
  }
  if (late_faults_ != 0) {
    lines.push_back("links were changed " + std::to_string(late_faults_) +
                    " times while the machine was at work; durations are not repeatable");
  }
  return lines;
}

}  // namespace sim
