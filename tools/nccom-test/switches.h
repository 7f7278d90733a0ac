// The switches of the command line: names, arity, help (tools.md 2.3).
#pragma once

#include <string>
#include <vector>

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

std::string usage();
std::string help();
// "-r/--nworkers"
std::string label(const Switch& s);

}  // namespace nccom
