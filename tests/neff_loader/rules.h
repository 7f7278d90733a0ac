// Rules of spec/neff.md 1.10 and 4.6: files that keep all, and copies of the examples that break
// one.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "neff_loader/neff.h"
#include "neff_loader/status.h"
#include "tests/neff_loader/fixtures.h"

namespace neff::test {

using Bytes = std::vector<uint8_t>;
using Members = std::vector<Member>;

inline constexpr char kDef[] = "sg00/def.json";
inline constexpr char kSp[] = "sg00/sp.json";

// base::Result has no default constructor, so a failed load ends the test by value().
inline Neff loaded(const Bytes& file, const LoadOptions& options = {}) {
  auto neff = load(file, options);
  EXPECT_TRUE(neff.ok()) << (neff.ok() ? "" : neff.error().message());
  return neff.ok() ? std::move(*neff) : Neff();
}

inline void expect_error(const base::Error& error, const char* rule, int code) {
  EXPECT_EQ(error.code, code) << error.message();
  EXPECT_NE(error.what.find(std::string("(") + rule + ")"), std::string::npos) << error.message();
}

inline void expect_refused(const Members& members, const char* rule, int code = status::kInvalid,
                           const LoadOptions& options = {}) {
  const auto neff = load(packed(members), options);
  ASSERT_FALSE(neff.ok()) << "rule " << rule;
  expect_error(neff.error(), rule, code);
}

// A rule, and the text of a member whose replacement breaks it.
struct Case {
  const char* rule;
  const char* member;
  const char* from;
  const char* to;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.rule << " " << c.member << ": " << c.from << " -> " << c.to;
}

}  // namespace neff::test
