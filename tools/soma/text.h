// Texts that tables and pictures share.
#pragma once

#include <string>
#include <string_view>

namespace soma {

std::string size_text(double bytes);        // "1.5 MiB"
std::string escape(std::string_view text);  // for HTML and SVG

}  // namespace soma
