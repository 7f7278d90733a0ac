#include "tools/soma/sweep_run.h"

#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/soma/supervisor.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

namespace fs = std::filesystem;

// A file that a run writes, in memory: nothing is left of it, however the sweep ends.
class Output {
 public:
  Output() : fd_(::memfd_create("soma-sweep", MFD_CLOEXEC)) {}
  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  // For the processes of the run, which do not inherit it.
  std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get()); }
  std::string text() const {
    auto text = base::read_file(path());
    return text ? *text : "";
  }

 private:
  base::UniqueFd fd_;
};

struct Run {
  size_t index = 0;  // of its point
  Output json;
  Output report;
  Output log;
  bool valid() const { return json.valid() && report.valid() && log.valid(); }
};

// Ends of children and requests to stop are taken one by one; nothing happens behind our back.
class SweepSignals {
 public:
  SweepSignals() {
    ::sigemptyset(&taken_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM}) ::sigaddset(&taken_, number);
    struct sigaction hang_up = {};
    ::sigaction(SIGHUP, nullptr, &hang_up);
    if (hang_up.sa_handler != SIG_IGN) ::sigaddset(&taken_, SIGHUP);  // else: nohup
    ::signal(SIGCHLD, SIG_DFL);  // ignored, children would end unseen
    ::pthread_sigmask(SIG_BLOCK, &taken_, &previous_);
  }
  ~SweepSignals() { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SweepSignals(const SweepSignals&) = delete;
  SweepSignals& operator=(const SweepSignals&) = delete;
  int wait() const {
    int number = 0;
    return ::sigwait(&taken_, &number) == 0 ? number : SIGCHLD;
  }
  const sigset_t& previous() const { return previous_; }

 private:
  sigset_t taken_ = {};
  sigset_t previous_ = {};
};

base::Result<pid_t> start(const SweepCommand& command, int log, const sigset_t& signals) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, command.words[0].c_str(), &actions, &attributes,
                    exec_words(command.words).data(), exec_words(command.environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return base::Error{base::Fault::kIo, failed, command.words[0], std::strerror(failed)};
  }
  return pid;
}

double rounded(double value, double digits) {
  return std::round(value * digits) / digits;
}

void read_result(const std::string& json, SweepRow* row) {
  const nlohmann::json report = base::parse_json(json);
  if (report.is_discarded() || !report.contains("results") || report["results"].empty()) return;
  const auto& entry = report["results"].front();
  row->time_us = rounded(entry.value("time:avg(us)", 0.0), 1e2);
  row->algbw = rounded(entry.value("algbw(GB/s)", 0.0), 1e4);
  row->busbw = rounded(entry.value("busbw(GB/s)", 0.0), 1e4);
  row->algorithm = entry.value("algorithm", "");
}

// How far it is, on stderr: a bar on a terminal, else a line per point.
class Progress {
 public:
  explicit Progress(size_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (terminal_ && drawn_) fmt::print(stderr, "\n");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void done(const SweepSeries& s, const SweepRow& row) {
    ++done_;
    std::string what = fmt::format("{} {}", s.platform, s.operation);
    for (const std::string& set : s.sets) what += " " + set;
    what += " " + size_text(static_cast<double>(row.bytes));
    if (row.measured()) what += fmt::format(": {:.2f} us", row.time_us);
    if (!row.error.empty()) what += ": " + row.error;
    if (!terminal_) {
      fmt::print(stderr, "soma: {}/{} {}\n", done_, total_, what);
      return;
    }
    constexpr size_t kBar = 24;
    constexpr size_t kText = 46;  // the line fits 80 columns
    const size_t full = kBar * done_ / total_;
    if (!row.error.empty()) fmt::print(stderr, "\r\033[K{}\n", what);
    fmt::print(stderr, "\r\033[K[{}{}] {}/{} {}", std::string(full, '#'),
               std::string(kBar - full, '.'), done_, total_, what.substr(0, kText));
    drawn_ = true;
  }

 private:
  size_t done_ = 0;
  size_t total_;
  bool terminal_;
  bool drawn_ = false;
};

struct Point {
  SweepCase* of;
  SweepRow* row;
};

// Largest sizes first: they take longest, and none is left over for one processor at the end.
std::vector<Point> open_points(std::vector<SweepCase>* grid) {
  std::vector<Point> points;
  for (SweepCase& of : *grid) {
    for (SweepRow& row : of.series.rows) {
      if (!row.measured()) points.push_back({&of, &row});
    }
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.row->bytes > b.row->bytes; });
  return points;
}

class Pool {
 public:
  Pool(const SweepOptions& options, std::vector<Point> points, std::function<void()> changed)
      : o_(options),
        points_(std::move(points)),
        changed_(std::move(changed)),
        most_(o_.jobs != 0 ? o_.jobs : std::max(1u, std::thread::hardware_concurrency())),
        progress_(points_.size()) {}

  base::Result<int> run() {
    std::error_code failed;
    bin_ = fs::read_symlink("/proc/self/exe", failed).parent_path().string();
    if (failed) return base::Error{base::Fault::kIo, failed.value(), "sweep", failed.message()};
    while (true) {
      while (stopped_by_ == 0 && next_ < points_.size() && running_.size() < most_) {
        const base::Status started = start_next();
        if (started) continue;
        if (running_.empty()) return started.error();
        most_ = running_.size();  // what the host bears
      }
      if (running_.empty()) return stopped_by_;
      const int number = signals_.wait();
      if (number == SIGCHLD) {
        reap();
        continue;
      }
      stopped_by_ = number;
      for (const auto& [pid, run] : running_) ::kill(pid, SIGTERM);
    }
  }

 private:
  base::Status start_next() {
    const Point& point = points_[next_];
    Run run;
    if (!run.valid()) return base::errno_error("sweep", "memory for the output of a run");
    run.index = next_;
    auto pid =
        start(command_of(o_, *point.of, point.row->bytes, bin_, run.json.path(), run.report.path()),
              run.log.fd(), signals_.previous());
    if (!pid) return pid.error();
    running_[*pid] = std::move(run);
    ++next_;
    return {};
  }
  // One signal may stand for several children.
  void reap() {
    for (auto at = running_.begin(); at != running_.end();) {
      int status = 0;
      if (::waitpid(at->first, &status, WNOHANG) != at->first) {
        ++at;
        continue;
      }
      const Run run = std::move(at->second);
      at = running_.erase(at);
      if (stopped_by_ == 0) take(run, status);
    }
  }
  void take(const Run& run, int status) {
    const Point& point = points_[run.index];
    SweepRow& row = *point.row;
    row.error.clear();
    read_result(run.json.text(), &row);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !row.measured()) {
      row.error = cause_of(run.log.text());
    } else if (const base::Status read = read_busy(run.report.text(), point.of->dma_engines, &row);
               !read) {
      row.error = read.error().message();
    }
    progress_.done(point.of->series, row);
    changed_();
  }

  const SweepOptions& o_;
  SweepSignals signals_;
  std::string bin_;
  std::vector<Point> points_;
  std::function<void()> changed_;
  size_t most_;
  Progress progress_;
  size_t next_ = 0;
  std::map<pid_t, Run> running_;
  int stopped_by_ = 0;
};

}  // namespace

base::Result<int> run_grid(const SweepOptions& options, std::vector<SweepCase>* grid,
                           const std::function<void()>& changed) {
  return Pool(options, open_points(grid), changed).run();
}

}  // namespace soma
