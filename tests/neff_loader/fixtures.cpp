#include "tests/neff_loader/fixtures.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace neff::test {

namespace fs = std::filesystem;

std::vector<Member> example(const std::string& name) {
  const fs::path root = fs::path(EXAMPLES_DIR) / name;
  std::vector<Member> out;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    out.push_back({fs::relative(entry.path(), root).generic_string(),
                   {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}});
  }
  std::sort(out.begin(), out.end(),
            [](const Member& a, const Member& b) { return a.name < b.name; });
  return out;
}

Member& member(std::vector<Member>& members, std::string_view name) {
  for (Member& m : members) {
    if (m.name == name) return m;
  }
  members.push_back({std::string(name), {}});
  return members.back();
}

void replace(std::vector<Member>& members, std::string_view name, std::string_view from,
             std::string_view to) {
  Member& m = member(members, name);
  std::string text(m.data.begin(), m.data.end());
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << name << " has no " << from;
  text.replace(at, from.size(), to);
  m.data = text_bytes(text);
}

std::vector<uint8_t> packed(std::vector<Member> members, const PackOptions& options) {
  auto file = pack(std::move(members), options);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return file.ok() ? *file : std::vector<uint8_t>();
}

std::vector<uint8_t> tar_entry(const std::string& name, char type, std::string_view data,
                               const std::string& link, uint64_t claimed_size) {
  std::vector<uint8_t> out(512);
  char* h = reinterpret_cast<char*>(out.data());
  std::copy(name.begin(), name.end(), h);
  const uint64_t size = claimed_size == UINT64_MAX ? data.size() : claimed_size;
  std::snprintf(h + 100, 8, "0000644");
  std::snprintf(h + 108, 8, "0000000");
  std::snprintf(h + 116, 8, "0000000");
  std::snprintf(h + 124, 12, "%011llo", static_cast<unsigned long long>(size));
  std::snprintf(h + 136, 12, "00000000000");
  h[156] = type;
  std::copy(link.begin(), link.end(), h + 157);
  std::copy_n("ustar\00000", 8, h + 257);
  std::fill_n(h + 148, 8, ' ');
  unsigned sum = 0;
  for (uint8_t b : out) sum += b;
  std::snprintf(h + 148, 7, "%06o", sum);
  out.insert(out.end(), data.begin(), data.end());
  out.resize((out.size() + 511) / 512 * 512);
  return out;
}

std::vector<uint8_t> operator+(std::vector<uint8_t> a, const std::vector<uint8_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<uint8_t> gzip(const std::vector<uint8_t>& data) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::vector<uint8_t> out(deflateBound(&z, data.size()));
  z.next_in = const_cast<Bytef*>(data.data());
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::vector<uint8_t> file_of(const std::vector<uint8_t>& payload, Header header) {
  header.data_size = payload.size();
  header.hash = payload_digest(header.pkg_version, payload);
  const auto bytes = serialize(header);
  return std::vector<uint8_t>(bytes.begin(), bytes.end()) + payload;
}

}  // namespace neff::test
