// Grid, CSV and published rows of `soma sweep`; no processes.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tools/soma/sweep.h"

namespace soma {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

base::Error bad(const std::string& where, const std::string& what) {
  return {base::Fault::kConfig, 2, where, what};
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
    at->rows.push_back(row);
  }
  return out;
}

std::string sweep_csv(const std::vector<SweepSeries>& series) {
  std::string out =
      "platform,operation,datatype,ranks,nodes,settings,size_bytes,time_us,algbw_gbps,busbw_gbps,"
      "algorithm,error\n";
  for (const SweepSeries& s : series) {
    std::string settings;
    for (const std::string& set : s.sets) settings += (settings.empty() ? "" : " ") + set;
    const std::string head = fmt::format("{},{},{},{},{},{},", s.platform, s.operation, s.datatype,
                                         s.ranks, s.nodes, settings);
    for (const SweepRow& row : s.rows) {
      out += head + fmt::format("{},{:.2f},{:.4f},{:.4f},{},\n", row.bytes, row.time_us, row.algbw,
                                row.busbw, row.algorithm);
    }
    if (!s.error.empty()) {
      std::string text = s.error;
      std::replace_if(
          text.begin(), text.end(), [](char c) { return c == ',' || c == '\n' || c == '"'; }, ' ');
      out += head + ",,,,," + text + "\n";
    }
  }
  return out;
}

}  // namespace soma
