#include "switches.h"

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
       "uint8 int8 fp8 fp8e4 uint16 int16 fp16 bf16 uint32 int32 fp32 (default uint8)"},
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
      {"", "--x-rank-start", Arity::kOne, "R", "first rank of this process (several processes)"},
      {"", "--x-local-ranks", Arity::kOne, "K", "ranks of this process (several processes)"},
      {"", "--unique-buff", Arity::kNone, "", "buffers of its own for every operation of a NEFF"},
      {"", "--unique-tensor", Arity::kNone, "", "older name of --unique-buff"},
      {"", "--coalesced-cc-size-ratio", Arity::kOne, "LIST",
       "such as [1,2,1]: parts of each operation"},
      {"", "--shared-output-buff", Arity::kNone, "", ""},
      {"", "--variable-size-op-metadata", Arity::kOne, "FILE",
       "counts and displacements of all_gatherv, alltoallv, reduce_scatterv (JSON)"},
      {"", "--alltoallv-metadata", Arity::kOne, "FILE",
       "older name of --variable-size-op-metadata"},
      {"-s", "--hosts", Arity::kMany, "H", "hosts for MPI"},
      {"", "--hosts-file", Arity::kOne, "FILE", "one host per line (default ~/hosts if present)"},
      {"", "--mpi-log-dir", Arity::kOne, "", ""},
      {"-S", "--slurm-mode", Arity::kNone, "", "start the instances with srun"},
      {"-u", "--slurm-vcpus-per-node", Arity::kOne, "", ""},
      {"", "--slurm-setup-script", Arity::kOne, "", ""},
      {"", "--slurm-job-id", Arity::kOne, "", ""},
      {"", "--slurm-use-head-node-neuron-bench", Arity::kNone, "", ""},
      {"", "--sb2sb", Arity::kNone, "", ""},
      {"", "--input-shape", Arity::kOne, "", ""},
      {"", "--output-shape", Arity::kOne, "", ""},
      {"", "--cc-dim", Arity::kOne, "", ""},
      {"", "--custom-replica-groups", Arity::kOne, "FILE", "groups of ranks (JSON)"},
      {"", "--custom-src-target-pairs", Arity::kOne, "FILE", "pairs of a permute (JSON)"},
      {"", "--permute-chain", Arity::kNone, "", ""},
      {"", "--streams-json", Arity::kOne, "FILE", "several streams at once (JSON)"},
      {"", "--vcpu-pin-mode", Arity::kNone, "", "pin the thread of each rank"},
      {"", "--data-collector-port", Arity::kOne, "X",
       "accepted; durations travel through the runtime"},
      {"", "--data-collector-host", Arity::kOne, "X",
       "accepted; durations travel through the runtime"},
      {"", "--data-collector-use-ipv6", Arity::kNone, "", "accepted, as above"},
      {"", "--log-level", Arity::kOne, "", ""},
      {"", "--benchmark-log-directory", Arity::kOne, "", ""},
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
                    "alltoall, permute, sendrecv, all_gatherv (allgv), alltoallv,\n  of this "
                    "project: reduce_scatterv (redsctv)\n\noptions:\n";
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
