// Logging of the machine and its tools: "level simulated-time instance: message" on stderr.
//
// A Logger belongs to a composition root (no global). Every instance holds a Log with its
// hierarchical name; its level is fixed when it is made, from patterns such as
// "m0.d3.*=debug,warn". Nothing here reads a clock of the host, so the same run writes the same
// log. Rooms that end up in application libraries do not log.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace base {

enum class LogLevel { kError, kWarn, kInfo, kDebug, kTrace };

class Logger {
 public:
  // Where lines go; without one, stderr. Called under a lock, one whole line without newline.
  using Writer = std::function<void(std::string_view)>;

  explicit Logger(Writer writer = {});
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // Comma-separated "LEVEL" (for all) or "PATTERN=LEVEL"; `*` in a pattern matches anything; the
  // last match wins. Affects only Logs made later. Levels: error warn info debug trace.
  Status configure(std::string_view patterns);
  // Simulated time of the prefix; without one, lines carry none.
  void set_clock(std::function<Ps()> clock);

  LogLevel level_of(std::string_view instance) const;
  void write(LogLevel level, std::string_view instance, std::string_view message);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Log {
 public:
  Log() = default;  // swallows everything
  Log(Logger& logger, std::string instance)
      : logger_(&logger), level_(logger.level_of(instance)), instance_(std::move(instance)) {}

  bool enabled(LogLevel level) const { return logger_ != nullptr && level <= level_; }
  const std::string& instance() const { return instance_; }

  // Arguments are formatted only if the level is on; the format is checked at compile time.
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::kError, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::kWarn, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::kInfo, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::kDebug, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::kTrace, format, std::forward<Args>(args)...);
  }

 private:
  template <typename... Args>
  void put(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(level)) {
      logger_->write(level, instance_, fmt::format(format, std::forward<Args>(args)...));
    }
  }

  Logger* logger_ = nullptr;
  LogLevel level_ = LogLevel::kWarn;
  std::string instance_;
};

}  // namespace base
