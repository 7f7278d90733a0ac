#include "runtime/nrt/log.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <syslog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>

namespace nrt {
namespace {

constexpr size_t kComponents = 4;
constexpr std::array<const char*, kComponents> kComponentNames = {"TDRV", "NMGR", "NRT", "HAL"};

enum class Place { kStdout, kStderr, kSyslog, kFile };

struct Sink {
  LogLevel level = LogLevel::kError;
  Place place = Place::kStdout;
  int fd = 1;
};

struct State {
  std::mutex mutex;
  std::atomic<bool> configured{false};
  std::array<Sink, kComponents> sinks;
};

// Never destroyed: lines may be written from destructors that run at exit.
State& state() {
  static State* instance = new State;
  return *instance;
}

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "ERROR";
    case LogLevel::kWarn:
      return "WARN";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kTrace:
      return "TRACE";
    case LogLevel::kQuiet:
      break;
  }
  return "QUIET";
}

bool parse_level(const char* text, LogLevel* level) {
  constexpr struct {
    const char* name;
    LogLevel level;
  } kNames[] = {{"ERROR", LogLevel::kError},  {"WARN", LogLevel::kWarn},
                {"WARNING", LogLevel::kWarn}, {"INFO", LogLevel::kInfo},
                {"DEBUG", LogLevel::kDebug},  {"TRACE", LogLevel::kTrace},
                {"QUIET", LogLevel::kQuiet}};
  for (const auto& entry : kNames) {
    if (strcasecmp(text, entry.name) == 0) {
      *level = entry.level;
      return true;
    }
  }
  return false;
}

const char* get_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// Applies one location value; `allow_file` is true for the per-component variables.
bool apply_place(const char* text, bool allow_file, Sink* sink) {
  if (strcasecmp(text, "console") == 0) {
    *sink = {sink->level, Place::kStdout, 1};
  } else if (strcasecmp(text, "stderr") == 0) {
    *sink = {sink->level, Place::kStderr, 2};
  } else if (strcasecmp(text, "syslog") == 0) {
    openlog("NRT", LOG_PID, LOG_USER);
    *sink = {sink->level, Place::kSyslog, -1};
  } else if (allow_file) {
    const int fd = ::open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return false;
    *sink = {sink->level, Place::kFile, fd};
  } else {
    return false;
  }
  return true;
}

void write_all(int fd, const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(fd, line.data() + done, line.size() - done);
    if (n <= 0) return;  // nowhere left to report it
    done += static_cast<size_t>(n);
  }
}

int syslog_priority(LogLevel level) {
  if (level == LogLevel::kError) return LOG_ERR;
  if (level == LogLevel::kWarn) return LOG_WARNING;
  return level == LogLevel::kInfo ? LOG_INFO : LOG_DEBUG;
}

}  // namespace

void configure_log() {
  State& s = state();
  std::string bad;
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    Sink global;
    const char* level = get_variable("NEURON_RT_LOG_LEVEL");
    if (level != nullptr && !parse_level(level, &global.level)) bad += " NEURON_RT_LOG_LEVEL";
    const char* place = get_variable("NEURON_RT_LOG_LOCATION");
    if (place != nullptr && !apply_place(place, false, &global)) bad += " NEURON_RT_LOG_LOCATION";
    for (size_t i = 0; i < kComponents; ++i) {
      if (s.sinks[i].place == Place::kFile) ::close(s.sinks[i].fd);
      s.sinks[i] = global;
      const std::string name = kComponentNames[i];
      const char* own_level = get_variable("NEURON_RT_LOG_LEVEL_" + name);
      if (own_level != nullptr && !parse_level(own_level, &s.sinks[i].level)) {
        bad += " NEURON_RT_LOG_LEVEL_" + name;
      }
      const char* own_place = get_variable("NEURON_RT_LOG_LOCATION_" + name);
      if (own_place != nullptr && !apply_place(own_place, true, &s.sinks[i])) {
        bad += " NEURON_RT_LOG_LOCATION_" + name;
      }
    }
    s.configured = true;
  }
  if (!bad.empty()) {
    log(LogLevel::kWarn, Component::kNrt, __func__, "Ignoring malformed variables:%s", bad.c_str());
  }
}

bool log_enabled(Component component, LogLevel level) {
  State& s = state();
  if (!s.configured) configure_log();
  const LogLevel limit = s.sinks[static_cast<size_t>(component)].level;
  return level != LogLevel::kQuiet && level <= limit;
}

std::string format_log_line(LogLevel level, Component component, const char* function,
                            const std::string& message, long sec, long usec, int pid, int tid) {
  const time_t seconds = sec;
  struct tm local {};
  localtime_r(&seconds, &local);
  char stamp[32];
  strftime(stamp, sizeof stamp, "%Y-%b-%d %H:%M:%S", &local);
  char head[160];
  std::snprintf(head, sizeof head, "%s.%06ld %5d:%-5d %5s %5s:%-40s", stamp, usec, pid, tid,
                level_name(level), kComponentNames[static_cast<size_t>(component)], function);
  return head + message;
}

void log(LogLevel level, Component component, const char* function, const char* format, ...) {
  if (!log_enabled(component, level)) return;
  va_list args;
  va_start(args, format);
  char* text = nullptr;
  const int n = vasprintf(&text, format, args);
  va_end(args);
  if (n < 0) return;
  const std::string message(text);
  std::free(text);
  const Sink sink = state().sinks[static_cast<size_t>(component)];
  if (sink.place == Place::kSyslog) {
    syslog(syslog_priority(level), "%s:%s %s", kComponentNames[static_cast<size_t>(component)],
           function, message.c_str());
    return;
  }
  struct timeval now {};
  gettimeofday(&now, nullptr);
  write_all(sink.fd, format_log_line(level, component, function, message, now.tv_sec, now.tv_usec,
                                     getpid(), static_cast<int>(syscall(SYS_gettid))) +
                         "\n");
}

}  // namespace nrt
