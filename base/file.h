// Files that people keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace base {

// All that the file at `path`, or a pipe, holds. Error: Fault::kIo, `path`, and the reason: no such
// file, a directory, more than `limit` bytes.
Result<std::string> read_file(const std::string& path, size_t limit = SIZE_MAX);

// Puts `text` into the file at `path`, all or nothing: whoever reads it meanwhile, and a full disk
// or a killed process, finds what was there before. What is no plain file (a terminal, a pipe,
// /dev/null) is written to, not replaced; so is an open file that has no name, and a file in a
// directory that nothing can be added to.
// Error: Fault::kIo, `path`, and the reason.
Status replace_file(const std::string& path, std::string_view text);

// Before a program ends: whether all that it has printed has arrived. Error: Fault::kIo, "stdout".
Status flush_stdout();

}  // namespace base
