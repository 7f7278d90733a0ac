// The timing parameters of a machine: named, with unit, meaning, status and source.
//
// Source of truth: data/timing/*.json. Values are decimal text, read as exact rationals. Status: D
// documented, V arithmetic on documented numbers, M measured off a published figure or fitted to a
// published measurement, A assumption.
//
// Life: load, set() overrides, lock() when the machine has been built. Blocks read what they need
// in their constructors; an override that nothing has read is reported, so that a --set never does
// nothing in silence.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config/decimal.h"
#include "arch/config/platform.h"
#include "base/error.h"
#include "base/units.h"

namespace config {

struct Parameter {
  std::string name;
  std::string value;  // decimal text in `unit`
  std::string file_value;
  std::string unit;  // ns us cycles GHz GB/s Gelem/s B count ratio
  char status = 'A';
  std::string meaning;
  std::string source;

  bool overridden() const { return value != file_value; }
};

// A block asked for a parameter that is missing or has another unit: a defect of the machine or of
// a hand-written timing file, found while the machine is built.
class TimingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Timing {
 public:
  // `name` is one of names() or the path of a .json file. A file may name another as its base and
  // hold only what differs and what is new.
  static base::Result<Timing> load(const std::string& name);
  static base::Result<Timing> parse(std::string file_name, std::string text);
  static std::vector<std::string> names();

  // Overrides one value; an unknown name fails with the valid names near it.
  base::Status set(std::string_view name, std::string_view value);
  base::Status set(std::string_view assignment);  // "name=value"
  void lock() { locked_ = true; }

  // All throw TimingError.
  base::Ps ps(std::string_view name) const;       // ns, us
  base::Rate rate(std::string_view name) const;   // GB/s, Gelem/s: per picosecond
  base::Rate clock(std::string_view name) const;  // GHz: Rate whose "bytes" are cycles
  uint64_t integer(std::string_view name) const;  // cycles, B, count
  Ratio ratio(std::string_view name) const;       // ratio
  bool has(std::string_view name) const;

  const std::string& name() const { return name_; }
  Generation generation() const { return generation_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }  // in file order
  std::vector<std::string> unread_overrides() const;
  bool was_read(std::string_view name) const;

 private:
  const Parameter& find(std::string_view name, std::string_view units) const;
  static base::Result<Timing> load(const std::string& name, unsigned depth);
  static base::Result<Timing> parse(std::string file_name, std::string text, unsigned depth);
  void put(Parameter parameter);

  std::string name_;
  Generation generation_ = Generation::kV2;
  std::vector<Parameter> parameters_;
  std::map<std::string, size_t, std::less<>> index_;
  mutable std::vector<bool> read_;
  bool locked_ = false;
};

// `rate` times `factor`, exact and reduced: a DMA that computes at half speed.
base::Rate scaled(base::Rate rate, Ratio factor);

}  // namespace config
