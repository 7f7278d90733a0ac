#include "checks.h"

namespace nccom {
namespace {

// Blocks of equal length go to all ranks: such sizes are not rounded (spec/tools.md 2.2), unless
// one size is for all operations.
base::Status check_blocks(const Options& o) {
  if (o.operation != Operation::kAllToAll || o.matrix) return {};
  Options whole = o;
  whole.operation = Operation::kSendRecv;  // the sizes as they were asked for
  whole.dtype = {"uint8", contract::DType::kUint8, "uint8"};
  const uint64_t element = contract::dtype_size(o.dtype.code);
  for (const uint64_t size : size_list(whole)) {
    if (size % (o.group_ranks() * element) == 0) continue;
    return usage("", "alltoall: a size of " + std::to_string(size) +
                         " bytes is not divisible by the number of ranks x element size (" +
                         std::to_string(o.group_ranks()) + " x " + std::to_string(element) + ")");
  }
  return {};
}

base::Status check_shared(const Options& o) {
  if (!o.shared_output || !(o.unique_buffers || o.sbuf)) return {};
  return usage("", std::string("argument --shared-output-buff: not allowed with argument ") +
                       (o.sbuf ? "--sb2sb" : "--unique-buff"));
}

base::Status check_in_place(const Options& o) {
  if (!o.in_place || !o.sbuf) return {};
  return usage("", "argument --x-in-place: not allowed with argument --sb2sb");
}

base::Status check_slurm(const Options& o) {
  if (o.slurm) return {};
  const char* name = o.slurm_cpus != 0         ? "-u/--slurm-vcpus-per-node"
                     : !o.slurm_script.empty() ? "--slurm-setup-script"
                     : !o.slurm_job.empty()    ? "--slurm-job-id"
                     : o.slurm_copy            ? "--slurm-use-head-node-neuron-bench"
                                               : nullptr;
  if (name == nullptr) return {};
  return usage("", std::string("argument ") + name + ": only with -S/--slurm-mode");
}

}  // namespace

base::Status check_options(const Options& o) {
  if (base::Status status = check_blocks(o); !status) return status;
  if (base::Status status = check_shared(o); !status) return status;
  if (base::Status status = check_in_place(o); !status) return status;
  if (base::Status status = check_slurm(o); !status) return status;
  return check_sbuf(o);
}

base::Status check_streams(const std::vector<Options>& streams) {
  const Options& job = streams.front();
  for (const Options& o : streams) {
    const char* name = o.ranks != job.ranks                       ? "nworkers"
                       : o.nodes != job.nodes                     ? "nnodes"
                       : o.iterations != job.iterations           ? "iters"
                       : o.warmup != job.warmup                   ? "warmup_iters"
                       : o.repeat_neff != job.repeat_neff         ? "neff_iters"
                       : o.neff_iterations != job.neff_iterations ? "neff_iters"
                       : o.neff_warmup != job.neff_warmup         ? "neff_warmup_iters"
                       : o.seed != job.seed                       ? "seed"
                                                                  : nullptr;
    if (name == nullptr) continue;
    return usage("", std::string("argument --streams-json: the streams differ in '") + name + "'");
  }
  return {};
}

}  // namespace nccom
