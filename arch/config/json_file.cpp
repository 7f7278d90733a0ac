#include "arch/config/json_file.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "arch/config/embedded.h"
#include "arch/config/names.h"
#include "base/file.h"

namespace config {
namespace {

using nlohmann::json;

// Finds where a value starts in text that is known to be well-formed JSON.
class Locator {
 public:
  explicit Locator(std::string_view text) : text_(text) {}

  // Offset of the value at `path`, or of the deepest existing value on the way to it.
  size_t find(const std::vector<std::string>& path) {
    skip_space();
    size_t found = at_;
    for (const std::string& step : path) {
      if (!enter(step)) return found;
      found = at_;
    }
    return found;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  std::string_view string() {
    const size_t start = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    return text_.substr(start, at_++ - start);
  }
  void skip_value() {
    skip_space();
    int depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        string();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (depth < 0 || (depth == 0 && c == ',')) return;
      ++at_;
    } while (at_ < text_.size() &&
             (depth > 0 || std::string_view(",]}").find(peek()) == text_.npos));
  }
  // Moves from the start of an array or object to the element called `step`.
  bool enter(const std::string& step) {
    const char open = peek();
    if (open != '{' && open != '[') return false;
    ++at_;
    for (size_t index = 0;; ++index) {
      skip_space();
      if (peek() == '}' || peek() == ']' || peek() == '\0') return false;
      std::string_view key;
      if (open == '{') {
        key = string();
        skip_space();
        ++at_;  // the colon
        skip_space();
      }
      if (open == '{' ? key == step : std::to_string(index) == step) return true;
      skip_value();
      skip_space();
      if (peek() != ',') return false;
      ++at_;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

size_t line_of(std::string_view text, size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return static_cast<size_t>(std::count(text.begin(), end, '\n')) + 1;
}

base::Error malformed(const std::string& name, size_t line, std::string what) {
  return {base::Fault::kConfig, 0, name + ":" + std::to_string(line), std::move(what)};
}

// Offset of a key that its object already has, in well-formed text. The JSON library keeps the last
// of equal keys; people who wrote both meant one of them.
std::optional<size_t> duplicate_key(std::string_view text) {
  std::vector<std::set<std::string_view>> open;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' || text[at] == '[') open.emplace_back();
    if (text[at] == '}' || text[at] == ']') open.pop_back();
    if (text[at] != '"') continue;
    const size_t start = at;
    for (++at; text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    const size_t next = text.find_first_not_of(" \t\r\n", at + 1);
    const bool is_key = next != std::string_view::npos && text[next] == ':';
    if (is_key && !open.back().insert(text.substr(start, at - start)).second) return start;
  }
  return std::nullopt;
}

// Turns the validator's "<root>[chips][3]" pieces into a path; an unknown key is added to it.
std::vector<std::string> path_of(const valijson::ValidationResults::Error& error) {
  std::vector<std::string> path;
  for (const std::string& step : error.context) {
    if (step.size() > 2 && step.front() == '[') path.push_back(step.substr(1, step.size() - 2));
  }
  const size_t quote = error.description.rfind(": '");
  if (quote != std::string::npos) {
    std::string key = error.description.substr(quote + 3);
    key.resize(key.find_last_of('\''));
    path.push_back(std::move(key));
  }
  return path;
}

}  // namespace

bool is_path(const std::string& name) {
  constexpr std::string_view kSuffix = ".json";
  return name.find('/') != std::string::npos ||
         (name.size() > kSuffix.size() &&
          std::string_view(name).substr(name.size() - kSuffix.size()) == kSuffix);
}

std::string relative_to(const std::string& from, const std::string& name) {
  const size_t slash = from.rfind('/');
  if (!is_path(name) || name.front() == '/' || slash == std::string::npos) return name;
  return from.substr(0, slash + 1) + name;
}

std::string JsonFile::where(const std::vector<std::string>& path) const {
  return name + ":" + std::to_string(line_of(text, Locator(text).find(path)));
}

base::Error JsonFile::error(const std::vector<std::string>& path, std::string what) const {
  return {base::Fault::kConfig, 0, where(path), std::move(what)};
}

base::Status check_schema(const JsonFile& file, std::string_view schema_name) {
  const auto schema_text = embedded_text("schema/" + std::string(schema_name));
  if (!schema_text) {
    return base::Error{base::Fault::kInternal, 0, std::string(schema_name), "no such schema"};
  }
  const json document = json::parse(*schema_text);
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(document), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(file.value), &results)) {
    return {};
  }
  // The deepest complaint is the cause; the others only say that its parents are wrong too.
  valijson::ValidationResults::Error error, cause;
  while (results.popError(error)) {
    if (cause.description.empty() || error.context.size() > cause.context.size()) cause = error;
  }
  const std::vector<std::string> path = path_of(cause);
  return file.error(path, "/" + join(path, "/") + ": " + cause.description);
}

base::Result<JsonFile> parse_json(std::string name, std::string text) {
  JsonFile file{std::move(name), std::move(text), {}};
  // The JSON library takes a NUL for the end of the text and would ignore what follows.
  if (const size_t nul = file.text.find('\0'); nul != std::string::npos) {
    return malformed(file.name, line_of(file.text, nul),
                     "a NUL byte does not belong in a text file");
  }
  try {
    file.value = json::parse(file.text);
  } catch (const json::parse_error& error) {
    return malformed(file.name, line_of(file.text, error.byte), error.what());
  } catch (const json::out_of_range& error) {  // a number that no double holds; has no position
    return malformed(file.name, 1, error.what());
  }
  if (const auto second = duplicate_key(file.text)) {
    return malformed(file.name, line_of(file.text, *second), "this key stands twice");
  }
  return file;
}

base::Result<JsonFile> parse_json(std::string name, std::string text, std::string_view schema) {
  auto file = parse_json(std::move(name), std::move(text));
  if (!file) return file;
  base::Status valid = check_schema(*file, schema);
  if (!valid) return valid.error();
  return file;
}

base::Result<JsonFile> read_json(std::string_view kind, std::string_view directory,
                                 const std::string& name, std::string_view schema) {
  auto file = read_json(kind, directory, name);
  if (!file) return file;
  base::Status valid = check_schema(*file, schema);
  if (!valid) return valid.error();
  return file;
}

base::Result<JsonFile> read_json(std::string_view kind, std::string_view directory,
                                 const std::string& name) {
  if (is_path(name)) {
    const base::Result<std::string> text = base::read_file(name);
    if (!text) return base::Error{base::Fault::kConfig, 0, name, text.error().what};
    return parse_json(name, *text);
  }
  const std::string path = std::string(directory) + "/" + name + ".json";
  const auto text = embedded_text(path);
  if (!text) {
    const auto valid = embedded_names(directory);
    return base::Error{base::Fault::kConfig, 0, "",
                       "unknown " + std::string(kind) + " '" + name +
                           "'; valid: " + join(valid, ", ") + ", or the path of a .json file"};
  }
  return parse_json(path, std::string(*text));
}

}  // namespace config
