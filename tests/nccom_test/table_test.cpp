// Layout and formulas against the synthetic example of spec/tools.md 2.7 and 2.8.
#include "tools/nccom-test/table.h"

#include <gtest/gtest.h>

namespace nccom {
namespace {

Options example() {
  Options o;
  o.operation = Operation::kAllGather;
  o.ranks = 4;
  o.dtype = {"bf16", contract::DType::kBf16, "bfloat16"};
  o.show_sizes = true;
  o.show_algorithm = true;
  return o;
}

Measurement measured(uint64_t size, std::vector<uint64_t> ps, const std::string& algorithm) {
  return {size, std::move(ps), algorithm};
}

TEST(Table, ReproducesThePublishedLayout) {
  const Options o = example();
  const Table table(o, {1024, 32768, 1048576});
  EXPECT_EQ(table.header(),
            "    size(B)    count(elems)    total_input_size(B)    total_output_size(B)    type    "
            "time:avg(us)    algbw(GB/s)    busbw(GB/s)    algorithm");
  const std::vector<Row> rows = {evaluate(o, measured(1024, {5000000}, "mesh")),
                                 evaluate(o, measured(32768, {6250000}, "mesh")),
                                 evaluate(o, measured(1048576, {40500000}, "rdh"))};
  EXPECT_EQ(table.line(rows[0]),
            "       1024             512                    256                    1024    bf16    "
            "         5.0           0.20           0.15         mesh");
  EXPECT_EQ(table.line(rows[1]),
            "      32768           16384                   8192                   32768    bf16    "
            "        6.25           5.24           3.93         mesh");
  EXPECT_EQ(table.line(rows[2]),
            "    1048576          524288                 262144                 1048576    bf16    "
            "        40.5          25.89          19.42          rdh");
  EXPECT_EQ(Table::average(rows), "Avg bus bandwidth:\t7.8346GB/s");
}

TEST(Table, WideValuesWidenTheirColumn) {
  Options o;
  o.ranks = 2;
  const Table table(o, {1024, 123456789012});
  EXPECT_EQ(table.header().find("size(B)"), 4 + 12 - 7u);
  EXPECT_EQ(table.failure(1024, "Failure"), "            1024            1024    uint8    Failure");
}

TEST(Table, PercentilesAreWholeMicroseconds) {
  Options o;
  o.ranks = 2;
  o.stats = {{"avg", -1}, {"p50", 50}, {"p99", 99}, {"p0", 0}};
  std::vector<uint64_t> ps;
  for (uint64_t i = 1; i <= 100; ++i) ps.push_back(i * 1000000 + 400000);
  const Row row = evaluate(o, measured(1024, ps, "ring"));
  EXPECT_EQ(row.times_us, (std::vector<double>{50.9, 50, 99, 1}));
  const Table table(o, {1024});
  EXPECT_NE(table.header().find("time:avg(us)    time:p50(us)    time:p99(us)"), std::string::npos);
  EXPECT_NE(table.line(row).find("50.9              50              99              1"),
            std::string::npos)
      << table.line(row);
}

TEST(Table, BandwidthFactors) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 2), 1.0);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduceScatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllToAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllGatherV, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduceScatterV, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllToAllV, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kPermute, 4), 1.0);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kSendRecv, 2), 1.0);
}

TEST(Table, GroupsCountNotRanks) {
  Options o;
  o.ranks = 8;
  o.groups = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  const Row row = evaluate(o, measured(1000000, {1000000}, "ring"));
  EXPECT_DOUBLE_EQ(row.algbw, 1000.0);
  EXPECT_DOUBLE_EQ(row.busbw, 1000.0);  // factor of two ranks
}

TEST(Table, GibOption) {
  Options o;
  o.ranks = 2;
  o.gib = true;
  EXPECT_NEAR(evaluate(o, measured(33554432, {768000000}, "ring")).algbw, 40.69, 0.005);
  o.gib = false;
  EXPECT_NEAR(evaluate(o, measured(33554432, {719080000}, "ring")).algbw, 46.66, 0.005);
}

TEST(Table, TimesDropTrailingZeros) {
  EXPECT_EQ(format_time(10), "10.0");
  EXPECT_EQ(format_time(6.25), "6.25");
  EXPECT_EQ(format_time(6.204), "6.2");
  EXPECT_EQ(format_time(0), "0.0");
}

TEST(Json, HasThePublishedKeys) {
  Options o = example();
  o.show_sizes = false;
  o.show_algorithm = false;
  const std::string text = json_report({o}, {{evaluate(o, measured(1024, {5000000}, "mesh"))}});
  EXPECT_EQ(
      text,
      "{\n  \"results\": [\n    {\n      \"size(B)\": 1024,\n      \"count(elems)\": 512,\n"
      "      \"type\": \"bf16\",\n      \"algbw(GB/s)\": 0.2048,\n      \"busbw(GB/s)\": 0.1536,\n"
      "      \"time:avg(us)\": 5.0\n    }\n  ]\n}\n");
}

TEST(Json, OptionalColumnsAndConfiguration) {
  Options o = example();
  o.json_config = true;
  const std::string text = json_report({o}, {{evaluate(o, measured(1024, {5000000}, "mesh"))}});
  EXPECT_NE(text.find("\"total_input_size(B)\": 256"), std::string::npos);
  EXPECT_NE(text.find("\"algorithm\": \"mesh\""), std::string::npos);
  EXPECT_NE(text.find("\"x_config\""), std::string::npos);
  // Value times time gives the size back exactly.
  EXPECT_NEAR(0.2048 * 5.0 * 1000, 1024, 1e-9);
}

TEST(Json, StreamsFollowEachOther) {
  const Options o = example();
  const Row small = evaluate(o, measured(1024, {5000000}, "mesh"));
  const Row large = evaluate(o, measured(2048, {5000000}, "mesh"));
  const std::string text = json_report({o, o}, {{small, large}, {large}});
  const size_t first = text.find("\"x_stream\": 0");
  const size_t second = text.find("\"x_stream\": 0", first + 1);
  const size_t other = text.find("\"x_stream\": 1");
  EXPECT_LT(first, second);
  EXPECT_LT(second, other);
  EXPECT_NE(other, std::string::npos);
  EXPECT_EQ(json_report({o}, {{small}}).find("x_stream"), std::string::npos);
}

TEST(Csv, OneLinePerRow) {
  const Options o = example();
  const std::string text = csv_report({o}, {{evaluate(o, measured(1024, {5000000}, "mesh"))}});
  EXPECT_NE(text.find("\n0,allg,4,bf16,1024,512,5.00,"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

}  // namespace
}  // namespace nccom
