// A line of the screen: text that ends at the screen's edge, in colours where there are any.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "tools/neuron-top/screen.h"

namespace neuron_top {

// Parameters of the terminal's SGR sequence.
namespace style {
constexpr const char* kPlain = "";
constexpr const char* kTitle = "1;37;44";
constexpr const char* kHeading = "1;36";
constexpr const char* kFaint = "90";
constexpr const char* kCurrent = "1;32";
constexpr const char* kSelected = "7";
constexpr const char* kLow = "32";
constexpr const char* kMiddle = "33";
constexpr const char* kHigh = "31";
}  // namespace style

class Line {
 public:
  explicit Line(const Look& look) : look_(look), left_(look.columns) {}

  // `text`: ASCII.
  Line& add(std::string_view text, const char* style = style::kPlain) {
    return put(std::string(text.substr(0, left_)), std::min(text.size(), left_), style);
  }
  // Right or left of blanks that fill `width`.
  Line& right(std::string_view text, size_t width, const char* style = style::kPlain) {
    return blanks(width - std::min(width, text.size())).add(text, style);
  }
  Line& left(std::string_view text, size_t width, const char* style = style::kPlain) {
    return add(text, style).blanks(width - std::min(width, text.size()));
  }
  Line& blanks(size_t count) { return add(std::string(std::min(count, left_), ' ')); }
  // `count` times a character, of which a terminal without UTF-8 has a plain one.
  Line& repeat(const char* glyph, char plain, size_t count, const char* style) {
    const size_t fits = std::min(count, left_);
    std::string text;
    for (size_t i = 0; i < fits; ++i)
      text += look_.utf8 ? std::string(glyph) : std::string(1, plain);
    return put(text, fits, style);
  }
  size_t room() const { return left_; }
  const std::string& text() const { return text_; }

 private:
  Line& put(const std::string& text, size_t columns, const char* style) {
    const bool styled = look_.colour && *style != 0 && columns > 0;
    text_ += styled ? "\x1b[" + std::string(style) + "m" + text + "\x1b[0m" : text;
    left_ -= columns;
    return *this;
  }

  const Look& look_;
  std::string text_;
  size_t left_;
};

}  // namespace neuron_top
