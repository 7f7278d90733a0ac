#include "sim/trace_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hw/core/instruction_trace.h"

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
  void begin_noted(base::TrackId track, base::Ps time, std::string_view name,
                   const base::SpanNotes& notes) override {
    begin(track, time, name);
    for (const auto& [key, text] : notes.texts) list.push_back(std::string(key) + ": " + text);
    for (const auto& [key, n] : notes.numbers) {
      list.push_back(std::string(key) + ": " + std::to_string(n));
    }
    for (const uint64_t flow : notes.departing) list.push_back("from " + std::to_string(flow));
    for (const uint64_t flow : notes.arriving) list.push_back("to " + std::to_string(flow));
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
                          "bytes: 64", "3 end 5", "track q8 in 2", "4 signal 5", "4 end 6"));
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

TEST(TraceAdapter, InstructionsComeWithWhatIsKnownOfThem) {
  namespace isa = contract::isa;
  Notes sink;
  TraceAdapter adapter(sink);
  const std::string core = "d0.nc1";
  hw::InstructionEvent event;
  event.core = &core;
  event.engine = contract::kDve;
  event.pc = 7;
  event.instruction.opcode = isa::Opcode::kTensorCopy;
  isa::TensorOperand tensor{};
  tensor.dtype = isa::DataType::kFloat32;
  tensor.byte_offset = 256;
  tensor.dims[0] = {1, 64};
  tensor.dims[1] = {64, 2};
  event.instruction.operands.tensor_copy = {tensor, tensor, 100};
  event.instruction.operands.tensor_copy.src.memory = isa::Memory::kPsum;
  event.pauses = {{hw::Stall::kSemaphore, contract::kAct, 10, 30},
                  {hw::Stall::kPsum, contract::kPe, 30, 35}};
  event.begin = 35;
  event.end = 50;
  event.done = 60;
  event.released_by = 3;
  event.releases = {4, 5};
  adapter.instruction(adapter.track("d0.nc1.dve"), event);
  EXPECT_THAT(
      sink.list,
      ElementsAre("track d0 in 0", "track nc1 in 1", "track dve in 2", "3 wait: act 10",
                  "instruction: TENSOR_COPY", "cause: semaphore", "3 end 30", "3 wait: psum 30",
                  "instruction: TENSOR_COPY", "cause: psum", "3 end 35", "3 TENSOR_COPY 35",
                  "operands: writes fp32 100 x 128 @256, reads psum fp32 100 x 128 @256",
                  "waited for: act, psum", "pc: 7", "waited ps: 25", "result after ps: 25",
                  "from 4", "from 5", "to 3", "3 end 50"));
}

}  // namespace
}  // namespace sim
