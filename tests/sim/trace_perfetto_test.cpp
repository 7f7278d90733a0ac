#include "sim/trace_perfetto.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/span.h"

namespace sim {
namespace {

// Decodes protobuf by hand, so that the test does not trust the generated code it checks. The field
// numbers are those of the public format.
class Message {
 public:
  explicit Message(std::string_view bytes) { decode(bytes); }

  uint64_t number(uint64_t field) const {
    const auto at = numbers.find(field);
    return at == numbers.end() ? 0 : at->second;
  }
  std::string text(uint64_t field) const {
    const auto at = texts.find(field);
    return at == texts.end() ? "" : at->second;
  }

  std::multimap<uint64_t, uint64_t> numbers;
  std::multimap<uint64_t, std::string> texts;

 private:
  void decode(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t key = varint(bytes);
      if ((key & 7) == 0) {
        numbers.emplace(key >> 3, varint(bytes));
      } else if ((key & 7) == 2) {
        const uint64_t size = varint(bytes);
        ASSERT_LE(size, bytes.size());
        texts.emplace(key >> 3, std::string(bytes.substr(0, size)));
        bytes.remove_prefix(size);
      } else if ((key & 7) == 1) {
        ASSERT_GE(bytes.size(), sizeof(uint64_t));
        numbers.emplace(key >> 3,
                        base::load<uint64_t>(reinterpret_cast<const uint8_t*>(bytes.data())));
        bytes.remove_prefix(sizeof(uint64_t));
      } else {
        FAIL() << "unexpected wire type " << (key & 7);
      }
    }
  }

  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (unsigned shift = 0; !bytes.empty() && shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }
};

class PerfettoTraceTest : public ::testing::Test {
 protected:
  PerfettoTraceTest() : path_(::testing::TempDir() + "trace_" + std::to_string(::getpid())) {}
  ~PerfettoTraceTest() override { ::unlink(path_.c_str()); }

  std::unique_ptr<PerfettoTrace> create(uint64_t limit = 1 << 20) {
    auto trace = PerfettoTrace::create(path_, limit);
    EXPECT_TRUE(trace.ok()) << trace.error().message();
    return std::move(trace.value());
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The packets of the file, in order.
  std::vector<Message> packets() const {
    std::vector<Message> result;
    const Message trace(bytes());
    for (auto [at, end] = trace.texts.equal_range(1); at != end; ++at) {
      result.emplace_back(at->second);
    }
    return result;
  }

  std::string path_;
};

TEST_F(PerfettoTraceTest, DecodesAsThePublicFormat) {
  auto trace = create();
  const base::Track chip(trace.get(), "d0");
  const base::Track queue = chip.child("dma2.q7");
  const base::Track bytes = chip.child_counter("hbm", "B");
  queue.span(1999, 5000, "copy 64 KiB");
  queue.instant(6000, "done");
  bytes.counter(7000, -2);
  ASSERT_TRUE(trace->close().ok());

  const auto all = packets();
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(all[0].number(13), 1u);  // state cleared, on the first packet only
  EXPECT_EQ(all[1].numbers.count(13), 0u);
  for (const Message& packet : all) EXPECT_EQ(packet.number(10), 1u);
  const Message first(all[0].text(60)), second(all[1].text(60)), third(all[2].text(60));
  EXPECT_EQ(first.number(1), 1u);
  EXPECT_EQ(first.text(2), "d0");
  EXPECT_EQ(first.numbers.count(5), 0u);
  EXPECT_EQ(second.text(2), "dma2.q7");
  EXPECT_EQ(second.number(5), 1u);
  EXPECT_EQ(Message(third.text(8)).number(3), 3u);  // UNIT_SIZE_BYTES
  EXPECT_EQ(Message(third.text(8)).text(6), "B");

  const Message begin(all[3].text(11)), end(all[4].text(11)), instant(all[5].text(11)),
      counter(all[6].text(11));
  EXPECT_EQ(all[3].number(8), 1u);  // 1999 ps is nanosecond 1
  EXPECT_EQ(begin.number(9), 1u);
  EXPECT_EQ(begin.number(11), 2u);
  EXPECT_EQ(begin.text(23), "copy 64 KiB");
  EXPECT_EQ(all[4].number(8), 5u);
  EXPECT_EQ(end.number(9), 2u);
  EXPECT_EQ(instant.number(9), 3u);
  EXPECT_EQ(counter.number(9), 4u);
  EXPECT_EQ(static_cast<int64_t>(counter.number(30)), -2);
}

TEST_F(PerfettoTraceTest, NotesBecomeAnnotationsAndFlows) {
  auto trace = create();
  const base::Track track(trace.get(), "dve");
  base::SpanNotes notes;
  notes.texts.emplace_back("line", "a.cpp:3");
  notes.numbers.emplace_back("pc", 9);
  notes.departing = {uint64_t{1} << 40, 2};
  notes.arriving = {5};
  track.span(1000, 2000, "COPY", notes);
  ASSERT_TRUE(trace->close().ok());
  const auto all = packets();
  ASSERT_EQ(all.size(), 3u);
  const Message event(all[1].text(11));
  std::vector<Message> annotations;
  for (auto [at, end] = event.texts.equal_range(4); at != end; ++at) {
    annotations.emplace_back(at->second);
  }
  ASSERT_EQ(annotations.size(), 2u);
  EXPECT_EQ(annotations[0].text(10), "line");
  EXPECT_EQ(annotations[0].text(6), "a.cpp:3");
  EXPECT_EQ(annotations[1].text(10), "pc");
  EXPECT_EQ(annotations[1].number(3), 9u);
  std::vector<uint64_t> flows;
  for (auto [at, end] = event.numbers.equal_range(47); at != end; ++at) flows.push_back(at->second);
  EXPECT_EQ(flows, (std::vector<uint64_t>{uint64_t{1} << 40, 2}));
  EXPECT_EQ(event.number(48), 5u);
}

TEST_F(PerfettoTraceTest, StaysWithinItsLimitWithSpansClosed) {
  constexpr uint64_t kLimit = 4000;
  auto trace = create(kLimit);
  const base::Track track(trace.get(), "t");
  for (uint64_t i = 0; i < 500; ++i) track.begin(i * 1000, "outer");
  for (uint64_t i = 0; i < 500; ++i) track.end((500 + i) * 1000);
  track.instant(1001000, "after");
  ASSERT_TRUE(trace->close().ok());
  EXPECT_LE(bytes().size(), kLimit);
  EXPECT_EQ(bytes().size(), trace->bytes());
  EXPECT_GT(trace->dropped_events(), 100u);
  int begins = 0, ends = 0, instants = 0;
  for (const Message& packet : packets()) {
    const uint64_t type = Message(packet.text(11)).number(9);
    begins += type == 1;
    ends += type == 2;
    instants += type == 3;
  }
  EXPECT_GT(begins, 10);
  EXPECT_EQ(begins, ends);
  EXPECT_EQ(instants, 0);
  EXPECT_EQ(static_cast<uint64_t>(500 - begins) + 1, trace->dropped_events());
}

TEST_F(PerfettoTraceTest, SameEventsSameBytes) {
  std::string first;
  for (int round = 0; round < 2; ++round) {
    auto trace = create();
    const base::Track track(trace.get(), "t");
    for (uint64_t i = 0; i < 20000; ++i) track.span(i * 10, i * 10 + 5, "x");
    ASSERT_TRUE(trace->close().ok());
    if (round == 0) first = bytes();
  }
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first, bytes());
}

TEST_F(PerfettoTraceTest, UnwritablePathIsAnError) {
  EXPECT_FALSE(PerfettoTrace::create("/nonexistent/trace", 1000).ok());
  auto full = PerfettoTrace::create("/dev/full", 1 << 20);
  ASSERT_TRUE(full.ok());
  base::Track(full->get(), "t").instant(1, "x");
  EXPECT_FALSE((*full)->close().ok());
}

}  // namespace
}  // namespace sim
