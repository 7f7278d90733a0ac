#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <mutex>
#include <optional>
#include <vector>

namespace base {
namespace {

constexpr std::array<const char*, 5> kLevelNames{"error", "warn", "info", "debug", "trace"};
constexpr LogLevel kDefaultLevel = LogLevel::kWarn;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kTrace:
      return spdlog::level::trace;
  }
  return spdlog::level::err;
}

// Hands whole lines to a function.
class WriterSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit WriterSink(Logger::Writer writer) : writer_(std::move(writer)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    writer_({message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

  Logger::Writer writer_;
};

std::optional<LogLevel> parse_level(std::string_view text) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (text == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

// Glob with `*` only.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at) {
    if (matches(rest, name.substr(at))) return true;
  }
  return false;
}

}  // namespace

struct Logger::State {
  explicit State(spdlog::sink_ptr sink) : logger("log", std::move(sink)) {
    logger.set_pattern("%v");
    logger.set_level(spdlog::level::trace);
  }

  spdlog::logger logger;
  std::function<Ps()> clock;
  std::vector<std::pair<std::string, LogLevel>> patterns;
};

Logger::Logger(Writer writer) {
  spdlog::sink_ptr sink;
  if (writer) {
    sink = std::make_shared<WriterSink>(std::move(writer));
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  state_ = std::make_unique<State>(std::move(sink));
}

Logger::~Logger() = default;

Status Logger::configure(std::string_view patterns) {
  for (size_t at = 0; at <= patterns.size();) {
    const size_t end = std::min(patterns.find(',', at), patterns.size());
    const std::string_view item = patterns.substr(at, end - at);
    const size_t equals = item.find('=');
    const std::string_view pattern =
        equals == std::string_view::npos ? std::string_view("*") : item.substr(0, equals);
    const auto level =
        parse_level(equals == std::string_view::npos ? item : item.substr(equals + 1));
    if (!level || pattern.empty()) {
      return Error{Fault::kConfig, 0, "log",
                   "'" + std::string(item) +
                       "' is not LEVEL or PATTERN=LEVEL; levels: error warn info debug trace"};
    }
    state_->patterns.emplace_back(pattern, *level);
    at = end + 1;
  }
  return {};
}

void Logger::set_clock(std::function<Ps()> clock) {
  state_->clock = std::move(clock);
}

LogLevel Logger::level_of(std::string_view instance) const {
  LogLevel level = kDefaultLevel;
  for (const auto& [pattern, chosen] : state_->patterns) {
    if (matches(pattern, instance)) level = chosen;
  }
  return level;
}

void Logger::write(LogLevel level, std::string_view instance, std::string_view message) {
  const char* name = kLevelNames[static_cast<size_t>(level)];
  if (state_->clock) {
    const Ps now = state_->clock();
    state_->logger.log(to_spdlog(level), "{:<5} {}.{:06} us {}: {}", name, now / kPsPerUs,
                       now % kPsPerUs, instance, message);
  } else {
    state_->logger.log(to_spdlog(level), "{:<5} {}: {}", name, instance, message);
  }
}

}  // namespace base
