#include "tools/nccom-test/events.h"

#include <gtest/gtest.h>

namespace nccom {
namespace {

std::string event(const char* type, const char* phase, int core, int exec, int op, int ps) {
  return std::string("{\"event_type\":\"") + type + "\",\"phase\":\"" + phase +
         "\",\"nc_idx\":" + std::to_string(core) +
         ",\"data\":{\"nc_timestamp_ps\":" + std::to_string(ps) +
         ",\"exec_id\":" + std::to_string(exec) +
         ",\"stream\":0,\"op_index\":" + std::to_string(op) + ",\"algorithm\":\"mesh\"}}";
}

std::string document(const std::vector<std::string>& events) {
  std::string out = "{\"events\":[";
  for (size_t i = 0; i < events.size(); ++i) out += (i == 0 ? "" : ",") + events[i];
  return out + "]}";
}

TEST(Events, PairsByCoreExecutionAndOperation) {
  const auto r = parse_events(document(
      {event("cc_running", "start", 0, 7, 0, 100), event("cc_running", "start", 1, 7, 0, 110),
       event("nc_exec_running", "start", 0, 7, 0, 1), event("cc_running", "stop", 0, 7, 0, 150),
       event("cc_running", "stop", 1, 7, 0, 190), event("cc_running", "start", 0, 9, 1, 300),
       event("cc_running", "stop", 0, 9, 1, 305)}));
  ASSERT_TRUE(r) << r.error().message();
  ASSERT_EQ(r->size(), 3u);
  EXPECT_EQ((*r)[0].stop_ps - (*r)[0].start_ps, 50u);
  EXPECT_EQ((*r)[0].algorithm, "mesh");
  EXPECT_EQ((*r)[1].execution, 1u);  // second execution of core 0
  EXPECT_EQ((*r)[1].operation, 1u);
  EXPECT_EQ((*r)[2].core, 1u);
  EXPECT_EQ((*r)[2].execution, 0u);
  EXPECT_EQ((*r)[2].stop_ps - (*r)[2].start_ps, 80u);
}

TEST(Events, RefusesWhatCannotBeTimed) {
  EXPECT_FALSE(parse_events(""));
  EXPECT_FALSE(parse_events("[]"));
  EXPECT_FALSE(parse_events("{\"events\":1}"));
  EXPECT_FALSE(parse_events("{\"events\":[1]}"));
  EXPECT_FALSE(parse_events(document({event("cc_running", "start", 0, 1, 0, 5)})));
  EXPECT_FALSE(parse_events(document({event("cc_running", "begin", 0, 1, 0, 5)})));
  EXPECT_FALSE(parse_events(document(
      {event("cc_running", "start", 0, 1, 0, 9), event("cc_running", "stop", 0, 1, 0, 5)})));
  EXPECT_FALSE(parse_events("{\"events\":[{\"event_type\":\"cc_running\"}]}"));
  EXPECT_TRUE(parse_events("{\"events\":[]}")->empty());
}

TEST(Events, BarriersEndAfterTheLastOneBegins) {
  Options o;
  o.ranks = 4;
  o.groups = {{0, 1}, {2, 3}};
  o.operation = Operation::kBarrier;
  o.check = Check::kRandom;
  std::vector<OpTimes> events = {{0, 0, 0, 0, 100, 400, ""},
                                 {1, 0, 0, 0, 300, 400, ""},
                                 {2, 0, 0, 0, 900, 950, ""},
                                 {3, 0, 0, 0, 910, 950, ""}};
  EXPECT_TRUE(check_barriers({o}, events));
  events[0].stop_ps = 299;
  const base::Status early = check_barriers({o}, events);
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().message().find("ends on a rank 1 ps before"), std::string::npos);
  o.check = Check::kOff;
  EXPECT_TRUE(check_barriers({o}, events));
}

}  // namespace
}  // namespace nccom
