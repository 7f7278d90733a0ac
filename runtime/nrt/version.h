// The version that this runtime says it has (spec/nrt-api.md 4.6).
#pragma once

#include <cstdint>

namespace nrt {

constexpr uint64_t kVersion[4] = {2, 31, 0, 0};

}  // namespace nrt
