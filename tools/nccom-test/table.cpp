#include "table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"

namespace nccom {
namespace {

constexpr double kPsPerUs = 1e6;

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

double average_us(const std::vector<uint64_t>& durations) {
  // Exact sum; one division.
  unsigned __int128 sum = 0;
  for (const uint64_t d : durations) sum += d;
  return static_cast<double>(sum) / static_cast<double>(durations.size()) / kPsPerUs;
}

double percentile_us(std::vector<uint64_t> durations, double percentile) {
  std::sort(durations.begin(), durations.end());
  const double rank = std::ceil(percentile / 100 * static_cast<double>(durations.size()));
  const size_t index = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return static_cast<double>(durations[std::min(index, durations.size() - 1)]) / kPsPerUs;
}

std::string stat_text(const Stat& stat, double value) {
  return stat.percentile < 0 ? format_time(value) : fixed(value, 0);
}

}  // namespace

double bus_factor(Operation operation, uint32_t ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Operation::kAllReduce:
      return 2 * share;
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
    case Operation::kAllGatherV:
    case Operation::kReduceScatterV:
    case Operation::kAllToAllV:
      return share;
    default:
      return 1;
  }
}

std::string format_time(double microseconds) {
  std::string text = fixed(microseconds, 2);
  if (text.back() == '0') text.pop_back();
  return text;
}

Row evaluate(const Options& o, const Measurement& m) {
  Row row;
  row.size = m.size;
  row.count = m.size / contract::dtype_size(o.dtype.code);
  row.input = input_bytes(o, m.size);
  row.output = output_bytes(o, m.size);
  row.algorithm = m.algorithm;
  if (m.durations_ps.empty()) return row;
  const double average = std::round(average_us(m.durations_ps) * 100) / 100;
  for (const Stat& stat : o.stats) {
    row.times_us.push_back(
        stat.percentile < 0 ? average : std::round(percentile_us(m.durations_ps, stat.percentile)));
  }
  // Bytes per microsecond; in this order 1024 bytes in 5 us print as 0.2048.
  const double unit = o.gib ? 1024.0 * 1024 * 1024 / 1e6 : 1e3;
  const auto bytes = static_cast<double>(m.size);
  const double factor = bus_factor(o.operation, o.group_ranks());
  if (average > 0) {
    row.algbw = bytes / average / unit;
    row.busbw = bytes * factor / average / unit;
  }
  return row;
}

Table::Table(const Options& options, const std::vector<uint64_t>& sizes) : options_(options) {
  headers_ = {"size(B)", "count(elems)"};
  if (options.show_sizes) {
    headers_.insert(headers_.end(), {"total_input_size(B)", "total_output_size(B)"});
  }
  headers_.emplace_back("type");
  for (const Stat& stat : options.stats) headers_.push_back("time:" + stat.text + "(us)");
  headers_.insert(headers_.end(), {"algbw(GB/s)", "busbw(GB/s)"});
  if (options.show_algorithm) headers_.emplace_back("algorithm");
  for (const std::string& h : headers_) widths_.push_back(h.size());
  for (const uint64_t size : sizes) {
    const std::vector<std::string> cells = size_cells(size);
    for (size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
  }
}

std::vector<std::string> Table::size_cells(uint64_t size) const {
  std::vector<std::string> cells{std::to_string(size),
                                 std::to_string(size / contract::dtype_size(options_.dtype.code))};
  if (options_.show_sizes) {
    cells.push_back(std::to_string(input_bytes(options_, size)));
    cells.push_back(std::to_string(output_bytes(options_, size)));
  }
  cells.emplace_back(options_.dtype.name);
  return cells;
}

std::string Table::join(const std::vector<std::string>& cells) const {
  constexpr size_t kGap = 4;
  std::string out;
  for (size_t i = 0; i < cells.size(); ++i) {
    const size_t pad = cells[i].size() < widths_[i] ? widths_[i] - cells[i].size() : 0;
    out += std::string(kGap + pad, ' ') + cells[i];
  }
  return out;
}

std::string Table::header() const {
  return join(headers_);
}

std::string Table::line(const Row& row) const {
  std::vector<std::string> cells = size_cells(row.size);
  for (size_t i = 0; i < row.times_us.size(); ++i) {
    cells.push_back(stat_text(options_.stats[i], row.times_us[i]));
  }
  cells.push_back(fixed(row.algbw, 2));
  cells.push_back(fixed(row.busbw, 2));
  if (options_.show_algorithm) cells.push_back(row.algorithm);
  return join(cells);
}

std::string Table::failure(uint64_t size, const std::string& text) const {
  return join(size_cells(size)) + "    " + text;
}

std::string Table::average(const std::vector<Row>& rows) {
  double sum = 0;
  for (const Row& row : rows) sum += row.busbw;
  const double mean = rows.empty() ? 0 : sum / static_cast<double>(rows.size());
  return "Avg bus bandwidth:\t" + fixed(mean, 4) + "GB/s";
}

std::string json_report(const std::vector<Options>& streams,
                        const std::vector<std::vector<Row>>& rows) {
  using Json = nlohmann::ordered_json;
  Json results = Json::array();
  for (size_t s = 0; s < streams.size(); ++s) {
    const Options& o = streams[s];
    for (const Row& row : rows[s]) {
      Json entry = {{"size(B)", row.size}, {"count(elems)", row.count}};
      if (o.show_sizes) {
        entry["total_input_size(B)"] = row.input;
        entry["total_output_size(B)"] = row.output;
      }
      entry["type"] = o.dtype.name;
      entry["algbw(GB/s)"] = row.algbw;
      entry["busbw(GB/s)"] = row.busbw;
      for (size_t i = 0; i < row.times_us.size(); ++i) {
        const std::string key = "time:" + o.stats[i].text + "(us)";
        if (o.stats[i].percentile < 0) {
          entry[key] = row.times_us[i];
        } else {
          entry[key] = static_cast<uint64_t>(row.times_us[i]);
        }
      }
      if (o.show_algorithm) entry["algorithm"] = row.algorithm;
      if (streams.size() > 1) entry["x_stream"] = s;
      results.push_back(std::move(entry));
    }
  }
  Json report = {{"results", results}};
  const Options& o = streams.front();
  if (o.json_config) {
    report["x_config"] = {{"operation", long_name(o.operation)},
                          {"nworkers", o.ranks},
                          {"nnodes", o.nodes},
                          {"iters", o.iterations},
                          {"warmup_iters", o.warmup},
                          {"datatype", o.dtype.name}};
  }
  return base::json_text(report, 2) + "\n";
}

std::string csv_report(const std::vector<Options>& streams,
                       const std::vector<std::vector<Row>>& rows) {
  std::string out = "stream,operation,ranks,type,size(B),count(elems)";
  for (const Stat& stat : streams.front().stats) out += ",time:" + stat.text + "(us)";
  out += ",algbw(GB/s),busbw(GB/s),algorithm\n";
  for (size_t s = 0; s < streams.size(); ++s) {
    const Options& o = streams[s];
    for (const Row& row : rows[s]) {
      out += std::to_string(s) + "," + short_name(o.operation) + "," +
             std::to_string(o.group_ranks()) + "," + o.dtype.name + "," + std::to_string(row.size) +
             "," + std::to_string(row.count);
      for (const double time : row.times_us) out += "," + fixed(time, 2);
      out += "," + fixed(row.algbw, 4) + "," + fixed(row.busbw, 4) + "," + row.algorithm + "\n";
    }
  }
  return out;
}

}  // namespace nccom
