// Help for mistyped names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace config {

// The names of `valid` that `wrong` was probably meant to be, best first, at most `limit`: those
// with few edits, then those that share its first component ("dma." of "dma.engin_gbps").
std::vector<std::string> near_names(std::string_view wrong, const std::vector<std::string>& valid,
                                    size_t limit);

std::string join(const std::vector<std::string>& words, std::string_view separator);

}  // namespace config
