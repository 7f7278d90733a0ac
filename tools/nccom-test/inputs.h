// Input files of nccom-test (spec/tools.md 2.10, 2.11). Errors name the file and the rule.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace nccom {

using RankLists = std::vector<std::vector<uint32_t>>;
using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

// Exit code 2; the message is what argparse would print behind "error: ".
inline base::Error usage(std::string path, std::string what) {
  return {base::Fault::kUsage, 2, std::move(path), std::move(what)};
}

// A file of at most 16 MiB.
base::Result<std::string> read_text(const std::string& path);

// {"replica_groups": [ [[0,1],[2,3]] ]}: lists of equal length that do not overlap, below `ranks`.
base::Result<RankLists> read_groups(const std::string& path, uint32_t ranks);

// {"src_target_pairs": [ [[0,1],[1,0]] ]}: every rank at most once as source and as target.
base::Result<Pairs> read_pairs(const std::string& path, uint32_t ranks);

// {"streams": [ {...}, ... ]}: for each stream the arguments that it adds to the command line.
base::Result<std::vector<std::vector<std::string>>> read_streams(const std::string& path);

// "1kb", "32M", "17": binary multiples, any case.
base::Result<uint64_t> parse_size(const std::string& text);

// "[1,2,1]": at least one part, each at least 1.
base::Result<std::vector<uint32_t>> parse_ratio(const std::string& text);

// One host per line; empty lines and # comments are skipped.
base::Result<std::vector<std::string>> read_hosts(const std::string& path);

}  // namespace nccom
