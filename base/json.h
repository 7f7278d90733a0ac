// JSON from text and back, compiled once: the parser and the writer are templates that cost seconds
// in every file that calls them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace base {

// A value that is_discarded() if `text` is not JSON.
nlohmann::json parse_json(std::string_view text);
nlohmann::ordered_json parse_ordered_json(std::string_view text);

// As dump(): one line with indent -1, else a line per member and `indent` spaces per level.
// Throws nlohmann's type_error if a string is not UTF-8.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace base
