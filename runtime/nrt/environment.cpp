#include "runtime/nrt/environment.h"

#include <strings.h>

#include <climits>
#include <cstdlib>
#include <fstream>

#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint64_t kDefaultTimeoutSeconds = 30;  // spec/nrt-api.md 9.3

std::string trimmed(const std::string& text) {
  const size_t from = text.find_first_not_of(" \t");
  if (from == std::string::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

void warn(const char* name, const std::string& value) {
  log(LogLevel::kWarn, Component::kNrt, "nrt_init", "Ignoring malformed %s=%s", name,
      value.c_str());
}

base::Error malformed(const char* name, const std::string& value, const char* expected) {
  return error(NRT_INVALID,
               std::string("Invalid ") + name + "=" + value + ", expected " + expected);
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<uint64_t> parse_number(const std::string& text) {
  const std::string digits = trimmed(text);
  if (digits.empty() || digits.size() > 19) return std::nullopt;
  uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

std::optional<bool> parse_flag(const std::string& text) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (strcasecmp(text.c_str(), yes) == 0) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (strcasecmp(text.c_str(), no) == 0) return false;
  }
  return std::nullopt;
}

bool environment_flag(const char* name, bool fallback) {
  const auto text = environment(name);
  if (!text) return fallback;
  const auto value = parse_flag(*text);
  if (!value) warn(name, *text);
  return value.value_or(fallback);
}

uint64_t environment_number(const char* name, uint64_t fallback, uint64_t max) {
  const auto text = environment(name);
  if (!text) return fallback;
  const auto value = parse_number(*text);
  if (!value || *value > max) {
    warn(name, *text);
    return fallback;
  }
  return *value;
}

std::optional<CoreRange> parse_core_list(const std::string& text) {
  CoreRange range;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, comma - at);
    const size_t dash = item.find('-');
    const auto first = parse_number(item.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_number(item.substr(dash + 1));
    if (!first || !last || *first > *last || *last > 0xFFFF) return std::nullopt;
    if (range.count != 0 && *first != range.first + range.count) return std::nullopt;
    if (range.count == 0) range.first = static_cast<uint32_t>(*first);
    range.count += static_cast<uint32_t>(*last - *first + 1);
    at = comma + 1;
  }
  return range;
}

base::Result<CoreSelection> read_core_selection(uint32_t total) {
  CoreSelection selection;
  if (const auto list = environment("NEURON_RT_VISIBLE_CORES")) {
    const auto range = parse_core_list(*list);
    if (!range) {
      return malformed("NEURON_RT_VISIBLE_CORES", *list,
                       "an ascending list without gaps such as 0,1 or 0-3");
    }
    if (range->first + range->count > total) {
      return error(NRT_INVALID, "Invalid NEURON_RT_VISIBLE_CORES=" + *list + ", the instance has " +
                                    std::to_string(total) + " cores");
    }
    selection.fixed = range;
    selection.count = range->count;
    return selection;
  }
  if (const auto text = environment("NEURON_RT_NUM_CORES")) {
    const auto count = parse_number(*text);
    if (!count) return malformed("NEURON_RT_NUM_CORES", *text, "a number of cores");
    if (*count > total) {
      return error(NRT_FAILURE, "NeuronCore(s) not available - Requested:" + *text +
                                    " Available:" + std::to_string(total));
    }
    selection.count = static_cast<uint32_t>(*count);
  }
  return selection;
}

base::Result<uint32_t> read_logical_core_size(uint32_t platform, const char* file) {
  constexpr const char* kName = "NEURON_LOGICAL_NC_CONFIG";
  std::optional<uint64_t> chosen;
  for (const char* name : {kName, "NEURON_RT_VIRTUAL_CORE_SIZE"}) {
    const auto text = environment(name);
    if (!text) continue;
    const auto value = parse_number(*text);
    if (!value || (*value != 1 && *value != 2)) return malformed(name, *text, "1 or 2");
    if (chosen && *chosen != *value) return malformed(name, *text, "the value of the other name");
    chosen = value;
  }
  std::ifstream lines(file);
  const std::string prefix = std::string(kName) + "=";
  for (std::string line; !chosen && std::getline(lines, line);) {
    if (line.rfind(prefix, 0) != 0) continue;
    chosen = parse_number(line.substr(prefix.size()));
    if (!chosen || (*chosen != 1 && *chosen != 2)) return malformed(file, line, "1 or 2");
  }
  if (chosen && *chosen > platform) {
    return malformed(kName, std::to_string(*chosen),
                     "1: this platform has no logical cores of two");
  }
  return static_cast<uint32_t>(chosen.value_or(platform));
}

uint64_t read_execution_timeout() {
  return environment_number("NEURON_RT_EXEC_TIMEOUT", kDefaultTimeoutSeconds, INT_MAX);
}

std::optional<std::string> read_inspect_directory() {
  if (!environment_flag("NEURON_RT_INSPECT_ENABLE", false)) return std::nullopt;
  return environment("NEURON_RT_INSPECT_OUTPUT_DIR").value_or("./output");
}

}  // namespace nrt
