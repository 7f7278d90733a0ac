// JSON files of people: parsed strictly, held against a schema, every complaint with file and line.
// Private to this room, because it brings in the JSON library.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace config {

struct JsonFile {
  std::string name;
  std::string text;
  nlohmann::json value;

  // "name:line" of the value at `path` (object keys and array indices as text), or of its nearest
  // enclosing value that exists.
  std::string where(const std::vector<std::string>& path) const;
  base::Error error(const std::vector<std::string>& path, std::string what) const;
};

// Fails on malformed text or a key given twice.
base::Result<JsonFile> parse_json(std::string name, std::string text);
// Fails on the first breach of data/schema/<schema>.
base::Status check_schema(const JsonFile& file, std::string_view schema);
// Both.
base::Result<JsonFile> parse_json(std::string name, std::string text, std::string_view schema);

// Reads "<directory>/<name>.json" of the embedded data, or the file `name` if it is a path (it has
// a slash or ends in .json). `kind` is for the message, which lists the valid names.
base::Result<JsonFile> read_json(std::string_view kind, std::string_view directory,
                                 const std::string& name);
base::Result<JsonFile> read_json(std::string_view kind, std::string_view directory,
                                 const std::string& name, std::string_view schema);

// Whether `name` means a file rather than embedded data: it has a slash or ends in .json.
bool is_path(const std::string& name);
// `name` as the file `from` means it: a relative path counts from the directory of `from`.
std::string relative_to(const std::string& from, const std::string& name);

}  // namespace config
