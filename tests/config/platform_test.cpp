#include "arch/config/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/config/embedded.h"
#include "arch/config/timing.h"
#include "arch/contract/address_map.h"

namespace config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_EQ(platform.error().message(),
            "/nonexistent/x.json: cannot read: No such file or directory");
  EXPECT_EQ(load_platform("/tmp/").error().message(), "/tmp/: cannot read: Is a directory");
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
  expect_error(edited(text, "\"0000:10:1d.0\"", "\"0000:10:1c.0\""), "p.json:14", "same pci_bdf");
  expect_error(edited(text, "\"pci_bdf\": \"0000:10:1d.0\", ", ""), "p.json:14",
               "have a pci_bdf or none");
  expect_error(edited(text, "\"lnc_default\": 1", "\"lnc_default\": 2"), "p.json:7", "lnc_default");
  expect_error(edited(text, "\"local_id\": 15", "\"local_id\": 16"), "p.json:28",
               "count up from 0");
  const size_t edge = text.find("  {\"a\": 0, \"b\": 1,");
  ASSERT_NE(edge, std::string::npos);
  std::string without = text;
  without.erase(edge, text.find('\n', edge) + 1 - edge);
  expect_error(without, "p.json:13", "nothing joins this chip and its neighbour 1");
  const std::string edges = " \"edges\": [\n";
  expect_error(edited(text, edges, edges + "  {\"a\": 0, \"b\": 5, \"link\": \"nl2_trn1\"},\n"),
               "p.json:32", "do not name each other");
  expect_error(edited(text, edges, edges + "  {\"a\": 1, \"b\": 0, \"link\": \"nl2_trn1\"},\n"),
               "p.json:32", "a < b");
}

// A kind promises a shape; "graph" promises none.
TEST(Platform, KindsHaveTheirShape) {
  const std::string text = text_of("trn1.32xlarge");
  expect_error(edited(text, "\"torus2d\", \"dims\": [4, 4]", "\"torus2d\", \"dims\": [4, 5]"),
               "p.json:8", "another number of chips");
  expect_error(edited(text, "\"torus2d\", \"dims\": [4, 4]", "\"torus2d\", \"dims\": [2, 8]"),
               "p.json:21", "outside the dims");
  expect_error(edited(text, "\"coord\": [0, 1]", "\"coord\": [0, 0]"), "p.json:14", "same coord");
  expect_error(edited(text, "\"torus2d\"", "\"torus3d\""), "p.json:8", "3 dims");
  expect_error(edited(text, "\"torus2d\"", "\"switched\""), "p.json:8", "has switches");
  expect_error(edited(text, "\"torus2d\"", "\"single\""), "p.json:8", "one chip");
  const std::string swapped = edited(edited(edited(text, "\"coord\": [0, 0]", "\"coord\": [9, 9]"),
                                            "\"coord\": [0, 2]", "\"coord\": [0, 0]"),
                                     "\"coord\": [9, 9]", "\"coord\": [0, 2]");
  expect_error(swapped, "p.json:13", "\"graph\" takes any) joins this chip with chip 6");
  EXPECT_TRUE(parse_platform("p.json", edited(swapped, "\"torus2d\"", "\"graph\"")).ok());
  const std::string ring = text_of("inf2.48xlarge");
  expect_error(edited(ring, "\"ring\"", "\"chain\""), "p.json:29", "does not have this edge");
}

// The chips are those that the device model builds.
TEST(Platform, ChipsAreThoseOfTheirGeneration) {
  for (const char* name : {"trn1.2xlarge", "trn2.3xlarge", "trn3-gen2-server"}) {
    const auto platform = load_platform(name);
    ASSERT_TRUE(platform.ok());
    const contract::AddressMap map{static_cast<contract::Gen>(platform->generation)};
    EXPECT_EQ(platform->chip.cores, map.ncs());
    EXPECT_EQ(platform->chip.hbm_stacks, map.hbms());
    EXPECT_EQ(platform->chip.hbm_stack_bytes, map.hbm_size());
    EXPECT_EQ(platform->chip.cc_cores, map.topsps());
    EXPECT_EQ(platform->chip.dma_engines, map.compute_engines());
    EXPECT_EQ(platform->chip.sbuf_partition_bytes, map.sbuf_partition_bytes());
    EXPECT_EQ(platform->chip.sbuf_partitions, contract::tpb::kPartitions);
    EXPECT_EQ(platform->chip.psum_partition_bytes, contract::tpb::kPsumPartitionBytes);
  }
  const std::string text = text_of("trn2.3xlarge");
  expect_error(edited(text, "\"cores\": 8", "\"cores\": 4"), "p.json:7", "is 8");
  expect_error(edited(text, "\"trainium2\"", "\"trainium1\""), "p.json:7", "trainium2");
  expect_error(edited(text, "[1, 2]", "[1, 2, 4]"), "p.json:7", "no LNC 4");
}

TEST(Platform, ChipsOfANodeReachEachOther) {
  std::string text = text_of("trn3-gen2-server");
  const std::string lists[][2] = {{"\"members\": [0, 1, 2, 3]", "\"members\": [0, 1, 2]"},
                                  {"\"connected_to\": [1, 2, 3]", "\"connected_to\": [1, 2]"},
                                  {"\"connected_to\": [0, 2, 3]", "\"connected_to\": [0, 2]"},
                                  {"\"connected_to\": [0, 1, 3]", "\"connected_to\": [0, 1]"},
                                  {"\"connected_to\": [0, 1, 2]", "\"connected_to\": []"}};
  for (const auto& [from, to] : lists) text = edited(text, from, to);
  expect_error(text, "p.json:16", "no way leads from here to chip 0");
}

// A user's own platform with its own timing file, in any topology.
TEST(Platform, ExampleOfAUser) {
  const auto platform = load_platform(EXAMPLES "/platforms/switch64.json");
  ASSERT_TRUE(platform.ok()) << platform.error().message();
  EXPECT_EQ(platform->chips.size(), 64u);
  EXPECT_EQ(platform->nodes.size(), 4u);
  EXPECT_EQ(platform->topology, "graph");
  EXPECT_EQ(platform->timing, EXAMPLES "/platforms/switch64-timing.json");
  const auto timing = Timing::load(platform->timing);
  ASSERT_TRUE(timing.ok()) << timing.error().message();
  EXPECT_EQ(timing->name(), "switch64");
  EXPECT_TRUE(check_timing(*platform, *timing).ok());
  const base::Status missing = check_timing(*platform, *Timing::load("trn2"));
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().what, HasSubstr("link.sw"));
}

// What docs/studies.md compares: 64 chips on a switch and in a torus differ in their wiring only.
TEST(Platform, ExampleOfASwitchHasTheChipsAndTheBandwidthOfTheTorus) {
  const auto torus = load_platform("trn2-ultraserver");
  const auto star = load_platform(EXAMPLES "/platforms/switch64.json");
  ASSERT_TRUE(torus.ok() && star.ok());
  const auto torus_timing = Timing::load(torus->timing);
  const auto star_timing = Timing::load(star->timing);
  ASSERT_TRUE(torus_timing.ok() && star_timing.ok());
  for (const Parameter& parameter : torus_timing->parameters()) {
    const auto& all = star_timing->parameters();
    const auto same = [&](const Parameter& p) {
      return p.name == parameter.name && p.value == parameter.value;
    };
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), same)) << parameter.name;
  }
  const auto bytes_per_us = [](const Timing& timing, const std::string& link) {
    return timing.rate("link." + link + "_gbps_per_dir").bytes_in(1000000);
  };
  std::vector<uint64_t> of_torus(torus->chips.size());
  for (const Edge& edge : torus->edges) {
    for (const uint32_t chip : {edge.a, edge.b}) {
      of_torus.at(chip) += bytes_per_us(*torus_timing, edge.link);
    }
  }
  ASSERT_EQ(star->switches.size(), 1u);
  EXPECT_EQ(star->switches[0].members.size(), torus->chips.size());
  const uint64_t of_port = bytes_per_us(*star_timing, star->switches[0].link);
  EXPECT_EQ(of_torus, std::vector<uint64_t>(star->chips.size(), of_port));
  EXPECT_EQ(star->chip.name, torus->chip.name);
  EXPECT_EQ(star->chip.lnc_default, torus->chip.lnc_default);
  ASSERT_EQ(star->chips.size(), torus->chips.size());
  for (size_t i = 0; i < star->chips.size(); ++i) {
    EXPECT_EQ(star->chips[i].node, torus->chips[i].node);
  }
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
