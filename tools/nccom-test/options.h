// Command line of nccom-test (spec/tools.md 2.2 to 2.5): parsed values, and errors in argparse
// style. Own options, not published: --gib and those that begin with --x-.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "inputs.h"
#include "operations.h"
#include "sbuf.h"
#include "variable.h"

namespace nccom {

enum class Check { kOff, kRandom, kAllOnes };

struct Stat {
  std::string text = "avg";
  double percentile = -1;  // negative: average
};

struct Options {
  Operation operation = Operation::kAllReduce;
  contract::ReduceOp reduction = contract::ReduceOp::kAdd;
  uint32_t root = 0;  // index in each group: broadcast, reduce
  bool in_place = false;
  uint32_t skew = 0;  // rank r begins r times this many turns of an idle loop later
  uint32_t ranks = 0;
  uint64_t min_bytes = 32ull << 20;
  uint64_t max_bytes = 32ull << 20;
  uint64_t step_bytes = 0;  // 0: (max - min) / 10
  uint64_t step_factor = 0;
  uint32_t iterations = 20;
  uint32_t warmup = 5;
  uint32_t neff_iterations = 0;  // 0: -I not given
  uint32_t neff_warmup = 0;
  bool repeat_neff = false;  // -I or -W was given
  DataType dtype{"uint8", contract::DType::kUint8, "uint8"};
  Check check = Check::kOff;
  bool seed_given = false;
  uint64_t seed = 0;
  std::vector<Stat> stats{Stat{}};
  bool show_algorithm = false;
  bool show_sizes = false;
  bool interactive = true;
  bool debug = false;
  bool gib = false;
  bool json_config = false;
  std::string json_file;
  RankLists groups;           // concurrent groups; they cover all ranks
  Pairs pairs;                // permute, sendrecv: global ranks
  uint32_t ops_per_iter = 1;  // of this stream
  uint32_t priority = 0;      // of this stream's operations: 0 (most urgent) to 3
  // Proportions of the parts of each operation; of an implicit permute, its channels.
  std::vector<uint32_t> parts{1};
  bool unique_buffers = false;
  Metadata metadata;  // of an operation of variable size; empty: equal blocks
  bool pin = false;
  bool shared_output = false;
  bool sbuf = false;  // tensors in SBUF
  std::optional<SbufShape> input_shape;
  std::optional<SbufShape> output_shape;
  std::optional<uint32_t> cc_dim;
  std::string csv_file;
  bool matrix = false;  // every operation with every algorithm
  uint32_t nodes = 1;
  std::vector<std::string> hosts;
  bool slurm = false;
  uint32_t slurm_cpus = 0;     // of a task; 0: what Slurm gives
  std::string slurm_script;    // runs on every node first
  std::string slurm_job;       // to run in; empty: a new one
  bool slurm_copy = false;     // this program to all nodes
  std::string mpi_log_dir;     // of each instance's output
  std::string collector_host;  // empty: this one
  std::optional<uint16_t> collector_port;
  bool collector_ipv6 = false;
  bool collected = false;  // another process takes the durations of all instances
  std::string log_dir = "/tmp";
  std::string log_level;     // of the runtime
  uint32_t rank_start = 0;   // first rank of this process
  uint32_t local_ranks = 0;  // ranks of this process; 0: all
  // Without groups all ranks form one.
  uint32_t group_ranks() const {
    return groups.empty() ? ranks : static_cast<uint32_t>(groups.front().size());
  }
};

// What parse() decided: go on, or print `text` (to stdout for help) and end with `exit_code`.
struct Parsed {
  bool proceed = false;
  int exit_code = 0;
  std::string text;
  // One per stream that runs at once; what concerns the whole job is the same in all.
  std::vector<Options> streams;
};
Parsed parse(const std::vector<std::string>& arguments);

// Sizes of the run, each a whole number of elements, and of ranks x elements where the operation
// splits the buffer (rounded up).
std::vector<uint64_t> size_list(const Options& options);

// Sizes of the parts of an operation, and offset of each; the last takes what is left.
struct Part {
  uint64_t offset = 0;
  uint64_t size = 0;
};
std::vector<Part> parts_of(const Options& options, uint64_t size);

// Bytes per rank for a `size(B)`; the input with both sources where there are two.
uint64_t input_bytes(const Options& options, uint64_t size);
uint64_t output_bytes(const Options& options, uint64_t size);

}  // namespace nccom
