// Reader of the golden register traces in this directory; the format is in README.md.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace golden {

struct Access {
  bool write = false;
  uint64_t address = 0;
  bool any = false;  // the value is not compared
  uint32_t value = 0;
};

class TraceReader {
 public:
  explicit TraceReader(std::string directory) : directory_(std::move(directory)) {}

  using Names = std::map<std::string, uint64_t>;
  std::vector<Access> read(const std::string& file, const Names& names = {}) const {
    std::vector<Access> out;
    append(file, names, out);
    return out;
  }

 private:
  static uint64_t number(const std::string& text, const Names& names) {
    const size_t plus = text.find('+');
    if (plus != std::string::npos) {
      return number(text.substr(0, plus), names) + number(text.substr(plus + 1), {});
    }
    const auto name = names.find(text);
    return name != names.end() ? name->second : std::stoull(text, nullptr, 16);
  }

  void append(const std::string& file, Names names, std::vector<Access>& out) const {
    std::ifstream in(directory_ + "/" + file);
    if (!in) throw std::runtime_error("cannot read trace " + file);
    std::string text;
    while (std::getline(in, text)) {
      std::istringstream line(text);
      std::string op, first, second;
      line >> op >> first;
      if (op.empty() || op[0] == '#') continue;
      if (op == "use") {
        Names inner;
        while (line >> second) {
          const size_t eq = second.find('=');
          inner[second.substr(0, eq)] = number(second.substr(eq + 1), {});
        }
        append(first, inner, out);
        continue;
      }
      line >> second;
      if (op == "base") {
        names[first] = number(second, {});
        continue;
      }
      if (op != "W" && op != "R") throw std::runtime_error(file + ": unknown line " + text);
      Access access;
      access.write = op == "W";
      access.address = number(first, names);
      access.any = second == "*";
      if (!access.any) access.value = static_cast<uint32_t>(number(second, names));
      out.push_back(access);
    }
  }

  std::string directory_;
};

}  // namespace golden
