#include "inputs.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "neff_loader/neff.h"

namespace nccom {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxFile = 16u << 20;
constexpr size_t kMaxParts = 64;

}  // namespace

base::Result<std::string> read_text(const std::string& path) {
  base::Result<std::string> text = base::read_file(path, kMaxFile);
  if (!text) return usage(path, text.error().what);
  return text;
}

namespace {

// The one entry of array `key` of the file's object; an entry is one variant of the operation.
base::Result<Json> read_variant(const std::string& path, const char* key) {
  auto text = read_text(path);
  if (!text) return text.error();
  Json json = base::parse_ordered_json(*text);
  if (json.is_discarded() || !json.is_object() || !json.contains(key) || !json[key].is_array()) {
    return usage(path, std::string("expected {\"") + key + "\": [ ... ]}");
  }
  if (json[key].size() != 1) {
    return base::Error{
        base::Fault::kUnsupported, 2, path,
        std::to_string(json[key].size()) + " variants in " + key + "; this version runs one"};
  }
  return Json(json[key][0]);
}

// A list of lists of ranks.
base::Result<RankLists> rank_lists(const std::string& path, const Json& json, uint32_t ranks) {
  RankLists lists;
  const std::string shape = "expected lists of ranks below " + std::to_string(ranks);
  if (!json.is_array() || json.empty()) return usage(path, shape);
  for (const Json& entry : json) {
    std::vector<uint32_t>& list = lists.emplace_back();
    if (!entry.is_array() || entry.empty()) return usage(path, shape);
    for (const Json& rank : entry) {
      if (!rank.is_number_unsigned() || rank.get<uint64_t>() >= ranks) {
        return usage(path, shape + ", not " + base::json_text(rank));
      }
      list.push_back(rank.get<uint32_t>());
    }
  }
  return lists;
}

// One word; several of a list of texts; a list of numbers as one: a ratio.
base::Result<std::vector<std::string>> argument_texts(const std::string& path,
                                                      const std::string& key, const Json& value) {
  std::vector<std::string> words;
  if (value.is_string()) return words = {value.get<std::string>()};
  if (value.is_number_unsigned()) return words = {base::json_text(value)};
  const auto all = [&](bool (*is)(const Json&)) {
    return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is);
  };
  if (all([](const Json& item) { return item.is_number_unsigned(); }))
    return words = {base::json_text(value)};
  if (all([](const Json& item) { return item.is_string(); })) {
    for (const Json& item : value) words.push_back(item.get<std::string>());
    return words;
  }
  return usage(path, "stream key '" + key + "' holds " + base::json_text(value));
}

}  // namespace

base::Result<RankLists> read_groups(const std::string& path, uint32_t ranks) {
  const auto json = read_variant(path, "replica_groups");
  if (!json) return json.error();
  auto lists = rank_lists(path, *json, ranks);
  if (!lists) return lists.error();
  std::set<uint32_t> seen;
  for (const auto& list : *lists) {
    if (list.size() != lists->front().size()) return usage(path, "groups of unequal size");
    for (const uint32_t rank : list) {
      if (!seen.insert(rank).second) {
        return usage(path, "rank " + std::to_string(rank) + " is in two places");
      }
    }
  }
  if (seen.size() != ranks) {
    return usage(path, "the groups hold " + std::to_string(seen.size()) + " of " +
                           std::to_string(ranks) + " ranks");
  }
  return lists;
}

base::Result<Pairs> read_pairs(const std::string& path, uint32_t ranks) {
  const auto json = read_variant(path, "src_target_pairs");
  if (!json) return json.error();
  const auto lists = rank_lists(path, *json, ranks);
  if (!lists) return lists.error();
  Pairs pairs;
  std::set<uint32_t> sources;
  std::set<uint32_t> targets;
  for (const auto& list : *lists) {
    if (list.size() != 2) return usage(path, "a pair has a source and a target");
    if (!sources.insert(list[0]).second || !targets.insert(list[1]).second) {
      return usage(path, "pair [" + std::to_string(list[0]) + "," + std::to_string(list[1]) +
                             "]: a rank is source or target twice");
    }
    pairs.emplace_back(list[0], list[1]);
  }
  if (sources != targets) return usage(path, "the pairs do not form rings");
  return pairs;
}

base::Result<std::vector<std::vector<std::string>>> read_streams(const std::string& path) {
  auto text = read_text(path);
  if (!text) return text.error();
  const Json json = base::parse_ordered_json(*text);
  if (json.is_discarded() || !json.is_object() || !json.contains("streams") ||
      !json["streams"].is_array() || json["streams"].empty()) {
    return usage(path, "expected {\"streams\": [ {...}, ... ]}");
  }
  if (json["streams"].size() > neff::kMaxStreams) {
    return usage(path, std::to_string(json["streams"].size()) + " streams; at most 4");
  }
  std::vector<std::vector<std::string>> out;
  for (const Json& stream : json["streams"]) {
    std::vector<std::string>& arguments = out.emplace_back();
    if (!stream.is_object()) return usage(path, "a stream is an object of option names");
    for (const auto& [key, value] : stream.items()) {
      if (value.is_boolean() && !value.get<bool>()) continue;
      const bool own = key == "ops_per_iter" || key == "priority";
      std::string name = (own ? "--x_" : "--") + key;
      std::replace(name.begin(), name.end(), '_', '-');
      for (const std::string with_line :
           {"--warmup_iters", "--neff_iters", "--neff_warmup_iters"}) {
        if (key == with_line.substr(2)) name = with_line;
      }
      if (name == "--streams-json") return usage(path, "a stream cannot name another file");
      arguments.push_back(key == "operation" ? "--x-operation" : name);
      if (value.is_boolean()) continue;
      auto values = argument_texts(path, key, value);
      if (!values) return values.error();
      arguments.insert(arguments.end(), values->begin(), values->end());
    }
  }
  return out;
}

base::Result<uint64_t> parse_size(const std::string& text) {
  const base::Error bad{base::Fault::kUsage, 2, "", "invalid size value: '" + text + "'"};
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0)
    ++digits;
  constexpr size_t kMaxDigits = 18;
  if (digits == 0 || digits > kMaxDigits) return bad;
  std::string suffix = text.substr(digits);
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  unsigned shift = 0;
  if (suffix == "k" || suffix == "kb") {
    shift = 10;
  } else if (suffix == "m" || suffix == "mb") {
    shift = 20;
  } else if (suffix == "g" || suffix == "gb") {
    shift = 30;
  } else if (!suffix.empty() && suffix != "b") {
    return bad;
  }
  const uint64_t value = std::stoull(text.substr(0, digits));
  constexpr unsigned kMaxShift = 48;  // 256 TiB: more than any device
  if (value >> (kMaxShift - shift) != 0) return bad;
  return value << shift;
}

base::Result<std::vector<uint32_t>> parse_ratio(const std::string& text) {
  const Json json = base::parse_ordered_json(text);
  const base::Error wrong{base::Fault::kUsage, 2, "",
                          "invalid ratio '" + text + "'; expected a list such as [1,2,1]"};
  if (json.is_discarded() || !json.is_array() || json.empty() || json.size() > kMaxParts) {
    return wrong;
  }
  std::vector<uint32_t> out;
  for (const Json& part : json) {
    constexpr uint64_t kMost = 1u << 20;
    if (!part.is_number_unsigned() || part.get<uint64_t>() == 0 || part.get<uint64_t>() > kMost) {
      return wrong;
    }
    out.push_back(part.get<uint32_t>());
  }
  return out;
}

base::Result<std::vector<std::string>> read_hosts(const std::string& path) {
  auto text = read_text(path);
  if (!text) return text.error();
  std::istringstream lines(*text);
  std::vector<std::string> hosts;
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    for (std::string word; words >> word;) hosts.push_back(word);
  }
  if (hosts.empty()) return usage(path, "the file names no host");
  return hosts;
}

}  // namespace nccom
