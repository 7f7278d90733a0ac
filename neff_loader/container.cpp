#include "neff_loader/container.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "neff_loader/status.h"

namespace neff {
namespace {

using base::ConstByteSpan;
using base::load;

constexpr size_t kLayoutCBytes = 1224;  // spec/neff.md 1.3, column C

std::string bounded_text(const uint8_t* at, size_t limit) {
  const void* end = std::memchr(at, 0, limit);
  const size_t n =
      end == nullptr ? limit : static_cast<size_t>(static_cast<const uint8_t*>(end) - at);
  return {reinterpret_cast<const char*>(at), n};
}

enum class Magic { kNone, kGzip, kTar };

Magic payload_magic(ConstByteSpan file, uint64_t offset) {
  if (offset >= file.size()) return Magic::kNone;
  const ConstByteSpan p = file.sub(offset, file.size() - offset);
  if (p.size() >= 2 && p[0] == 0x1f && p[1] == 0x8b) return Magic::kGzip;
  if (p.size() >= 262 && std::memcmp(p.data() + 257, "ustar", 5) == 0) return Magic::kTar;
  const bool zero =
      p.size() >= 512 && std::all_of(p.begin(), p.begin() + 512, [](uint8_t b) { return b == 0; });
  return zero ? Magic::kTar : Magic::kNone;
}

Header read_common(const uint8_t* at) {
  Header h;
  h.pkg_version = load<uint64_t>(at);
  h.header_size = load<uint64_t>(at + 8);
  h.data_size = load<uint64_t>(at + 16);
  h.version_major = load<uint64_t>(at + 24);
  h.version_minor = load<uint64_t>(at + 32);
  h.build_version = bounded_text(at + 40, 128);
  h.num_tpb = load<uint32_t>(at + 168);
  std::copy_n(at + 172, h.hash.size(), h.hash.begin());
  return h;
}

Header read_layout_a(const uint8_t* at) {
  Header h = read_common(at);
  std::copy_n(at + 204, h.uuid.size(), h.uuid.begin());
  h.name = bounded_text(at + 220, 256);
  h.requested_tpb_count = load<uint32_t>(at + 476);
  std::copy_n(at + 480, h.tpb_per_node.size(), h.tpb_per_node.begin());
  h.feature_bits = load<uint64_t>(at + 544);
  h.lnc_size = load<uint32_t>(at + 552);
  return h;
}

Header read_layout_c(const uint8_t* at) {
  Header h = read_common(at);
  std::copy_n(at + 236, h.uuid.size(), h.uuid.begin());
  h.name = bounded_text(at + 268, 256);
  h.requested_tpb_count = load<uint32_t>(at + 524);
  std::copy_n(at + 528, h.tpb_per_node.size(), h.tpb_per_node.begin());
  h.feature_bits = 0;
  h.lnc_size = 1;
  return h;
}

base::Error header_error(const char* rule, std::string what, int code = status::kInvalid) {
  return violation(rule, "NEFF header", std::move(what), code);
}

base::Status check_sizes(const Header& h, uint64_t file_size) {
  if (h.header_size < kHeaderBytes || h.header_size >= file_size) {
    return header_error("V-02", "header_size " + std::to_string(h.header_size) +
                                    " is not in 1024.." + std::to_string(file_size - 1));
  }
  if (h.data_size == 0 || h.data_size > file_size - h.header_size) {
    return header_error("V-04", "data_size " + std::to_string(h.data_size) + " but " +
                                    std::to_string(file_size - h.header_size) +
                                    " bytes follow the header");
  }
  return {};
}

base::Result<Container> open_layout_c(ConstByteSpan file) {
  Container c;
  c.header = read_layout_c(file.data());
  c.gzip = payload_magic(file, kLayoutCBytes) == Magic::kGzip;
  const uint64_t rest = file.size() - kLayoutCBytes;
  c.payload = file.sub(kLayoutCBytes, std::min(rest, c.header.data_size));
  c.warnings.push_back("header has the 1224-byte layout, which no loader accepts");
  return c;
}

}  // namespace

base::Result<Container> open_container(ConstByteSpan file, Layout layout) {
  if (file.data() == nullptr || file.size() < kHeaderBytes) {
    return header_error("V-01",
                        "file has " + std::to_string(file.size()) + " bytes, a header has 1024");
  }
  Container c;
  c.header = read_layout_a(file.data());
  const bool magic_at_c = payload_magic(file, kLayoutCBytes) != Magic::kNone;
  if (c.header.header_size == kHeaderBytes && file.size() > kHeaderBytes && magic_at_c &&
      payload_magic(file, kHeaderBytes) == Magic::kNone) {
    if (layout == Layout::kLenient) return open_layout_c(file);
    return header_error("V-02", "no payload at 1024 but at 1224: not a layout that can be loaded");
  }
  if (base::Status s = check_sizes(c.header, file.size()); !s) return s.error();
  const Magic magic = payload_magic(file, c.header.header_size);
  if (magic == Magic::kNone) {
    return violation("V-10", "NEFF payload",
                     "neither gzip nor tar at offset " + std::to_string(c.header.header_size));
  }
  if (c.header.lnc_size > 2 && layout == Layout::kStrict) {
    return header_error("V-08",
                        "lnc_size " + std::to_string(c.header.lnc_size) + " is not 0, 1 or 2");
  }
  c.gzip = magic == Magic::kGzip;
  c.payload = file.sub(c.header.header_size, c.header.data_size);
  const uint64_t tail = file.size() - c.header.header_size - c.header.data_size;
  if (c.header.header_size > kHeaderBytes) {
    c.warnings.push_back("header of " + std::to_string(c.header.header_size) +
                         " bytes: those after 1024 are ignored");
  }
  if (tail != 0) c.warnings.push_back(std::to_string(tail) + " bytes after the payload (V-05)");
  if (c.header.num_tpb == 0) c.warnings.push_back("num_tpb is 0");
  return c;
}

base::Status check_version(const Header& h, uint64_t supported) {
  if (h.pkg_version != 1 && h.pkg_version != 2) {
    return header_error("V-03",
                        "package version " + std::to_string(h.pkg_version) + " is not 1 or 2",
                        status::kUnsupportedVersion);
  }
  if (h.version_major > kMaxMajorVersion) {
    return header_error("V-06",
                        "NEFF version mismatch supported: 2.0 received: " +
                            std::to_string(h.version_major) + "." + std::to_string(h.version_minor),
                        status::kUnsupportedVersion);
  }
  if ((h.features() & ~supported) != 0) {
    char text[160];
    std::snprintf(
        text, sizeof text,
        "NEFF version: %u.%u, features: 0x%llx are not supported.  Currently supporting: 0x%llx",
        static_cast<unsigned>(h.version_major), static_cast<unsigned>(h.version_minor),
        static_cast<unsigned long long>(h.features()), static_cast<unsigned long long>(supported));
    return header_error("V-07", text, status::kUnsupportedVersion);
  }
  return {};
}

std::array<uint8_t, 32> payload_digest(uint64_t pkg_version, ConstByteSpan payload) {
  std::array<uint8_t, 32> out{};
  unsigned n = 0;
  const EVP_MD* algorithm = pkg_version == 1 ? EVP_sha256() : EVP_md5();
  EVP_Digest(payload.data(), payload.size(), out.data(), &n, algorithm, nullptr);
  return out;
}

base::Status check_hash(const Container& c) {
  const std::array<uint8_t, 32> expected = payload_digest(c.header.pkg_version, c.payload);
  const size_t digest = c.header.pkg_version == 1 ? 32 : 16;  // bytes of the field in use
  if (std::equal(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(digest),
                 c.header.hash.begin())) {
    return {};
  }
  return header_error("V-09", "hash mismatch: header says " + hex({c.header.hash.data(), digest}) +
                                  ", payload has " + hex({expected.data(), digest}));
}

std::array<uint8_t, kHeaderBytes> serialize(const Header& h) {
  std::array<uint8_t, kHeaderBytes> out{};
  uint8_t* at = out.data();
  base::store(at, h.pkg_version);
  base::store(at + 8, h.header_size);
  base::store(at + 16, h.data_size);
  base::store(at + 24, h.version_major);
  base::store(at + 32, h.version_minor);
  std::copy_n(h.build_version.begin(), std::min<size_t>(h.build_version.size(), 128), at + 40);
  base::store(at + 168, h.num_tpb);
  std::copy(h.hash.begin(), h.hash.end(), at + 172);
  std::copy(h.uuid.begin(), h.uuid.end(), at + 204);
  std::copy_n(h.name.begin(), std::min<size_t>(h.name.size(), 255), at + 220);
  base::store(at + 476, h.requested_tpb_count);
  std::copy(h.tpb_per_node.begin(), h.tpb_per_node.end(), at + 480);
  base::store(at + 544, h.feature_bits);
  base::store(at + 552, h.lnc_size);
  return out;
}

std::string hex(ConstByteSpan bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (uint8_t b : bytes) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

}  // namespace neff
