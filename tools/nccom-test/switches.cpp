#include "switches.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "checks.h"

namespace nccom {
namespace {

constexpr size_t kLongestStat = 16;   // "p99.9" and more digits than anyone needs
constexpr uint32_t kMaxChannels = 4;  // of a ring permute (spec/collectives.md 1.5)

// What the switches do. First those that differ in where the value goes.

template <bool Options::*To>
void flag(Given&, Draft* draft) {
  draft->options.*To = true;
}
template <std::string Options::*To>
void text(Given& given, Draft* draft) {
  draft->options.*To = given.value();
}
template <std::string Draft::*To>
void kept(Given& given, Draft* draft) {
  draft->*To = given.value();
}
template <uint32_t Options::*To, uint64_t Least>
void count(Given& given, Draft* draft) {
  draft->options.*To = given.count(Least);
}
template <uint64_t Options::*To>
void size(Given& given, Draft* draft) {
  draft->options.*To = given.size();
}
template <uint32_t Options::*To, uint64_t Least>
void repeat(Given& given, Draft* draft) {
  draft->options.repeat_neff = true;
  draft->options.*To = given.count(Least);
}
template <std::optional<SbufShape> Options::*To>
void shape(Given& given, Draft* draft) {
  SbufShape shape;
  given.take(parse_shape(given.value()), &shape);
  draft->options.*To = shape;
}

void show_help(Given&, Draft* draft) {
  draft->answer = help();
}
void show_version(Given&, Draft* draft) {
  draft->answer = "nccom-test 0.1.0\n";
}

// One kind of step excludes the other.
bool choose_step(Given& given, Draft* draft) {
  if (draft->step != nullptr && draft->step != &given.option()) {
    given.refuse("not allowed with argument " + label(*draft->step));
    return false;
  }
  draft->step = &given.option();
  return true;
}
void step_bytes(Given& given, Draft* draft) {
  if (!choose_step(given, draft)) return;
  draft->options.step_bytes = given.size();
  if (draft->options.step_bytes == 0) given.refuse("must be at least 1");
}
void step_factor(Given& given, Draft* draft) {
  constexpr uint64_t kMost = 1u << 15;  // times any size: 64 bits
  if (choose_step(given, draft)) draft->options.step_factor = given.number(2, kMost);
}

void datatype(Given& given, Draft* draft) {
  const auto type = type_of(given.value());
  if (!type) return given.refuse(invalid_choice(given.value(), type_names()));
  draft->options.dtype = *type;
}

void reduction(Given& given, Draft* draft) {
  const auto reduction = reduction_of(given.value());
  if (!reduction) return given.refuse(invalid_choice(given.value(), reduction_names()));
  draft->options.reduction = *reduction;
}

void check(Given& given, Draft* draft) {
  const std::string value = given.value();
  if (value.empty() || value == "random") {
    draft->options.check = Check::kRandom;
  } else if (value == "all_ones") {
    draft->options.check = Check::kAllOnes;
  } else {
    given.refuse(invalid_choice(value, {"random", "all_ones"}));
  }
}

void seed(Given& given, Draft* draft) {
  draft->options.seed_given = true;
  draft->options.seed = given.number(0, UINT64_MAX);
}

void stats(Given& given, Draft* draft) {
  draft->options.stats.clear();
  for (const std::string& value : given.values()) {
    Stat stat;
    stat.text = value;
    if (!is_stat(value) || value.size() > kLongestStat) {
      return given.refuse("invalid choice: '" + value + "' (choose from avg, pNN)");
    }
    if (value != "avg") stat.percentile = std::stod(value.substr(1));
    if (stat.percentile > 100) return given.refuse("percentile '" + value + "' is over 100");
    draft->options.stats.push_back(stat);
  }
}

void non_interactive(Given&, Draft* draft) {
  draft->options.interactive = false;
}
void debug(Given&, Draft* draft) {
  draft->options.debug = true;
  draft->options.interactive = false;
}
void dimension(Given& given, Draft* draft) {
  draft->dimension = given.count(1);
}
void channels(Given& given, Draft* draft) {
  draft->channels = static_cast<uint32_t>(given.number(1, kMaxChannels));
}
void ratio(Given& given, Draft* draft) {
  given.take(parse_ratio(given.value()), &draft->options.parts);
}
void cc_dim(Given& given, Draft* draft) {
  draft->options.cc_dim = static_cast<uint32_t>(given.number(0, 1));
}
void hosts(Given& given, Draft* draft) {
  draft->options.hosts = given.values();
}
void hosts_file(Given& given, Draft* draft) {
  given.take(read_hosts(given.value()), &draft->options.hosts);
}
void slurm_script(Given& given, Draft* draft) {
  draft->options.slurm_script = given.value();
  if (given.value() == "default") {
    given.refuse("'default' is not supported: there is nothing to install");
  }
}
void slurm_job(Given& given, Draft* draft) {
  draft->options.slurm_job = given.value() == "alloc" ? "" : given.value();
}
void collector_port(Given& given, Draft* draft) {
  draft->options.collector_port = static_cast<uint16_t>(given.number(1, UINT16_MAX));
}
void streams(Given& given, Draft* draft) {
  given.take(read_streams(given.value()), &draft->streams);
}
void priority(Given& given, Draft* draft) {
  constexpr uint64_t kLeastUrgent = 3;
  draft->options.priority = static_cast<uint32_t>(given.number(0, kLeastUrgent));
}

}  // namespace

std::string Given::value() const {
  return values_.empty() ? std::string() : values_.front();
}

void Given::refuse(const std::string& why) {
  if (refusal_.empty()) refusal_ = why;
}

uint64_t Given::number(uint64_t least, uint64_t most) {
  constexpr size_t kDigits = 18;
  const std::string digits = value();
  if (digits.empty() || digits.size() > kDigits ||
      !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); })) {
    refuse("invalid int value: '" + digits + "'");
    return least;
  }
  const uint64_t number = std::stoull(digits);
  if (number < least || number > most) {
    refuse("must be " + std::to_string(least) + " to " + std::to_string(most) + ", not " + digits);
  }
  return number;
}

uint32_t Given::count(uint64_t least) {
  constexpr uint64_t kMost = 1000000;
  return static_cast<uint32_t>(number(least, kMost));
}

uint64_t Given::size() {
  uint64_t bytes = 0;
  take(parse_size(value()), &bytes);
  return bytes;
}

bool is_stat(const std::string& text) {
  if (text == "avg") return true;
  if (text.size() < 2 || text[0] != 'p') return false;
  return std::all_of(text.begin() + 1, text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; }) &&
         std::count(text.begin(), text.end(), '.') <= 1 && text != "p.";
}

std::string invalid_choice(const std::string& value, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return "invalid choice: '" + value + "' (choose from " + text + ")";
}

const std::vector<Switch>& switches() {
  static const std::vector<Switch> kSwitches = {
      {"-h", "--help", Arity::kNone, "", "show this help message and exit", show_help},
      {"", "--version", Arity::kNone, "", "show the version and exit", show_version},
      {"-r", "--nworkers", Arity::kOne, "N", "total number of ranks (required)",
       count<&Options::ranks, 1>},
      {"-N", "--nnodes", Arity::kOne, "N", "number of instances; ranks divide evenly (default 1)",
       count<&Options::nodes, 1>},
      {"-b", "--minbytes", Arity::kOne, "SIZE", "first size (default 32M)",
       size<&Options::min_bytes>},
      {"-e", "--maxbytes", Arity::kOne, "SIZE", "last size, inclusive (default 32M)",
       size<&Options::max_bytes>},
      {"-i", "--stepbytes", Arity::kOne, "SIZE", "arithmetic step (default (max-min)/10)",
       step_bytes},
      {"-f", "--stepfactor", Arity::kOne, "F", "geometric step; excludes -i", step_factor},
      {"-n", "--iters", Arity::kOne, "N", "measured operations (default 20)",
       count<&Options::iterations, 1>},
      {"-w", "--warmup_iters", Arity::kOne, "N", "unmeasured operations before them (default 5)",
       count<&Options::warmup, 0>},
      {"-I", "--neff_iters", Arity::kOne, "N", "measured executions of one NEFF",
       repeat<&Options::neff_iterations, 1>},
      {"-W", "--neff_warmup_iters", Arity::kOne, "N", "unmeasured executions of that NEFF",
       repeat<&Options::neff_warmup, 0>},
      {"-d", "--datatype", Arity::kOne, "TYPE",
       "uint8 int8 fp8 fp8e4 uint16 int16 fp16 bf16 uint32 int32 fp32 (default uint8); own: fp8e3 "
       "fp8e5 uint64 int64",
       datatype},
      {"-c", "--check", Arity::kOptional, "MODE", "verify results: random (default) or all_ones",
       check},
      {"", "--seed", Arity::kOne, "N", "seed of random data (default: time, logged)", seed},
      {"-t", "--stats", Arity::kMany, "S", "avg, pNN, ... (default avg)", stats},
      {"", "--show-algorithm", Arity::kNone, "", "extra column", flag<&Options::show_algorithm>},
      {"", "--show-input-output-size", Arity::kNone, "", "two extra columns",
       flag<&Options::show_sizes>},
      {"", "--non-interactive", Arity::kNone, "", "no progress display", non_interactive},
      {"", "--report-to-json-file", Arity::kOne, "FILE", "write the results as JSON",
       text<&Options::json_file>},
      {"", "--debug", Arity::kNone, "", "print what is done to stderr", debug},
      {"", "--data-parallel-dimension", Arity::kOne, "D",
       "ranks of one group; r/D groups run at once", dimension},
      {"", "--gib", Arity::kNone, "", "bandwidths in 2^30 bytes, as old versions",
       flag<&Options::gib>},
      {"", "--x-json-config", Arity::kNone, "", "add the configuration to the JSON file",
       flag<&Options::json_config>},
      {"", "--x-report-to-csv-file", Arity::kOne, "FILE", "write the results as CSV",
       text<&Options::csv_file>},
      {"", "--x-ops-per-iter", Arity::kOne, "N", "operations of a stream per iteration (default 1)",
       count<&Options::ops_per_iter, 1>},
      {"", "--x-operation", Arity::kOne, "OP", "the operation, as an option",
       kept<&Draft::operation>},
      {"", "--x-priority", Arity::kOne, "P", "0 (most urgent, default) to 3; from NeuronCore-v4 on",
       priority},
      {"", "--x-reduction", Arity::kOne, "OP", "add, max, min (default add; fma is refused)",
       reduction},
      {"", "--x-root", Arity::kOne, "I", "index of the root in each group (default 0)",
       count<&Options::root, 0>},
      {"", "--x-channels", Arity::kOne, "N",
       "channels of an implicit permute, 1 to 4 (default 1): a part of the size on each", channels},
      {"", "--x-in-place", Arity::kNone, "", "results over inputs; every operation has its buffer",
       flag<&Options::in_place>},
      {"", "--x-matrix", Arity::kNone, "",
       "every operation with every algorithm: data checked, a line each", flag<&Options::matrix>},
      {"", "--x-skew", Arity::kOne, "N", "rank R begins R x N turns of an idle loop later",
       count<&Options::skew, 0>},
      {"", "--x-rank-start", Arity::kOne, "R", "first rank of this process (several processes)",
       count<&Options::rank_start, 0>},
      {"", "--x-local-ranks", Arity::kOne, "K", "ranks of this process (several processes)",
       count<&Options::local_ranks, 1>},
      {"", "--unique-buff", Arity::kNone, "", "buffers of its own for every operation of a NEFF",
       flag<&Options::unique_buffers>},
      {"", "--unique-tensor", Arity::kNone, "", "older name of --unique-buff",
       flag<&Options::unique_buffers>},
      {"", "--coalesced-cc-size-ratio", Arity::kOne, "LIST",
       "such as [1,2,1]: parts of each operation", ratio},
      {"", "--shared-output-buff", Arity::kNone, "",
       "one output buffer for the two cores of an HBM stack", flag<&Options::shared_output>},
      {"", "--variable-size-op-metadata", Arity::kOne, "FILE",
       "counts and displacements of all_gatherv, alltoallv, reduce_scatterv (JSON)",
       kept<&Draft::metadata_file>},
      {"", "--alltoallv-metadata", Arity::kOne, "FILE", "older name of --variable-size-op-metadata",
       kept<&Draft::metadata_file>},
      {"-s", "--hosts", Arity::kMany, "H", "hosts for MPI", hosts},
      {"", "--hosts-file", Arity::kOne, "FILE", "one host per line (default ~/hosts if present)",
       hosts_file},
      {"", "--mpi-log-dir", Arity::kOne, "DIR", "output of every instance in a file there",
       text<&Options::mpi_log_dir>},
      {"-S", "--slurm-mode", Arity::kNone, "", "start the instances with srun",
       flag<&Options::slurm>},
      {"-u", "--slurm-vcpus-per-node", Arity::kOne, "N",
       "processors of an instance (default: as Slurm is configured)",
       count<&Options::slurm_cpus, 1>},
      {"", "--slurm-setup-script", Arity::kOne, "PATH", "runs on every node first", slurm_script},
      {"", "--slurm-job-id", Arity::kOne, "ID", "job to run in, or alloc (default)", slurm_job},
      {"", "--slurm-use-head-node-neuron-bench", Arity::kNone, "", "copy nccom-test to all nodes",
       flag<&Options::slurm_copy>},
      {"", "--sb2sb", Arity::kNone, "", "tensors in SBUF (trn2: allr, allg, redsct)",
       flag<&Options::sbuf>},
      {"", "--input-shape", Arity::kOne, "SHAPE",
       "in SBUF: [step0,step1][num0,num1]; 0 within a partition, 1 partitions",
       shape<&Options::input_shape>},
      {"", "--output-shape", Arity::kOne, "SHAPE", "the same for the output",
       shape<&Options::output_shape>},
      {"", "--cc-dim", Arity::kOne, "D",
       "chunks in SBUF: 0 side by side, 1 partition after partition (default 1)", cc_dim},
      {"", "--custom-replica-groups", Arity::kOne, "FILE", "groups of ranks (JSON)",
       kept<&Draft::groups_file>},
      {"", "--custom-src-target-pairs", Arity::kOne, "FILE", "pairs of a permute (JSON)",
       kept<&Draft::pairs_file>},
      {"", "--permute-chain", Arity::kNone, "", "", nullptr},
      {"", "--streams-json", Arity::kOne, "FILE", "several streams at once (JSON)", streams},
      {"", "--vcpu-pin-mode", Arity::kNone, "", "pin the thread of each rank", flag<&Options::pin>},
      {"", "--data-collector-port", Arity::kOne, "PORT",
       "where instances report (default 60006, or any if that is taken)", collector_port},
      {"", "--data-collector-host", Arity::kOne, "HOST", "name of this host for the instances",
       text<&Options::collector_host>},
      {"", "--data-collector-use-ipv6", Arity::kNone, "", "listen on IPv6",
       flag<&Options::collector_ipv6>},
      {"", "--log-level", Arity::kOne, "LEVEL", "of the runtime: error, warn, info, debug",
       text<&Options::log_level>},
      {"", "--benchmark-log-directory", Arity::kOne, "DIR",
       "for files about failures (default /tmp)", text<&Options::log_dir>},
  };
  return kSwitches;
}

std::string usage() {
  return "usage: nccom-test [-h] -r NWORKERS [-b MINBYTES] [-e MAXBYTES] [-i STEPBYTES | -f "
         "STEPFACTOR]\n"
         "                  [-n ITERS] [-w WARMUP_ITERS] [-I NEFF_ITERS] [-W NEFF_WARMUP_ITERS]\n"
         "                  [-d DATATYPE] [-c [{random,all_ones}]] [--seed SEED] [-t STATS ...]\n"
         "                  [--show-algorithm] [--show-input-output-size] [--non-interactive]\n"
         "                  [--report-to-json-file FILE] [--debug] [-N NNODES]\n"
         "                  operation\n";
}

std::string help() {
  std::string out = usage() +
                    "\noperations: all_reduce (allr), all_gather (allg), reduce_scatter (redsct), "
                    "alltoall, permute, sendrecv, all_gatherv (allgv), alltoallv\nown additions: "
                    "reduce_scatterv (redsctv), broadcast (bcast), reduce, barrier, "
                    "permute_reduce (permred), permute_implicit (permimp), permute_reduce_implicit "
                    "(permredimp)\n\noptions:\n";
  for (const Switch& s : switches()) {
    if (s.apply == nullptr) continue;
    std::string line = std::string("  ") + s.brief + (*s.brief != '\0' ? ", " : "") + s.full;
    if (*s.metavar != '\0') line += std::string(" ") + s.metavar;
    constexpr size_t kColumn = 34;
    line += line.size() < kColumn ? std::string(kColumn - line.size(), ' ') : "  ";
    out += line + s.help + "\n";
  }
  return out;
}

std::string label(const Switch& s) {
  return (*s.brief != '\0' ? std::string(s.brief) + "/" : std::string()) + s.full;
}

}  // namespace nccom
