// Axes, CSV, tables, picture and page of `soma sweep`.
#include "tools/soma/sweep_data.h"

#include <gtest/gtest.h>

namespace soma {
namespace {

SweepRow point(uint64_t bytes, double time_us, double busbw, const std::string& algorithm) {
  SweepRow row;
  row.bytes = bytes;
  row.time_us = time_us;
  row.algbw = row.busbw = busbw;
  row.algorithm = algorithm;
  row.busy = {0, 0, 12.5, 0, 80.1, 3};
  row.busiest = "d0.hbm1";
  return row;
}

SweepSeries example(const std::string& set = "a=<1>") {
  SweepSeries s;
  s.platform = "trn1.2xlarge";
  s.operation = "allr";
  s.datatype = "bf16";
  s.ranks = 2;
  s.sets = {set};
  s.rows = {point(1024, 2, 0.512, "mesh"), point(1048576, 20, 52.4, "ring")};
  return s;
}

SweepRow failure(uint64_t bytes, const std::string& error) {
  SweepRow row;
  row.bytes = bytes;
  row.error = error;
  return row;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Sweep, SetsMultiply) {
  const auto sets = expand_sets({"a=1,2", "b=3"});
  ASSERT_TRUE(sets);
  EXPECT_EQ(*sets, (std::vector<std::vector<std::string>>{{"a=1", "b=3"}, {"a=2", "b=3"}}));
  EXPECT_EQ(expand_sets({})->size(), 1u);
  for (const char* text : {"", "a", "=1", "a=", "a=1,,2", "a=1,"}) {
    EXPECT_FALSE(expand_sets({text})) << text;
  }
}

TEST(Sweep, CsvHasALinePerPointThatWasTried) {
  SweepSeries s = example();
  s.rows.push_back(failure(2048, "no, \"really\""));
  s.rows.push_back({});  // never tried
  const std::string csv = sweep_csv({s});
  EXPECT_NE(csv.find("trn1.2xlarge,allr,bf16,2,1,1,,a=<1>,1024,2.00,0.5120,0.5120,mesh,"
                     "0.0,0.0,12.5,0.0,80.1,3.0,d0.hbm1,\n"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find(",2048,,,,,,,,,,,,\"no, \"\"really\"\"\"\n"), std::string::npos) << csv;
  EXPECT_EQ(count(csv, "\n"), 4u);
}

TEST(Sweep, ResumesFromItsOwnCsv) {
  SweepSeries s = example();
  s.rows.push_back(failure(2048, "lost"));
  const std::string csv = sweep_csv({s});
  std::vector<SweepSeries> open{example(), example("a=2")};
  for (SweepSeries& of : open) {
    of.rows = {failure(1024, ""), failure(2048, ""), failure(1048576, "")};
  }
  const auto taken = take_measured(csv, &open);
  ASSERT_TRUE(taken) << taken.error().message();
  EXPECT_EQ(*taken, 2u);
  EXPECT_FALSE(open[0].rows[1].measured());
  EXPECT_FALSE(open[1].rows[0].measured()) << "another setting";
  open[0].rows.erase(open[0].rows.begin() + 1);
  EXPECT_EQ(sweep_csv({open[0]}), sweep_csv({example()}));
  EXPECT_FALSE(take_measured("size,time\n", &open));
  EXPECT_FALSE(take_measured("", &open));
}

TEST(Sweep, ReportsSayWhatWasBusy) {
  const std::string report = R"({"activities": [{"name": "request", "total_ps": 9000},
      {"name": "barrier release", "total_ps": 1000}],
    "resources": [{"name": "d0.cross0to1", "busy_ps": 100}, {"name": "d0.die0to1", "busy_ps": 250},
      {"name": "d0.dma3", "busy_ps": 400},
      {"name": "d0.fabric", "busy_ps": 300}, {"name": "d0.dma32", "busy_ps": 990},
      {"name": "d0.hbm0", "busy_ps": 501}, {"name": "d0.pcie.down", "busy_ps": 999},
      {"name": "link.d0-d1", "busy_ps": 700}, {"name": "switch.m.from.d0", "busy_ps": 725}]})";
  SweepRow row;
  ASSERT_TRUE(read_busy(report, 32, &row));
  EXPECT_EQ(row.busy, (std::array<double, 6>{72.5, 25, 10, 30, 50.1, 40}));
  EXPECT_EQ(row.busiest, "switch.m.from.d0");
  EXPECT_FALSE(read_busy("{}", 32, &row));
  EXPECT_FALSE(read_busy("", 32, &row));
}

TEST(Sweep, CauseOfAFailure) {
  EXPECT_EQ(
      cause_of("head\n2026-Nov-22 09:37 13802:13805 ERROR   NRT:nrt_execute      Unsupported: x\n"
               "nccom-test: nrt_execute: NRT_INVALID (2)\n1 errors found\n"),
      "Unsupported: x");
  EXPECT_EQ(cause_of("nccom-test: nccom-test: 7 ranks\n1 errors found\n"), "7 ranks");
  EXPECT_EQ(cause_of("soma: --set: no\n"), "--set: no");
  EXPECT_EQ(cause_of("killed\n\n"), "killed");
  EXPECT_EQ(cause_of(""), "the run failed");
}

TEST(Sweep, PublishedRowsFormSeries) {
  const std::string head = "id,platform,lnc,ranks,op,dtype,size_bytes,time_us\n";
  const auto rows = parse_published(head +
                                    "N1.01,p,1,2,allr,bf16,1024,2.1\n"
                                    "N1.03,p,1,2,allr,bf16,4400,2.2\n"
                                    "N2.01,p,1,8,allr,bf16,4096,6\n");
  ASSERT_TRUE(rows) << rows.error().message();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].id, "N1");
  EXPECT_EQ((*rows)[0].rows[1].time_us, 2.2);
  EXPECT_DOUBLE_EQ((*rows)[0].rows[1].busbw, 2);
  EXPECT_EQ((*rows)[1].ranks, 8u);
  EXPECT_FALSE(parse_published("x\n"));
  EXPECT_FALSE(parse_published(head + "1,2\n"));
  EXPECT_FALSE(parse_published(head + "N1.01,p,1,2,allr,bf16,1024,fast\n"));
}

TEST(Sweep, LabelsAreWhatDiffers) {
  SweepSeries other = example("a=2");
  other.lnc = 2;
  const std::vector<SweepSeries> all{example(), other};
  const auto sections = sweep_sections(all);
  ASSERT_EQ(sections.size(), 1u);
  EXPECT_EQ(sections[0].heading, "allr, trn1.2xlarge, 2 ranks, bf16");
  EXPECT_EQ(sections[0].labels, (std::vector<std::string>{"a=<1>", "LNC=2, a=2"}));
}

TEST(Sweep, TablesCompareWithTheFirstSeries) {
  SweepSeries fast = example("a=2");
  fast.rows = {point(1024, 2, 0.5, "mesh"), point(1048576, 8, 130, "rdh"), failure(2048, "no"),
               failure(4096, "no")};
  const std::string text = sweep_tables({example(), fast});
  EXPECT_NE(text.find("| 1 MiB |  20.00 | 52.40 |      ring | hbm 80 % |   8.00 | 130.00 |"
                      "       rdh | hbm 80 % |      2.50 |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("- a=2, 2 KiB, 4 KiB: no\n"), std::string::npos) << text;
}

TEST(Sweep, ManySeriesHaveALineEach) {
  std::vector<SweepSeries> all;
  for (const char* set : {"a=1", "a=2", "a=3", "a=4"}) all.push_back(example(set));
  all[3].rows = {point(1024, 0.5, 2, "mesh")};
  all[3].rows.front().busy = {9.9, 2, 1, 0, 0, 0};
  const std::string text = sweep_tables(all);
  EXPECT_NE(text.find("- [4] a=4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| 1 KiB |    [4] |  0.50 |  2.00 |      mesh |  latency |         4.00 |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("| 1 MiB |    [4] |       |       |"), std::string::npos) << text;
}

TEST(Sweep, PictureHasACurveForEachSeriesAndPublishedPoints) {
  PublishedSeries published{"N1", "trn1.2xlarge", "allr", "bf16", 2, {}};
  published.rows = {point(1024, 2.1, 0.49, ""), point(512, 1.9, 0.3, "")};
  const std::string one = sweep_svg("A & B", {example()}, {published});
  EXPECT_NE(one.find("A &amp; B"), std::string::npos);
  EXPECT_NE(one.find("N1 bf16: 2.1 us"), std::string::npos);
  EXPECT_EQ(one.find("1.9 us"), std::string::npos) << "a size without a curve";
  EXPECT_EQ(count(one, "stroke-width='1.6'"), 3u);  // time, bandwidth, busiest
  EXPECT_EQ(one.find("<script"), std::string::npos);
  const std::string two = sweep_svg("t", {example(), example("a=2")}, {published});
  EXPECT_EQ(count(two, "stroke-width='1.6'"), 8u);
  EXPECT_NE(two.find("times faster than a=&lt;1&gt;"), std::string::npos);
  EXPECT_EQ(two, sweep_svg("t", {example(), example("a=2")}, {published}));
}

TEST(Sweep, PictureOfNothingSaysSo) {
  SweepSeries failed = example();
  failed.rows = {failure(1024, "no")};
  const std::string picture = sweep_svg("t", {failed}, {});
  EXPECT_NE(picture.find("nothing was measured"), std::string::npos);
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  SweepSeries single = example();
  single.rows.resize(1);
  const std::string dot = sweep_svg("t", {single}, {});
  EXPECT_EQ(dot.find("nan"), std::string::npos);
  EXPECT_EQ(dot.find("inf"), std::string::npos);
}

TEST(Sweep, PageSaysHowToRepeatItAndWhatItIsWorth) {
  SweepSeries s = example();
  s.validated = false;
  s.rows.push_back(failure(2048, "<no>"));
  s.rows.push_back(failure(4096, ""));
  const std::string page = sweep_page("A & B", "soma sweep --set 'a=<1>'", {s}, {});
  EXPECT_NE(page.find("<pre>soma sweep --set 'a=&lt;1&gt;'</pre>"), std::string::npos) << page;
  EXPECT_NE(page.find("A &amp; B"), std::string::npos);
  EXPECT_NE(page.find("unvalidated"), std::string::npos);
  EXPECT_NE(page.find("1 points were not measured"), std::string::npos);
  EXPECT_NE(page.find("2 KiB: &lt;no&gt;"), std::string::npos);
  EXPECT_NE(page.find("<td>52.40<td>ring<td>hbm 80 %"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

}  // namespace
}  // namespace soma
