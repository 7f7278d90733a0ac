// Grid, CSV and page of `soma sweep`.
#include "tools/soma/sweep.h"

#include <gtest/gtest.h>

namespace soma {
namespace {

SweepSeries example() {
  SweepSeries s;
  s.platform = "trn1.2xlarge";
  s.operation = "allr";
  s.datatype = "bf16";
  s.ranks = 2;
  s.sets = {"a=<1>"};
  s.rows = {{1024, 2.0, 0.512, 0.512, "mesh"}, {1048576, 20.0, 52.4, 52.4, "ring"}};
  return s;
}

TEST(Sweep, SetsMultiply) {
  const auto sets = expand_sets({"a=1,2", "b=3"});
  ASSERT_TRUE(sets);
  EXPECT_EQ(*sets, (std::vector<std::vector<std::string>>{{"a=1", "b=3"}, {"a=2", "b=3"}}));
  EXPECT_EQ(expand_sets({})->size(), 1u);
  for (const char* text : {"", "a", "=1", "a="}) EXPECT_FALSE(expand_sets({text})) << text;
}

TEST(Sweep, CsvHasALinePerSizeAndOnePerFailure) {
  SweepSeries failed = example();
  failed.rows.clear();
  failed.error = "no, \"really\"";
  const std::string csv = sweep_csv({example(), failed});
  EXPECT_NE(csv.find("trn1.2xlarge,allr,bf16,2,1,a=<1>,1024,2.00,0.5120,0.5120,mesh,\n"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find(",,,,,no   really \n"), std::string::npos) << csv;
}

TEST(Sweep, PublishedRowsFormSeries) {
  const std::string head = "id,platform,lnc,ranks,op,dtype,size_bytes,time_us\n";
  const auto rows = parse_published(head +
                                    "N1.01,p,1,2,allr,bf16,1024,2.1\n"
                                    "N1.03,p,1,2,allr,bf16,4096,2.2\n"
                                    "N2.01,p,1,8,allr,bf16,4096,6\n");
  ASSERT_TRUE(rows) << rows.error().message();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].id, "N1");
  EXPECT_EQ((*rows)[0].rows[1].time_us, 2.2);
  EXPECT_EQ((*rows)[1].ranks, 8u);
  EXPECT_FALSE(parse_published("x\n"));
  EXPECT_FALSE(parse_published(head + "1,2\n"));
}

TEST(Sweep, PageDrawsCurvesAndPublishedPoints) {
  PublishedSeries published{"N1", "trn1.2xlarge", "allr", "bf16", 2, {{1024, 2.1, 0, 0, ""}}};
  const std::string page = sweep_page("A & B", {example()}, {published});
  EXPECT_NE(page.find("A &amp; B"), std::string::npos);
  EXPECT_NE(page.find("a=&lt;1&gt;"), std::string::npos);
  EXPECT_NE(page.find("<polyline"), std::string::npos);
  EXPECT_NE(page.find("N1 bf16: 2.1 us"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  // Nothing measured: no drawing, no crash.
  SweepSeries empty = example();
  empty.rows.clear();
  EXPECT_EQ(sweep_page("t", {empty}, {}).find("<polyline"), std::string::npos);
}

}  // namespace
}  // namespace soma
