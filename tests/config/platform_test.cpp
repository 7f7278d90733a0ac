#include "arch/config/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/config/embedded.h"
#include "arch/config/timing.h"

namespace config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string text_of(const std::string& name) {
  return std::string(*embedded_text("platforms/" + name + ".json"));
}

// The text with the first `from` replaced; the test fails if there is none.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

void expect_error(const std::string& text, const std::string& where, const std::string& what) {
  const auto platform = parse_platform("p.json", text);
  ASSERT_FALSE(platform.ok());
  EXPECT_EQ(platform.error().fault, base::Fault::kConfig);
  EXPECT_EQ(platform.error().where, where);
  EXPECT_THAT(platform.error().what, HasSubstr(what));
}

TEST(Platform, EveryFileLoadsAndHasItsTiming) {
  ASSERT_GE(platform_names().size(), 15u);
  for (const std::string& name : platform_names()) {
    SCOPED_TRACE(name);
    const auto platform = load_platform(name);
    ASSERT_TRUE(platform.ok()) << platform.error().message();
    EXPECT_EQ(platform->name, name);
    const auto timing = Timing::load(platform->timing);
    ASSERT_TRUE(timing.ok()) << timing.error().message();
    const base::Status fits = check_timing(*platform, *timing);
    EXPECT_TRUE(fits.ok()) << fits.error().message();
  }
}

TEST(Platform, Trn1SmallIsOneChipOfTwoCores) {
  const auto platform = load_platform("trn1.2xlarge");
  ASSERT_TRUE(platform.ok());
  EXPECT_EQ(platform->generation, Generation::kV2);
  EXPECT_EQ(platform->chips.size(), 1u);
  EXPECT_EQ(platform->chip.cores, 2u);
  EXPECT_EQ(platform->chip.hbm_stacks, 2u);
  EXPECT_EQ(platform->chip.hbm_stack_bytes, uint64_t{16} << 30);
  EXPECT_EQ(platform->chip.cc_cores, 6u);
  EXPECT_EQ(platform->chip.dma_engines, 32u);
  EXPECT_TRUE(platform->validated);
  EXPECT_TRUE(platform->nics.empty());
}

TEST(Platform, TorusKeepsTheOrderOfListings) {
  const auto platform = load_platform("trn2.48xlarge");
  ASSERT_TRUE(platform.ok());
  EXPECT_THAT(platform->chips[0].connected_to, ElementsAre(12, 3, 4, 1));
  EXPECT_EQ(platform->edges.size(), 32u);
  EXPECT_EQ(platform->nics.size(), 16u);
  EXPECT_EQ(platform->chips[1].pci_bdf, "0000:b5:00.0");
}

TEST(Platform, UltraServerHasNodesAndSwitches) {
  const auto platform = load_platform("trn3-gen2-ultraserver");
  ASSERT_TRUE(platform.ok());
  EXPECT_EQ(platform->chips.size(), 144u);
  EXPECT_EQ(platform->nodes.size(), 36u);
  EXPECT_EQ(platform->switches.size(), 38u);
  EXPECT_EQ(platform->chips[143].node, 35u);
  EXPECT_EQ(platform->chips[143].local_id, 3u);
  EXPECT_EQ(platform->nics[143].node, 35u);
}

TEST(Platform, UnknownNameListsTheValidOnes) {
  const auto platform = load_platform("trn9.large");
  ASSERT_FALSE(platform.ok());
  EXPECT_THAT(platform.error().what, HasSubstr("trn1.2xlarge"));
  EXPECT_THAT(platform.error().what, HasSubstr("trn3-gen2-ultraserver"));
}

TEST(Platform, UnreadableFile) {
  const auto platform = load_platform("/nonexistent/x.json");
  ASSERT_FALSE(platform.ok());
  EXPECT_EQ(platform.error().where, "/nonexistent/x.json");
}

TEST(Platform, NulByte) {
  const std::string text("{\"schema\": 1}\n\0\"", 16);
  const auto platform = parse_platform("p.json", text);
  ASSERT_FALSE(platform.ok());
  EXPECT_THAT(platform.error().message(), HasSubstr("p.json:2: a NUL byte"));
}

TEST(Platform, NumberOutOfRange) {
  const auto platform = parse_platform("p.json", R"({"schema": "platform/1", "name": 1e384})");
  ASSERT_FALSE(platform.ok());
  EXPECT_THAT(platform.error().what, HasSubstr("1e384"));
}

TEST(Platform, ErrorsNameTheLine) {
  const std::string text = text_of("trn1.2xlarge");
  expect_error("{\n \"a\": 1,\n", "p.json:3", "parse error");
  expect_error(edited(text, " \"generation\": \"v2\",\n", ""), "p.json:1", "generation");
  expect_error(edited(text, "\"v2\"", "\"v7\""), "p.json:4", "");
  expect_error(edited(text, "\"vcpu\": 8", "\"vcpus\": 8"), "p.json:10", "");
  expect_error(edited(text, "\"vcpu\": 8,", "\"vcpu\": 8, \"cpus\": 8,"), "p.json:10", "cpus");
  expect_error(edited(text, "\"vcpu\": 8", "\"vcpu\": \"8\""), "p.json:10", "");
  expect_error(edited(text, "\"vcpu\": 8", "\"vcpu\": 8, \"vcpu\": 9"), "p.json:10", "twice");
}

TEST(Platform, GraphMustHoldTogether) {
  const std::string text = text_of("trn1.32xlarge");
  expect_error(edited(text, "\"connected_to\": [12, 3, 4, 1]", "\"connected_to\": [12, 3, 4, 2]"),
               "p.json:13", "does not name this one");
  expect_error(edited(text, "\"connected_to\": [12, 3, 4, 1]", "\"connected_to\": [12, 3, 4, 99]"),
               "p.json:13", "99 does not exist");
  expect_error(edited(text, "\"id\": 0, \"node\": 0, \"local_id\": 0",
                      "\"id\": 0, \"node\": 1, \"local_id\": 0"),
               "p.json:13", "no such node");
  expect_error(edited(text, "\"id\": 1, \"node\": 0, \"local_id\": 1",
                      "\"id\": 1, \"node\": 0, \"local_id\": 0"),
               "p.json:14", "same local_id");
  expect_error(edited(text, "\"lnc_default\": 1", "\"lnc_default\": 2"), "p.json:7", "lnc_default");
  const size_t edge = text.find("  {\"a\"");
  const size_t end = text.find('\n', edge);
  std::string without = text;
  without.erase(edge, end + 1 - edge);
  const auto platform = parse_platform("p.json", without);
  ASSERT_FALSE(platform.ok());
  EXPECT_THAT(platform.error().what, HasSubstr("edges are not those"));
}

TEST(Platform, LinkClassesNeedARate) {
  auto platform = load_platform("trn1.32xlarge");
  auto timing = Timing::load("trn1");
  ASSERT_TRUE(platform.ok() && timing.ok());
  platform->edges[3].link = "nl9";
  const base::Status missing = check_timing(*platform, *timing);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().what, HasSubstr("link.nl9_gbps_per_dir"));
  const auto other = Timing::load("trn2");
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(check_timing(*load_platform("trn1.2xlarge"), *other).ok());
}

}  // namespace
}  // namespace config
