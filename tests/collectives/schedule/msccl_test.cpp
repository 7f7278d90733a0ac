#include "runtime/collectives/schedule/msccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/collectives/schedule/verify.h"
#include "tests/collectives/schedule/msccl_programs.h"

namespace ccl {
namespace {

using testing::HasSubstr;

Group group_of_ranks(uint32_t n) {
  Group group;
  group.members.resize(n);
  return group;
}

OpRequest all_reduce(uint64_t bytes) {
  OpRequest r;
  r.dtype = DType::kFp32;
  r.input_bytes = r.output_bytes = bytes;
  return r;
}

std::string refusal(const std::string& xml) {
  const base::Result<MscclProgram> program = load_msccl(xml, "p.xml");
  if (program) return "loaded";
  EXPECT_EQ(program.error().code, kNrtInvalid);
  return program.error().message();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Msccl, RunsBothProgramsOfTheSpecification) {
  for (const uint32_t n : {2u, 3u, 4u, 8u}) {
    for (const bool in_place : {false, true}) {
      for (const std::string& xml : {msccl_ring(n, in_place), msccl_all_pairs(n, in_place)}) {
        const base::Result<MscclProgram> program = load_msccl(xml, "p.xml");
        ASSERT_TRUE(program) << program.error().message();
        EXPECT_TRUE(program->warnings.empty() || !in_place);
        ScheduleOptions options;
        options.in_place = in_place;
        options.slot_bytes = 4096;
        for (const uint64_t chunk : {4u, 64u, 4096u, 10000u}) {
          const auto schedule =
              msccl_schedule(*program, all_reduce(n * chunk), group_of_ranks(n), options);
          ASSERT_TRUE(schedule) << schedule.error().message();
          EXPECT_EQ(schedule->shape.algorithm, Algorithm::kImported);
          base::Status status = verify(*schedule);
          EXPECT_TRUE(status) << n << " ranks, chunk " << chunk << ": " << status.error().what;
        }
      }
    }
  }
}

// One step per message and loop: the program decides what moves.
TEST(Msccl, MovesWhatTheProgramSays) {
  const auto program = load_msccl(msccl_ring(4, false), "p.xml");
  ASSERT_TRUE(program);
  const auto schedule = msccl_schedule(*program, all_reduce(4 * 64), group_of_ranks(4), {});
  ASSERT_TRUE(schedule);
  EXPECT_EQ(bytes_between(*schedule, 1, 2), 6 * 64u);
  EXPECT_EQ(bytes_between(*schedule, 1, 3), 0u);
  const Steps steps = schedule->steps(1);
  ASSERT_EQ(steps.size(), 8u);  // credits, then the seven steps of the program
  EXPECT_EQ(steps[1].sources.size(), 1u);
  EXPECT_EQ(steps[2].sources.size(), 2u);       // rrs
  EXPECT_EQ(steps[4].destinations.size(), 2u);  // rrcs
}

TEST(Msccl, FusesReductionsIntoOnePlace) {
  const auto program = load_msccl(msccl_all_pairs(4, true), "p.xml");
  ASSERT_TRUE(program);
  ScheduleOptions options;
  options.in_place = true;
  const auto schedule = msccl_schedule(*program, all_reduce(4 * 64), group_of_ranks(4), options);
  ASSERT_TRUE(schedule);
  size_t folds = 0;
  for (const Step& step : schedule->steps(0)) folds += step.sources.size() == 4 ? 1 : 0;
  EXPECT_EQ(folds, 1u);
}

TEST(Msccl, AppliesToWhatItIsMadeFor) {
  auto program =
      load_msccl(replaced(msccl_ring(4, false),
                          "coll=", "redop=\"max\" minBytes=\"64\" maxBytes=\"1024\" coll="),
                 "p.xml");
  ASSERT_TRUE(program) << program.error().message();
  OpRequest request = all_reduce(256);
  request.op = ReduceOp::kMax;
  EXPECT_TRUE(program->applies(request, 4, false));
  EXPECT_FALSE(program->applies(request, 4, true));
  EXPECT_FALSE(program->applies(request, 3, false));
  request.op = ReduceOp::kAdd;
  EXPECT_FALSE(program->applies(request, 4, false));
  request = all_reduce(1024);
  request.op = ReduceOp::kMax;
  EXPECT_FALSE(program->applies(request, 4, false));  // maxBytes is exclusive
  request.input_bytes = request.output_bytes = 264;   // 66 elements in 4 chunks
  EXPECT_FALSE(program->applies(request, 4, false));
  EXPECT_FALSE(msccl_schedule(*program, request, group_of_ranks(4), {}));
}

TEST(Msccl, RefusesBadText) {
  const std::string ring = msccl_ring(3, false);
  const auto change = [&](const std::string& from, const std::string& to) {
    return refusal(replaced(ring, from, to));
  };
  EXPECT_THAT(refusal(""), HasSubstr("no valid XML"));
  EXPECT_THAT(refusal("<algo>"), HasSubstr("no valid XML"));
  EXPECT_THAT(refusal("<plan/>"), HasSubstr("expected the element 'algo'"));
  EXPECT_THAT(change("<tb", "<block"), HasSubstr("no valid XML"));
  EXPECT_THAT(refusal("<algo name=\"a\"/>"), HasSubstr("p.xml:1: attribute ngpus is missing"));
  EXPECT_THAT(change("ngpus=\"3\"", "ngpus=\"4\""), HasSubstr("ngpus=\"4\""));
  EXPECT_THAT(change("ngpus=\"3\"", "ngpus=\"x\""), HasSubstr("expected a number from 1"));
  EXPECT_THAT(change("allreduce", "custom"), HasSubstr("coll=\"custom\""));
  EXPECT_THAT(change("\"rrs\"", "\"put\""), HasSubstr("p.xml:5: type=\"put\""));
  EXPECT_THAT(change("i_chunks=\"3\"", "i_chunks=\"2\""), HasSubstr("expected 3, 3"));
  EXPECT_THAT(change("srcoff=\"2\"", "srcoff=\"3\""), HasSubstr("reach outside of 3 chunks"));
  EXPECT_THAT(change("srcbuf=\"i\"", "srcbuf=\"q\""), HasSubstr("expected i, o or s"));
  EXPECT_THAT(change("cnt=\"1\"", "cnt=\"72\""), HasSubstr("from 1 to 71"));
  EXPECT_THAT(change("send=\"1\"", "send=\"0\""), HasSubstr("a peer is the rank itself"));
  EXPECT_THAT(change("send=\"1\"", "send=\"-1\""), HasSubstr("without send peer"));
  EXPECT_THAT(change("chan=\"0\"", "chan=\"-1\""), HasSubstr("chan=\"-1\" with a peer"));
  EXPECT_THAT(change("chan=\"0\"", "chan=\"1\""), HasSubstr("expected a number from -1 to 0"));
  EXPECT_THAT(change("s=\"1\" type", "s=\"2\" type"), HasSubstr("must ascend"));
  EXPECT_THAT(change("depid=\"-1\" deps=\"-1\"", "depid=\"3\" deps=\"0\""),
              HasSubstr("step 0 of tb 3, which does not exist"));
  EXPECT_THAT(change("dstbuf=\"o\"", "dstbuf=\"i\""), HasSubstr("writes the input"));
  EXPECT_THAT(
      change("coll=", "minBytes=\"1024\" maxBytes=\"64\" coll="),
      HasSubstr("p.xml:1: no size is at least minBytes=\"1024\" and below maxBytes=\"64\""));
  EXPECT_THAT(change("coll=", "minBytes=\"64\" maxBytes=\"64\" coll="), HasSubstr("no size is"));
  EXPECT_THAT(change("coll=", "redop=\"prod\" coll="), HasSubstr("supported: sum, max, min, nop"));
}

TEST(Msccl, RefusesProgramsThatDoNotWork) {
  const std::string ring = msccl_ring(3, false);
  // A message less.
  EXPECT_THAT(refusal(replaced(ring, "type=\"s\"", "type=\"nop\"")),
              HasSubstr("have no equal counterpart"));
  // Another chunk: the result is wrong.
  EXPECT_THAT(refusal(replaced(ring, "type=\"rrs\" srcbuf=\"i\" srcoff=\"2\"",
                               "type=\"rrs\" srcbuf=\"i\" srcoff=\"1\"")),
              HasSubstr("folds byte"));
  // A step that waits for a later one.
  EXPECT_THAT(refusal(replaced(ring, "depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"3\"")),
              HasSubstr("waits for ever"));
  // The fold does not wait for what it folds.
  EXPECT_THAT(refusal(replaced(msccl_all_pairs(3, false), "depid=\"1\" deps=\"1\"",
                               "depid=\"-1\" deps=\"-1\"")),
              HasSubstr("p.xml: "));
}

}  // namespace
}  // namespace ccl
