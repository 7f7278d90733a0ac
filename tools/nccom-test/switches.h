// The switches of the command line: names, arity, help (spec/tools.md 2.3), and what each does.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "options.h"

namespace nccom {

enum class Arity { kNone, kOne, kOptional, kMany };

class Given;
struct Draft;

struct Switch {
  const char* brief;  // "-r" or ""
  const char* full;   // "--nworkers"
  Arity arity;
  const char* metavar;
  const char* help;
  // nullptr: known but not supported, which is said to whoever gives it.
  void (*apply)(Given& given, Draft* draft);
};

const std::vector<Switch>& switches();

// What the switches set, before the command line is looked at as a whole.
struct Draft {
  Options options;
  std::string operation;
  const Switch* step = nullptr;  // -i or -f, whichever was given
  uint32_t dimension = 0;        // --data-parallel-dimension
  uint32_t channels = 0;
  std::string groups_file;
  std::string pairs_file;
  std::string metadata_file;
  std::vector<std::vector<std::string>> streams;  // of --streams-json
  std::string answer;                             // to print instead of a run
};

// A switch as it was given, with its values. The first refusal counts.
class Given {
 public:
  Given(const Switch& option, std::vector<std::string> values)
      : option_(option), values_(std::move(values)) {}

  const Switch& option() const { return option_; }
  const std::vector<std::string>& values() const { return values_; }
  std::string value() const;  // the first; empty without any
  uint64_t number(uint64_t least, uint64_t most);
  uint32_t count(uint64_t least);
  uint64_t size();
  template <typename T>
  void take(base::Result<T> value, T* to) {
    if (!value) return refuse(value.error().message());
    *to = std::move(*value);
  }
  void refuse(const std::string& why);
  const std::string& refusal() const { return refusal_; }

 private:
  const Switch& option_;
  std::vector<std::string> values_;
  std::string refusal_;
};

// "avg" or "p99.9"
bool is_stat(const std::string& text);
std::string invalid_choice(const std::string& value, const std::vector<std::string>& names);

std::string usage();
std::string help();
// "-r/--nworkers"
std::string label(const Switch& s);

}  // namespace nccom
