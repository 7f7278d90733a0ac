#include "bench.h"

#include <fcntl.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_sys_trace.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/fd.h"
#include "events.h"
#include "golden.h"
#include "launch.h"
#include "program.h"
#include "rank.h"

namespace nccom {
namespace {

constexpr const char* kNoDriver =
    "Neuron DKMS Driver is not running! Read the troubleshooting guide of the Neuron runtime "
    "(nrt-troubleshoot) for how to install and load it.";

// Containers may lack nodes from the low end (spec/tools.md 1.3).
bool any_device() {
  constexpr int kNodes = 64;
  for (int i = 0; i < kNodes; ++i) {
    const base::UniqueFd fd(
        ::open(("/dev/neuron" + std::to_string(i)).c_str(), O_RDWR | O_CLOEXEC));
    if (fd.valid()) return true;
  }
  return false;
}

base::Result<std::string> arch_name() {
  nrt_instance_info_t info;
  std::memset(&info, 0, sizeof info);
  const NRT_STATUS rc = nrt_get_instance_info(&info, sizeof info);
  if (rc != NRT_SUCCESS) return status_error("nrt_get_instance_info", rc);
  switch (info.family) {
    case NRT_INSTANCE_TRN1:
    case NRT_INSTANCE_TRN1N:
      return std::string("trn1");
    case NRT_INSTANCE_INF2:
    case NRT_INSTANCE_INF2E:
      return std::string("inf2");
    case NRT_INSTANCE_TRN2:
    case NRT_INSTANCE_TRN2N:
    case NRT_INSTANCE_TRN2P:
    case NRT_INSTANCE_TRN2U:
    case NRT_INSTANCE_TRN2E:
    case NRT_INSTANCE_TRN2EU:
    case NRT_INSTANCE_TRN2AC:
    case NRT_INSTANCE_TRN2UAC:
      return std::string("trn2");
    case NRT_INSTANCE_TRN3:
    case NRT_INSTANCE_TRN3PDS98:
      return std::string("trn3");
    default:
      return base::Error{
          base::Fault::kUnsupported, 1, "nccom-test",
          "instance family " + std::to_string(info.family) + "; supported: inf2, trn1, trn2, trn3"};
  }
}

// Of one process. Says what to type: that ranks of several nodes need -N is in no message of
// theirs.
base::Error too_many_ranks(const Options& o, uint32_t cores) {
  std::string what = "argument -r/--nworkers: " + std::to_string(o.local_ranks) +
                     " ranks in this process, but it sees " + std::to_string(cores) +
                     " NeuronCores";
  if (const char* visible = ::getenv("NEURON_RT_VISIBLE_CORES"); visible != nullptr) {
    what += " (NEURON_RT_VISIBLE_CORES=" + std::string(visible) + ")";
  }
  uint32_t nodes = cores == 0 ? o.ranks : (o.ranks + cores - 1) / cores;
  while (o.ranks % nodes != 0) ++nodes;
  const std::string each = std::to_string(o.ranks / nodes);
  what += ". For ranks of several nodes add -N/--nnodes: -r " + std::to_string(o.ranks) + " -N " +
          std::to_string(nodes) + " starts " + each + " ranks on each of " + std::to_string(nodes) +
          " nodes; on this node -r takes at most " + std::to_string(cores);
  return {base::Fault::kResource, 1, "nccom-test", what};
}

// Captures cc_running only, so that rings hold many operations.
base::Status start_trace() {
  nrt_sys_trace_config_t* config = nullptr;
  NRT_STATUS rc = nrt_sys_trace_config_allocate(&config);
  if (rc != NRT_SUCCESS) return status_error("nrt_sys_trace_config_allocate", rc);
  const char** types = nullptr;
  size_t count = 0;
  rc = nrt_sys_trace_get_event_types(&types, &count);
  for (size_t i = 0; rc == NRT_SUCCESS && i < count; ++i) {
    rc = nrt_sys_trace_config_set_capture_enabled_for_event_type(
        config, types[i], std::strcmp(types[i], "cc_running") == 0);
  }
  if (types != nullptr) nrt_sys_trace_free_event_types(types, count);
  if (rc == NRT_SUCCESS) rc = nrt_sys_trace_start(config);
  nrt_sys_trace_config_free(config);
  return rc == NRT_SUCCESS ? base::Status() : status_error("nrt_sys_trace_start", rc);
}

base::Result<std::vector<OpTimes>> fetch_events() {
  char* buffer = nullptr;
  size_t size = 0;
  const NRT_STATUS rc = nrt_sys_trace_fetch_events(&buffer, &size, nullptr);
  if (rc != NRT_SUCCESS) return status_error("nrt_sys_trace_fetch_events", rc);
  const std::string document = buffer == nullptr ? "{\"events\":[]}" : std::string(buffer, size);
  nrt_sys_trace_buffer_free(buffer);
  return parse_events(document);
}

}  // namespace

class Bench::Impl {
 public:
  explicit Impl(const std::vector<Options>& streams) : streams_(streams), o_(streams_.front()) {}
  ~Impl() {
    if (!running_) return;
    nrt_sys_trace_stop();
    nrt_close();
  }

  base::Status start() {
    // The runtime wants a place to meet whenever there are several ranks.
    if (o_.ranks > 1 && o_.local_ranks == o_.ranks) {
      if (base::Status status = choose_root("127.0.0.1"); !status) return status;
    }
    const NRT_STATUS rc = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
    if (rc != NRT_SUCCESS) {
      if (!any_device()) return base::Error{base::Fault::kIo, 1, "", kNoDriver};
      return status_error("nrt_init", rc);
    }
    running_ = true;
    base::Result<std::string> arch = arch_name();
    if (!arch) return arch.error();
    arch_ = *arch;
    lnc_ = arch_ == "trn2" || arch_ == "trn3" ? 2 : 1;
    if (const char* lnc = ::getenv("NEURON_LOGICAL_NC_CONFIG"); lnc != nullptr) {
      lnc_ = std::strcmp(lnc, "2") == 0 ? 2 : 1;  // the runtime has refused what is neither
    }
    if (arch_ == "inf2" && o_.nodes > 1) {
      return base::Error{base::Fault::kUsage, 1, "nccom-test",
                         "inf2 has no collectives between instances; use -N 1"};
    }
    if (base::Status status = check_shared(); !status) return status;
    const bool sbuf =
        std::any_of(streams_.begin(), streams_.end(), [](const Options& o) { return o.sbuf; });
    if (sbuf && arch_ != "trn2") {
      return base::Error{base::Fault::kUnsupported, 1, "nccom-test",
                         "argument --sb2sb: only on trn2, this is " + arch_};
    }
    const NRT_STATUS counted = nrt_get_visible_vnc_count(&cores_);
    if (counted != NRT_SUCCESS) return status_error("nrt_get_visible_vnc_count", counted);
    if (o_.local_ranks > cores_) return too_many_ranks(o_, cores_);
    return start_trace();
  }

  void use(const std::vector<Options>& streams) {
    streams_ = streams;
    o_ = streams.front();
  }

  base::Result<std::vector<Measurement>> measure(const std::vector<uint64_t>& sizes) {
    std::vector<Measurement> m(streams_.size());
    for (size_t s = 0; s < m.size(); ++s) m[s].size = sizes[s];
    uint32_t per_iteration = 0;
    for (const Options& o : streams_) {
      per_iteration =
          std::max(per_iteration, o.ops_per_iter * static_cast<uint32_t>(o.parts.size()));
    }
    if (per_iteration > kMaxOperations) {
      return base::Error{base::Fault::kUnsupported, 1, "nccom-test",
                         std::to_string(per_iteration) + " operations per iteration; at most " +
                             std::to_string(kMaxOperations)};
    }
    const uint32_t most = kMaxOperations / per_iteration;
    const uint32_t total = o_.iterations + o_.warmup;
    if (o_.repeat_neff && total > most) {
      return base::Error{base::Fault::kUnsupported, 1, "nccom-test",
                         std::to_string(total) + " iterations in one NEFF; at most " +
                             std::to_string(most) + " with -I or -W"};
    }
    const uint32_t executions = o_.repeat_neff ? o_.neff_warmup + o_.neff_iterations : 1;
    for (uint32_t first = 0; first < total; first += most) {
      const Workload work{streams_, sizes, std::min(most, total - first), arch_, lnc_};
      base::Status status = run(work, first, executions, &m);
      if (!status) return status.error();
    }
    if (o_.local_ranks < o_.ranks && !o_.collected) {
      for (Measurement& each : m) {
        if (base::Status status = gather(&each); !status) return status.error();
      }
    }
    return m;
  }

 private:
  // Two cores of an HBM stack are one logical core, or two of it whose ranks have the same result.
  // Only an all-gather never writes anything else than that.
  base::Status check_shared() const {
    const auto wrong = [](const std::string& what) {
      return base::Error{base::Fault::kUnsupported, 1, "nccom-test",
                         "argument --shared-output-buff: " + what};
    };
    for (const Options& o : streams_) {
      if (!o.shared_output) continue;
      if (arch_ != "trn2" && arch_ != "trn3")
        return wrong("every core of " + arch_ + " has an HBM stack");
      if (lnc_ == 2) continue;
      if (o.operation != Operation::kAllGather) {
        return wrong("with ranks of one core only for all_gather");
      }
      for (uint32_t rank = o.rank_start; rank + 1 < o.rank_start + o.local_ranks; rank += 2) {
        if (group_of(o, rank) == group_of(o, rank + 1)) continue;
        return wrong("ranks " + std::to_string(rank) + " and " + std::to_string(rank + 1) +
                     " are in different groups");
      }
    }
    return {};
  }

  // One NEFF with the iterations of the run that begin at `first`.
  base::Status run(const Workload& work, uint32_t first, uint32_t executions,
                   std::vector<Measurement>* m) {
    std::vector<Program> programs;  // of every rank, or one for all
    for (uint32_t i = 0; i < (rank_specific(work) ? o_.local_ranks : 1); ++i) {
      base::Result<Program> program = make_program(work, o_.rank_start + i);
      if (!program) return program.error();
      programs.push_back(std::move(*program));
    }
    std::vector<RankResult> results(o_.local_ranks);
    Agreement agreement(o_.local_ranks);
    SharedCheck check;
    SharedOutputs outputs;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < o_.local_ranks; ++i) {
      threads.emplace_back([&, i] {
        if (o_.pin) pin(i);
        results[i] = run_rank(work, programs[i % programs.size()], o_.rank_start + i, executions,
                              &agreement, &check, &outputs);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const base::Result<std::vector<OpTimes>> events = fetch_events();
    for (RankResult& result : results) {
      if (!result.status) return result.status;
    }
    if (!events) return events.error();
    if (base::Status status = compare_ranks(work, results); !status) return status;
    if (base::Status status = check_barriers(streams_, *events); !status) return status;
    return collect(*events, work, first, executions, m);
  }

  // The thread of a rank stays on one of the host's processors.
  static void pin(uint32_t rank) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank % std::max(1u, std::thread::hardware_concurrency()), &set);
    ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
  }

  base::Status collect(const std::vector<OpTimes>& events, const Workload& work, uint32_t first,
                       uint32_t executions, std::vector<Measurement>* m) const {
    size_t expected = 0;
    for (const Options& o : streams_) {
      expected +=
          size_t{work.iterations} * o.ops_per_iter * o.parts.size() * executions * o.local_ranks;
    }
    if (events.size() != expected) {
      return base::Error{base::Fault::kIo, 1, "system trace",
                         std::to_string(events.size()) + " collectives in the trace, " +
                             std::to_string(expected) + " were run"};
    }
    // Events of one core, execution and stream are in issue order; parts make one operation.
    for (size_t at = 0; at < events.size();) {
      const OpTimes& begin = events[at];
      if (begin.stream >= streams_.size()) {
        return base::Error{base::Fault::kIo, 1, "system trace", "an unknown stream"};
      }
      const Options& o = streams_[begin.stream];
      const OpTimes& end = events[at + o.parts.size() - 1];
      const auto operation = begin.operation / static_cast<uint32_t>(o.parts.size());
      at += o.parts.size();
      if (begin.execution < o.neff_warmup || first + operation / o.ops_per_iter < o.warmup) {
        continue;
      }
      (*m)[begin.stream].durations_ps.push_back(end.stop_ps - begin.start_ps);
      (*m)[begin.stream].algorithm = begin.algorithm;
    }
    return {};
  }

  // Several processes: every rank gets the durations of all.
  base::Status gather(Measurement* m) const {
    const size_t per_rank = m->durations_ps.size() / o_.local_ranks;
    const auto bytes = static_cast<uint32_t>(per_rank * sizeof(uint64_t));
    std::vector<std::vector<uint64_t>> outputs(o_.local_ranks);
    std::vector<NRT_STATUS> status(o_.local_ranks, NRT_SUCCESS);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < o_.local_ranks; ++i) {
      threads.emplace_back([&, i] {
        outputs[i].resize(per_rank * o_.ranks);
        status[i] = nrt_all_gather(static_cast<int32_t>(i), o_.rank_start + i, o_.ranks, bytes,
                                   m->durations_ps.data() + i * per_rank, outputs[i].data());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const NRT_STATUS rc : status) {
      if (rc != NRT_SUCCESS) return status_error("nrt_all_gather", rc);
    }
    m->durations_ps = outputs[0];
    return {};
  }

  std::vector<Options> streams_;
  Options o_;  // what concerns the job
  bool running_ = false;
  uint32_t cores_ = 0;
  uint32_t lnc_ = 1;
  std::string arch_;
};

Bench::Bench(const std::vector<Options>& streams) : impl_(std::make_unique<Impl>(streams)) {}
Bench::~Bench() = default;

base::Result<std::unique_ptr<Bench>> Bench::open(const std::vector<Options>& streams) {
  std::unique_ptr<Bench> bench(new Bench(streams));
  if (base::Status status = bench->impl_->start(); !status) return status.error();
  return bench;
}

void Bench::use(const std::vector<Options>& streams) {
  impl_->use(streams);
}

base::Result<std::vector<Measurement>> Bench::measure(const std::vector<uint64_t>& sizes) {
  return impl_->measure(sizes);
}

}  // namespace nccom
