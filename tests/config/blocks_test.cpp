// "base", "blocks" and "policies" of a platform file.
#include "arch/config/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "arch/config/platform.h"

namespace config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `keys`: what the file holds beside schema, name and base, in line 2 and behind.
std::string file(const std::string& keys, const std::string& base = "trn1.32xlarge") {
  return R"({"schema": "platform/1", "name": "p", "base": ")" + base + "\"" +
         (keys.empty() ? "" : ",\n") + keys + "}";
}
std::string block(const std::string& more) {
  return R"("blocks": [{"name": "b", "library": "libb.so", "type": "B")" +
         (more.empty() ? "" : ",\n" + more) + "}]";
}
Platform parsed(const std::string& text) {
  auto platform = parse_platform("p.json", text);
  EXPECT_TRUE(platform.ok()) << platform.error().message();
  return platform.ok() ? *platform : Platform{};
}
std::string message(const std::string& text) {
  const auto platform = parse_platform("p.json", text);
  EXPECT_FALSE(platform.ok());
  if (platform.ok()) return "";
  EXPECT_EQ(platform.error().fault, base::Fault::kConfig);
  return platform.error().message();
}

// Files in a directory of their own.
class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "soma_blocks_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  std::filesystem::path directory_;
};

TEST(Base, GivesWhatTheFileDoesNotHave) {
  const Platform small = parsed(file(R"("nics": [])"));
  const auto base = load_platform("trn1.32xlarge");
  ASSERT_TRUE(base.ok());
  EXPECT_EQ(small.name, "p");
  EXPECT_EQ(small.chips.size(), 16u);
  EXPECT_EQ(small.edges.size(), base->edges.size());
  EXPECT_EQ(small.timing, base->timing);
  EXPECT_FALSE(base->nics.empty());
  EXPECT_TRUE(small.nics.empty());
}

TEST(Base, IsValidatedWithoutCodeOfOthersOnly) {
  EXPECT_TRUE(parsed(file("")).validated);
  EXPECT_FALSE(parsed(file(block(""))).validated);
  EXPECT_FALSE(parsed(file(R"("policies": {"links": "fifo"})")).validated);
}

TEST(Base, OfTheWrongKind) {
  EXPECT_EQ(message(R"({"schema": "platform/1",
                        "base": 3})"),
            "p.json:2: base is the name of a platform");
  EXPECT_THAT(message(file("", "trn9")), HasSubstr("unknown platform 'trn9'; valid: "));
}

TEST_F(Files, BaseAndTimingCountFromWhereTheyAreWritten) {
  write("below/timing.json", "{}");
  write("below/base.json", file(R"("timing": "timing.json")"));
  const std::string top = write("p.json", file("", "below/base.json"));
  const auto platform = load_platform(top);
  ASSERT_TRUE(platform.ok()) << platform.error().message();
  EXPECT_EQ(platform->timing, (directory_ / "below/timing.json").string());
}

TEST_F(Files, BasesInACircle) {
  const std::string one = write("one.json", file("", "two.json"));
  write("two.json", file("", "one.json"));
  const auto platform = load_platform(one);
  ASSERT_FALSE(platform.ok());
  EXPECT_EQ(platform.error().fault, base::Fault::kConfig);
  EXPECT_THAT(platform.error().message(), HasSubstr("json:1: bases of bases go too deep"));
}

TEST_F(Files, EightBasesOfBases) {
  std::string base = "trn1.2xlarge";
  for (int depth = 0; depth < 9; ++depth) {
    const std::string name = "p" + std::to_string(depth) + ".json";
    const auto platform = load_platform(write(name, file("", base)));
    EXPECT_EQ(platform.ok(), depth < 8) << depth;
    base = name;
  }
}

TEST(Blocks, Defaults) {
  const Platform platform = parsed(file(block("")));
  ASSERT_EQ(platform.blocks.size(), 1u);
  const Block& block = platform.blocks[0];
  EXPECT_EQ(block.name, "b");
  EXPECT_EQ(block.library, "libb.so");  // not beside the file: the dynamic linker looks for it
  EXPECT_EQ(block.type, "B");
  EXPECT_EQ(block.chips.size(), 16u);
  EXPECT_EQ(block.chips.back(), 15u);
  EXPECT_TRUE(block.windows.empty() && block.initiators.empty() && block.semaphores.empty());
  EXPECT_TRUE(block.parameters.empty());
  EXPECT_FALSE(block.background);
}

TEST(Blocks, Everything) {
  const Platform platform = parsed(file(block(R"("chips": [3, 1], "background": true,
      "windows": [{"socket": "a", "address": "0xFFFE0001000", "size": 4096},
                  {"socket": "b", "address": 17592186044416, "size": 4},
                  {"socket": "c", "size": 8}],
      "initiators": [{"socket": "d", "gbps": "12.5", "packet_bytes": 64, "core": 1},
                     {"socket": "e"}],
      "semaphores": [{"port": "f", "core": 1, "semaphore": 255}],
      "parameters": {"n": 4096, "x": 1.4, "s": "0x10", "t": true})")));
  ASSERT_EQ(platform.blocks.size(), 1u);
  const Block& block = platform.blocks[0];
  EXPECT_THAT(block.chips, ElementsAre(3, 1));
  EXPECT_TRUE(block.background);
  ASSERT_EQ(block.windows.size(), 3u);
  EXPECT_EQ(block.windows[0].socket, "a");
  EXPECT_EQ(block.windows[0].address, uint64_t{0xFFF'E000'1000});
  EXPECT_EQ(block.windows[0].size, 4096u);
  EXPECT_EQ(block.windows[1].address, uint64_t{1} << 44);
  EXPECT_FALSE(block.windows[2].address);
  ASSERT_EQ(block.initiators.size(), 2u);
  ASSERT_TRUE(block.initiators[0].gbps);
  EXPECT_EQ(block.initiators[0].gbps->num * 2, block.initiators[0].gbps->den * 25);
  EXPECT_EQ(block.initiators[0].packet_bytes, 64u);
  EXPECT_EQ(block.initiators[0].core, 1u);
  EXPECT_FALSE(block.initiators[1].gbps || block.initiators[1].core);
  EXPECT_EQ(block.initiators[1].packet_bytes, 4096u);
  ASSERT_EQ(block.semaphores.size(), 1u);
  EXPECT_EQ(block.semaphores[0].port, "f");
  EXPECT_EQ(block.semaphores[0].semaphore, 255u);
  const ParameterTexts wanted{{"n", "4096"}, {"s", "0x10"}, {"t", "true"}, {"x", "1.4"}};
  EXPECT_EQ(block.parameters, wanted);
}

TEST(Blocks, ErrorsNameTheLine) {
  const auto wrong = [](const std::string& more) { return message(file(block(more))); };
  EXPECT_THAT(wrong(R"("colour": 1)"), HasSubstr("p.json:3: /blocks/0"));
  EXPECT_THAT(wrong(R"("colour": 1)"), HasSubstr("colour"));
  EXPECT_THAT(wrong(R"("chips": [])"), HasSubstr("p.json:3: /blocks/0/chips"));
  EXPECT_THAT(wrong(R"("chips": [1, 1])"), HasSubstr("p.json:3: /blocks/0/chips"));
  EXPECT_THAT(wrong(R"("chips": [16])"), HasSubstr("block 'b': there is no chip 16 (0 to 15)"));
  EXPECT_THAT(wrong(R"("windows": [{"socket": "a", "size": 3}])"),
              HasSubstr("p.json:3: /blocks/0/windows/0/size"));
  EXPECT_THAT(wrong(R"("windows": [{"socket": "a", "size": 4, "address": "4096"}])"),
              HasSubstr("p.json:3: /blocks/0/windows/0/address"));
  EXPECT_THAT(wrong(R"("initiators": [{"socket": "a", "gbps": "fast"}])"),
              HasSubstr("p.json:3: /blocks/0/initiators/0/gbps"));
  EXPECT_THAT(wrong(R"("semaphores": [{"port": "a", "core": 0, "semaphore": 256}])"),
              HasSubstr("p.json:3: /blocks/0/semaphores/0/semaphore"));
  EXPECT_THAT(wrong(R"("parameters": {"a": [1]})"), HasSubstr("p.json:3: /blocks/0/parameters/a"));
}

TEST(Blocks, NamesAreUnique) {
  const std::string one = R"({"name": "b", "library": "libb.so", "type": "B"})";
  EXPECT_EQ(message(file("\"blocks\": [" + one + ",\n" + one + "]")),
            "p.json:3: two blocks are called 'b'");
}

TEST_F(Files, LibrariesAreFoundBesideTheFile) {
  write("libb.so", "");
  const std::string text = file(block("") + R"(,
      "policies": {"links": {"type": "t", "library": "libb.so"},
                   "routing": {"type": "t", "library": "libc.so"},
                   "dma_queues": {"type": "t", "library": "/lib/libc.so"},
                   "switch_port": {"type": "t", "library": "sub/libd.so"}})");
  const auto platform = load_platform(write("p.json", text));
  ASSERT_TRUE(platform.ok()) << platform.error().message();
  const std::string here = directory_.string() + "/";
  EXPECT_EQ(platform->blocks[0].library, here + "libb.so");
  EXPECT_EQ(platform->policies.links.library, here + "libb.so");
  EXPECT_EQ(platform->policies.routing.library, "libc.so");
  EXPECT_EQ(platform->policies.dma_queues.library, "/lib/libc.so");
  EXPECT_EQ(platform->policies.switch_port.library, here + "sub/libd.so");
}

TEST(Policies, ByNameOrWithParameters) {
  const Policies policies = parsed(file(R"("policies": {"dma_queues": "round_robin",
      "links": {"type": "time_division", "parameters": {"turns": 4}}})"))
                                .policies;
  EXPECT_TRUE(policies.any());
  EXPECT_EQ(policies.dma_queues.name, "round_robin");
  EXPECT_EQ(policies.links.name, "time_division");
  EXPECT_TRUE(policies.links.library.empty());
  EXPECT_EQ(policies.links.parameters, (ParameterTexts{{"turns", "4"}}));
  EXPECT_FALSE(policies.routing.given() || policies.switch_port.given());
  EXPECT_FALSE(parsed(file("")).policies.any());
}

TEST(Policies, ErrorsNameTheLine) {
  EXPECT_THAT(message(file(R"("policies": {"weather": "fine"})")),
              HasSubstr("p.json:2: /policies/weather"));
  EXPECT_THAT(message(file("\"policies\": {\n\"links\": {\"library\": \"libb.so\"}}")),
              HasSubstr("p.json:3: /policies/links"));
  EXPECT_THAT(message(file("\"policies\": {\n\"links\": 5}")),
              HasSubstr("p.json:3: /policies/links"));
}

}  // namespace
}  // namespace config
