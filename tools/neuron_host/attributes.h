// Attributes of sysfs and procfs, and numbers and lists of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace neuron_host {

// The text of a small file without blanks and newlines around it; nothing if it cannot be read.
std::optional<std::string> read_attribute(const std::string& path);
// The decimal number that an attribute begins with.
std::optional<uint64_t> read_number(const std::string& path);
// "12, 3, 4, 1"; what is no number ends the list.
std::vector<int> parse_list(const std::string& text);
// What a terminal and a JSON parser can take: bytes that are no printable ASCII become '?'.
std::string printable(std::string text);

}  // namespace neuron_host
