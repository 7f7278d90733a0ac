// Host files for the neff tool. Everything else of it works on bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/span.h"
#include "neff_loader/archive.h"

namespace tool {

base::Result<std::vector<uint8_t>> read_file(const std::filesystem::path& path);
base::Status write_file(const std::filesystem::path& path, base::ConstByteSpan bytes);

// All regular files below `directory`, named relative to it. Symbolic links are refused.
base::Result<std::vector<neff::Member>> read_directory(const std::filesystem::path& directory);

// Writes members into a directory that does not exist yet or is empty, so that nothing that
// already lies there (a link out of it, for example) can redirect a write.
base::Status write_directory(const std::filesystem::path& directory,
                             const std::vector<neff::Member>& members);

}  // namespace tool
