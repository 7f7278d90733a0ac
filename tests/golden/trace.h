// Comparison of a driver's log of register accesses with a golden script of this directory.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden/script.h"

namespace golden {

// The accesses of a script that a driver makes, `use` lines expanded.
inline std::vector<Step> driver_accesses(const std::string& directory, const std::string& file,
                                         const Names& names = {}) {
  return ScriptReader(directory).read(file, ScriptReader::For::kComparison, names).steps;
}

// How many entries of the log from `at` on one step stands for; 0: they differ. A poll stands for
// all reads up to the first expected value, a "ready" read for those that gave 0xDEADBEEF and one.
template <typename Log>
size_t matched(const Log& log, size_t at, const Step& step) {
  constexpr uint32_t kNotReady = 0xDEAD'BEEF;  // spec/hw-registers.md 7.3
  for (size_t i = at; i < log.size(); ++i) {
    if (log[i].address != step.address || log[i].write != (step.op == Op::kWrite)) return 0;
    if (step.op == Op::kReadReady && log[i].value == kNotReady) continue;
    if (step.value.accepts(log[i].value)) return i + 1 - at;
    if (step.op != Op::kPoll) return 0;
  }
  return 0;
}

// Empty when the log from entry `from` on is what the steps say; else the first difference.
// `whole`: the log ends with the steps.
template <typename Log>
std::string difference(const Log& log, size_t from, const std::vector<Step>& want, bool whole) {
  std::ostringstream out;
  out << std::hex;
  size_t at = from;
  for (const Step& step : want) {
    const size_t used = matched(log, at, step);
    if (used == 0) {
      out << "entry " << std::dec << at - from << std::hex << " (line " << std::dec << step.line
          << std::hex << "): expected " << (step.op == Op::kWrite ? "W " : "R ") << step.address
          << " " << step.value.value << ", got ";
      if (at >= log.size()) {
        out << "the end";
      } else {
        out << (log[at].write ? "W " : "R ") << log[at].address << " " << log[at].value;
      }
      return out.str();
    }
    at += used;
  }
  if (whole && at != log.size()) {
    out << std::dec << log.size() - at << " accesses more than expected, the first " << std::hex
        << (log[at].write ? "W " : "R ") << log[at].address << " " << log[at].value;
  }
  return out.str();
}

}  // namespace golden
