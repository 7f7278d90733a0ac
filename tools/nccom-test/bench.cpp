#include "bench.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_sys_trace.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/fd.h"
#include "events.h"
#include "program.h"
#include "rank.h"

namespace nccom {
namespace {

constexpr const char* kNoDriver =
    "Neuron DKMS Driver is not running! Read the troubleshooting guide of the Neuron runtime "
    "(nrt-troubleshoot) for how to install and load it.";

// Containers may lack nodes from the low end (tools.md 1.3).
bool any_device() {
  constexpr int kNodes = 64;
  for (int i = 0; i < kNodes; ++i) {
    const base::UniqueFd fd(
        ::open(("/dev/neuron" + std::to_string(i)).c_str(), O_RDWR | O_CLOEXEC));
    if (fd.valid()) return true;
  }
  return false;
}

// The runtime wants NEURON_RT_ROOT_COMM_ID whenever there are several ranks; when all of them are
// here, any free port of this host will do.
base::Status choose_root(const Options& o) {
  if (o.ranks == 1 || o.local_ranks < o.ranks || ::getenv("NEURON_RT_ROOT_COMM_ID") != nullptr) {
    return {};
  }
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd.valid() || ::bind(fd.get(), generic, size) != 0 ||
      ::getsockname(fd.get(), generic, &size) != 0) {
    return base::errno_error("nccom-test", "a port for the ranks to meet");
  }
  const std::string root = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  ::setenv("NEURON_RT_ROOT_COMM_ID", root.c_str(), 1);
  return {};
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

base::Result<std::vector<OpDuration>> fetch_events() {
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
  explicit Impl(const Options& options) : o_(options) {}
  ~Impl() {
    if (!running_) return;
    nrt_sys_trace_stop();
    nrt_close();
  }

  base::Status start() {
    if (base::Status status = choose_root(o_); !status) return status;
    const NRT_STATUS rc = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
    if (rc != NRT_SUCCESS) {
      if (!any_device()) return base::Error{base::Fault::kIo, 1, "", kNoDriver};
      return status_error("nrt_init", rc);
    }
    running_ = true;
    base::Result<std::string> arch = arch_name();
    if (!arch) return arch.error();
    arch_ = *arch;
    const NRT_STATUS counted = nrt_get_visible_vnc_count(&cores_);
    if (counted != NRT_SUCCESS) return status_error("nrt_get_visible_vnc_count", counted);
    return start_trace();
  }

  base::Result<Measurement> measure(uint64_t size) {
    Measurement m;
    m.size = size;
    if (o_.local_ranks > cores_) {
      return base::Error{base::Fault::kResource, 1, "nccom-test",
                         std::to_string(o_.local_ranks) + " ranks, but " + std::to_string(cores_) +
                             " NeuronCores are visible to this process"};
    }
    const uint32_t total = o_.iterations + o_.warmup;
    if (o_.repeat_neff && total > kMaxOperations) {
      return base::Error{base::Fault::kUnsupported, 1, "nccom-test",
                         std::to_string(total) + " operations in one NEFF; at most " +
                             std::to_string(kMaxOperations) + " with -I or -W"};
    }
    const uint32_t executions = o_.repeat_neff ? o_.neff_warmup + o_.neff_iterations : 1;
    for (uint32_t first = 0; first < total; first += kMaxOperations) {
      const uint32_t count = std::min(kMaxOperations, total - first);
      base::Status status = run(size, first, count, executions, &m);
      if (!status) return status.error();
    }
    if (o_.local_ranks < o_.ranks) {
      if (base::Status status = gather(&m); !status) return status.error();
    }
    return m;
  }

 private:
  // One NEFF with operations [first, first + count) of the run.
  base::Status run(uint64_t size, uint32_t first, uint32_t count, uint32_t executions,
                   Measurement* m) {
    const base::Result<Program> program = make_program(o_, size, count, arch_);
    if (!program) return program.error();
    std::vector<RankResult> results(o_.local_ranks);
    Agreement agreement(o_.local_ranks);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < o_.local_ranks; ++i) {
      threads.emplace_back([&, i] {
        results[i] = run_rank(o_, *program, size, o_.rank_start + i, executions, &agreement);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const base::Result<std::vector<OpDuration>> events = fetch_events();
    for (RankResult& result : results) {
      if (!result.status) return result.status;
    }
    if (!events) return events.error();
    if (base::Status status = compare_ranks(o_, results); !status) return status;
    return collect(*events, first, count, executions, m);
  }

  base::Status collect(const std::vector<OpDuration>& events, uint32_t first, uint32_t count,
                       uint32_t executions, Measurement* m) const {
    if (events.size() != static_cast<size_t>(count) * executions * o_.local_ranks) {
      return base::Error{
          base::Fault::kIo, 1, "system trace",
          std::to_string(events.size()) + " collectives in the trace, " +
              std::to_string(static_cast<size_t>(count) * executions * o_.local_ranks) +
              " were run"};
    }
    for (const OpDuration& e : events) {
      if (e.execution < o_.neff_warmup || first + e.operation < o_.warmup) continue;
      m->durations_ps.push_back(e.ps);
      m->algorithm = e.algorithm;
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

  Options o_;
  bool running_ = false;
  uint32_t cores_ = 0;
  std::string arch_;
};

Bench::Bench(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Bench::~Bench() = default;

base::Result<std::unique_ptr<Bench>> Bench::open(const Options& options) {
  std::unique_ptr<Bench> bench(new Bench(options));
  if (base::Status status = bench->impl_->start(); !status) return status.error();
  return bench;
}

base::Result<Measurement> Bench::measure(uint64_t size) {
  return impl_->measure(size);
}

}  // namespace nccom
