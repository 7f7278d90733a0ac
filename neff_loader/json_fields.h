// Reading untrusted JSON objects field by field: the first violation sticks, later reads are
// harmless. Internal to this room.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "neff_loader/archive.h"
#include "neff_loader/status.h"

namespace neff {

using Json = nlohmann::json;

// Where violations and remarks of one load are collected.
class Report {
 public:
  bool ok() const { return !error_.has_value(); }
  const base::Error& error() const { return *error_; }
  void fail(base::Error error) {
    if (!error_) error_ = std::move(error);
  }
  void fail(const char* rule, const std::string& where, std::string what,
            int code = status::kInvalid) {
    fail(violation(rule, where, std::move(what), code));
  }
  void warn(const std::string& where, const std::string& what) {
    if (warnings_.size() < kMaxWarnings) warnings_.push_back(where + ": " + what);
  }
  std::vector<std::string>& warnings() { return warnings_; }

 private:
  static constexpr size_t kMaxWarnings = 100;
  std::optional<base::Error> error_;
  std::vector<std::string> warnings_;
};

// Depth and number of values are bounded before anything is built (spec/neff.md 1.8 rule 7).
inline bool json_within_limits(const Member& member, const Limits& limits, Report* report) {
  unsigned depth = 0;
  uint64_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < member.data.size(); ++i) {
    const uint8_t c = member.data[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == ',') ++values;
    if (c == '{' || c == '[') {
      ++values;
      ++depth;
    }
    if ((c == '}' || c == ']') && depth > 0) --depth;
    if (depth > limits.max_json_depth) {
      report->fail("V-13", member.name,
                   "JSON nested deeper than " + std::to_string(limits.max_json_depth));
      return false;
    }
  }
  if (values <= limits.max_json_values) return true;
  report->fail("R-01", member.name,
               "JSON with more than " + std::to_string(limits.max_json_values) + " values",
               status::kResource);
  return false;
}

// Syntax and size of one JSON member (V-13, spec/neff.md 1.8 rule 5).
inline std::optional<Json> parse_json(const Member& member, const Limits& limits, Report* report) {
  if (member.data.size() > 0xFFFFFFFFull) {
    report->fail("V-13", member.name,
                 "File " + member.name + " size (" + std::to_string(member.data.size()) +
                     ") exceeds json parser maximum (4294967295)");
    return std::nullopt;
  }
  if (!json_within_limits(member, limits, report)) return std::nullopt;
  Json json =
      base::parse_json({reinterpret_cast<const char*>(member.data.data()), member.data.size()});
  if (json.is_discarded() || !json.is_object()) {
    report->fail("V-13", member.name, "Unable to parse: " + member.name + " - 1");
    return std::nullopt;
  }
  return json;
}

// An integer in any JSON spelling that int64 holds exactly.
inline std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto n = value.get<uint64_t>();
    return n <= INT64_MAX ? std::optional<int64_t>(static_cast<int64_t>(n)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double d = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  return d == std::floor(d) && d >= -kExact && d <= kExact
             ? std::optional<int64_t>(static_cast<int64_t>(d))
             : std::nullopt;
}

class Fields {
 public:
  // `rule` answers for values of the wrong JSON type.
  Fields(const Json& object, std::string where, const char* rule, Report* report)
      : object_(object), where_(std::move(where)), rule_(rule), report_(report) {
    if (!object.is_object()) fail("not a JSON object");
  }

  const std::string& where() const { return where_; }
  const char* rule() const { return rule_; }
  Report& report() const { return *report_; }
  void fail(std::string what) const { report_->fail(rule_, where_, std::move(what)); }
  void fail(const char* rule, std::string what) const {
    report_->fail(rule, where_, std::move(what));
  }
  void warn(const std::string& what) const { report_->warn(where_, what); }

  const Json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  bool has(const char* key) const { return find(key) != nullptr; }

  std::optional<int64_t> integer(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const std::optional<int64_t> n = as_integer(*value);
    if (!n) fail(std::string("'") + key + "' is not an integer");
    return n;
  }
  int64_t integer(const char* key, int64_t otherwise) const {
    return integer(key).value_or(otherwise);
  }
  // Refuses values outside low..high under `rule`.
  std::optional<int64_t> integer_in(const char* key, int64_t low, int64_t high,
                                    const char* rule) const {
    const std::optional<int64_t> n = integer(key);
    if (n && (*n < low || *n > high)) {
      fail(rule, std::string("'") + key + "' is " + std::to_string(*n) + ", expected " +
                     std::to_string(low) + ".." + std::to_string(high));
      return std::nullopt;
    }
    return n;
  }
  std::optional<std::string> text(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    fail(std::string("'") + key + "' is not a string");
    return std::nullopt;
  }
  std::optional<double> number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_number()) return value->get<double>();
    fail(std::string("'") + key + "' is not a number");
    return std::nullopt;
  }
  bool boolean(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    fail(std::string("'") + key + "' is not true or false");
    return false;
  }
  const Json* array(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || value->is_array()) return value;
    fail(std::string("'") + key + "' is not an array");
    return nullptr;
  }
  std::vector<int64_t> integers(const char* key) const {
    std::vector<int64_t> out;
    const Json* value = array(key);
    if (value == nullptr) return out;
    for (const Json& item : *value) {
      const std::optional<int64_t> n = as_integer(item);
      if (!n) fail(std::string("'") + key + "' holds something that is not an integer");
      out.push_back(n.value_or(0));
    }
    return out;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> out;
    const Json* value = array(key);
    if (value == nullptr) return out;
    for (const Json& item : *value) {
      if (!item.is_string())
        fail(std::string("'") + key + "' holds something that is not a string");
      out.push_back(item.is_string() ? item.get<std::string>() : std::string());
    }
    return out;
  }

 private:
  const Json& object_;
  std::string where_;
  const char* rule_;
  Report* report_;
};

}  // namespace neff
