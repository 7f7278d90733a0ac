#include "base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace base {
namespace {

using ::testing::ElementsAre;

class Recorder : public TraceSink {
 public:
  TrackId add_track(std::string_view name, TrackId parent) override {
    note("track " + std::string(name) + " in " + std::to_string(parent));
    return ++last_;
  }
  TrackId add_counter(std::string_view name, TrackId parent, std::string_view unit) override {
    note("counter " + std::string(name) + " in " + std::to_string(parent) + " " +
         std::string(unit));
    return ++last_;
  }
  void begin(TrackId track, Ps time, std::string_view name) override {
    note(std::to_string(track) + " begin " + std::to_string(time) + " " + std::string(name));
  }
  void end(TrackId track, Ps time) override {
    note(std::to_string(track) + " end " + std::to_string(time));
  }
  void instant(TrackId track, Ps time, std::string_view name) override {
    note(std::to_string(track) + " instant " + std::to_string(time) + " " + std::string(name));
  }
  void counter(TrackId track, Ps time, int64_t value) override {
    note(std::to_string(track) + " = " + std::to_string(value) + " at " + std::to_string(time));
  }

  std::vector<std::string> notes;

 private:
  void note(std::string text) { notes.push_back(std::move(text)); }
  TrackId last_ = 0;
};

TEST(Track, ForwardsToItsSink) {
  Recorder sink;
  const Track chip(&sink, "d0");
  const Track queue = chip.child("q7");
  const Track bytes = chip.child_counter("bytes", "B");
  queue.span(5, 9, "copy");
  queue.instant(9, "done");
  bytes.counter(9, -1);
  EXPECT_THAT(sink.notes,
              ElementsAre("track d0 in 0", "track q7 in 1", "counter bytes in 1 B",
                          "2 begin 5 copy", "2 end 9", "2 instant 9 done", "3 = -1 at 9"));
}

TEST(Track, NullSinkSwallows) {
  const Track none(nullptr, "d0");
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.child("q"));
  EXPECT_FALSE(none.child_counter("c", "B"));
  EXPECT_FALSE(Track());
  none.span(1, 2, "x");
  none.instant(1, "x");
  none.counter(1, 1);
}

}  // namespace
}  // namespace base
