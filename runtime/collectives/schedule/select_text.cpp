// Overrides by users: the text of NCCOM_CC_ALGO and table files.
#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "runtime/collectives/schedule/select.h"

namespace ccl {
namespace {

using nlohmann::json;

base::Error invalid(const std::string& where, const std::string& what) {
  return {base::Fault::kUsage, kNrtInvalid, where, what};
}

constexpr size_t kMaxTableBytes = 1 << 20;
constexpr size_t kMaxProgramBytes = 64 << 20;

base::Result<std::string> read_user_file(const std::string& path, size_t limit) {
  base::Result<std::string> text = base::read_file(path, limit);
  if (!text) return invalid(path, text.error().what);
  return text;
}

struct OpName {
  const char* name;
  OpKind kind;
};
// Short names: spec/tools.md 2 (nccom-test).
constexpr OpName kOps[] = {
    {"all_reduce", OpKind::kAllReduce},
    {"allr", OpKind::kAllReduce},
    {"all_gather", OpKind::kAllGather},
    {"allg", OpKind::kAllGather},
    {"reduce_scatter", OpKind::kReduceScatter},
    {"redsct", OpKind::kReduceScatter},
    {"all_to_all", OpKind::kAllToAll},
    {"alltoall", OpKind::kAllToAll},
    {"all_gather_v", OpKind::kAllGatherV},
    {"all_gatherv", OpKind::kAllGatherV},
    {"allgv", OpKind::kAllGatherV},
    {"reduce_scatter_v", OpKind::kReduceScatterV},
    {"reduce_scatterv", OpKind::kReduceScatterV},
    {"redsctv", OpKind::kReduceScatterV},
    {"all_to_all_v", OpKind::kAllToAllV},
    {"alltoallv", OpKind::kAllToAllV},
    {"permute", OpKind::kPermute},
    {"sendrecv", OpKind::kPermute},
    {"permute_reduce", OpKind::kPermuteReduce},
    {"broadcast", OpKind::kBroadcast},
    {"bcast", OpKind::kBroadcast},
    {"reduce", OpKind::kReduce},
    {"barrier", OpKind::kBarrier},
};

struct AlgorithmName {
  const char* name;
  Algorithm algorithm;
};
constexpr AlgorithmName kAlgorithms[] = {
    {"ring", Algorithm::kRing},
    {"mesh", Algorithm::kMesh},
    {"rdh", Algorithm::kRdh},
    {"kangaring", Algorithm::kKangaRing},
    {"kanga", Algorithm::kKangaRing},
    {"hier", Algorithm::kHierarchical},
    {"hierarchical", Algorithm::kHierarchical},
    {"flatring", Algorithm::kFlatRing},
    {"tree", Algorithm::kTree},
    {"pairwise", Algorithm::kPairwise},
};

template <typename Names>
std::string joined(const Names& names) {
  std::string out;
  for (const auto& known : names) out += (out.empty() ? "" : ", ") + std::string(known.name);
  return out;
}

base::Status add_entry(const std::string& entry, OverrideText* out) {
  constexpr const char* kWhere = "NCCOM_CC_ALGO";
  const size_t colon = entry.find(':');
  if (colon == std::string::npos || colon + 1 == entry.size()) {
    return invalid(kWhere, "entry '" + entry +
                               "'; expected <operation>:<algorithm>, msccl:<file> " +
                               "or table:<file>, separated by commas");
  }
  const std::string key = entry.substr(0, colon);
  const std::string value = entry.substr(colon + 1);
  if (key == "msccl" || key == "table") {
    (key == "msccl" ? out->programs : out->tables).push_back(value);
    return {};
  }
  const std::optional<OpKind> kind = op_of(key);
  if (!kind) {
    return invalid(kWhere, "operation '" + key + "' in '" + entry + "'; expected " + joined(kOps));
  }
  const std::optional<Algorithm> algorithm = algorithm_of(value);
  if (!algorithm) {
    return invalid(kWhere,
                   "algorithm '" + value + "' in '" + entry + "'; available: " + algorithm_names());
  }
  out->algorithms.emplace_back(*kind, *algorithm);
  return {};
}

// One rule of a table file; every key is known and has the right type.
class RuleReader {
 public:
  RuleReader(const json& row, std::string where) : row_(row), where_(std::move(where)) {}

  base::Result<Rule> read() {
    if (!row_.is_object()) return invalid(where_, "a rule must be an object");
    bool chosen = false;
    for (const auto& [key, value] : row_.items()) {
      if (base::Status status = field(key, value); !status) return status.error();
      chosen = chosen || key == "algorithm";
    }
    if (!chosen) return invalid(where_, "a rule without 'algorithm'");
    if (rule_.min_bytes >= rule_.below_bytes) return invalid(where_, "min_bytes >= below_bytes");
    return rule_;
  }

 private:
  base::Status field(const std::string& key, const json& value) {
    if (key == "algorithm") return algorithm(value);
    if (key == "op") return ops(value);
    if (key == "platform") return platform(value);
    if (key == "in_place") {
      if (!value.is_boolean()) return invalid(where_, "in_place must be true or false");
      rule_.in_place = value.get<bool>();
      return {};
    }
    if (key == "min_bytes") return number(key, value, &rule_.min_bytes);
    if (key == "below_bytes") return number(key, value, &rule_.below_bytes);
    std::optional<uint32_t>* const to = key == "ranks"   ? &rule_.ranks
                                        : key == "chips" ? &rule_.chips
                                        : key == "nodes" ? &rule_.nodes
                                                         : nullptr;
    if (to == nullptr) {
      return invalid(where_, "unknown key '" + key +
                                 "'; known: op, platform, ranks, chips, nodes, " +
                                 "in_place, min_bytes, below_bytes, algorithm");
    }
    uint64_t n = 0;
    if (base::Status status = number(key, value, &n); !status) return status;
    if (n > UINT32_MAX) return invalid(where_, key + " is too large");
    *to = static_cast<uint32_t>(n);
    return {};
  }

  base::Status number(const std::string& key, const json& value, uint64_t* to) const {
    if (!value.is_number_unsigned()) return invalid(where_, key + " must be a whole number");
    *to = value.get<uint64_t>();
    return {};
  }

  base::Status algorithm(const json& value) {
    const auto found = value.is_string() ? algorithm_of(value.get<std::string>()) : std::nullopt;
    if (!found)
      return invalid(where_,
                     "algorithm " + base::json_text(value) + "; available: " + algorithm_names());
    rule_.algorithm = *found;
    return {};
  }

  base::Status ops(const json& value) {
    const json list = value.is_array() ? value : json::array({value});
    for (const json& name : list) {
      const auto found = name.is_string() ? op_of(name.get<std::string>()) : std::nullopt;
      if (!found)
        return invalid(where_, "op " + base::json_text(name) + "; expected " + joined(kOps));
      rule_.ops.push_back(*found);
    }
    if (rule_.ops.empty()) return invalid(where_, "op is an empty list");
    return {};
  }

  base::Status platform(const json& value) {
    for (const Family family : {Family::kTrn1, Family::kInf2, Family::kTrn2, Family::kTrn3}) {
      if (value == to_string(family)) rule_.family = family;
    }
    if (rule_.family) return {};
    return invalid(where_,
                   "platform " + base::json_text(value) + "; expected trn1, inf2, trn2 or trn3");
  }

  const json& row_;
  std::string where_;
  Rule rule_;
};

}  // namespace

std::optional<OpKind> op_of(const std::string& name) {
  for (const OpName& known : kOps) {
    if (name == known.name) return known.kind;
  }
  return std::nullopt;
}

std::optional<Algorithm> algorithm_of(const std::string& name) {
  for (const AlgorithmName& known : kAlgorithms) {
    if (name == known.name) return known.algorithm;
  }
  return std::nullopt;
}

std::string op_names() {
  return joined(kOps);
}

std::string algorithm_names() {
  return joined(kAlgorithms);
}

base::Result<OverrideText> parse_overrides(const std::string& text) {
  OverrideText out;
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (base::Status status = add_entry(text.substr(at, end - at), &out); !status) {
      return status.error();
    }
    at = end + 1;
  }
  return out;
}

bool Rule::matches(const Situation& s) const {
  const auto is = [](const auto& wanted, const auto& value) { return !wanted || *wanted == value; };
  return (ops.empty() || std::find(ops.begin(), ops.end(), s.kind) != ops.end()) &&
         is(family, s.family) && is(ranks, s.ranks) && is(chips, s.chips) && is(nodes, s.nodes) &&
         is(in_place, s.in_place) && min_bytes <= s.size && s.size < below_bytes;
}

base::Result<std::vector<Rule>> parse_table(const std::string& text, const std::string& where) {
  const json table = base::parse_json(text);
  if (table.is_discarded()) return invalid(where, "no valid JSON");
  if (!table.is_object() || table.size() != 1 || !table.contains("rules") ||
      !table["rules"].is_array()) {
    return invalid(where, "expected an object with the list 'rules' and nothing else");
  }
  std::vector<Rule> rules;
  for (const json& row : table["rules"]) {
    const std::string at = where + ": rule " + std::to_string(rules.size());
    base::Result<Rule> rule = RuleReader(row, at).read();
    if (!rule) return rule.error();
    rules.push_back(std::move(*rule));
  }
  return rules;
}

std::optional<Algorithm> Overrides::forced(OpKind kind) const {
  std::optional<Algorithm> out;
  for (const auto& [op, algorithm] : algorithms) {
    if (op == kind) out = algorithm;
  }
  return out;
}

base::Result<Overrides> load_overrides(const std::string& text) {
  const base::Result<OverrideText> entries = parse_overrides(text);
  if (!entries) return entries.error();
  Overrides out;
  out.algorithms = entries->algorithms;
  for (const std::string& path : entries->tables) {
    const base::Result<std::string> table = read_user_file(path, kMaxTableBytes);
    if (!table) return table.error();
    const base::Result<std::vector<Rule>> rules = parse_table(*table, path);
    if (!rules) return rules.error();
    out.rules.insert(out.rules.end(), rules->begin(), rules->end());
  }
  for (const std::string& path : entries->programs) {
    const base::Result<std::string> xml = read_user_file(path, kMaxProgramBytes);
    if (!xml) return xml.error();
    base::Result<MscclProgram> program = load_msccl(*xml, path);
    if (!program) return program.error();
    out.programs.push_back(std::move(*program));
  }
  return out;
}

}  // namespace ccl
