#include "arch/config/timing.h"

#include <numeric>
#include <utility>

#include "arch/config/embedded.h"
#include "arch/config/json_file.h"
#include "arch/config/names.h"
#include "base/json.h"

namespace config {
namespace {

constexpr const char* kTimingSchema = "timing.schema.json";
constexpr size_t kSuggestions = 12;
constexpr unsigned kMaxBases = 4;
// Keeps every product of a rate with 2^64 bytes inside 128 bits.
constexpr uint64_t kMaxTerm = uint64_t{1} << 62;

bool is_one_of(std::string_view unit, std::string_view units) {
  for (size_t at = 0; at < units.size();) {
    const size_t end = std::min(units.find(' ', at), units.size());
    if (units.substr(at, end - at) == unit) return true;
    at = end + 1;
  }
  return false;
}

// Null if the text is a value of the unit, else what is wrong with it.
const char* complaint(const base::Result<Ratio>& value, std::string_view unit) {
  if (!value) return "is not a plain decimal number";
  if (is_one_of(unit, "cycles B count") && value->den != 1) return "must be a whole number";
  if (is_one_of(unit, "GHz GB/s Gelem/s ratio") && value->num == 0) {
    return "must be greater than zero";
  }
  if (is_one_of(unit, "ns us")) {
    const uint64_t scale = unit == "ns" ? base::kPsPerNs : base::kPsPerUs;
    if (scale % value->den != 0) return "is finer than a picosecond";
    if (value->num > kMaxTerm / scale) return "is too large";
  }
  if (value->num > kMaxTerm || value->den > kMaxTerm / base::kPsPerNs) return "is too large";
  return nullptr;
}

// A value per nanosecond: `value` GB/s is value bytes per 1000 ps.
base::Rate per_ns(Ratio value) {
  const uint64_t ps = value.den * base::kPsPerNs;
  const uint64_t common = std::gcd(value.num, ps);
  return {value.num / common, ps / common};
}

}  // namespace

std::vector<std::string> Timing::names() {
  return embedded_names("timing");
}

base::Result<Timing> Timing::load(const std::string& name) {
  return load(name, 0);
}

base::Result<Timing> Timing::parse(std::string file_name, std::string text) {
  return parse(std::move(file_name), std::move(text), 0);
}

base::Result<Timing> Timing::load(const std::string& name, unsigned depth) {
  base::Result<JsonFile> file = read_json("timing file", "timing", name, kTimingSchema);
  if (!file) return file.error();
  return parse(std::move(file->name), std::move(file->text), depth);
}

base::Result<Timing> Timing::parse(std::string file_name, std::string text, unsigned depth) {
  base::Result<JsonFile> file = parse_json(std::move(file_name), std::move(text), kTimingSchema);
  if (!file) return file.error();
  Timing timing;
  if (file->value.contains("base")) {
    const auto name = file->value.at("base").get<std::string>();
    if (depth == kMaxBases) return file->error({"base"}, "too many files, each based on the next");
    base::Result<Timing> base = load(relative_to(file->name, name), depth + 1);
    if (!base) return file->error({"base"}, base.error().message());
    timing = std::move(*base);
  }
  const auto generation = file->value.at("generation").get<std::string>();
  if (!timing.parameters_.empty() && to_string(timing.generation_) != generation) {
    return file->error({"generation"}, "the base '" + timing.name_ + "' is for generation " +
                                           to_string(timing.generation_));
  }
  timing.name_ = file->value.at("name").get<std::string>();
  timing.generation_ = generation == "v2"   ? Generation::kV2
                       : generation == "v3" ? Generation::kV3
                                            : Generation::kV4;
  const auto rows = base::parse_ordered_json(file->text).at("parameters");
  for (const auto& [name, row] : rows.items()) {
    Parameter parameter;
    parameter.name = name;
    parameter.value = row.at("value").get<std::string>();
    parameter.file_value = parameter.value;
    parameter.unit = row.at("unit").get<std::string>();
    parameter.status = row.at("status").get<std::string>().front();
    parameter.meaning = row.at("meaning").get<std::string>();
    parameter.source = row.at("source").get<std::string>();
    if (const char* wrong = complaint(parse_decimal(parameter.value), parameter.unit)) {
      return file->error({"parameters", name, "value"},
                         name + ": '" + parameter.value + "' " + wrong);
    }
    timing.put(std::move(parameter));
  }
  return timing;
}

// A name that the base has as well is replaced in its place.
void Timing::put(Parameter parameter) {
  const auto [found, added] = index_.emplace(parameter.name, parameters_.size());
  if (added) {
    parameters_.push_back(std::move(parameter));
    read_.push_back(false);
  } else {
    parameters_[found->second] = std::move(parameter);
  }
}

base::Status Timing::set(std::string_view name, std::string_view value) {
  const auto error = [](std::string what) {
    return base::Error{base::Fault::kConfig, 0, "--set", std::move(what)};
  };
  const auto found = index_.find(name);
  if (found == index_.end()) {
    std::vector<std::string> valid;
    for (const auto& [known, index] : index_) valid.push_back(known);
    const auto near = near_names(name, valid, kSuggestions);
    return error("unknown timing parameter '" + std::string(name) + "'; " +
                 (near.empty()
                      ? "valid: " + join(valid, ", ")
                      : "near it: " + join(near, ", ") + " (soma describe --timing lists all)"));
  }
  if (locked_) return error("the machine is built; '" + std::string(name) + "' cannot change");
  Parameter& parameter = parameters_[found->second];
  if (const char* wrong = complaint(parse_decimal(value), parameter.unit)) {
    return error(parameter.name + " (" + parameter.unit + "): '" + std::string(value) + "' " +
                 wrong);
  }
  parameter.value = value;
  return {};
}

base::Status Timing::set(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return base::Error{base::Fault::kConfig, 0, "--set",
                       "expected name=value, found '" + std::string(assignment) + "'"};
  }
  return set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

const Parameter& Timing::find(std::string_view name, std::string_view units) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    throw TimingError("timing file '" + name_ + "' lacks the parameter " + std::string(name));
  }
  const Parameter& parameter = parameters_[found->second];
  if (!is_one_of(parameter.unit, units)) {
    throw TimingError("timing parameter " + parameter.name + " has the unit " + parameter.unit +
                      "; this machine needs one of: " + std::string(units));
  }
  read_[found->second] = true;
  return parameter;
}

base::Ps Timing::ps(std::string_view name) const {
  const Parameter& parameter = find(name, "ns us");
  const Ratio value = parse_decimal(parameter.value).value();
  const uint64_t scale = parameter.unit == "ns" ? base::kPsPerNs : base::kPsPerUs;
  return value.num * (scale / value.den);
}

base::Rate Timing::rate(std::string_view name) const {
  return per_ns(parse_decimal(find(name, "GB/s Gelem/s").value).value());
}

base::Rate Timing::clock(std::string_view name) const {
  return per_ns(parse_decimal(find(name, "GHz").value).value());
}

uint64_t Timing::integer(std::string_view name) const {
  return parse_decimal(find(name, "cycles B count").value).value().num;
}

Ratio Timing::ratio(std::string_view name) const {
  return parse_decimal(find(name, "ratio").value).value();
}

bool Timing::has(std::string_view name) const {
  return index_.find(name) != index_.end();
}

std::vector<std::string> Timing::unread_overrides() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].overridden() && !read_[i]) names.push_back(parameters_[i].name);
  }
  return names;
}

bool Timing::was_read(std::string_view name) const {
  const auto found = index_.find(name);
  return found != index_.end() && read_[found->second];
}

base::Rate scaled(base::Rate rate, Ratio factor) {
  const uint64_t left = std::gcd(rate.bytes, factor.den);
  const uint64_t right = std::gcd(factor.num, rate.ps);
  return {(rate.bytes / left) * (factor.num / right), (rate.ps / right) * (factor.den / left)};
}

}  // namespace config
