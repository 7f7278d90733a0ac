#include "arch/config/embedded.h"

namespace config {

std::optional<std::string_view> embedded_text(std::string_view path) {
  for (unsigned i = 0; i < kEmbeddedFileCount; ++i) {
    if (kEmbeddedFiles[i].path == path) return kEmbeddedFiles[i].text;
  }
  return std::nullopt;
}

std::vector<std::string> embedded_names(std::string_view directory) {
  constexpr std::string_view kSuffix = ".json";
  std::vector<std::string> names;
  for (unsigned i = 0; i < kEmbeddedFileCount; ++i) {
    const std::string_view path = kEmbeddedFiles[i].path;
    if (path.size() <= directory.size() + 1 + kSuffix.size() ||
        path.substr(0, directory.size()) != directory || path[directory.size()] != '/') {
      continue;
    }
    const std::string_view file = path.substr(directory.size() + 1);
    names.emplace_back(file.substr(0, file.size() - kSuffix.size()));
  }
  return names;
}

}  // namespace config
