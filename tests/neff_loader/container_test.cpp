#include "neff_loader/container.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "neff_loader/status.h"
#include "tests/neff_loader/fixtures.h"

namespace neff {
namespace {

using test::file_of;
using Bytes = std::vector<uint8_t>;

const Bytes kEmptyTar(1024);

// spec/neff.md 1.12.
Header vector_header(uint64_t pkg_version) {
  Header h;
  h.pkg_version = pkg_version;
  h.build_version = "emu-0.1";
  h.uuid = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
            0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
  h.name = "vec0";
  h.tpb_per_node[0] = 1;
  return h;
}

std::string sha256(const Bytes& bytes) {
  const auto digest = payload_digest(1, bytes);
  return hex({digest.data(), digest.size()});
}

TEST(Container, PublishedTestVectors) {
  EXPECT_EQ(sha256(kEmptyTar), "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef");
  const auto md5 = payload_digest(2, kEmptyTar);
  EXPECT_EQ(hex({md5.data(), 16}), "0f343b0931126a20f133d67c2b018a3b");
  EXPECT_EQ(sha256(file_of(kEmptyTar, vector_header(1))),
            "44facfdd63f6b138b647f6b940b402bc566b8e8af64c6e5590bee5f2e4e8312e");
  const Bytes file = file_of(kEmptyTar, vector_header(2));
  EXPECT_EQ(sha256(file), "90522af0ddf09a576630dd4e3684abffdeba4c5961ea49ddaa9e63233be36533");

  const auto opened = open_container(file);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->header.name, "vec0");
  EXPECT_EQ(opened->header.build_version, "emu-0.1");
  EXPECT_EQ(opened->header.tpb_per_node[0], 1);
  EXPECT_EQ(opened->payload.size(), 1024u);
  EXPECT_FALSE(opened->gzip);
  EXPECT_TRUE(check_hash(*opened).ok());
  const auto loaded = load(file);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().what.find("(V-14)"), std::string::npos) << loaded.error().message();
}

struct HeaderCase {
  const char* rule;
  int code;
  size_t offset;
  uint64_t value;  // 8 bytes at offset
};

class HeaderRules : public testing::TestWithParam<HeaderCase> {};

TEST_P(HeaderRules, AreEnforced) {
  Bytes file = file_of(kEmptyTar, vector_header(2));
  base::store(file.data() + GetParam().offset, GetParam().value);
  const auto loaded = load(file);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, GetParam().code) << loaded.error().message();
  EXPECT_NE(loaded.error().what.find(std::string("(") + GetParam().rule + ")"), std::string::npos)
      << loaded.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Neff, HeaderRules,
    testing::Values(HeaderCase{"V-02", 2, 8, 1023}, HeaderCase{"V-02", 2, 8, 2048},
                    HeaderCase{"V-02", 2, 8, ~0ull}, HeaderCase{"V-03", 10, 0, 0},
                    HeaderCase{"V-03", 10, 0, 3}, HeaderCase{"V-04", 2, 16, 0},
                    HeaderCase{"V-04", 2, 16, 1025}, HeaderCase{"V-04", 2, 16, ~0ull},
                    HeaderCase{"V-06", 10, 24, 3}, HeaderCase{"V-07", 10, 544, 1ull << 20},
                    HeaderCase{"V-08", 2, 552, 3}));

TEST(Container, PayloadNeedsAMagic) {
  const auto loaded = load(file_of(Bytes(1024, 0x55), vector_header(2)));
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().what.find("(V-10)"), std::string::npos) << loaded.error().message();
}

TEST(Container, ShortFiles) {
  const Bytes file = file_of(kEmptyTar, vector_header(2));
  for (size_t n : {size_t{0}, size_t{1}, size_t{1023}}) {
    const auto opened = open_container({file.data(), n});
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().what.find("(V-01)"), std::string::npos);
  }
  EXPECT_FALSE(open_container({file.data(), 1024}).ok());
  EXPECT_FALSE(open_container({nullptr, 0}).ok());
}

TEST(Container, FeaturesCountFromVersion2On) {
  Header h = vector_header(2);
  h.feature_bits = 1ull << 20;
  h.version_major = 1;
  EXPECT_TRUE(check_version(h, kDefaultFeatureMask).ok());
  h.version_major = 2;
  const auto status = check_version(h, 0x80000000000000ffull);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().what.rfind("NEFF version: 2.0, features: 0x100000 are not supported.  "
                                      "Currently supporting: 0x80000000000000ff",
                                      0),
            0u)
      << status.error().what;
}

TEST(Container, HashCoversTheStoredPayload) {
  Bytes file = file_of(kEmptyTar, vector_header(1));
  file[2047] = 1;
  const auto opened = open_container(file);
  ASSERT_TRUE(opened.ok());
  EXPECT_FALSE(check_hash(*opened).ok());
  LoadOptions verify;
  verify.verify_hash = true;
  const auto loaded = load(file, verify);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, status::kInvalid);
  EXPECT_NE(loaded.error().what.find("(V-09)"), std::string::npos);
}

TEST(Container, LongerHeaderAndTrailingBytesWarn) {
  Header h = vector_header(2);
  h.header_size = 1536;
  h.data_size = 1024;
  const auto bytes = serialize(h);
  Bytes file(bytes.begin(), bytes.end());
  file.resize(1536, 0xAA);
  file.resize(1536 + 1024);
  file.push_back(7);
  const auto opened = open_container(file);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_EQ(opened->payload.size(), 1024u);
  EXPECT_EQ(opened->warnings.size(), 2u);
}

TEST(Container, NameMayFillItsField) {
  Bytes file = file_of(kEmptyTar, vector_header(2));
  std::fill_n(file.begin() + 220, 256, 'x');
  const auto opened = open_container(file);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->header.name, std::string(256, 'x'));
}

TEST(Container, Layout1224IsReadOnlyLeniently) {
  Bytes file(1224);
  base::store<uint64_t>(file.data(), 2);
  base::store<uint64_t>(file.data() + 8, 1024);
  base::store<uint64_t>(file.data() + 16, 1024);
  file[100] = 1;
  file[268] = 'n';
  file[1024 + 3] = 9;  // hides the place where layout A has its payload
  file.resize(1224 + 1024);
  ASSERT_FALSE(open_container(file).ok());
  const auto opened = open_container(file, Layout::kLenient);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_EQ(opened->header.name, "n");
  EXPECT_EQ(opened->payload.data(), file.data() + 1224);
}

}  // namespace
}  // namespace neff
