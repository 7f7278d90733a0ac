// Walks a generated register table as software would: reset value, then write and read back by
// access right. Registers whose writes do something else than store are named by the caller.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "arch/contract/reg.h"

namespace hw_test {

struct RegisterWalk {
  std::function<uint32_t(uint64_t)> read;  // by offset in the block
  std::function<void(uint64_t, uint32_t)> write;
  uint8_t gen = 2;
  std::vector<std::string> acting;  // not written, or by hand
  uint32_t checked = 0;

  bool acts(const std::string& name) const {
    for (const std::string& each : acting) {
      if (each == name) return true;
    }
    return false;
  }

  void reset_values(const contract::RegInfo& r) {
    for (uint32_t k = 0; k < r.count; ++k) {
      const uint32_t expected = r.in(gen) && r.access != contract::Access::kWriteOnly ? r.reset : 0;
      EXPECT_EQ(read(r.offset + uint64_t{k} * r.stride), expected) << r.name << " " << k;
      ++checked;
    }
  }

  void rights(const contract::RegInfo& r) {
    using contract::Access;
    if (acts(r.name)) return;
    for (uint32_t k = 0; k < r.count; ++k) {
      const uint64_t at = r.offset + uint64_t{k} * r.stride;
      const uint32_t before = read(at);
      for (const uint32_t pattern : {0xA5A5'5A5Au + k, 0xFFFF'FFFFu, 0x5A5A'A5A5u, 0u}) {
        write(at, pattern);
        const uint32_t kept = r.reset & ~r.writable;
        uint32_t expected = 0;
        if (r.access == Access::kReadWrite) expected = kept | (pattern & r.writable);
        if (r.access == Access::kReadOnly) expected = before;
        if (!r.in(gen)) expected = 0;
        EXPECT_EQ(read(at), expected) << r.name << " " << k << " <- " << pattern;
      }
      ++checked;
    }
  }

  template <size_t N>
  void walk(const contract::RegInfo (&regs)[N]) {
    for (const contract::RegInfo& r : regs) reset_values(r);
    for (const contract::RegInfo& r : regs) rights(r);
  }
};

}  // namespace hw_test
