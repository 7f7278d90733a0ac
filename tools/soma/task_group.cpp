#include "tools/soma/task_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tools/soma/supervisor.h"

namespace soma {
namespace {

using std::chrono::milliseconds;

constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
constexpr size_t kMaxLine = 64 * 1024;
constexpr int kCannotRun = 127;

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) at += static_cast<size_t>(n);
  }
}

}  // namespace

int shell_code(const TaskGroup::End& end) {
  return end.signal != 0 ? kSignalBase + end.signal : end.code;
}

TaskGroup::TaskGroup() {
  ::sigemptyset(&signals_);
  for (const int signal : kPassedOn) ::sigaddset(&signals_, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  signal_fd_ = base::UniqueFd(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
}

TaskGroup::~TaskGroup() {
  for (const Running& task : running_) {
    if (task.pid <= 0) continue;
    ::kill(task.pid, SIGKILL);
    ::waitpid(task.pid, nullptr, 0);
  }
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

base::Status TaskGroup::start(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    base::Status started = start_one(task);
    if (!started) return started;
  }
  return {};
}

base::Status TaskGroup::start_one(const Task& task) {
  const std::string& name = task.command.front();
  base::Result<std::string> program = find_program(name, task.environment);
  if (!program) return program.error();
  // Output with a prefix comes through pipes, one for each of the two streams.
  std::array<base::UniqueFd, 2> outputs;
  for (size_t i = 0; i < 2 && !task.prefixes[i].empty(); ++i) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return base::errno_error(name.c_str(), "pipe");
    streams_.push_back({base::UniqueFd(ends[0]), static_cast<int>(i) + 1, task.prefixes[i], {}});
    outputs[i] = base::UniqueFd(ends[1]);
  }
  const base::UniqueFd null(task.reads_input ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<char*> argv = exec_words(task.command);
  const std::vector<char*> envp = exec_words(task.environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return base::errno_error(name.c_str(), "fork");
  if (pid == 0) {  // only async-signal-safe calls from here
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kCannotRun);
    if (null.valid()) ::dup2(null.get(), STDIN_FILENO);
    if (outputs[0].valid()) ::dup2(outputs[0].get(), STDOUT_FILENO);
    if (outputs[1].valid()) ::dup2(outputs[1].get(), STDERR_FILENO);
    if (!task.directory.empty() && ::chdir(task.directory.c_str()) != 0) ::_exit(kCannotRun);
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    ::execve(program->c_str(), argv.data(), envp.data());
    ::_exit(kCannotRun);
  }
  running_.emplace_back();
  running_.back().pid = pid;
  running_.back().watch = base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return running_.back().watch.valid() ? base::Status()
                                       : base::errno_error(name.c_str(), "pidfd_open");
}

void TaskGroup::signal_all(int number) const {
  for (const Running& task : running_) {
    if (task.pid > 0) ::kill(task.pid, number);
  }
}

// Those from a terminal have reached the tasks as well: they share the process group.
void TaskGroup::forward_signals() {
  signalfd_siginfo info = {};
  while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (info.ssi_code != SI_KERNEL) signal_all(number);
    const bool end = number == SIGTERM || number == SIGINT || number == SIGHUP;
    if (end && kill_at_ == Clock::time_point::max()) kill_at_ = Clock::now() + kGrace;
  }
}

// False at the end of the stream. Lines of tasks are not mixed.
bool TaskGroup::copy(Stream& stream) {
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(stream.from.get(), buffer.data(), buffer.size());
  if (n < 0 && errno == EINTR) return true;
  if (n > 0) stream.line.append(buffer.data(), static_cast<size_t>(n));
  std::string out;
  for (;;) {
    const size_t end = stream.line.find('\n');
    const bool rest = end == std::string::npos;
    if (rest && (stream.line.empty() || (n > 0 && stream.line.size() < kMaxLine))) break;
    out += stream.prefix + stream.line.substr(0, end) + "\n";
    stream.line.erase(0, rest ? std::string::npos : end + 1);
  }
  write_all(stream.to, out);
  return n > 0;
}

void TaskGroup::collect(size_t number, bool end_all, Outcome& outcome) {
  Running& task = running_[number];
  int status = 0;
  while (::waitpid(task.pid, &status, 0) < 0 && errno == EINTR) {
  }
  task.pid = -1;
  task.end = WIFSIGNALED(status) ? End{0, WTERMSIG(status)} : End{WEXITSTATUS(status), 0};
  outcome.ends[number] = task.end;
  if (!task.end.failed() || outcome.first != SIZE_MAX) return;
  outcome.first = number;
  if (!end_all) return;
  signal_all(SIGTERM);
  kill_at_ = std::min(kill_at_, Clock::now() + kGrace);
}

int TaskGroup::patience() const {
  if (kill_at_ == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(kill_at_ - Clock::now());
  return static_cast<int>(std::max(left, milliseconds{0}).count());
}

TaskGroup::Outcome TaskGroup::wait(bool end_all) {
  Outcome outcome;
  outcome.ends.resize(running_.size());
  for (;;) {
    std::vector<pollfd> watched{{signal_fd_.get(), POLLIN, 0}};
    for (const Running& task : running_) {
      watched.push_back({task.pid > 0 ? task.watch.get() : -1, POLLIN, 0});
    }
    for (const Stream& stream : streams_) watched.push_back({stream.from.get(), POLLIN, 0});
    const bool tasks = std::any_of(running_.begin(), running_.end(),
                                   [](const Running& task) { return task.pid > 0; });
    if (!tasks && streams_.empty()) return outcome;
    // What a task has left behind may hold its output open for ever.
    if (!tasks) kill_at_ = std::min(kill_at_, Clock::now() + kGrace);
    const int ready = ::poll(watched.data(), watched.size(), patience());
    if (ready == 0) {
      if (!tasks) return outcome;
      signal_all(SIGKILL);
      kill_at_ = Clock::now() + kGrace;
    }
    if (ready <= 0) continue;
    if (watched[0].revents != 0) forward_signals();
    const size_t first_stream = 1 + running_.size();
    for (size_t i = streams_.size(); i-- > 0;) {
      if (watched[first_stream + i].revents == 0 || copy(streams_[i])) continue;
      streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      if (watched[1 + i].revents != 0) collect(i, end_all, outcome);
    }
  }
}

}  // namespace soma
