#include "console.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/fd.h"

namespace nccom {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(200);

// What the user has set stays.
void set_variable(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 0);
}

// "DIR/nccom_test_rank_0.log": instances are told apart by their first rank.
base::Status redirect(const std::string& directory, uint32_t first_rank) {
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return base::errno_error("--mpi-log-dir", directory.c_str());
  }
  const std::string path = directory + "/nccom_test_rank_" + std::to_string(first_rank) + ".log";
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid() || ::dup2(fd.get(), STDERR_FILENO) < 0) {
    return base::errno_error("--mpi-log-dir", path.c_str());
  }
  return {};
}

}  // namespace

base::Result<Console> Console::open(const Options& o, bool leads) {
  Console console;
  console.log_dir_ = o.log_dir;
  if (!o.mpi_log_dir.empty() && !leads) {
    if (base::Status status = redirect(o.mpi_log_dir, o.rank_start); !status) return status.error();
    console.copied_ = true;
  }
  if (!o.log_level.empty()) ::setenv("NEURON_RT_LOG_LEVEL", o.log_level.c_str(), 1);
  if (o.debug) {
    set_variable("NEURON_RT_LOG_LEVEL", "DEBUG");
    set_variable("NEURON_RT_LOG_LOCATION", "CONSOLE");
  }
  console.animated_ = o.interactive && ::isatty(STDOUT_FILENO) != 0;
  return console;
}

void Console::print(const std::string& line) const {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  if (copied_) std::fprintf(stderr, "%s\n", line.c_str());
}

std::string Console::write_log(const std::string& text) const {
  // Eight characters that no file has; two of them are the process's.
  char own[3];
  std::snprintf(own, sizeof own, "%02x", static_cast<unsigned>(::getpid()) & 0xFF);
  std::string name = log_dir_ + "/nccom_test_log_" + own + "XXXXXX.log";
  const base::UniqueFd fd(::mkstemps(name.data(), 4));
  if (!fd.valid() || ::dprintf(fd.get(), "%s\n", text.c_str()) < 0) {
    return "(none: cannot write to " + log_dir_ + ")";
  }
  return name;
}

Animation::Animation(bool visible) {
  if (visible) thread_ = std::thread([this] { turn(); });
}

Animation::~Animation() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  change_.notify_all();
  thread_.join();
}

void Animation::turn() {
  std::unique_lock<std::mutex> lock(mutex_);
  size_t at = 0;
  do {
    std::printf("\r%c", "|/-\\"[at++ % 4]);
    std::fflush(stdout);
  } while (!change_.wait_for(lock, kTurn, [this] { return ended_; }));
  std::printf("\r \r");
  std::fflush(stdout);
}

}  // namespace nccom
