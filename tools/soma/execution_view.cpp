#include "tools/soma/execution_view.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/json.h"
#include "tools/soma/execution_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

using nlohmann::ordered_json;

constexpr double kPicosecondsPerMicrosecond = 1e6;

EngineView engine_of(const ordered_json& row) {
  EngineView engine;
  engine.name = row.at("name").get<std::string>();
  engine.instructions = row.at("instructions").get<uint64_t>();
  engine.busy = row.at("busy_ps").get<double>();
  engine.stalled = shares(row.at("stalled_ps"));
  engine.waited_for = shares(row.value("waited_for_ps", ordered_json::object()));
  engine.bytes = shares(row.at("bytes"));
  return engine;
}

ExecutionView execution_of(const ordered_json& row) {
  ExecutionView view;
  view.core = row.at("core").get<std::string>();
  view.program = row.at("program").get<uint64_t>();
  view.count = std::max<uint64_t>(row.at("count").get<uint64_t>(), 1);
  view.total = std::max(row.at("total_ps").get<double>(), 1.0);
  view.least = row.at("min_ps").get<double>();
  view.most = row.at("max_ps").get<double>();
  view.hbm_bytes = row.at("hbm_bytes").get<double>();
  view.operations = row.at("operations").get<double>();
  view.peak_operations =
      row.at("peak_operations_per_us").get<double>() / kPicosecondsPerMicrosecond;
  view.peak_hbm_bytes = row.at("peak_hbm_bytes_per_us").get<double>() / kPicosecondsPerMicrosecond;
  view.critical_path = shares(row.at("critical_path_ps"));
  for (const ordered_json& engine : row.at("engines")) view.engines.push_back(engine_of(engine));
  for (const ordered_json& kind : row.value("operations_by_kind", ordered_json::array())) {
    view.by_kind.push_back({kind.at("kind").get<std::string>(), kind.at("operations").get<double>(),
                            kind.at("peak_per_us").get<double>() / kPicosecondsPerMicrosecond});
  }
  if (row.contains("profile")) parse_profile(row.at("profile"), &view);
  return view;
}

// " with float32", " with 16-bit (80.0 %) and float32 (20.0 %)" numbers.
std::string kinds_text(const ExecutionView& e) {
  std::string text;
  for (const OperationsView& each : e.by_kind) {
    text += (text.empty() ? " with " : " and ") + each.kind;
    if (e.by_kind.size() > 1) {
      text += fmt::format(" ({:.1f} %)", percent(each.operations, e.operations));
    }
  }
  return text.empty() ? text : text + " numbers";
}

}  // namespace

Shares shares(const ordered_json& object) {
  Shares result;
  for (const auto& [name, value] : object.items()) result.emplace_back(name, value.get<double>());
  return result;
}

// Largest first.
Shares sorted(Shares values) {
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return values;
}

std::string duration_text(double ps) {
  if (ps < 1e6) return fmt::format("{:.3f} ns", ps / 1e3);
  if (ps < 1e9) return fmt::format("{:.3f} us", ps / 1e6);
  return fmt::format("{:.3f} ms", ps / 1e9);
}

double percent(double part, double whole) {
  return whole == 0 ? 0 : 100 * part / whole;
}

std::string title_of(const ExecutionView& e) {
  // By the file of its most expensive line, if lines are known.
  std::string file;
  if (!e.lines.empty() && e.lines.front().line.find(':') != std::string::npos) {
    file = " (" + e.lines.front().line.substr(0, e.lines.front().line.find(':')) + ")";
  }
  return fmt::format("{}, program {}{}", e.core, e.program, file);
}

std::string times_of(const ExecutionView& e) {
  const double each = e.total / static_cast<double>(e.count);
  if (e.count == 1) return "1 execution, " + duration_text(each);
  if (e.least == e.most) return fmt::format("{} executions, {} each", e.count, duration_text(each));
  return fmt::format("{} executions, {} on average, {} to {}", e.count, duration_text(each),
                     duration_text(e.least), duration_text(e.most));
}

std::vector<std::string> rates_of(const ExecutionView& e) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "Tensor engine {:.2f} of {:.2f} TFLOP/s{} ({:.1f} %), HBM {:.1f} of {:.1f} GB/s ({:.1f} %)",
      e.operations_rate(), e.peak(), kinds_text(e), percent(e.operations_rate(), e.peak()),
      e.hbm_rate() * 1e3, e.peak_hbm_bytes * 1e3, percent(e.hbm_rate(), e.peak_hbm_bytes)));
  if (e.operations != 0 && e.hbm_bytes != 0) {
    lines.push_back(fmt::format(
        "{:.1f} operations per byte of HBM: bound by {}; {:.1f} % of what the roofline allows",
        e.intensity(), e.bound_by_memory() ? "memory" : "the Tensor engine",
        percent(e.operations_rate(), e.roof())));
  }
  return lines;
}

double stalled(const EngineView& engine, const StallCause& cause) {
  for (const auto& [name, value] : engine.stalled) {
    if (name == cause.name) return value;
  }
  return 0;
}

double idle(const EngineView& engine, double total) {
  double rest = total - engine.busy;
  for (const auto& [name, value] : engine.stalled) rest -= value;
  return std::max(rest, 0.0);
}

std::string shares_text(const Shares& shares, double total) {
  std::string text;
  for (const auto& [name, value] : sorted(shares)) {
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", name, percent(value, total));
  }
  return text;
}

std::string critical_text(const ExecutionView& e) {
  return shares_text(e.critical_path, e.total);
}

std::string bytes_text(const EngineView& engine) {
  std::string text;
  for (const auto& [name, value] : engine.bytes) {
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", words, size_text(value));
  }
  return text;
}

double ExecutionView::peak() const {
  double time = 0;
  for (const OperationsView& each : by_kind) time += each.operations / each.peak;
  return time == 0 ? peak_operations : operations / time;
}

double ExecutionView::roof() const {
  return std::min(peak(), intensity() * peak_hbm_bytes);
}

bool ExecutionView::bound_by_memory() const {
  return intensity() * peak_hbm_bytes < peak();
}

base::Result<std::vector<ExecutionView>> parse_executions(const std::string& report) {
  try {
    const ordered_json json = ordered_json::parse(report);
    if (json.at("schema") != "report/1") {
      return base::Error{base::Fault::kConfig, 0, "report", "its schema is not report/1"};
    }
    std::vector<ExecutionView> executions;
    for (const ordered_json& row : json.at("executions")) executions.push_back(execution_of(row));
    return executions;
  } catch (const std::exception& error) {  // of the parser, or what is no timeline
    return base::Error{base::Fault::kConfig, 0, "report",
                       std::string("not a report of `soma run --report`: ") + error.what()};
  }
}

std::string executions_text(const std::vector<ExecutionView>& executions) {
  if (executions.empty()) return "No program was executed on a NeuronCore.\n";
  std::string out;
  for (const ExecutionView& e : executions) {
    out += fmt::format("{}: {}\n", title_of(e), times_of(e));
    for (const std::string& line : rates_of(e)) out += "  " + line + "\n";
    out += "  critical path: " + critical_text(e) + "\n";
    out += fmt::format("  {:<7}{:>13}{:>9}", "engine", "instructions", "busy");
    for (const StallCause& cause : kStallCauses) out += fmt::format("{:>12}", cause.title);
    out += fmt::format("{:>9}   engines it waits for; bytes\n", "idle");
    for (const EngineView& engine : e.engines) {
      out += fmt::format("  {:<7}{:>13}{:>8.1f}%", engine.name, engine.instructions,
                         percent(engine.busy, e.total));
      for (const StallCause& cause : kStallCauses) {
        out += fmt::format("{:>11.1f}%", percent(stalled(engine, cause), e.total));
      }
      std::string rest = shares_text(engine.waited_for, e.total);
      const std::string bytes = bytes_text(engine);
      if (!bytes.empty()) rest += (rest.empty() ? "" : "; ") + bytes;
      out += fmt::format("{:>8.1f}%{}{}\n", percent(idle(engine, e.total), e.total),
                         rest.empty() ? "" : "   ", rest);
    }
    out += lines_text(e);
    out += "\n";
  }
  return out;
}

}  // namespace soma
