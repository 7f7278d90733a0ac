#include "arch/config/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/config/embedded.h"

namespace config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NearNames, RanksByEditsThenName) {
  const std::vector<std::string> valid{"dma.chip_gbps", "dma.engine_gbps", "hbm.stack_gbps"};
  EXPECT_THAT(near_names("dma.engin_gbps", valid, 5),
              ElementsAre("dma.engine_gbps", "dma.chip_gbps"));
  EXPECT_THAT(near_names("dma.engin_gbps", valid, 1), ElementsAre("dma.engine_gbps"));
  EXPECT_THAT(near_names("zzzzzzzz", valid, 5), IsEmpty());
}

TEST(Embedded, NamesAndTexts) {
  EXPECT_THAT(embedded_names("timing"), ElementsAre("inf2", "trn1", "trn2", "trn3"));
  EXPECT_THAT(embedded_names("platforms"), Contains("trn1.2xlarge"));
  EXPECT_THAT(embedded_names("platform"), IsEmpty());
  EXPECT_FALSE(embedded_text("platforms/trn1"));
  EXPECT_TRUE(embedded_text("schema/timing.schema.json"));
}

}  // namespace
}  // namespace config
