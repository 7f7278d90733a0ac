// Runs the combinations of `soma sweep`, a few at a time, each in processes of its own: results do
// not depend on how many.
#include "tools/soma/sweep.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "arch/config/embedded.h"
#include "arch/config/platform.h"
#include "base/fd.h"
#include "tools/soma/options.h"

namespace soma {
namespace {

namespace fs = std::filesystem;

// Private place for reports and logs of the runs.
class Scratch {
 public:
  Scratch() {
    char name[] = "/tmp/soma-sweep-XXXXXX";
    if (::mkdtemp(name) != nullptr) path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool valid() const { return !path_.empty(); }
  std::string file(size_t run, const char* suffix) const {
    return path_ + "/" + std::to_string(run) + suffix;
  }

 private:
  std::string path_;
};

struct Sizes {
  std::string first;
  std::string last;
  std::string factor;
};

base::Result<Sizes> parse_sizes(const std::string& text) {
  Sizes sizes;
  std::istringstream in(text);
  std::getline(in, sizes.first, ':');
  std::getline(in, sizes.last, ':');
  std::getline(in, sizes.factor);
  if (sizes.first.empty()) {
    return base::Error{base::Fault::kConfig, 2, "--sizes",
                       "'" + text + "'; expected first[:last[:factor]], such as 1kb:64mb:4"};
  }
  if (sizes.last.empty()) sizes.last = sizes.first;
  if (sizes.factor.empty()) sizes.factor = "2";
  return sizes;
}

// How many nodes the ranks need: all their cores, node by node.
base::Result<uint32_t> nodes_for(const config::Platform& platform, uint32_t ranks, uint32_t lnc) {
  const auto per_node = static_cast<uint32_t>(platform.chips.size() / platform.nodes.size()) *
                        platform.chip.cores / lnc;
  if (ranks <= per_node) return 1u;
  const uint32_t nodes = (ranks + per_node - 1) / per_node;
  if (nodes > platform.nodes.size() || ranks % nodes != 0) {
    return base::Error{base::Fault::kConfig, 2, platform.name,
                       fmt::format("{} ranks do not fit {} nodes of {} ranks evenly", ranks,
                                   platform.nodes.size(), per_node)};
  }
  return nodes;
}

std::string display_name(const std::string& platform) {
  return platform.size() > 5 && platform.compare(platform.size() - 5, 5, ".json") == 0
             ? fs::path(platform).stem().string()
             : platform;
}

struct Run {
  SweepSeries series;
  std::string platform;  // as given: name or path
  uint32_t lnc = 1;
};

base::Result<std::vector<Run>> make_grid(const SweepOptions& o) {
  const auto settings = expand_sets(o.sets);
  if (!settings) return settings.error();
  std::vector<Run> grid;
  const std::vector<std::string> any{""};
  for (const std::string& name : o.platforms) {
    const auto platform = config::load_platform(name);
    if (!platform) return platform.error();
    Run run;
    run.platform = name;
    run.lnc = o.lnc == 0 ? platform->chip.lnc_default : o.lnc;
    run.series.platform = display_name(name);
    const auto all = static_cast<uint32_t>(platform->chips.size()) * platform->chip.cores / run.lnc;
    for (const uint32_t ranks : o.ranks.empty() ? std::vector<uint32_t>{all} : o.ranks) {
      const auto nodes = nodes_for(*platform, ranks, run.lnc);
      if (!nodes) return nodes.error();
      run.series.ranks = ranks;
      run.series.nodes = *nodes;
      for (const std::string& operation : o.operations) {
        run.series.operation = operation;
        for (const std::string& type : o.datatypes) {
          run.series.datatype = type;
          for (const std::string& algorithm : o.algorithms.empty() ? any : o.algorithms) {
            run.series.algorithm = algorithm;
            for (const std::vector<std::string>& sets : *settings) {
              run.series.sets = sets;
              grid.push_back(run);
            }
          }
        }
      }
    }
  }
  return grid;
}

std::vector<std::string> command_of(const SweepOptions& o, const Sizes& sizes, const Run& run,
                                    const std::string& bin, const std::string& json) {
  const SweepSeries& s = run.series;
  std::vector<std::string> line{bin + "/soma", "run", "--platform", run.platform};
  if (!o.data) line.emplace_back("--timing-only");
  for (const std::string& set : s.sets) line.insert(line.end(), {"--set", set});
  line.insert(line.end(), {"--",
                           bin + "/nccom-test",
                           "-r",
                           std::to_string(s.ranks),
                           "-N",
                           std::to_string(s.nodes),
                           "-b",
                           sizes.first,
                           "-e",
                           sizes.last,
                           "-f",
                           sizes.factor,
                           "-n",
                           std::to_string(o.iterations),
                           "-w",
                           std::to_string(o.warmup),
                           "-d",
                           s.datatype,
                           "--show-algorithm",
                           "--non-interactive",
                           "--report-to-json-file",
                           json});
  if (o.data) line.emplace_back("--check");
  line.push_back(s.operation);
  return line;
}

std::vector<std::string> environment_of(const Run& run) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  // The last of two settings of one name would not win: remove before adding.
  const auto set = [&](const std::string& name, const std::string& value) {
    const auto is = [&](const std::string& e) { return e.rfind(name + "=", 0) == 0; };
    out.erase(std::remove_if(out.begin(), out.end(), is), out.end());
    out.push_back(name + "=" + value);
  };
  set("NEURON_LOGICAL_NC_CONFIG", std::to_string(run.lnc));
  if (!run.series.algorithm.empty()) {
    set("NCCOM_CC_ALGO", run.series.operation + ":" + run.series.algorithm);
  }
  return out;
}

base::Result<pid_t> start(const std::vector<std::string>& command,
                          const std::vector<std::string>& environment, const std::string& log) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& entry : environment) {
    variables.push_back(const_cast<char*>(entry.c_str()));
  }
  variables.push_back(nullptr);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return base::Error{base::Fault::kIo, failed, arguments[0], std::strerror(failed)};
  }
  return pid;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::string last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

void read_result(const std::string& json, const std::string& log, int status, SweepSeries* series) {
  std::ifstream file(json);
  const nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
  if (!report.is_discarded() && report.contains("results")) {
    for (const auto& entry : report["results"]) {
      SweepRow row;
      row.bytes = entry.value("size(B)", uint64_t{0});
      row.time_us = entry.value("time:avg(us)", 0.0);
      row.algbw = entry.value("algbw(GB/s)", 0.0);
      row.busbw = entry.value("busbw(GB/s)", 0.0);
      row.algorithm = entry.value("algorithm", "");
      series->rows.push_back(row);
    }
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    series->error = last_line(log);
    if (series->error.empty()) series->error = "the run failed";
  }
}

class Progress {
 public:
  explicit Progress(size_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}
  void done(const SweepSeries& s) {
    ++done_;
    const std::string what = fmt::format("{} {} {} ranks{}", s.platform, s.operation, s.ranks,
                                         s.error.empty() ? "" : ": " + s.error);
    if (!terminal_) {
      fmt::print(stderr, "soma: {}/{} {}\n", done_, total_, what);
      return;
    }
    constexpr size_t kBar = 30;
    const size_t full = kBar * done_ / total_;
    fmt::print(stderr, "\r\033[K[{}{}] {}/{} {}", std::string(full, '#'),
               std::string(kBar - full, '.'), done_, total_, what.substr(0, 60));
    if (done_ == total_) fmt::print(stderr, "\n");
  }

 private:
  size_t done_ = 0;
  size_t total_;
  bool terminal_;
};

base::Status run_all(const SweepOptions& o, const Sizes& sizes, std::vector<Run>* grid) {
  std::error_code failed;
  const std::string bin = fs::read_symlink("/proc/self/exe", failed).parent_path().string();
  const Scratch scratch;
  if (failed || !scratch.valid()) return base::errno_error("sweep", "a directory for the runs");
  const size_t most = o.jobs != 0 ? o.jobs : std::max(1u, std::thread::hardware_concurrency());
  Progress progress(grid->size());
  std::map<pid_t, size_t> running;
  for (size_t next = 0; next < grid->size() || !running.empty();) {
    if (next < grid->size() && running.size() < most) {
      const Run& run = (*grid)[next];
      auto pid = start(command_of(o, sizes, run, bin, scratch.file(next, ".json")),
                       environment_of(run), scratch.file(next, ".log"));
      if (!pid) return pid.error();
      running[*pid] = next++;
      continue;
    }
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return base::errno_error("sweep", "waitpid");
    const auto at = running.find(pid);
    if (at == running.end()) continue;
    SweepSeries& series = (*grid)[at->second].series;
    read_result(scratch.file(at->second, ".json"), scratch.file(at->second, ".log"), status,
                &series);
    progress.done(series);
    running.erase(at);
  }
  return {};
}

bool write(const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return true;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) complain(path + ": cannot write");
  return static_cast<bool>(file);
}

}  // namespace

int sweep(const SweepOptions& options) {
  const auto fail_usage = [](const base::Error& error) {
    complain(error.message());
    return kExitUsage;
  };
  const auto sizes = parse_sizes(options.sizes);
  if (!sizes) return fail_usage(sizes.error());
  auto grid = make_grid(options);
  if (!grid) return fail_usage(grid.error());
  const auto published = parse_published(
      std::string(config::embedded_text("calibration/collectives.csv").value_or("")));
  if (!published) return fail_usage(published.error());
  if (const base::Status ran = run_all(options, *sizes, &*grid); !ran) {
    complain(ran.error().message());
    return exit_code(ran.error().fault);
  }
  std::vector<SweepSeries> series;
  for (Run& run : *grid) series.push_back(std::move(run.series));
  const bool failed = std::any_of(series.begin(), series.end(),
                                  [](const SweepSeries& s) { return !s.error.empty(); });
  bool written = true;
  if (options.csv.empty() && options.html.empty()) written = write("-", sweep_csv(series));
  if (!options.csv.empty()) written = write(options.csv, sweep_csv(series));
  if (!options.html.empty()) {
    written = write(options.html, sweep_page(options.title, series, *published)) && written;
  }
  return written && !failed ? 0 : 1;
}

}  // namespace soma
