// Data of `file` variables: raw members and NumPy files (spec/neff.md 2.10).
#include <cstring>

#include "neff_loader/parse.h"

namespace neff {
namespace {

bool has_suffix(const std::string& text, const char* suffix) {
  const size_t n = std::strlen(suffix);
  return text.size() >= n && text.compare(text.size() - n, n, suffix) == 0;
}

// The array bytes of a NumPy file, or an explanation why not. dtype and shape do not matter.
base::ConstByteSpan npy_content(base::ConstByteSpan file, std::string* problem) {
  if (file.size() < 10 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0) {
    *problem = "no NumPy magic";
    return {};
  }
  const uint8_t major = file[6];
  if (major < 1 || major > 3 || (major > 1 && file.size() < 12)) {
    *problem = "NumPy version " + std::to_string(major) + " is not 1, 2 or 3";
    return {};
  }
  const size_t prefix = major == 1 ? 10 : 12;
  const size_t header =
      major == 1 ? base::load<uint16_t>(file.data() + 8) : base::load<uint32_t>(file.data() + 8);
  if (header > file.size() - prefix) {
    *problem = "header is longer than the file";
    return {};
  }
  const std::string text(reinterpret_cast<const char*>(file.data()) + prefix, header);
  if (text.find("'fortran_order': False") == std::string::npos) {
    *problem = "array is in Fortran order or does not say its order";
    return {};
  }
  return file.sub(prefix + header, file.size() - prefix - header);
}

}  // namespace

void load_constant(const Context& c, const Fields& f, const std::string& directory, Variable* v) {
  const std::optional<std::string> name = f.text("file_name");
  if (!name) return f.fail("D-07", "file variable without 'file_name'");
  base::Result<std::string> path = member_path(directory, *name);
  if (!path) return c.report.fail(path.error());
  v->file_name = *path;
  const Member* member = c.archive.find(*path);
  if (member == nullptr) return f.fail("D-07", "Unable to open: " + *path + " - 2");
  base::ConstByteSpan content = member->data;
  const bool npy = has_suffix(*path, ".npy");
  if (npy) {
    std::string problem;
    content = npy_content(content, &problem);
    if (!problem.empty()) return f.fail("D-07", *path + ": " + problem);
  }
  const int64_t skip = f.integer_in("x_file_offset", 0, INT64_MAX, "D-07").value_or(0);
  if (static_cast<uint64_t>(skip) > content.size()) {
    return f.fail("D-07", "x_file_offset lies behind the end of " + *path);
  }
  const bool merged = f.has("x_file_offset");  // several variables share the file
  content = content.sub(static_cast<size_t>(skip), content.size() - static_cast<size_t>(skip));
  if (merged && content.size() > v->size) content = content.sub(0, v->size);
  if (content.size() > v->size || (npy && content.size() != v->size)) {
    return f.fail("D-07", *path + " has " + std::to_string(content.size()) + " bytes, size is " +
                              std::to_string(v->size));
  }
  if (content.size() < v->size) f.warn(*path + " is shorter than the variable; the rest is zero");
  v->content = content;
}

}  // namespace neff
