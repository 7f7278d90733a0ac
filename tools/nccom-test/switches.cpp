#include "switches.h"

#include <map>

namespace nccom {

const std::vector<Switch>& switches() {
  static const std::vector<Switch> kSwitches = {
      {"-h", "--help", Arity::kNone, "", "show this help message and exit"},
      {"", "--version", Arity::kNone, "", "show the version and exit"},
      {"-r", "--nworkers", Arity::kOne, "N", "total number of ranks (required)"},
      {"-N", "--nnodes", Arity::kOne, "N", "number of instances; ranks divide evenly (default 1)"},
      {"-b", "--minbytes", Arity::kOne, "SIZE", "first size (default 32M)"},
      {"-e", "--maxbytes", Arity::kOne, "SIZE", "last size, inclusive (default 32M)"},
      {"-i", "--stepbytes", Arity::kOne, "SIZE", "arithmetic step (default (max-min)/10)"},
      {"-f", "--stepfactor", Arity::kOne, "F", "geometric step; excludes -i"},
      {"-n", "--iters", Arity::kOne, "N", "measured operations (default 20)"},
      {"-w", "--warmup_iters", Arity::kOne, "N", "unmeasured operations before them (default 5)"},
      {"-I", "--neff_iters", Arity::kOne, "N", "measured executions of one NEFF"},
      {"-W", "--neff_warmup_iters", Arity::kOne, "N", "unmeasured executions of that NEFF"},
      {"-d", "--datatype", Arity::kOne, "TYPE",
       "uint8 int8 fp8 fp8e4 uint16 int16 fp16 bf16 uint32 int32 fp32 (default uint8); own: fp8e3 "
       "fp8e5 uint64 int64"},
      {"-c", "--check", Arity::kOptional, "MODE", "verify results: random (default) or all_ones"},
      {"", "--seed", Arity::kOne, "N", "seed of random data (default: time, logged)"},
      {"-t", "--stats", Arity::kMany, "S", "avg, pNN, ... (default avg)"},
      {"", "--show-algorithm", Arity::kNone, "", "extra column"},
      {"", "--show-input-output-size", Arity::kNone, "", "two extra columns"},
      {"", "--non-interactive", Arity::kNone, "", "no progress display"},
      {"", "--report-to-json-file", Arity::kOne, "FILE", "write the results as JSON"},
      {"", "--debug", Arity::kNone, "", "print what is done to stderr"},
      {"", "--data-parallel-dimension", Arity::kOne, "D",
       "ranks of one group; r/D groups run at once"},
      {"", "--gib", Arity::kNone, "", "bandwidths in 2^30 bytes, as old versions"},
      {"", "--x-json-config", Arity::kNone, "", "add the configuration to the JSON file"},
      {"", "--x-report-to-csv-file", Arity::kOne, "FILE", "write the results as CSV"},
      {"", "--x-ops-per-iter", Arity::kOne, "N",
       "operations of a stream per iteration (default 1)"},
      {"", "--x-operation", Arity::kOne, "OP", "the operation, as an option"},
      {"", "--x-priority", Arity::kOne, "P",
       "0 (most urgent, default) to 3; from NeuronCore-v4 on"},
      {"", "--x-reduction", Arity::kOne, "OP", "add, max, min (default add; fma is refused)"},
      {"", "--x-root", Arity::kOne, "I", "index of the root in each group (default 0)"},
      {"", "--x-channels", Arity::kOne, "N",
       "channels of an implicit permute, 1 to 4 (default 1): a part of the size on each"},
      {"", "--x-in-place", Arity::kNone, "", "results over inputs; every operation has its buffer"},
      {"", "--x-matrix", Arity::kNone, "",
       "every operation with every algorithm: data checked, a line each"},
      {"", "--x-skew", Arity::kOne, "N", "rank R begins R x N turns of an idle loop later"},
      {"", "--x-rank-start", Arity::kOne, "R", "first rank of this process (several processes)"},
      {"", "--x-local-ranks", Arity::kOne, "K", "ranks of this process (several processes)"},
      {"", "--unique-buff", Arity::kNone, "", "buffers of its own for every operation of a NEFF"},
      {"", "--unique-tensor", Arity::kNone, "", "older name of --unique-buff"},
      {"", "--coalesced-cc-size-ratio", Arity::kOne, "LIST",
       "such as [1,2,1]: parts of each operation"},
      {"", "--shared-output-buff", Arity::kNone, "",
       "one output buffer for the two cores of an HBM stack"},
      {"", "--variable-size-op-metadata", Arity::kOne, "FILE",
       "counts and displacements of all_gatherv, alltoallv, reduce_scatterv (JSON)"},
      {"", "--alltoallv-metadata", Arity::kOne, "FILE",
       "older name of --variable-size-op-metadata"},
      {"-s", "--hosts", Arity::kMany, "H", "hosts for MPI"},
      {"", "--hosts-file", Arity::kOne, "FILE", "one host per line (default ~/hosts if present)"},
      {"", "--mpi-log-dir", Arity::kOne, "DIR", "output of every instance in a file there"},
      {"-S", "--slurm-mode", Arity::kNone, "", "start the instances with srun"},
      {"-u", "--slurm-vcpus-per-node", Arity::kOne, "N",
       "processors of an instance (default: as Slurm is configured)"},
      {"", "--slurm-setup-script", Arity::kOne, "PATH", "runs on every node first"},
      {"", "--slurm-job-id", Arity::kOne, "ID", "job to run in, or alloc (default)"},
      {"", "--slurm-use-head-node-neuron-bench", Arity::kNone, "", "copy nccom-test to all nodes"},
      {"", "--sb2sb", Arity::kNone, "", "tensors in SBUF (trn2: allr, allg, redsct)"},
      {"", "--input-shape", Arity::kOne, "SHAPE",
       "in SBUF: [step0,step1][num0,num1]; 0 within a partition, 1 partitions"},
      {"", "--output-shape", Arity::kOne, "SHAPE", "the same for the output"},
      {"", "--cc-dim", Arity::kOne, "D",
       "chunks in SBUF: 0 side by side, 1 partition after partition (default 1)"},
      {"", "--custom-replica-groups", Arity::kOne, "FILE", "groups of ranks (JSON)"},
      {"", "--custom-src-target-pairs", Arity::kOne, "FILE", "pairs of a permute (JSON)"},
      {"", "--permute-chain", Arity::kNone, "", ""},
      {"", "--streams-json", Arity::kOne, "FILE", "several streams at once (JSON)"},
      {"", "--vcpu-pin-mode", Arity::kNone, "", "pin the thread of each rank"},
      {"", "--data-collector-port", Arity::kOne, "PORT",
       "where instances report (default 60006, or any if that is taken)"},
      {"", "--data-collector-host", Arity::kOne, "HOST", "name of this host for the instances"},
      {"", "--data-collector-use-ipv6", Arity::kNone, "", "listen on IPv6"},
      {"", "--log-level", Arity::kOne, "LEVEL", "of the runtime: error, warn, info, debug"},
      {"", "--benchmark-log-directory", Arity::kOne, "DIR",
       "for files about failures (default /tmp)"},
  };
  return kSwitches;
}

bool set_plain(const std::string& name, const std::string& value, Options* options) {
  static const std::map<std::string, bool Options::*> kFlags = {
      {"--show-algorithm", &Options::show_algorithm},
      {"--show-input-output-size", &Options::show_sizes},
      {"--gib", &Options::gib},
      {"--x-json-config", &Options::json_config},
      {"--vcpu-pin-mode", &Options::pin},
      {"--slurm-mode", &Options::slurm},
      {"--slurm-use-head-node-neuron-bench", &Options::slurm_copy},
      {"--shared-output-buff", &Options::shared_output},
      {"--sb2sb", &Options::sbuf},
      {"--data-collector-use-ipv6", &Options::collector_ipv6},
      {"--x-matrix", &Options::matrix},
  };
  static const std::map<std::string, std::string Options::*> kTexts = {
      {"--report-to-json-file", &Options::json_file},
      {"--x-report-to-csv-file", &Options::csv_file},
      {"--mpi-log-dir", &Options::mpi_log_dir},
      {"--benchmark-log-directory", &Options::log_dir},
      {"--log-level", &Options::log_level},
      {"--data-collector-host", &Options::collector_host},
  };
  const auto flag = kFlags.find(name);
  const auto text = kTexts.find(name);
  if (flag != kFlags.end()) options->*flag->second = true;
  if (text != kTexts.end()) options->*text->second = value;
  return flag != kFlags.end() || text != kTexts.end();
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
    if (*s.help == '\0') continue;
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
