// The command line of nccom-test against spec/tools.md 2.2 to 2.5.
#include "tools/nccom-test/options.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "tools/nccom-test/switches.h"

namespace nccom {
namespace {

Parsed parse_line(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return parse(words);
}

Options good(const std::string& line) {
  const Parsed p = parse_line(line);
  EXPECT_TRUE(p.proceed) << line << "\n" << p.text;
  return p.streams.empty() ? Options() : p.streams.front();
}

void refused(const std::string& line, const std::string& message) {
  const Parsed p = parse_line(line);
  EXPECT_FALSE(p.proceed) << line;
  EXPECT_EQ(p.exit_code, 2) << line;
  EXPECT_EQ(p.text.find("usage: nccom-test "), 0u) << p.text;
  EXPECT_NE(p.text.find("\nnccom-test: error: " + message), std::string::npos) << p.text;
  EXPECT_EQ(p.text.back(), '\n');
}

std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(Options, Defaults) {
  const Options o = good("-r 2 allr");
  EXPECT_EQ(o.operation, Operation::kAllReduce);
  EXPECT_EQ(o.ranks, 2u);
  EXPECT_EQ(o.min_bytes, 32u << 20);
  EXPECT_EQ(o.max_bytes, 32u << 20);
  EXPECT_EQ(o.iterations, 20u);
  EXPECT_EQ(o.warmup, 5u);
  EXPECT_STREQ(o.dtype.name, "uint8");
  EXPECT_EQ(o.check, Check::kOff);
  EXPECT_EQ(o.stats.size(), 1u);
  EXPECT_EQ(o.local_ranks, 2u);
  EXPECT_FALSE(o.repeat_neff);
}

TEST(Options, TheOperationMayStandAnywhere) {
  EXPECT_EQ(good("allg -r 2").operation, Operation::kAllGather);
  EXPECT_EQ(good("-r 2 reduce_scatter -n 3").operation, Operation::kReduceScatter);
  EXPECT_EQ(good("-r 2 -c redsct").operation, Operation::kReduceScatter);
  EXPECT_EQ(good("-r 2 -t avg p50 p99.9 all_reduce").stats.size(), 3u);
}

TEST(Options, PublishedCommand) {
  const Options o = good("-r 2 --minbytes 1kb --maxbytes 1gb --stepfactor 4 --datatype bf16 allr");
  EXPECT_EQ(size_list(o).size(), 11u);
  EXPECT_EQ(size_list(o).front(), 1024u);
  EXPECT_EQ(size_list(o).back(), 1u << 30);
}

TEST(Options, Forms) {
  EXPECT_EQ(good("-r2 allr").ranks, 2u);
  EXPECT_EQ(good("--nworkers=2 allr").ranks, 2u);
  EXPECT_EQ(good("--nwork 2 allr").ranks, 2u);
  EXPECT_EQ(good("-r 2 --check=all_ones allr").check, Check::kAllOnes);
  EXPECT_EQ(good("-r 2 -c all_ones allr").check, Check::kAllOnes);
  EXPECT_EQ(good("-r 2 allr -c").check, Check::kRandom);
  EXPECT_EQ(good("-r 2 --seed 7 -c allr").seed, 7u);
  const Options o = good("-r 4 allr -I 3 -W 1 -n 6 -w 2 --data-parallel-dimension 2");
  EXPECT_TRUE(o.repeat_neff);
  EXPECT_EQ(o.neff_iterations, 3u);
  EXPECT_EQ(o.groups.size(), 2u);
  EXPECT_EQ(o.group_ranks(), 2u);
}

TEST(Options, Refusals) {
  refused("", "the following arguments are required: operation, -r/--nworkers");
  refused("allr", "the following arguments are required: -r/--nworkers");
  refused("-r 2", "the following arguments are required: operation");
  refused("-r 2 foo",
          "argument operation: invalid choice: 'foo' (choose from 'all_reduce', 'allr'");
  refused("-r 3 sendrecv", "sendrecv needs an even number of ranks");
  refused("-r x allr", "argument -r/--nworkers: invalid int value: 'x'");
  refused("-r 0 allr", "argument -r/--nworkers: must be 1 to");
  refused("allr -r", "argument -r/--nworkers: expected one argument");
  refused("-r 2 allr --foo", "unrecognized arguments: --foo");
  refused("-r 2 allr extra", "unrecognized arguments: extra");
  refused("-r 2 allr -d fp64",
          "argument -d/--datatype: invalid choice: 'fp64' (choose from 'uint8'");
  refused("-r 2 allr -b 1tb", "argument -b/--minbytes: invalid size value: '1tb'");
  refused("-r 2 allr -i 1 -f 2",
          "argument -f/--stepfactor: not allowed with argument -i/--stepbytes");
  refused("-r 2 allr -f 1", "argument -f/--stepfactor: must be 2 to");
  refused("-r 2 allr -b 2k -e 1k", "argument -e/--maxbytes: 1024 is less than");
  refused("-r 2 allr -t p101", "argument -t/--stats: percentile 'p101' is over 100");
  refused("-r 2 allr -t p" + std::string(400, '9'), "argument -t/--stats: invalid choice");
  refused("-r 2 allr -t", "argument -t/--stats: expected at least one argument");
  refused("-r 2 allr --show", "ambiguous option: --show could match --show-algorithm, ");
  refused("-r 4 -b 1000 -e 1000 -d fp32 alltoall",
          "alltoall: a size of 1000 bytes is not divisible by the number of ranks x element size");
  refused("-r 4 -b 16 -e 40 -i 8 -d fp32 alltoall", "alltoall: a size of 24 bytes");
  refused("-r 2 allr --slurm-job-id 7", "argument --slurm-job-id: only with -S/--slurm-mode");
  refused("-r 2 allr -u 8", "argument -u/--slurm-vcpus-per-node: only with -S/--slurm-mode");
  refused("-r 2 allr -S --slurm-setup-script default", "argument --slurm-setup-script: 'default'");
  refused("-r 2 allr --permute-chain", "argument --permute-chain: not supported");
  refused("-r 3 allr -N 2", "argument -N/--nnodes: 3 ranks do not divide into 2 instances");
  refused("-r 3 allr --data-parallel-dimension 2", "argument --data-parallel-dimension: 3 ranks");
  refused("-r 2 allr --debug=1", "argument --debug: ignored explicit argument '1'");
  refused("-r 2 allr --x-rank-start 1 --x-local-ranks 2", "argument --x-local-ranks: ranks 1 to 2");
}

TEST(Options, Jobs) {
  const Options o = good(
      "-r 4 -N 2 -S -u 8 --slurm-setup-script ./set_up --slurm-job-id 77 "
      "--slurm-use-head-node-neuron-bench --mpi-log-dir logs --benchmark-log-directory there "
      "--log-level info allr");
  EXPECT_EQ(o.slurm_cpus, 8u);
  EXPECT_EQ(o.slurm_script, "./set_up");
  EXPECT_EQ(o.slurm_job, "77");
  EXPECT_TRUE(o.slurm_copy);
  EXPECT_EQ(o.mpi_log_dir, "logs");
  EXPECT_EQ(o.log_dir, "there");
  EXPECT_EQ(o.log_level, "info");
  EXPECT_EQ(good("-r 2 -S --slurm-job-id alloc allr").slurm_job, "");
  EXPECT_EQ(size_list(good("-r 4 -b 16 -e 48 -i 16 -d fp32 alltoall")).size(), 3u);
}

TEST(Options, HelpAndVersionSucceed) {
  const Parsed help = parse_line("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_FALSE(help.proceed);
  EXPECT_NE(help.text.find("--nworkers"), std::string::npos);
  EXPECT_EQ(help.text.find("--permute-chain"), std::string::npos);
  EXPECT_EQ(parse_line("--version").exit_code, 0);
}

std::string sample_of(const Switch& s) {
  static const std::map<std::string, std::string> kSamples = {
      {"--datatype", "bf16"},
      {"--check", "all_ones"},
      {"--stats", "p99"},
      {"--x-reduction", "max"},
      {"--x-channels", "2"},
      {"--x-priority", "2"},
      {"--cc-dim", "1"},
      {"--coalesced-cc-size-ratio", "[1,2]"},
      {"--input-shape", "[1,3][24,32]"},
      {"--output-shape", "[1,3][24,32]"}};
  const std::string name = s.full;
  if (name == "--hosts-file") return file_with("hosts", "somewhere\n");
  if (name == "--streams-json") {
    return file_with("one_stream.json", "{\"streams\": [{\"operation\": \"allr\"}]}");
  }
  const auto sample = kSamples.find(name);
  return sample == kSamples.end() ? "7" : sample->second;
}

// An option that is listed does something, or says that it is not supported.
TEST(Options, EverySwitchHasAnEffect) {
  ASSERT_FALSE(switches().empty());
  for (const Switch& s : switches()) {
    const bool listed = help().find(std::string(s.full) + " ") != std::string::npos;
    EXPECT_EQ(listed, s.apply != nullptr) << s.full;
    if (s.apply == nullptr) {
      refused(std::string("-r 2 allr ") + s.full, "argument " + label(s) + ": not supported");
      continue;
    }
    Draft draft;
    unsigned char before[sizeof draft];
    std::memcpy(before, static_cast<const void*>(&draft), sizeof draft);
    const size_t values = s.arity == Arity::kNone ? 0 : s.arity == Arity::kMany ? 2 : 1;
    Given given(s, std::vector<std::string>(values, sample_of(s)));
    s.apply(given, &draft);
    EXPECT_EQ(given.refusal(), "") << s.full;
    EXPECT_NE(std::memcmp(before, static_cast<const void*>(&draft), sizeof draft), 0) << s.full;
  }
}

TEST(Sizes, BinaryMultiplesOfAnyCase) {
  EXPECT_EQ(*parse_size("17"), 17u);
  EXPECT_EQ(*parse_size("1kb"), 1024u);
  EXPECT_EQ(*parse_size("1K"), 1024u);
  EXPECT_EQ(*parse_size("1MB"), 1u << 20);
  EXPECT_EQ(*parse_size("2g"), 2ull << 30);
  for (const char* text : {"", "k", "-1", "1.5k", "1kk", "999999999999999999g", "0x10"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Sizes, DefaultStepGivesElevenEntries) {
  const auto sizes = size_list(good("-r 2 allr -b 1000 -e 2009"));
  ASSERT_EQ(sizes.size(), 11u);
  EXPECT_EQ(sizes.front(), 1000u);
  EXPECT_EQ(sizes.back(), 2000u);  // the step is an integer division
}

TEST(Sizes, AreWholeElementsAndChunks) {
  EXPECT_EQ(size_list(good("-r 2 allr -d fp32 -b 5 -e 5")), std::vector<uint64_t>{8});
  EXPECT_EQ(size_list(good("-r 2 allg -d fp32 -b 9 -e 9")), std::vector<uint64_t>{16});
  EXPECT_EQ(size_list(good("-r 3 redsct -b 1 -e 1")), std::vector<uint64_t>{3});
  EXPECT_EQ(size_list(good("-r 2 allr -b 0 -e 4 -f 2")), (std::vector<uint64_t>{1, 2, 4}));
  EXPECT_EQ(size_list(good("-r 2 allr -b 4 -e 4 -i 1")), std::vector<uint64_t>{4});
}

TEST(Sizes, PerRankBuffers) {
  const Options gather = good("-r 4 allg");
  EXPECT_EQ(input_bytes(gather, 1024), 256u);
  EXPECT_EQ(output_bytes(gather, 1024), 1024u);
  const Options scatter = good("-r 4 redsct");
  EXPECT_EQ(input_bytes(scatter, 1024), 1024u);
  EXPECT_EQ(output_bytes(scatter, 1024), 256u);
}

TEST(Options, GroupsAndPairsFromFiles) {
  const std::string groups = file_with("groups.json", "{\"replica_groups\": [[[0,2],[1,3]]]}");
  EXPECT_EQ(good("-r 4 allr --custom-replica-groups " + groups).groups,
            (RankLists{{0, 2}, {1, 3}}));
  refused("-r 5 allr --custom-replica-groups " + groups, "argument --custom-replica-groups: ");
  const std::string pairs =
      file_with("pairs.json", "{\"src_target_pairs\": [[[0,1],[1,0],[2,2]]]}");
  EXPECT_EQ(good("-r 3 permute --custom-src-target-pairs " + pairs).pairs.size(), 3u);
  refused("-r 2 permute --custom-src-target-pairs " + pairs, "argument --custom-src-target-pairs");
  const std::string open_pairs = file_with("open.json", "{\"src_target_pairs\": [[[0,1]]]}");
  refused("-r 2 permute --custom-src-target-pairs " + open_pairs,
          "argument --custom-src-target-pairs: ");
  refused("-r 2 allr --custom-replica-groups /no/such/file", "argument --custom-replica-groups: ");
  for (const char* text :
       {"", "[]", "{\"replica_groups\": 1}", "{\"replica_groups\": [[[0,0]]]}",
        "{\"replica_groups\": [[[0],[1,2]]]}", "{\"replica_groups\": [[[-1,0]]]}"}) {
    refused("-r 3 allr --custom-replica-groups " + file_with("bad.json", text),
            "argument --custom-replica-groups: ");
  }
}

TEST(Options, StreamsTakeWhatTheyDoNotSayFromTheCommandLine) {
  const std::string file =
      file_with("streams.json",
                "{\"streams\": [{\"operation\": \"allr\", \"datatype\": \"bf16\"},"
                " {\"operation\": \"allg\", \"minbytes\": \"1kb\", \"maxbytes\": 1024,"
                " \"ops_per_iter\": 2, \"priority\": 3}]}");
  const Parsed p = parse_line("-r 4 -b 4kb -e 8kb -f 2 --streams-json " + file);
  ASSERT_TRUE(p.proceed) << p.text;
  ASSERT_EQ(p.streams.size(), 2u);
  EXPECT_STREQ(p.streams[0].dtype.name, "bf16");
  EXPECT_EQ(p.streams[0].min_bytes, 4096u);
  EXPECT_EQ(p.streams[1].operation, Operation::kAllGather);
  EXPECT_EQ(p.streams[1].min_bytes, 1024u);
  EXPECT_EQ(p.streams[1].ops_per_iter, 2u);
  EXPECT_EQ(p.streams[0].priority, 0u);
  EXPECT_EQ(p.streams[1].priority, 3u);
  EXPECT_EQ(p.streams[1].step_factor, 2u);
  refused("-r 4 --streams-json " + file_with("none.json", "{\"streams\": []}"),
          "argument --streams-json: ");
  refused("-r 4 --streams-json " +
              file_with("what.json", "{\"streams\": [{\"operation\": \"allr\", \"bogus\": 1}]}"),
          "unrecognized arguments: --bogus 1");
  const std::string lists =
      "{\"operation\": \"allr\", \"iters\": 3, \"neff_iters\": 2, \"neff_warmup_iters\": 1,"
      " \"stats\": [\"avg\", \"p99\"], \"coalesced_cc_size_ratio\": [1, 2]}";
  const Parsed job =
      parse_line("-r 4 --streams-json " + file_with("job.json", "{\"streams\": [" + lists + "]}"));
  ASSERT_TRUE(job.proceed) << job.text;
  EXPECT_EQ(job.streams[0].neff_iterations, 2u);
  EXPECT_EQ(job.streams[0].stats.size(), 2u);
  EXPECT_EQ(job.streams[0].parts.size(), 2u);
  refused("-r 4 allr --streams-json " +
              file_with("two.json", "{\"streams\": [" + lists + ", {\"operation\": \"allr\"}]}"),
          "argument --streams-json: the streams differ in 'iters'");
  refused("-r 4 --x-priority 4 allr", "argument --x-priority: must be 0 to 3");
}

TEST(Options, PartsKeepTheRatioAndTheSum) {
  Options o = good("-r 4 -d fp32 allg --coalesced-cc-size-ratio [1,2,1]");
  ASSERT_EQ(o.parts, (std::vector<uint32_t>{1, 2, 1}));
  const std::vector<Part> parts = parts_of(o, 16 * 9);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].size + parts[1].size + parts[2].size, 16u * 9);
  for (const Part& part : parts) EXPECT_EQ(part.size % 16, 0u);
  refused("-r 4 allg --coalesced-cc-size-ratio [0]", "argument --coalesced-cc-size-ratio: ");
}

TEST(Options, HostsEndWhereTheOperationBegins) {
  const Options o = good("-r 4 -N 2 --hosts a b allr");
  EXPECT_EQ(o.hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.operation, Operation::kAllReduce);
  EXPECT_EQ(o.nodes, 2u);
}

TEST(Options, OwnOperationsAndOptions) {
  EXPECT_EQ(good("-r 4 bcast --x-root 3").root, 3u);
  EXPECT_EQ(good("-r 4 broadcast").operation, Operation::kBroadcast);
  EXPECT_EQ(good("-r 4 reduce --x-reduction max").reduction, contract::ReduceOp::kMax);
  EXPECT_EQ(good("-r 4 permred").pairs, (Pairs{{0, 1}, {1, 2}, {2, 3}, {3, 0}}));
  EXPECT_EQ(good("-r 4 permute --data-parallel-dimension 2").pairs,
            (Pairs{{0, 1}, {1, 0}, {2, 3}, {3, 2}}));
  EXPECT_EQ(good("-r 4 sendrecv --data-parallel-dimension 2").pairs, (Pairs{{0, 1}, {2, 3}}));
  EXPECT_TRUE(good("-r 4 permimp").pairs.empty());  // the runtime's choice
  EXPECT_EQ(good("-r 4 permredimp --x-channels 3").parts, (std::vector<uint32_t>{1, 1, 1}));
  EXPECT_TRUE(good("-r 4 allr --x-in-place").unique_buffers);
  EXPECT_EQ(good("-r 4 allr -d int64 --x-skew 7").skew, 7u);
  EXPECT_TRUE(good("-r 4 --x-matrix").matrix);
  refused("-r 4 bcast --x-root 4", "argument --x-root: 4 of groups of 4 ranks");
  refused("-r 4 bcast --data-parallel-dimension 2 --x-root 2", "argument --x-root: 2 of groups");
  refused("-r 4 allr --x-channels 2", "argument --x-channels: only for permute_implicit");
  refused("-r 4 permimp --x-channels 5", "argument --x-channels: must be 1 to 4, not 5");
  refused("-r 4 permimp --coalesced-cc-size-ratio [1,1]", "argument --coalesced-cc-size-ratio");
  refused("-r 4 barrier --x-in-place", "argument --x-in-place: a barrier has no buffers");
  refused("-r 4 allr --x-reduction xor", "argument --x-reduction: invalid choice: 'xor'");
}

TEST(Options, SizesOfOwnOperations) {
  EXPECT_EQ(size_list(good("-r 4 barrier -b 1kb -e 1mb")), (std::vector<uint64_t>{0}));
  Options o = good("-r 4 permredimp --x-channels 3 -d fp32 -b 4 -e 4");
  EXPECT_EQ(size_list(o), (std::vector<uint64_t>{12}));  // an element on each channel
  EXPECT_EQ(input_bytes(o, 12), 24u);                    // two sources
  EXPECT_EQ(output_bytes(o, 12), 12u);
}

}  // namespace
}  // namespace nccom
