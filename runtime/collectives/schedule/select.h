// Choice of an algorithm (spec/collectives.md 2.16): what the library chooses by itself, and how a
// user overrides it.
#pragma once

#include <optional>

#include "runtime/collectives/schedule/groups.h"
#include "runtime/collectives/schedule/msccl.h"

namespace ccl {

// What selection looks at.
struct Situation {
  OpKind kind = OpKind::kAllReduce;
  Family family = Family::kTrn1;
  uint32_t ranks = 0;
  uint32_t chips = 0;
  uint32_t nodes = 0;
  bool in_place = false;
  uint64_t size = 0;  // of reports
};
Situation situation_of(const OpRequest& request, const Group& group, bool in_place);

// The library's own choice, before eligibility. The table is select_table.cpp.
Algorithm default_algorithm(const Situation& situation);

// The text of NCCOM_CC_ALGO: entries separated by commas.
//   <operation>:<algorithm>  this algorithm or an error
//   msccl:<file>             an MSCCL program, for the operation, ranks and sizes that it names
//   table:<file>             rules before those of the library (NCCOM_CC_TABLE,
//   docs/collectives.md)
struct OverrideText {
  std::vector<std::pair<OpKind, Algorithm>> algorithms;
  std::vector<std::string> programs;
  std::vector<std::string> tables;
};
base::Result<OverrideText> parse_overrides(const std::string& text);

std::optional<OpKind> op_of(const std::string& name);  // long and short names
std::optional<Algorithm> algorithm_of(const std::string& name);
std::string op_names();
std::string algorithm_names();

// Rules of a user. The first that matches counts.
struct Rule {
  std::vector<OpKind> ops;  // empty: all
  std::optional<Family> family;
  std::optional<uint32_t> ranks;
  std::optional<uint32_t> chips;
  std::optional<uint32_t> nodes;
  std::optional<bool> in_place;
  uint64_t min_bytes = 0;
  uint64_t below_bytes = UINT64_MAX;
  Algorithm algorithm = Algorithm::kRing;

  bool matches(const Situation& s) const;
};
// `where` names the file in errors.
base::Result<std::vector<Rule>> parse_table(const std::string& json, const std::string& where);

// Overrides with their files, read and checked. Programs are executed once on symbolic data, so
// load once for many operations.
struct Overrides {
  std::vector<std::pair<OpKind, Algorithm>> algorithms;
  std::vector<MscclProgram> programs;
  std::vector<Rule> rules;

  std::optional<Algorithm> forced(OpKind kind) const;  // the last entry counts
};
base::Result<Overrides> load_overrides(const std::string& text);

base::Result<Schedule> make_schedule(const OpRequest& request, const Group& group,
                                     const ScheduleOptions& options, const Overrides& overrides);

}  // namespace ccl
