#include "hw/time/activity.h"

#include <gtest/gtest.h>

namespace {

TEST(Activity, OnlyTheLastEndIsTold) {
  int told = 0;
  hw::Activity activity([&told] { ++told; });
  activity.begin();
  activity.begin();
  activity.end();
  EXPECT_TRUE(activity.any());
  EXPECT_EQ(told, 0);
  activity.end();
  EXPECT_FALSE(activity.any());
  EXPECT_EQ(told, 1);
}

TEST(Activity, NobodyNeedsToBeTold) {
  hw::Activity activity;
  activity.begin();
  activity.end();
  EXPECT_FALSE(activity.any());
}

}  // namespace
