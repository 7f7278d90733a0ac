// Data files that travel inside the binary: platforms/, timing/, schema/ (see CMakeLists.txt).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace config {

struct EmbeddedFile {
  std::string_view path;  // below data/: "platforms/trn1.2xlarge.json"
  std::string_view text;
};

// Generated; sorted by path.
extern const EmbeddedFile kEmbeddedFiles[];
extern const unsigned kEmbeddedFileCount;

std::optional<std::string_view> embedded_text(std::string_view path);
// The names of the files "<directory>/<name>.json", sorted.
std::vector<std::string> embedded_names(std::string_view directory);

}  // namespace config
