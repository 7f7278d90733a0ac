#include "tools/neff/files.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace tool {
namespace {

namespace fs = std::filesystem;

base::Error io_error(const fs::path& path, const std::string& what) {
  return {base::Fault::kIo, errno, path.string(), what};
}

}  // namespace

base::Result<std::vector<uint8_t>> read_file(const fs::path& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) return io_error(path, "is a directory");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error(path, std::string("cannot open: ") + std::strerror(errno));
  std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(in)),
                             std::istreambuf_iterator<char>());
  if (in.bad()) return io_error(path, "read error");
  return bytes;
}

base::Status write_file(const fs::path& path, base::ConstByteSpan bytes) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) return io_error(path, std::string("cannot create: ") + std::strerror(errno));
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) return io_error(path, "write error");
  return {};
}

base::Result<std::vector<neff::Member>> read_directory(const fs::path& directory) {
  std::error_code code;
  if (!fs::is_directory(directory, code)) return io_error(directory, "is not a directory");
  std::vector<neff::Member> members;
  fs::recursive_directory_iterator it(directory, code);
  for (; !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    const fs::file_status status = it->symlink_status(code);
    if (fs::is_directory(status)) continue;
    if (!fs::is_regular_file(status)) return io_error(it->path(), "is neither file nor directory");
    base::Result<std::vector<uint8_t>> bytes = read_file(it->path());
    if (!bytes) return bytes.error();
    members.push_back(
        {fs::relative(it->path(), directory, code).generic_string(), std::move(*bytes)});
  }
  if (code) return io_error(directory, code.message());
  return members;
}

base::Status write_directory(const fs::path& directory, const std::vector<neff::Member>& members) {
  std::error_code code;
  if (fs::exists(directory, code) &&
      (!fs::is_directory(directory, code) || !fs::is_empty(directory, code))) {
    return io_error(directory, "exists and is not an empty directory");
  }
  for (const neff::Member& m : members) {
    const fs::path path = directory / m.name;
    fs::create_directories(path.parent_path(), code);
    if (code) return io_error(path.parent_path(), code.message());
    if (base::Status s = write_file(path, m.data); !s) return s;
  }
  return {};
}

}  // namespace tool
