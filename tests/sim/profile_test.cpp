// Lines of source and timelines of a report, from what engines and DMA tell.
#include "sim/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "arch/config/platform.h"

namespace sim {
namespace {

using ::testing::ElementsAre;
namespace isa = contract::isa;

class ProfileTest : public ::testing::Test {
 protected:
  ProfileTest()
      : directory_(std::filesystem::path(::testing::TempDir()) /
                   ("profile_" + std::to_string(::getpid()))) {
    config::Chip chip;
    platform_.chips.push_back(chip);
    chip.id = 1;
    chip.node = 1;
    platform_.chips.push_back(chip);
    std::filesystem::create_directories(directory_ / "1" / "pid_7");
  }
  ~ProfileTest() override { std::filesystem::remove_all(directory_); }

  void listing(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / "1" / "pid_7" / name) << text;
  }
  static std::string of_program(const std::string& file) {
    return R"({"x_format": "emu-program-listing", "x_version": 1, "x_device": 0,
        "x_programs": [{"nc": 0, "engine": 3, "address": 4096}], "x_files": ["/a/)" +
           file + R"("], "x_calls": ["copy", "add"], "x_locations": [[0, 31, 0], [0, 40, 1]]})";
  }
  hw::InstructionEvent event(uint32_t pc, uint64_t debug_id, base::Ps begin, base::Ps end) {
    hw::InstructionEvent e;
    e.core = &core_;
    e.engine = contract::kDve;
    e.program = 4096;
    e.pc = pc;
    e.instruction.opcode = isa::Opcode::kTensorCopy;
    e.instruction.debug_id = debug_id;
    e.begin = begin;
    e.end = e.done = end;
    return e;
  }

  std::string core_ = "d1.nc0";
  std::filesystem::path directory_;
  config::Platform platform_;
};

TEST_F(ProfileTest, LinesAddUpOverExecutions) {
  listing("program_1_nc_0.json", of_program("k.cpp"));
  SourceLines lines(directory_.string(), platform_);
  Profile profile(lines, nullptr);
  const uint32_t track = profile.track("d1.nc0.dve");
  const uint32_t queue = profile.track("d1.dma3.q2");
  const uint32_t other = profile.track("d1.dma16.q2");  // of the next core
  for (base::Ps start : {1000, 5000}) {
    profile.execution_begins(core_, 9, start);
    hw::InstructionEvent waits = event(0, 1, start + 50, start + 100);
    waits.pauses = {{hw::Stall::kSemaphore, contract::kAct, start + 10, start + 40},
                    {hw::Stall::kPsum, contract::kPe, start + 40, start + 50}};
    profile.instruction(track, waits);
    profile.instruction(track, event(1, 2, start + 100, start + 120));
    profile.instruction(track, event(2, 1, start + 120, start + 130));
    profile.instruction(track, event(3, 0, start + 125, start + 140));  // overlaps; no line
    profile.span(queue, start - 20, start + 30, "copy", 512);
    profile.span(other, start, start + 30, "copy", 512);
    profile.execution_ends(core_, start + 200, true);
  }
  const ProfileRow row = profile.take(core_, 9);
  ASSERT_EQ(row.lines.size(), 3u);
  EXPECT_EQ(row.lines[0].line, "k.cpp:31 (copy)");
  EXPECT_EQ(row.lines[0].engine, "dve");
  EXPECT_EQ(row.lines[0].executed, 4u);
  EXPECT_EQ(row.lines[0].busy, 2u * 60);
  EXPECT_THAT(row.lines[0].instructions, ElementsAre("TENSOR_COPY"));
  EXPECT_THAT(row.lines[0].waited, ElementsAre(std::make_pair(std::string("act"), 60),
                                               std::make_pair(std::string("psum"), 20)));
  EXPECT_EQ(row.lines[1].line, "k.cpp:40 (add)");
  EXPECT_EQ(row.lines[2].line, "pc 3");
  EXPECT_EQ(row.lines[2].busy, 2u * 10);
  const Timeline& timeline = row.timeline;  // of the first
  EXPECT_EQ(timeline.total, 200u);
  ASSERT_EQ(timeline.lanes.size(), 6u);
  const TimelineLane& dve = timeline.lanes[contract::kDve];
  ASSERT_EQ(dve.spans.size(), 6u);
  EXPECT_EQ(dve.spans[0].begin, 10u);
  EXPECT_EQ(timeline.kinds[dve.spans[0].what], "act");
  EXPECT_EQ(timeline.kinds[dve.spans[1].what], "psum");
  EXPECT_EQ(timeline.kinds[dve.spans[2].what], "busy");
  EXPECT_EQ(timeline.names[dve.spans[2].name], "TENSOR_COPY k.cpp:31 (copy)");
  EXPECT_EQ(dve.spans[5].begin, 130u);  // what overlaps is cut off
  EXPECT_EQ(timeline.lanes[5].name, "dma3");
  EXPECT_EQ(timeline.lanes[5].bytes, 512u);
  EXPECT_EQ(timeline.lanes[5].spans[0].begin, 0u);
  EXPECT_EQ(timeline.lanes[5].spans[0].end, 30u);
  EXPECT_TRUE(profile.take(core_, 9).lines.empty());
}

TEST_F(ProfileTest, ALaterProgramTakesTheAddress) {
  SourceLines lines(directory_.string(), platform_);
  EXPECT_FALSE(lines.refresh());
  EXPECT_EQ(lines.find(core_, contract::kDve, 4096, 1), "");
  listing("a.json", of_program("old.cpp"));
  EXPECT_TRUE(lines.refresh());
  EXPECT_FALSE(lines.refresh());
  EXPECT_EQ(lines.find(core_, contract::kDve, 4096, 1), "old.cpp:31 (copy)");
  listing("b.json", of_program("new.cpp"));
  EXPECT_TRUE(lines.refresh());
  EXPECT_EQ(lines.find(core_, contract::kDve, 4096, uint64_t{1} << 48 | 2), "new.cpp:40 (add)");
  EXPECT_EQ(lines.find(core_, contract::kDve, 4096, 3), "");
  EXPECT_EQ(lines.find(core_, contract::kAct, 4096, 1), "");
  EXPECT_EQ(lines.find("d0.nc0", contract::kDve, 4096, 1), "");
}

TEST_F(ProfileTest, ListingsThatDoNotFitAreLeftOut) {
  SourceLines lines(directory_.string(), platform_);
  std::string far = of_program("k.cpp");
  far.replace(far.find("[0, 31, 0]"), 10, "[1, 31, 0]");  // there is no second file
  int number = 0;
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string("{}"), far}) {
    listing("x" + std::to_string(number++) + ".json", text);
  }
  EXPECT_TRUE(lines.refresh());
  EXPECT_EQ(lines.find(core_, contract::kDve, 4096, 1), "");
}

TEST(LaneBuilder, BecomesCoarserWhenThereAreTooMany) {
  constexpr size_t kMost = 100;
  LaneBuilder lane("dve", kMost);
  constexpr uint32_t kSpans = 1000;
  for (uint32_t i = 0; i < kSpans; ++i) {
    // Short work, longer waits.
    lane.add({i * 1000, i * 1000 + 300, 0, 1, 1});
    lane.add({i * 1000 + 300, i * 1000 + 1000, 2, 5, 1});
  }
  const TimelineLane done = lane.take(kSpans * 1000);
  EXPECT_LE(done.spans.size(), kMost);
  EXPECT_GT(done.spans.size(), kMost / 4);
  EXPECT_GT(done.grain, 0u);
  uint64_t count = 0;
  base::Ps until = 0;
  for (const TimelineSpan& span : done.spans) {
    EXPECT_GE(span.begin, until);
    EXPECT_LE(span.end - span.begin, done.grain);
    until = span.end;
    count += span.count;
    EXPECT_EQ(span.what, 2u);  // of the longest
  }
  EXPECT_EQ(count, 2u * kSpans);
  EXPECT_EQ(until, kSpans * 1000u);
}

TEST(LaneBuilder, FewSpansStayAsTheyAre) {
  LaneBuilder lane("dve", 10);
  lane.add({5, 9, 0, 0, 1});
  lane.add({7, 8, 0, 1, 1});  // below the first
  lane.add({8, 12, 0, 2, 1});
  const TimelineLane done = lane.take(11);
  EXPECT_EQ(done.grain, 0u);
  ASSERT_EQ(done.spans.size(), 2u);
  EXPECT_EQ(done.spans[1].begin, 9u);
  EXPECT_EQ(done.spans[1].end, 11u);
}

}  // namespace
}  // namespace sim
