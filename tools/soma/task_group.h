// Several processes that stand for those that a launcher starts on the nodes of a machine: started
// together, signalled together, their ends collected.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace soma {

struct Task {
  uint32_t node = 0;
  std::vector<std::string> command;
  std::vector<std::string> environment;
  std::string directory;  // empty: that of the launcher
  bool reads_input = false;
  // Of every line of its output and of its error output; empty: both are inherited.
  std::array<std::string, 2> prefixes;
};

class TaskGroup {
 public:
  // Blocks the signals that are passed on.
  TaskGroup();
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Error::code is an errno; tasks that were started before are ended.
  base::Status start(const std::vector<Task>& tasks);

  struct End {
    int code = 0;    // exit code, or 0
    int signal = 0;  // that ended it, or 0
    bool failed() const { return code != 0 || signal != 0; }
  };
  // Until all tasks have ended; with `end_all` the first failure ends the others. `first` is the
  // number of the task that failed first, if one did.
  struct Outcome {
    std::vector<End> ends;  // by task
    size_t first = SIZE_MAX;
  };
  Outcome wait(bool end_all);

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {  // of a task with a prefix
    base::UniqueFd from;
    int to;
    std::string prefix;
    std::string line;
  };
  struct Running {
    pid_t pid = -1;
    base::UniqueFd watch;
    End end;
  };

  base::Status start_one(const Task& task);
  void signal_all(int number) const;
  void forward_signals();
  static bool copy(Stream& stream);
  void collect(size_t task, bool end_all, Outcome& outcome);
  int patience() const;

  sigset_t signals_ = {};
  sigset_t previous_ = {};
  base::UniqueFd signal_fd_;
  std::vector<Running> running_;
  std::vector<Stream> streams_;
  Clock::time_point kill_at_ = Clock::time_point::max();
};

// What a shell reports for a task.
int shell_code(const TaskGroup::End& end);

}  // namespace soma
