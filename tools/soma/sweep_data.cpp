// Axes, published rows, reports and the CSV file of `soma sweep`.
#include "tools/soma/sweep_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/json.h"

namespace soma {
namespace {

// The fields that say which series a line belongs to; then those of a point.
constexpr const char* kSeriesFields =
    "platform,operation,datatype,ranks,nodes,lnc,requested_algorithm,settings,";
constexpr const char* kPointFields = "size_bytes,time_us,algbw_gbps,busbw_gbps,algorithm,";
constexpr size_t kFirstBusy = 5;  // of a point
constexpr size_t kDma = kBusyClasses.size() - 1;
constexpr size_t kPointSize = kFirstBusy + kBusyClasses.size() + 2;

std::string header() {
  std::string out = std::string(kSeriesFields) + kPointFields;
  for (const char* name : kBusyClasses) out += std::string(name) + "_busy_percent,";
  return out + "busiest,error";
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  if (!text.empty() && text.back() == separator) out.emplace_back();
  return out;
}

base::Error bad(const std::string& where, const std::string& what) {
  return {base::Fault::kConfig, 2, where, what};
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : between) + part;
  return out;
}

// The first fields of a line, with the comma behind them.
std::string key_of(const SweepSeries& s) {
  return fmt::format("{},{},{},{},{},{},{},{},", quoted(s.platform), quoted(s.operation),
                     quoted(s.datatype), s.ranks, s.nodes, s.lnc, quoted(s.algorithm),
                     quoted(joined(s.sets, " ")));
}

// Index in kBusyClasses, or none for what operations do not use.
size_t class_of(const std::string& name, uint32_t dma_engines) {
  const auto part = name.substr(name.find('.') + 1);
  const auto begins = [](const std::string& text, const char* with) {
    return text.rfind(with, 0) == 0;
  };
  if (begins(name, "switch.")) return 0;
  for (size_t i = 0; i < kBusyClasses.size(); ++i) {
    if (!begins(i == 0 ? name : part, kBusyClasses.at(i))) continue;
    const bool host = i == kDma && std::strtoul(part.c_str() + 3, nullptr, 10) >= dma_engines;
    return host ? kBusyClasses.size() : i;
  }
  return kBusyClasses.size();
}

}  // namespace

base::Result<std::vector<std::vector<std::string>>> expand_sets(
    const std::vector<std::string>& sets) {
  std::vector<std::vector<std::string>> out{{}};
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == set.size()) {
      return bad("--set", "'" + set + "'; expected name=value[,value...]");
    }
    std::vector<std::vector<std::string>> next;
    for (const std::vector<std::string>& before : out) {
      for (const std::string& value : split(set.substr(equals + 1), ',')) {
        if (value.empty()) return bad("--set", "'" + set + "' has an empty value");
        next.push_back(before);
        next.back().push_back(set.substr(0, equals + 1) + value);
      }
    }
    out = std::move(next);
  }
  return out;
}

base::Result<std::vector<PublishedSeries>> parse_published(const std::string& csv) {
  std::vector<PublishedSeries> out;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  if (line != "id,platform,lnc,ranks,op,dtype,size_bytes,time_us") {
    return bad("published rows", "unexpected header '" + line + "'");
  }
  while (std::getline(lines, line)) {
    const std::vector<std::string> f = split(line, ',');
    if (f.size() != 8) return bad("published rows", "'" + line + "'");
    const std::string id = f[0].substr(0, f[0].find('.'));
    const auto ranks = static_cast<uint32_t>(std::strtoul(f[3].c_str(), nullptr, 10));
    auto at = std::find_if(out.begin(), out.end(), [&](const PublishedSeries& s) {
      return s.id == id && s.platform == f[1] && s.operation == f[4] && s.datatype == f[5];
    });
    if (at == out.end()) {
      out.push_back({id, f[1], f[4], f[5], ranks, {}});
      at = std::prev(out.end());
    }
    SweepRow row;
    row.bytes = std::strtoull(f[6].c_str(), nullptr, 10);
    row.time_us = std::strtod(f[7].c_str(), nullptr);
    if (ranks == 0 || row.bytes == 0 || row.time_us <= 0) {
      return bad("published rows", "'" + line + "'");
    }
    row.busbw = static_cast<double>(row.bytes) / row.time_us / 1e3 * bus_factor(f[4], ranks);
    at->rows.push_back(row);
  }
  return out;
}

base::Status read_busy(const std::string& report, uint32_t dma_engines, SweepRow* row) {
  const nlohmann::json json = base::parse_json(report);
  if (json.is_discarded() || !json.contains("activities") || !json.contains("resources")) {
    return base::Error{base::Fault::kInternal, 0, "report", "not a report of a run"};
  }
  // Operations begin at a barrier, and nothing else does.
  double total = 0;
  for (const auto& activity : json["activities"]) {
    if (activity.value("name", "") == "barrier release") total = activity.value("total_ps", 0.0);
  }
  if (total <= 0) return {};
  double most = 0;
  for (const auto& resource : json["resources"]) {
    const std::string name = resource.value("name", "");
    const size_t index = class_of(name, dma_engines);
    if (index == kBusyClasses.size()) continue;
    const double busy = resource.value("busy_ps", 0.0);
    double& share = row->busy.at(index);
    share = std::max(share, std::round(busy / total * 1000) / 10);
    if (busy > most) {
      most = busy;
      row->busiest = name;
    }
  }
  return {};
}

std::string cause_of(const std::string& log) {
  std::string of_benchmark;
  std::string of_machine;
  std::string last;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const size_t function = line.find(" NRT:");
    if (function != std::string::npos && line.find(" ERROR ") < function) {
      // "<time> <process> ERROR   NRT:<function>   <message>"
      const size_t blank = line.find(' ', function + 1);
      const size_t message = line.find_first_not_of(' ', blank);
      if (message != std::string::npos) return line.substr(message);
    }
    const auto take = [&line](const std::string& prefix, std::string* to) {
      std::string rest = line;
      while (rest.rfind(prefix, 0) == 0) rest = rest.substr(prefix.size());
      if (rest != line && to->empty()) *to = rest;
    };
    take("nccom-test: ", &of_benchmark);
    take("soma: ", &of_machine);
    if (!line.empty()) last = line;
  }
  for (const std::string& text : {of_benchmark, of_machine, last}) {
    if (!text.empty()) return text;
  }
  return "the run failed";
}

std::string sweep_csv(const std::vector<SweepSeries>& series) {
  std::string out = header() + "\n";
  for (const SweepSeries& s : series) {
    const std::string key = key_of(s);
    for (const SweepRow& r : s.rows) {
      if (r.measured()) {
        out += key + fmt::format("{},{:.2f},{:.4f},{:.4f},{},", r.bytes, r.time_us, r.algbw,
                                 r.busbw, r.algorithm);
        for (const double busy : r.busy) out += fmt::format("{:.1f},", busy);
        out += r.busiest + "," + quoted(r.error) + "\n";
      } else if (!r.error.empty()) {
        out += key + std::to_string(r.bytes) + std::string(kPointSize - 1, ',') + quoted(r.error) +
               "\n";
      }
    }
  }
  return out;
}

base::Result<size_t> take_measured(const std::string& csv, std::vector<SweepSeries>* series) {
  std::istringstream lines(csv);
  std::string line;
  if (!std::getline(lines, line) || line != header()) {
    return bad("--resume", "the CSV file is not one that this version writes");
  }
  size_t taken = 0;
  while (std::getline(lines, line)) {
    for (SweepSeries& s : *series) {
      const std::string key = key_of(s);
      if (line.rfind(key, 0) != 0) continue;
      // Failures are quoted, or have no time; they are measured again.
      const std::vector<std::string> f = split(line.substr(key.size()), ',');
      if (f.size() != kPointSize || f[1].empty() || !f.back().empty()) continue;
      const uint64_t bytes = std::strtoull(f[0].c_str(), nullptr, 10);
      for (SweepRow& r : s.rows) {
        if (r.bytes != bytes || r.measured()) continue;
        r.time_us = std::strtod(f[1].c_str(), nullptr);
        r.algbw = std::strtod(f[2].c_str(), nullptr);
        r.busbw = std::strtod(f[3].c_str(), nullptr);
        r.algorithm = f[4];
        for (size_t i = 0; i < r.busy.size(); ++i) {
          r.busy.at(i) = std::strtod(f[kFirstBusy + i].c_str(), nullptr);
        }
        r.busiest = f[kFirstBusy + r.busy.size()];
        ++taken;
      }
    }
  }
  return taken;
}

}  // namespace soma
