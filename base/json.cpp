#include "base/json.h"

namespace base {

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, false);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent);
}

}  // namespace base
