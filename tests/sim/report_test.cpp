#include "sim/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "base/json.h"

namespace sim {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReportTest : public ::testing::Test {
 protected:
  Report make(bool timing_only = false) const {
    return {platform_, timing_, "epoch", true, timing_only};
  }

  config::Platform platform_ = config::load_platform("trn1.2xlarge").value();
  config::Timing timing_ = config::Timing::load("trn1").value();
};

TEST(NaturalLess, ComparesNumbersByValue) {
  const NaturalLess less;
  EXPECT_TRUE(less("dma2", "dma10"));
  EXPECT_FALSE(less("dma10", "dma2"));
  EXPECT_TRUE(less("dma2.q9", "dma2.q10"));
  EXPECT_TRUE(less("dma", "dma0"));
  EXPECT_TRUE(less("a9", "b1"));
  EXPECT_FALSE(less("x1", "x1"));
  EXPECT_NE(less("x01", "x1"), less("x1", "x01"));
}

TEST_F(ReportTest, KeysComeInAFixedOrder) {
  const auto json = base::parse_ordered_json(make().to_json());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("schema", "platform", "durations", "timing", "policy", "repeatable",
                                "timing_only", "slices", "active_ps", "activities", "resources",
                                "counters", "executions", "fidelity", "faults", "failure"));
  EXPECT_EQ(json["schema"], "report/1");
  EXPECT_EQ(json["platform"], "trn1.2xlarge");
  EXPECT_TRUE(json["failure"].is_null());
}

TEST_F(ReportTest, DoesNotDependOnTheOrderOfArrival) {
  Report a = make(), b = make();
  a.add_activity("nc0.exec", 5);
  a.add_activity("nc0.exec", 9);
  a.add_activity("nc10.exec", 1);
  a.add_activity("nc2.exec", 1);
  a.add_usage("dma10", {64, 7});
  a.add_usage("dma2", {1, 1});
  b.add_usage("dma2", {1, 1});
  b.add_usage("dma10", {32, 3});
  b.add_usage("dma10", {32, 4});
  b.add_activity("nc2.exec", 1);
  b.add_activity("nc10.exec", 1);
  b.add_activity("nc0.exec", 9);
  b.add_activity("nc0.exec", 5);
  EXPECT_EQ(a.to_json(), b.to_json());
  const auto json = base::parse_ordered_json(a.to_json());
  EXPECT_EQ(base::json_text(json["activities"][0]),
            R"({"name":"nc0.exec","count":2,"total_ps":14,"min_ps":5,"max_ps":9})");
  EXPECT_EQ(json["activities"][2]["name"], "nc10.exec");
  EXPECT_EQ(json["resources"][0]["name"], "dma2");
}

TEST_F(ReportTest, ExecutionsSayWhoWasWaitedForAndWhatLinesCost) {
  ExecutionRow row;
  row.core = "d0.nc0";
  row.engines = {{"dve", 3, 10, {{"semaphore", 5}, {"psum", 0}}, {{"pe", 0}, {"act", 5}}, {}}};
  row.operations_by_kind = {{"16-bit", 0, 80}, {"float32", 64, 20}};
  Report report = make();
  report.add_execution(row);
  row.profile.emplace();
  row.profile->lines = {{"a.cpp:3 (copy)", "dve", {"TENSOR_COPY"}, 2, 10, {{"act", 5}}}};
  row.profile->timeline = {200, {"busy", "act"}, {"TENSOR_COPY a.cpp:3 (copy)"}, {}};
  row.profile->timeline.lanes = {{"dve", 0, 0, {{10, 15, 1, 0, 1}, {15, 30, 0, 0, 2}}},
                                 {"dma0", 8, 64, {}}};
  report.add_execution(row);
  const auto json = base::parse_ordered_json(report.to_json());
  const auto& plain = json["executions"][0];
  EXPECT_FALSE(plain.contains("profile"));
  EXPECT_EQ(base::json_text(plain["engines"][0]["stalled_ps"]), R"j({"semaphore":5})j");
  EXPECT_EQ(base::json_text(plain["engines"][0]["waited_for_ps"]), R"j({"act":5})j");
  EXPECT_EQ(base::json_text(plain["operations_by_kind"]),
            R"j([{"kind":"float32","operations":64,"peak_per_us":20}])j");
  const auto& profile = json["executions"][1]["profile"];
  EXPECT_EQ(base::json_text(profile["lines"]),
            R"j([{"line":"a.cpp:3 (copy)","engine":"dve","instructions":["TENSOR_COPY"],)j"
            R"j("executed":2,"busy_ps":10,"waited_ps":{"act":5}}])j");
  EXPECT_EQ(base::json_text(profile["timeline"]["lanes"]),
            R"j([{"name":"dve","grain_ps":0,"spans":["10 5 1 0 1","15 15 0 0 2"]},)j"
            R"j({"name":"dma0","grain_ps":8,"bytes":64,"spans":[]}])j");
}

TEST_F(ReportTest, UtilisationIsIntegerPartsOfTheActiveTime) {
  Report report = make();
  report.add_usage("hbm0", {1000, 1});
  report.add_usage("idle", {0, 0});
  auto json = base::parse_ordered_json(report.to_json());
  EXPECT_EQ(json["resources"].size(), 1u);
  EXPECT_EQ(json["resources"][0]["utilisation_ppm"], 0u);
  report.add_active_time(2);
  report.add_active_time(1);
  json = base::parse_ordered_json(report.to_json());
  EXPECT_EQ(json["active_ps"], 3u);
  EXPECT_EQ(json["resources"][0]["utilisation_ppm"], 333333u);
}

TEST_F(ReportTest, LinksTellTheirSignals) {
  Report report = make();
  report.add_usage("link.d0-d1", {64, 7, 2});
  report.add_usage("link.d0-d1", {4, 1, 1});
  report.add_usage("link.d1-d0", {64, 7});
  const auto json = base::parse_ordered_json(report.to_json());
  EXPECT_EQ(base::json_text(json["resources"][0]),
            R"({"name":"link.d0-d1","bytes":68,"signals":3,"busy_ps":8,"utilisation_ppm":0})");
  EXPECT_FALSE(json["resources"][1].contains("signals"));
}

TEST_F(ReportTest, OverridesAndEstimatesAreNamed) {
  ASSERT_TRUE(timing_.set("dma.engine_gbps=8.5").ok());
  (void)timing_.rate("dma.engine_gbps");
  (void)timing_.ps("cc.instr_ns");
  const auto json = base::parse_ordered_json(make().to_json());
  EXPECT_EQ(
      base::json_text(json["timing"]),
      R"({"file":"trn1","overrides":[{"name":"dma.engine_gbps","value":"8.5","unit":"GB/s"}]})");
  EXPECT_EQ(base::json_text(json["fidelity"]["approximate"]),
            R"([{"parameter":"cc.instr_ns","status":"M"}])");
}

TEST_F(ReportTest, FidelityAndWarnings) {
  Report report = make(true);
  EXPECT_THAT(report.warnings(), IsEmpty());
  report.add_elided("branch", 2);
  report.add_elided("nothing", 0);
  report.add_unsupported("instruction 0x77", 1);
  report.add_inert("udma axi_timeout", 68);
  report.add_unknown("bar0+0x123", 1, 0);
  report.add_unknown("bar0+0x123", 0, 3);
  report.add_slices(1);
  report.add_fault("link.d0-d1 down", 1);
  report.set_failure({base::Fault::kProgram, 0, "m0.d0", "bad descriptor"});
  const auto json = base::parse_ordered_json(report.to_json());
  EXPECT_EQ(json["fidelity"]["exact"].size(), 2u);  // data was not computed
  EXPECT_EQ(base::json_text(json["fidelity"]["elided"]), R"([{"name":"branch","count":2}])");
  EXPECT_EQ(base::json_text(json["fidelity"]["unknown"]),
            R"([{"name":"bar0+0x123","reads":1,"writes":3}])");
  EXPECT_EQ(json["fidelity"]["inert_registers"][0]["count"], 68u);
  EXPECT_EQ(json["repeatable"], false);
  EXPECT_EQ(base::json_text(json["faults"]), R"([{"name":"link.d0-d1 down","count":1}])");
  EXPECT_EQ(json["failure"]["fault"], "program");
  EXPECT_THAT(report.warnings(), ElementsAre(HasSubstr("branch"), HasSubstr("0x77"),
                                             HasSubstr("bar0+0x123"), HasSubstr("1 times")));
}

TEST_F(ReportTest, PlatformsWithoutPublishedRowsSaySo) {
  platform_.validated = false;
  EXPECT_EQ(base::parse_ordered_json(make().to_json())["durations"], "unvalidated");
}

TEST_F(ReportTest, WriteReplacesTheFile) {
  const std::string path = ::testing::TempDir() + "report_" + std::to_string(::getpid());
  ASSERT_TRUE(make().write(path).ok());
  ASSERT_TRUE(make().write(path).ok());
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, make().to_json());
  EXPECT_NE(::access((path + ".part").c_str(), F_OK), 0);
  ::unlink(path.c_str());
  EXPECT_FALSE(make().write("/nonexistent/report").ok());
}

}  // namespace
}  // namespace sim
