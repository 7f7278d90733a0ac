// Lists of names that cross the C boundary: array and each string come from the process's malloc
// (spec/nrt-api.md 1.4).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"

namespace nrt {

base::Status copy_list(const std::vector<std::string>& names, const char*** list, size_t* count);
void free_list(const char** list, size_t count);

}  // namespace nrt
