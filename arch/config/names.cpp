#include "arch/config/names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace config {
namespace {

// Levenshtein distance.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> near_names(std::string_view wrong, const std::vector<std::string>& valid,
                                    size_t limit) {
  const std::string_view family = wrong.substr(0, wrong.find('.'));
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& name : valid) {
    const size_t distance = edits(wrong, name);
    const bool same_family = name.substr(0, name.find('.')) == family;
    if (distance <= 1 + wrong.size() / 4 || same_family || name.find(wrong) != std::string::npos) {
      ranked.emplace_back(distance, name);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (const auto& [distance, name] : ranked) {
    if (names.size() == limit) break;
    names.push_back(name);
  }
  return names;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace config
