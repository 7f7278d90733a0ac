// Where nccom-test says what: lines of the table, what goes wrong, progress on a terminal
// (spec/tools.md 2.7, 2.13).
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "options.h"

namespace nccom {

class Console {
 public:
  // Runtime's log as --debug and --log-level want it, and with --mpi-log-dir a file of this
  // instance: stderr goes there, lines go to both. Before the runtime starts.
  // A process that only starts instances has no such file.
  static base::Result<Console> open(const Options& options, bool leads);

  void print(const std::string& line) const;
  // Keeps what went wrong with one size; the file's name.
  std::string write_log(const std::string& text) const;
  bool animated() const { return animated_; }

 private:
  std::string log_dir_;
  bool copied_ = false;  // lines to stderr, which is a file
  bool animated_ = false;
};

// Turns in the current line of the terminal until it is destroyed; leaves the line empty.
class Animation {
 public:
  explicit Animation(bool visible);
  ~Animation();

 private:
  void turn();

  std::mutex mutex_;
  std::condition_variable change_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace nccom
