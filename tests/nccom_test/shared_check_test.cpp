// One computation for a group; a rank with other bits is judged by itself.
#include "tools/nccom-test/shared_check.h"

#include <gtest/gtest.h>

#include <thread>

namespace nccom {
namespace {

constexpr uint32_t kRanks = 4;
constexpr uint64_t kBytes = 4096;

Options options(Operation operation) {
  Options o;
  o.operation = operation;
  o.dtype = {"int32", contract::DType::kInt32, ""};
  o.ranks = kRanks;
  o.check = Check::kRandom;
  o.seed = 7;
  return o;
}

// What each rank is told, all at once.
std::vector<std::optional<Mismatch>> check(const Options& o,
                                           const std::vector<std::vector<uint8_t>>& outputs) {
  SharedCheck shared;
  std::vector<std::optional<Mismatch>> results(outputs.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < outputs.size(); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = shared.compare(o, 0, group_of(o, rank), rank, kBytes, outputs[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<std::vector<uint8_t>> right(const Options& o) {
  std::vector<std::vector<uint8_t>> outputs;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    outputs.push_back(expected_output(o, group_of(o, rank), rank, kBytes));
  }
  return outputs;
}

TEST(SharedCheck, RightOutputsPass) {
  for (const Operation operation : {Operation::kAllReduce, Operation::kAllGather,
                                    Operation::kBroadcast, Operation::kReduceScatter}) {
    const Options o = options(operation);
    for (const auto& mismatch : check(o, right(o))) EXPECT_FALSE(mismatch);
  }
}

TEST(SharedCheck, AWrongOutputFailsWhoeverComesFirst) {
  const Options o = options(Operation::kAllReduce);
  for (uint32_t wrong = 0; wrong < kRanks; ++wrong) {
    std::vector<std::vector<uint8_t>> outputs = right(o);
    outputs[wrong][4 * (10 + wrong)] ^= 1;
    const auto results = check(o, outputs);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_EQ(results[rank].has_value(), rank == wrong);
    }
    EXPECT_EQ(results[wrong]->index, 10 + wrong);
  }
}

TEST(SharedCheck, TheSameMistakeOfAllIsFound) {
  const Options o = options(Operation::kAllGather);
  std::vector<std::vector<uint8_t>> outputs = right(o);
  for (auto& output : outputs) output.back() ^= 1;
  for (const auto& mismatch : check(o, outputs)) EXPECT_TRUE(mismatch);
}

}  // namespace
}  // namespace nccom
