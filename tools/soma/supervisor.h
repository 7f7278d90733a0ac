// Runs an application as a child: forwards signals, notices its end, leaves nothing of it behind.
//
// Signals that a terminal sends reach the child by themselves (it shares the process group); those
// that are sent to this process alone are passed on. Descendants that outlive the child are ended,
// since the machine that they use goes away.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace soma {

// The file that `command` names, searched for in PATH of `environment`; Error::code is ENOENT or
// EACCES.
base::Result<std::string> find_program(const std::string& command,
                                       const std::vector<std::string>& environment);

// For exec and posix_spawn, as long as `texts` lives.
std::vector<char*> exec_words(const std::vector<std::string>& texts);

// Exit code of a shell for a death by signal.
constexpr int kSignalBase = 128;
// Between asking a child to end and killing it.
constexpr std::chrono::milliseconds kGrace{2000};

// Up to the hard limit.
void raise_file_limit();

class Supervisor {
 public:
  // Allows this process as many open files as it may have (a machine holds some for each client),
  // and blocks the forwarded signals in this thread; construct it before any other thread exists.
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  base::Status start(const std::vector<std::string>& command,
                     const std::vector<std::string>& environment);
  // From now on signals are forwarded; `ended` is called once, from a thread, when the child ends.
  void watch(std::function<void()> ended);
  // Asks the child to end, then makes it.
  void terminate();
  // Kills everything below this process, at once.
  static void kill_descendants();
  // Waits for the child; its exit code, or 128 + signal as a shell would say.
  int wait();

 private:
  void loop(const std::function<void()>& ended) const;
  bool forward() const;
  static void end_descendants();

  rlimit previous_files_ = {};  // for the child: more than usual breaks programs
  sigset_t signals_ = {};
  sigset_t previous_ = {};
  base::UniqueFd signal_fd_;
  base::UniqueFd child_fd_;  // pidfd
  pid_t child_ = -1;
  std::thread watcher_;
};

}  // namespace soma
