// Algorithm selection (collectives.md 2.16). Sizes are `size` of reports: max(input, output) bytes.
// The thresholds belong to this library, not to the machine.
#include "runtime/collectives/select.h"

namespace ccl {
namespace {

base::Error invalid(const std::string& what) {
  return {base::Fault::kUsage, kNrtInvalid, "NCCOM_CC_ALGO", what};
}

// Single-step mesh moves N-1 buffers to every rank, ring 2 (N-1)/N of one: equal for two ranks,
// where mesh saves the second step (B* of collectives.md 2.7.4 is unbounded for N = 2).
constexpr uint64_t kMeshBelow2 = 512 * 1024;
// More ranks: the extra bytes cost more than the hops above this size.
constexpr uint64_t kMeshBelowN = 64 * 1024;
constexpr uint32_t kMeshRanks = 16;  // one packet folds at most 16 sources

base::Result<bool> entry_matches(const std::string& op, const std::string& algo, OpKind kind,
                                 Algorithm* out) {
  static constexpr struct {
    const char* name;
    OpKind kind;
  } kOps[] = {{"all_reduce", OpKind::kAllReduce},         {"allr", OpKind::kAllReduce},
              {"all_gather", OpKind::kAllGather},         {"allg", OpKind::kAllGather},
              {"reduce_scatter", OpKind::kReduceScatter}, {"redsct", OpKind::kReduceScatter}};
  for (const auto& known : kOps) {
    if (op != known.name) continue;
    if (algo != "ring" && algo != "mesh") {
      return invalid("algorithm '" + algo + "' in '" + op + ":" + algo +
                     "'; available: ring, mesh");
    }
    if (known.kind != kind) return false;
    *out = algo == "ring" ? Algorithm::kRing : Algorithm::kMesh;
    return true;
  }
  return invalid("operation '" + op +
                 "'; expected all_reduce (allr), all_gather (allg) or reduce_scatter (redsct)");
}

// Looks for `kind` in "<op>:<algo>[,...]"; the last entry wins, every entry is checked.
base::Result<bool> overridden(const std::string& text, OpKind kind, Algorithm* out) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at);
    const size_t colon = entry.find(':');
    if (colon == std::string::npos) {
      return invalid("entry '" + entry + "'; expected <operation>:<algorithm>[,...]");
    }
    const base::Result<bool> match =
        entry_matches(entry.substr(0, colon), entry.substr(colon + 1), kind, out);
    if (!match) return match.error();
    found = found || *match;
    at = end + 1;
  }
  return found;
}

}  // namespace

base::Result<Algorithm> select(const OpRequest& request, uint32_t ranks, bool in_place,
                               const std::string& algo_override) {
  Algorithm algorithm = Algorithm::kRing;
  const base::Result<bool> forced = overridden(algo_override, request.kind, &algorithm);
  if (!forced) return forced.error();
  if (*forced) return algorithm;
  const uint64_t size = report_size(request);
  const uint64_t limit = ranks <= 2 ? kMeshBelow2 : kMeshBelowN;
  // Single-step mesh all-reduce cannot overwrite what the peers still read; ring can.
  const bool mesh_runs = ranks <= kMeshRanks && !(in_place && request.kind == OpKind::kAllReduce);
  return mesh_runs && size < limit ? Algorithm::kMesh : Algorithm::kRing;
}

base::Result<Schedule> make_schedule(const OpRequest& request, uint32_t ranks, bool in_place,
                                     bool direct, const std::string& algo_override) {
  if (const base::Status status = validate(request, ranks); !status) return status.error();
  const base::Result<Algorithm> algorithm = select(request, ranks, in_place, algo_override);
  if (!algorithm) return algorithm.error();
  ScheduleOptions options;
  options.in_place = in_place;
  options.direct = direct;
  return *algorithm == Algorithm::kRing ? ring_schedule(request, ranks, options)
                                        : mesh_schedule(request, ranks, options);
}

base::Result<uint64_t> channel_buffer_bytes(const OpRequest& request, uint32_t ranks, bool in_place,
                                            bool same_chip, const PlanOptions& options) {
  const base::Result<Schedule> schedule =
      make_schedule(request, ranks, in_place, same_chip, options.algo_override);
  if (!schedule) return schedule.error();
  return schedule->channel_bytes;
}

}  // namespace ccl
