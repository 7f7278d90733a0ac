#include "sim/trace_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sim {
namespace {

using ::testing::ElementsAre;

class Notes final : public base::TraceSink {
 public:
  base::TrackId add_track(std::string_view name, base::TrackId parent) override {
    list.push_back("track " + std::string(name) + " in " + std::to_string(parent));
    return ++last_;
  }
  base::TrackId add_counter(std::string_view, base::TrackId, std::string_view) override {
    return ++last_;
  }
  void begin(base::TrackId track, base::Ps time, std::string_view name) override {
    list.push_back(std::to_string(track) + " " + std::string(name) + " " + std::to_string(time));
  }
  void end(base::TrackId track, base::Ps time) override {
    list.push_back(std::to_string(track) + " end " + std::to_string(time));
  }
  void instant(base::TrackId, base::Ps, std::string_view) override {}
  void counter(base::TrackId, base::Ps, int64_t) override {}

  std::vector<std::string> list;

 private:
  base::TrackId last_ = 0;
};

TEST(TraceAdapter, DotsBecomeParentsOnce) {
  Notes sink;
  TraceAdapter adapter(sink);
  const uint32_t q7 = adapter.track("d0.dma2.q7");
  const uint32_t q8 = adapter.track("d0.dma2.q8");
  EXPECT_EQ(adapter.track("d0.dma2.q7"), q7);
  EXPECT_NE(q7, q8);
  adapter.span(q7, 1, 5, "copy", 64);
  adapter.span(q8, 5, 6, "signal", 0);
  EXPECT_THAT(sink.list,
              ElementsAre("track d0 in 0", "track dma2 in 1", "track q7 in 2", "3 copy 64 B 1",
                          "3 end 5", "track q8 in 2", "4 signal 5", "4 end 6"));
}

TEST(TraceAdapter, OverlappingSpansGetALaneOfTheirOwn) {
  Notes sink;
  TraceAdapter adapter(sink);
  const uint32_t queue = adapter.track("q");
  adapter.span(queue, 0, 10, "a", 0);
  adapter.span(queue, 5, 12, "b", 0);
  adapter.span(queue, 10, 11, "c", 0);  // the first lane is free again
  EXPECT_THAT(sink.list, ElementsAre("track machine in 0", "track q in 1", "2 a 0", "2 end 10",
                                     "track q #2 in 1", "3 b 5", "3 end 12", "2 c 10", "2 end 11"));
}

}  // namespace
}  // namespace sim
