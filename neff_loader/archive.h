// The payload of a NEFF: a tar archive, usually compressed (spec/neff.md 1.7, 1.8).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/span.h"

namespace neff {

struct Member {
  std::string name;  // normalised, relative
  std::vector<uint8_t> data;
};

// What untrusted input may make us allocate.
struct Limits {
  uint64_t max_members = 65536;
  uint64_t max_total_bytes = 8ull << 30;
  // Beyond free_bytes, unpacked bytes may be at most max_ratio times the payload.
  uint64_t free_bytes = 256ull << 20;
  uint64_t max_ratio = 200;
  unsigned max_json_depth = 64;
  uint64_t max_json_values = 64ull << 20;  // in one member
};

struct Archive {
  std::vector<Member> members;  // in order of the archive, names unique
  std::vector<std::string> warnings;
  std::vector<uint32_t> by_name;  // indices in members, ascending by name

  const Member* find(std::string_view name) const;
};

// "" if the name has none.
std::string directory_of(const std::string& name);

// Name without leading "./" and doubled slashes. Rule V-11 for absolute paths and "..".
base::Result<std::string> safe_name(std::string_view name);

// A name relative to a directory of the archive ("" is the root), made safe.
base::Result<std::string> member_path(const std::string& directory, const std::string& name);

// Reads all members. Rules V-10, V-11; the limits are R-01.
base::Result<Archive> read_archive(base::ConstByteSpan payload, bool gzip, const Limits& limits);

// Deterministic archive: the given order, mtime 0, uid and gid 0, mode 0644.
base::Result<std::vector<uint8_t>> write_archive(const std::vector<Member>& members, bool gzip);

}  // namespace neff
