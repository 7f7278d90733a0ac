// The switches of the command line: names, arity, help (tools.md 2.3).
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace nccom {

enum class Arity { kNone, kOne, kOptional, kMany };

struct Switch {
  const char* brief;  // "-r" or ""
  const char* full;   // "--nworkers"
  Arity arity = Arity::kOne;
  const char* metavar = "";
  const char* help = "";  // "": known but not supported
};

const std::vector<Switch>& switches();

// Options that only say yes, or whose text is taken as it is; false for others.
bool set_plain(const std::string& name, const std::string& value, Options* options);

std::string usage();
std::string help();
// "-r/--nworkers"
std::string label(const Switch& s);

}  // namespace nccom
