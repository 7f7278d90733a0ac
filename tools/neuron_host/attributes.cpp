#include "tools/neuron_host/attributes.h"

#include <cctype>
#include <charconv>

#include "base/file.h"

namespace neuron_host {

std::optional<std::string> read_attribute(const std::string& path) {
  constexpr size_t kLimit = 1 << 16;
  const auto text = base::read_file(path, kLimit);
  if (!text) return std::nullopt;
  constexpr const char* kBlank = " \t\r\n";
  const size_t first = text->find_first_not_of(kBlank);
  if (first == std::string::npos) return "";
  return text->substr(first, text->find_last_not_of(kBlank) - first + 1);
}

std::optional<uint64_t> read_number(const std::string& path) {
  const auto text = read_attribute(path);
  uint64_t value = 0;
  if (!text) return std::nullopt;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), value);
  return parsed.ec == std::errc() ? std::optional<uint64_t>(value) : std::nullopt;
}

std::vector<int> parse_list(const std::string& text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int number = 0;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc()) break;
    numbers.push_back(number);
    for (at = parsed.ptr; at != end && (*at == ',' || *at == ' ');) ++at;
  }
  return numbers;
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace neuron_host
