#include "neff_loader/debug_info.h"

#include <algorithm>

#include "base/json.h"
#include "neff_loader/pack.h"

namespace neff {
namespace {

constexpr const char* kFormat = "emu-kernel-debug";

bool unsigned_below(const nlohmann::json& value, uint64_t limit) {
  return value.is_number_unsigned() && value.get<uint64_t>() < limit;
}

// It becomes part of messages and of assembler comments.
bool one_line(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool strings(const nlohmann::json& root, const char* key, std::vector<std::string>* out) {
  const auto list = root.find(key);
  if (list == root.end() || !list->is_array()) return false;
  for (const auto& text : *list) {
    if (!text.is_string()) return false;
    out->push_back(text.get<std::string>());
    if (!one_line(out->back())) return false;
  }
  return true;
}

}  // namespace

const DebugInfo::Source* DebugInfo::find(uint64_t debug_id) const {
  const uint64_t instruction = debug_id & 0xFFFFFFFF;
  const bool known = instruction >= 1 && instruction <= locations.size();
  return known ? &locations[instruction - 1] : nullptr;
}

std::string DebugInfo::describe(uint64_t debug_id) const {
  const Source* source = find(debug_id);
  if (source == nullptr) return "";
  return files[source->file] + ":" + std::to_string(source->line) + " (" + calls[source->call] +
         ")";
}

std::vector<uint8_t> write_debug_info(const DebugInfo& info) {
  nlohmann::ordered_json locations = nlohmann::ordered_json::array();
  for (const DebugInfo::Source& s : info.locations) locations.push_back({s.file, s.line, s.call});
  const nlohmann::ordered_json root = {{"x_format", kFormat},
                                       {"x_version", 1},
                                       {"x_files", info.files},
                                       {"x_calls", info.calls},
                                       {"x_locations", locations}};
  return text_bytes(base::json_text(root) + "\n");
}

std::optional<DebugInfo> read_debug_info(base::ConstByteSpan json) {
  const nlohmann::json root =
      base::parse_json({reinterpret_cast<const char*>(json.data()), json.size()});
  if (!root.is_object() || root.value("x_format", nlohmann::json()) != kFormat) return std::nullopt;
  DebugInfo out;
  const auto list = root.find("x_locations");
  if (!strings(root, "x_files", &out.files) || !strings(root, "x_calls", &out.calls) ||
      list == root.end() || !list->is_array()) {
    return std::nullopt;
  }
  for (const auto& entry : *list) {
    const bool right =
        entry.is_array() && entry.size() == 3 && unsigned_below(entry[0], out.files.size()) &&
        unsigned_below(entry[1], uint64_t{1} << 32) && unsigned_below(entry[2], out.calls.size());
    if (!right) return std::nullopt;
    out.locations.push_back(
        {entry[0].get<uint32_t>(), entry[1].get<uint32_t>(), entry[2].get<uint32_t>()});
  }
  return out;
}

}  // namespace neff
