// Metadata of operations of variable size (spec/tools.md 2.10): rules, sizes, tensors, expected
// data.
#include "tools/nccom-test/variable.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tools/nccom-test/golden.h"
#include "tools/nccom-test/options.h"

namespace nccom {
namespace {

class Variable : public ::testing::Test {
 protected:
  ~Variable() override { std::remove(path_.c_str()); }

  Parsed parse_with(const std::string& line, const std::string& json,
                    const std::string& option = "--variable-size-op-metadata") {
    std::ofstream(path_) << json;
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    words.push_back(option);
    words.push_back(path_);
    return parse(words);
  }
  static Options parsed(const std::string& line) {
    std::istringstream in(line);
    const Parsed p = parse({std::istream_iterator<std::string>(in), {}});
    EXPECT_TRUE(p.proceed) << p.text;
    return p.proceed ? p.streams.front() : Options();
  }
  Options good(const std::string& line, const std::string& json) {
    const Parsed p = parse_with(line, json);
    EXPECT_TRUE(p.proceed) << p.text;
    return p.proceed ? p.streams.front() : Options();
  }
  void refused(const std::string& line, const std::string& json, const std::string& reason) {
    const Parsed p = parse_with(line, json);
    EXPECT_FALSE(p.proceed) << json;
    EXPECT_EQ(p.exit_code, 2) << json;
    EXPECT_NE(p.text.find("error: argument --variable-size-op-metadata: "), std::string::npos)
        << p.text;
    EXPECT_NE(p.text.find(reason), std::string::npos) << p.text;
  }

  std::string path_ = ::testing::TempDir() + "nccom_metadata_" + std::to_string(::getpid());
};

using Words = std::vector<uint32_t>;
const char* const kTwo = R"({"metadata": [
  {"send_counts": [3, 5], "send_displs": [0, 10], "recv_counts": [3, 0], "recv_displs": [4, 0]},
  {"send_counts": [0, 2], "send_displs": [9, 1], "recv_counts": [5, 2], "recv_displs": [0, 5]}]})";

TEST_F(Variable, OneEntryPerRank) {
  const Options o = good("-r 2 alltoallv -d fp32 -b 4 -e 4", kTwo);
  EXPECT_TRUE(receive_counts_known(o));
  EXPECT_TRUE(has_receive_displacements(o));
  // 15 elements are sent from, 7 received into: grown to 16, a multiple of the ranks.
  EXPECT_EQ(size_list(o), (std::vector<uint64_t>{64}));
  EXPECT_EQ(input_bytes(o, 64), 64u);
  EXPECT_EQ(output_bytes(o, 64), 64u);
  EXPECT_EQ(metadata_words(o, 0, 64), (Words{3, 5, 0, 10, 3, 0, 4, 0}));
  EXPECT_EQ(metadata_words(o, 1, 64), (Words{0, 2, 9, 1, 5, 2, 0, 5}));
  EXPECT_EQ(size_list(good("-r 2 alltoallv -d fp32 -b 4kb -e 4kb", kTwo)),
            (std::vector<uint64_t>{4096}));
}

TEST_F(Variable, OneEntryForAll) {
  const Options o = good("-r 4 alltoallv -b 1 -e 1",
                         R"({"metadata": [{"send_counts": [1, 2, 3, 0],
                             "send_displs": [0, 1, 3, 6], "recv_counts": []}]})");
  EXPECT_FALSE(receive_counts_known(o));
  EXPECT_FALSE(has_receive_displacements(o));
  // Blocks of up to 3 in four equal places.
  EXPECT_EQ(size_list(o), (std::vector<uint64_t>{12}));
  const Words words = metadata_words(o, 3, 12);
  EXPECT_EQ(words, (Words{1, 2, 3, 0, 0, 1, 3, 6, kUnknownCount, kUnknownCount, kUnknownCount,
                          kUnknownCount}));
  const BlockPlace place = block_place(o, words, words, 2, 1, 12);
  EXPECT_EQ(place.count, 2u);
  EXPECT_EQ(place.from, 1u);
  EXPECT_EQ(place.to, 6u);
}

TEST_F(Variable, AllGather) {
  const Options o = good("-r 2 allgv -d bf16 -b 2 -e 2", R"({"metadata": [
      {"send_counts": [7], "send_displs": [2], "recv_displs": [1, 8]},
      {"send_counts": [4], "send_displs": [0], "recv_displs": [20, 0]}]})");
  EXPECT_EQ(size_list(o), (std::vector<uint64_t>{56}));  // 27 elements, rounded to 28
  EXPECT_EQ(input_bytes(o, 56), 18u);
  EXPECT_EQ(output_bytes(o, 56), 56u);
  EXPECT_EQ(metadata_words(o, 0, 56), (Words{7, 0, 2, 0, kUnknownCount, kUnknownCount, 1, 8}));
}

TEST_F(Variable, ReduceScatter) {
  const Options o = good("-r 2 redsctv -d fp32 -b 4 -e 4",
                         R"({"metadata": [{"send_counts": [3, 6], "send_displs": [6, 0]}]})");
  EXPECT_EQ(size_list(o), (std::vector<uint64_t>{40}));
  EXPECT_EQ(input_bytes(o, 40), 40u);
  EXPECT_EQ(output_bytes(o, 40), 24u);
  EXPECT_EQ(metadata_words(o, 0, 40), (Words{3, 6, 6, 0}));
}

TEST_F(Variable, EqualBlocksWithoutAFile) {
  Options o;
  o.ranks = 4;
  o.operation = Operation::kAllToAllV;
  EXPECT_EQ(metadata_words(o, 1, 80), (Words{20, 20, 20, 20, 0, 20, 40, 60, kUnknownCount,
                                             kUnknownCount, kUnknownCount, kUnknownCount}));
  o.operation = Operation::kAllGatherV;
  EXPECT_EQ(input_bytes(o, 80), 20u);
  EXPECT_EQ(metadata_words(o, 1, 80), (Words{20, 0, 0, 0, 0, 0, 0, 0, kUnknownCount, kUnknownCount,
                                             kUnknownCount, kUnknownCount}));
  o.operation = Operation::kReduceScatterV;
  EXPECT_EQ(output_bytes(o, 80), 20u);
  EXPECT_EQ(metadata_words(o, 1, 80), (Words{20, 20, 20, 20, 0, 20, 40, 60}));
}

TEST_F(Variable, RulesOfTheFile) {
  const std::string line = "-r 2 alltoallv";
  const auto entry = [](const std::string& arrays) {
    return R"({"metadata": [{)" + arrays + "}]}";
  };
  const std::string send = R"("send_counts": [1, 1], "send_displs": [0, 1])";
  good(line, entry(send));
  refused(line, "[]", "expected {\"metadata\"");
  refused(line, "{\"metadata\": []}", "expected {\"metadata\"");
  refused(line, "{\"metadata\": [1]}", "an entry is an object");
  refused(line, entry(send + R"(, "more": [])"), "unknown key 'more'");
  refused(line, entry(R"("send_counts": 1)"), "send_counts is no list");
  refused(line, entry(R"("send_counts": [-1, 1])"), "send_counts holds -1");
  refused(line, entry(R"("send_counts": [4294967296, 1])"), "send_counts holds 4294967296");
  refused(line, entry(R"("send_counts": [1, 1])"), "send_displs has 0 elements, expected 2");
  refused(line, entry(R"("send_counts": [1], "send_displs": [0])"),
          "send_counts has 1 elements, expected 2");
  refused(line, entry(send + R"(, "recv_counts": [1])"), "recv_counts has 1 elements, expected 2");
  refused(line, entry(send + R"(, "recv_counts": [1, 2])"),
          "rank 0 expects 2 elements of rank 1, which sends 1");
  refused(line, entry(send + R"(, "recv_displs": [3, 3])"), "blocks overlap at element 3");
  refused("-r 3 alltoallv", kTwo, "2 entries for 3 ranks");
  refused(line,
          R"({"metadata": [{"send_counts": [1, 1], "send_displs": [0, 1], "recv_counts": [1, 1]},
                           {"send_counts": [1, 1], "send_displs": [0, 1]}]})",
          "are given for all ranks or for none");
  refused("-r 2 allgv", entry(send), "send_counts has 2 elements, expected 1");
  refused("-r 2 redsctv",
          R"({"metadata": [{"send_counts": [1, 1], "send_displs": [0, 1]},
                           {"send_counts": [1, 2], "send_displs": [0, 1]}]})",
          "the entries of a reduce_scatterv are equal");
  refused("-r 2 redsctv", entry(send + R"(, "recv_counts": [1, 1])"),
          "recv_counts has 2 elements, expected 0");
  refused("-r 2 allr", entry(send), "only for all_gatherv, alltoallv and reduce_scatterv");
}

TEST_F(Variable, OlderNameAndParts) {
  EXPECT_TRUE(parse_with("-r 2 alltoallv", kTwo, "--alltoallv-metadata").proceed);
  const Parsed p = parse_with("-r 2 alltoallv --coalesced-cc-size-ratio [1,1]", kTwo);
  EXPECT_EQ(p.exit_code, 2);
  EXPECT_NE(p.text.find("not for operations of variable size"), std::string::npos) << p.text;
}

// Groups count their own ranks.
TEST_F(Variable, Groups) {
  const Options o = good("-r 4 alltoallv --data-parallel-dimension 2 -b 1 -e 1",
                         R"({"metadata": [{"send_counts": [2, 1], "send_displs": [0, 2]}]})");
  EXPECT_EQ(o.group_ranks(), 2u);
  EXPECT_EQ(metadata_words(o, 3, 4).size(), 6u);
}

// What --x-matrix sends keeps to the rules, has blocks of every length, and differs by rank.
TEST_F(Variable, UnevenBlocks) {
  for (const char* operation : {"alltoallv", "allgv", "redsctv"}) {
    for (const bool placed : {false, true}) {
      Options o = parsed(std::string("-r 8 -d fp32 -b 320 -e 320 --data-parallel-dimension 4 ") +
                         operation);
      const bool reduces = o.operation == Operation::kReduceScatterV;
      if (reduces && placed) continue;
      o.metadata = uneven_metadata(o, 320, placed);  // equal blocks have 20 elements
      const base::Status status = check_metadata(o);
      EXPECT_TRUE(status) << status.error().message();
      EXPECT_EQ(o.metadata.size(), reduces ? 1u : 8u);
      EXPECT_EQ(receive_counts_known(o), placed);
      EXPECT_EQ(has_receive_displacements(o), placed);
      EXPECT_LE(least_size(o), placed ? 352u : 320u);
      std::set<uint32_t> lengths;
      for (const RankSizes& entry : o.metadata) {
        lengths.insert(entry.send_counts.begin(), entry.send_counts.end());
      }
      EXPECT_EQ(*lengths.begin(), 0u);
      EXPECT_LE(*lengths.rbegin(), 20u);
      EXPECT_GE(lengths.size(), 4u);
    }
  }
}

TEST_F(Variable, ExpectedData) {
  Options o = good("-r 2 alltoallv -d uint8 --check --seed 3", kTwo);
  std::vector<uint8_t> input[2];
  for (uint32_t r = 0; r < 2; ++r) {
    input[r].resize(16);
    make_input(o, r, 0, 16, input[r].data());
  }
  std::vector<uint8_t> output(16, 0xA5);
  std::copy_n(input[0].begin() + 10, 5, output.begin());
  std::copy_n(input[1].begin() + 1, 2, output.begin() + 5);
  EXPECT_FALSE(compare(o, {0, 1}, 1, 16, output.data()));
  output[7] ^= 1;  // nobody's: anything may be there
  EXPECT_FALSE(compare(o, {0, 1}, 1, 16, output.data()));
  output[6] ^= 1;
  const auto mismatch = compare(o, {0, 1}, 1, 16, output.data());
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->index, 6u);
  EXPECT_EQ(mismatch->wrong, 1u);

  o = good("-r 2 redsctv -d int32 --check --seed 3",
           R"({"metadata": [{"send_counts": [1, 2], "send_displs": [3, 0]}]})");
  int32_t in[2][4];
  for (uint32_t r = 0; r < 2; ++r) make_input(o, r, 0, 4, reinterpret_cast<uint8_t*>(in[r]));
  uint32_t sums[2];
  for (int i = 0; i < 2; ++i) {
    sums[i] = static_cast<uint32_t>(in[0][i]) + static_cast<uint32_t>(in[1][i]);
  }
  EXPECT_FALSE(compare(o, {0, 1}, 1, 16, reinterpret_cast<const uint8_t*>(sums)));
  sums[1] += 1;
  EXPECT_TRUE(compare(o, {0, 1}, 1, 16, reinterpret_cast<const uint8_t*>(sums)));
}

}  // namespace
}  // namespace nccom
