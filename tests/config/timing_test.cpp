#include "arch/config/timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

namespace config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Timing trn1() {
  auto timing = Timing::load("trn1");
  EXPECT_TRUE(timing.ok());
  return std::move(timing.value());
}

std::string file_with(const std::string& rows) {
  return "{\"schema\": \"timing/1\", \"name\": \"t\", \"generation\": \"v2\", \"parameters\": {\n" +
         rows + "\n}}";
}

std::string row(const std::string& name, const std::string& value, const std::string& unit) {
  return "\"" + name + "\": {\"value\": \"" + value + "\", \"unit\": \"" + unit +
         "\", \"status\": \"A\", \"meaning\": \"m\", \"source\": \"s\"}";
}

TEST(Decimal, IsExact) {
  EXPECT_EQ(parse_decimal("1.12")->num, 28u);
  EXPECT_EQ(parse_decimal("1.12")->den, 25u);
  EXPECT_EQ(parse_decimal("0")->num, 0u);
  EXPECT_EQ(parse_decimal("0.10")->den, 10u);
  EXPECT_EQ(parse_decimal("999999999999999999")->num, 999999999999999999u);
  for (const char* bad : {"", ".", ".5", "5.", "1..2", "-1", "+1", "1e3", " 1", "0x1", "1,5", "inf",
                          "1000000000000000000"}) {
    EXPECT_FALSE(parse_decimal(bad).ok()) << bad;
  }
}

TEST(Timing, TypedAccess) {
  Timing timing = trn1();
  EXPECT_EQ(timing.ps("dma.sem_to_start_ns"), 1300000u);
  EXPECT_EQ(timing.ps("mgmt.reset_us"), 2000000000u);
  EXPECT_EQ(timing.ps("dma.packet_overhead_ns"), 1000u);
  EXPECT_EQ(timing.rate("dma.engine_gbps").bytes, 17u);
  EXPECT_EQ(timing.rate("dma.engine_gbps").ps, 1000u);
  EXPECT_EQ(timing.rate("dma.engine_gbps_cap").bytes, 17u);  // 27.2 = 136 / 5
  EXPECT_EQ(timing.rate("dma.engine_gbps_cap").ps, 625u);
  EXPECT_EQ(timing.clock("clk.dve_ghz").time_for(28), 25000u);  // 28 cycles of 1.12 GHz
  EXPECT_EQ(timing.integer("timing_only.real_bytes"), 512u);
  EXPECT_EQ(timing.ratio("dma.accumulate_factor").den, 2u);
}

TEST(Timing, WrongUnitOrNameThrows) {
  const Timing timing = trn1();
  EXPECT_THROW(timing.ps("dma.engine_gbps"), TimingError);
  EXPECT_THROW(timing.rate("clk.nc_ghz"), TimingError);
  EXPECT_THROW(timing.integer("dma.write_ack_ns"), TimingError);
  EXPECT_THROW(timing.ps("no.such_ns"), TimingError);
  EXPECT_FALSE(timing.has("no.such_ns"));
}

TEST(Timing, OverridesAreExactAndNoticed) {
  Timing timing = trn1();
  ASSERT_TRUE(timing.set("dma.engine_gbps=8.5").ok());
  ASSERT_TRUE(timing.set("hbm.stack_gbps", "205").ok());
  EXPECT_THAT(timing.unread_overrides(), ElementsAre("dma.engine_gbps", "hbm.stack_gbps"));
  EXPECT_EQ(timing.rate("dma.engine_gbps").bytes, 17u);
  EXPECT_EQ(timing.rate("dma.engine_gbps").ps, 2000u);
  EXPECT_THAT(timing.unread_overrides(), ElementsAre("hbm.stack_gbps"));
  (void)timing.rate("hbm.stack_gbps");
  EXPECT_THAT(timing.unread_overrides(), IsEmpty());
  timing.lock();
  const base::Status late = timing.set("dma.engine_gbps=1");
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().what, HasSubstr("cannot change"));
}

TEST(Timing, BadOverrides) {
  Timing timing = trn1();
  const base::Status unknown = timing.set("dma.engin_gbps=1");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().what, HasSubstr("near it: dma.engine_gbps"));
  const base::Status far = timing.set("qqqqqqqqqqqqqqq=1");
  ASSERT_FALSE(far.ok());
  EXPECT_THAT(far.error().what, HasSubstr("clk.nc_ghz"));
  for (const char* bad : {"dma.engine_gbps", "dma.engine_gbps=", "dma.engine_gbps=fast",
                          "dma.engine_gbps=0", "dma.engine_gbps=-1", "seq.alu_cycles=1.5",
                          "dma.write_ack_ns=0.0005", "mgmt.reset_us=999999999999999999", "=1"}) {
    EXPECT_FALSE(timing.set(bad).ok()) << bad;
  }
  EXPECT_THAT(timing.unread_overrides(), IsEmpty());
}

TEST(Timing, FileErrorsNameTheLine) {
  const auto expect = [](const std::string& text, const char* where, const char* what) {
    const auto timing = Timing::parse("t.json", text);
    ASSERT_FALSE(timing.ok()) << what;
    EXPECT_EQ(timing.error().where, where);
    EXPECT_THAT(timing.error().what, HasSubstr(what));
  };
  const std::string good = row("a_ns", "1", "ns");
  EXPECT_TRUE(Timing::parse("t.json", file_with(good)).ok());
  expect(file_with(good + ",\n" + row("b_ns", "x", "ns")), "t.json:3", "b_ns: 'x'");
  expect(file_with(good + ",\n" + row("b_ns", "1", "parsec")), "t.json:3", "");
  expect(file_with(good + ",\n" + good), "t.json:3", "twice");
  expect(file_with(good + ",\n\"b_ns\": {\"value\": 1}"), "t.json:3", "");
  expect(file_with(good + ",\n\"b_ns\": {\"value\": \"1\"}"), "t.json:3", "");
  expect("[]", "t.json:1", "");
}

TEST(Timing, ABaseIsExtendedAndReplaced) {
  const auto file = [](const std::string& base, const std::string& generation,
                       const std::string& rows) {
    return "{\"schema\": \"timing/1\", \"name\": \"mine\",\n\"generation\": \"" + generation +
           "\",\n\"base\": \"" + base + "\", \"parameters\": {\n" + rows + "\n}}";
  };
  const std::string rows =
      row("link.new_gbps_per_dir", "5", "GB/s") + ",\n" + row("link.wire_ns", "7", "ns");
  const auto timing = Timing::parse("t.json", file("trn2", "v3", rows));
  ASSERT_TRUE(timing.ok()) << timing.error().message();
  EXPECT_EQ(timing->name(), "mine");
  EXPECT_EQ(timing->parameters().size(), Timing::load("trn2")->parameters().size() + 1);
  EXPECT_EQ(timing->ps("link.wire_ns"), 7000u);
  EXPECT_EQ(timing->rate("link.new_gbps_per_dir").bytes, 1u);
  EXPECT_EQ(timing->ps("dma.desc_fetch_ns"), base::ns(770));
  EXPECT_THAT(timing->unread_overrides(), IsEmpty()) << "the file's own values are no overrides";
  const auto wrong = Timing::parse("t.json", file("trn1", "v3", rows));
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().where, "t.json:2");
  const auto none = Timing::parse("t.json", file("trn9", "v3", rows));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().where, "t.json:3");
  EXPECT_THAT(none.error().what, HasSubstr("trn9"));
}

TEST(Timing, ABaseOfItselfIsAnError) {
  const std::string path = ::testing::TempDir() + "soma_timing_loop.json";
  std::ofstream(path)
      << "{\"schema\": \"timing/1\", \"name\": \"t\", \"generation\": \"v2\", \"base\": "
         "\"./soma_timing_loop.json\", \"parameters\": {"
      << row("a_ns", "1", "ns") << "}}";
  const auto timing = Timing::load(path);
  ASSERT_FALSE(timing.ok());
  EXPECT_THAT(timing.error().what, HasSubstr("too many files"));
  std::remove(path.c_str());
}

// A machine is built by the same code from every file, so they must agree on names and units. Links
// differ, and only chips of v3 and v4 have two dies.
TEST(Timing, FilesHaveTheSameParameters) {
  const auto shape = [](const std::string& name) {
    std::set<std::string> rows;
    const auto timing = Timing::load(name);
    for (const Parameter& parameter : timing.value().parameters()) {
      if (parameter.name.rfind("link.", 0) != 0 && parameter.name.rfind("fabric.die_", 0) != 0) {
        rows.insert(parameter.name + " " + parameter.unit);
      }
    }
    return rows;
  };
  const auto expected = shape("trn1");
  EXPECT_GT(expected.size(), 50u);
  for (const std::string& name : Timing::names()) EXPECT_EQ(shape(name), expected) << name;
}

// The parts of a DMA's fixed cost add up to the published whole (1000 ns to first data, 300 ns from
// last byte to the consumer).
TEST(Timing, PartsOfADmaAddUp) {
  for (const std::string& name : Timing::names()) {
    const Timing timing = Timing::load(name).value();
    EXPECT_EQ(timing.ps("dma.desc_fetch_ns") + timing.ps("dma.first_byte_ns"), base::ns(1000));
    EXPECT_EQ(timing.ps("dma.write_ack_ns") + timing.ps("sem.visible_to_start_ns"), base::ns(300));
  }
}

TEST(Rate, Scaled) {
  const base::Rate half = scaled({17, 1000}, {1, 2});
  EXPECT_EQ(half.bytes, 17u);
  EXPECT_EQ(half.ps, 2000u);
  const base::Rate same = scaled({28, 25000}, {25, 28});
  EXPECT_EQ(same.bytes, 1u);
  EXPECT_EQ(same.ps, 1000u);
}

}  // namespace
}  // namespace config
