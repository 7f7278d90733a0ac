// The NEFF container: fixed header, payload, digest (spec/neff.md 1.1 to 1.7). Bytes in, objects
// out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/span.h"

namespace neff {

constexpr size_t kHeaderBytes = 1024;
constexpr uint64_t kFeatureEmulator = 1ull << 62;  // marks our engine encoding (spec/neff.md 5.6)
constexpr uint64_t kDefaultFeatureMask = 0x80000000000001ffull | kFeatureEmulator;
constexpr uint64_t kMaxMajorVersion = 2;

struct Header {
  uint64_t pkg_version = 2;
  uint64_t header_size = kHeaderBytes;
  uint64_t data_size = 0;
  uint64_t version_major = 2;
  uint64_t version_minor = 0;
  std::string build_version;  // up to 128 bytes
  uint32_t num_tpb = 1;
  std::array<uint8_t, 32> hash{};
  std::array<uint8_t, 16> uuid{};
  std::string name;  // up to 256 bytes
  uint32_t requested_tpb_count = 1;
  std::array<uint8_t, 64> tpb_per_node{};
  uint64_t feature_bits = 0;
  uint32_t lnc_size = 1;

  // Features are meaningful from version 2.0 on.
  uint64_t features() const { return version_major >= 2 ? feature_bits : 0; }
  unsigned lnc() const { return lnc_size == 0 ? 1 : lnc_size; }
};

// What the header and the file's size alone decide.
struct Container {
  Header header;
  base::ConstByteSpan payload;  // points into the file
  bool gzip = false;
  std::vector<std::string> warnings;
};

enum class Layout {
  kStrict,   // what load accepts
  kLenient,  // unpack and info also read the 1224-byte header of spec/neff.md 1.3
};

// Rules V-01, V-02, V-04, V-05, V-08, V-10 (magic).
base::Result<Container> open_container(base::ConstByteSpan file, Layout layout = Layout::kStrict);

// Rules V-03, V-06, V-07.
base::Status check_version(const Header& header, uint64_t supported_features);

// The digest that `pkg_version` implies, zero-filled to 32 bytes. Only versions 1 and 2.
std::array<uint8_t, 32> payload_digest(uint64_t pkg_version, base::ConstByteSpan payload);

// Rule V-09.
base::Status check_hash(const Container& container);

// The 1024 bytes of layout A. Texts are cut to their fields (name at 255).
std::array<uint8_t, kHeaderBytes> serialize(const Header& header);

std::string hex(base::ConstByteSpan bytes);

}  // namespace neff
