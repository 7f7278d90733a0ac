#include "tools/soma/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <utility>

namespace soma {
namespace {

using std::chrono::milliseconds;

constexpr std::array kForwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr milliseconds kOrphanGrace{200};  // the same for what it left behind
constexpr milliseconds kStep{5};
constexpr int kCannotExec = 127;

// glibc 2.36 has the wrappers; the numbers are the same on every architecture.
int open_pidfd(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

std::vector<pid_t> children() {
  std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  std::vector<pid_t> pids;
  for (pid_t pid = 0; list >> pid;) pids.push_back(pid);
  return pids;
}

bool is_executable(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<char*> exec_words(const std::vector<std::string>& texts) {
  std::vector<char*> words;
  for (const std::string& text : texts) words.push_back(const_cast<char*>(text.c_str()));
  words.push_back(nullptr);
  return words;
}

base::Result<std::string> find_program(const std::string& command,
                                       const std::vector<std::string>& environment) {
  const auto missing = [&](int code) {
    return base::Error{base::Fault::kUsage, code, command,
                       code == EACCES ? "is not executable" : "command not found"};
  };
  if (command.find('/') != std::string::npos) {
    if (is_executable(command)) return command;
    return missing(::access(command.c_str(), F_OK) == 0 ? EACCES : ENOENT);
  }
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& variable : environment) {
    if (variable.rfind("PATH=", 0) == 0) path = variable.substr(5);
  }
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string candidate = path.substr(at, end - at) + "/" + command;
    if (end > at && is_executable(candidate)) return candidate;
    at = end + 1;
  }
  return missing(ENOENT);
}

void raise_file_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Supervisor::Supervisor() {
  ::getrlimit(RLIMIT_NOFILE, &previous_files_);
  raise_file_limit();
  ::sigemptyset(&signals_);
  for (const int signal : kForwarded) ::sigaddset(&signals_, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  signal_fd_ = base::UniqueFd(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  // Orphans of the child come to this process instead of init.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Supervisor::~Supervisor() {
  if (child_ > 0) {
    terminate();
    (void)wait();
  }
  // What arrived too late for the child is not meant for this process either.
  signalfd_siginfo late = {};
  while (::read(signal_fd_.get(), &late, sizeof late) == sizeof late) {
  }
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

base::Status Supervisor::start(const std::vector<std::string>& command,
                               const std::vector<std::string>& environment) {
  base::Result<std::string> program = find_program(command.front(), environment);
  if (!program) return program.error();
  const std::vector<char*> argv = exec_words(command);
  const std::vector<char*> envp = exec_words(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return base::errno_error(command.front().c_str(), "fork");
  if (pid == 0) {  // only async-signal-safe calls from here
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kCannotExec);
    ::setrlimit(RLIMIT_NOFILE, &previous_files_);
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    ::execve(program->c_str(), argv.data(), envp.data());
    ::_exit(kCannotExec);
  }
  child_ = pid;
  child_fd_ = base::UniqueFd(open_pidfd(pid));
  if (!child_fd_.valid()) return base::errno_error(command.front().c_str(), "pidfd_open");
  return {};
}

void Supervisor::watch(std::function<void()> ended) {
  watcher_ = std::thread([this, ended = std::move(ended)] { loop(ended); });
}

// True if one of the signals asked for the end.
bool Supervisor::forward() const {
  bool end = false;
  signalfd_siginfo info = {};
  while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    end |= info.ssi_signo == SIGTERM;
    if (info.ssi_code == SI_KERNEL) continue;  // from the terminal: the child has it too
    ::syscall(SYS_pidfd_send_signal, child_fd_.get(), static_cast<int>(info.ssi_signo), nullptr, 0);
  }
  return end;
}

void Supervisor::loop(const std::function<void()>& ended) const {
  using Clock = std::chrono::steady_clock;
  std::array<pollfd, 2> watched{pollfd{child_fd_.get(), POLLIN, 0},
                                pollfd{signal_fd_.get(), POLLIN, 0}};
  auto deadline = Clock::time_point::max();
  for (;;) {
    int wait_ms = -1;
    if (deadline != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      wait_ms = static_cast<int>(std::max(left, milliseconds{0}).count());
    }
    const int ready = ::poll(watched.data(), watched.size(), wait_ms);
    if (ready < 0 && errno != EINTR) break;
    if (ready == 0) {
      ::syscall(SYS_pidfd_send_signal, child_fd_.get(), SIGKILL, nullptr, 0);
      deadline = Clock::time_point::max();
    }
    if (ready <= 0) continue;
    if (watched[1].revents != 0 && forward() && deadline == Clock::time_point::max()) {
      deadline = Clock::now() + kGrace;
    }
    if (watched[0].revents != 0) break;
  }
  ended();
}

void Supervisor::terminate() {
  if (child_ <= 0) return;
  ::syscall(SYS_pidfd_send_signal, child_fd_.get(), SIGTERM, nullptr, 0);
  pollfd end{child_fd_.get(), POLLIN, 0};
  if (::poll(&end, 1, static_cast<int>(kGrace.count())) == 0) {
    ::syscall(SYS_pidfd_send_signal, child_fd_.get(), SIGKILL, nullptr, 0);
  }
}

int Supervisor::wait() {
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  if (watcher_.joinable()) watcher_.join();
  child_ = -1;
  end_descendants();
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

void Supervisor::end_descendants() {
  for (const pid_t pid : children()) ::kill(pid, SIGTERM);
  for (milliseconds waited{0}; waited < kOrphanGrace; waited += kStep) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 && errno == ECHILD) return;
    if (ended == 0) std::this_thread::sleep_for(kStep);
  }
  kill_descendants();
}

void Supervisor::kill_descendants() {
  // Ends because every round kills all present children, and dead ones have no more.
  do {
    for (const pid_t pid : children()) ::kill(pid, SIGKILL);
  } while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR);
}

}  // namespace soma
