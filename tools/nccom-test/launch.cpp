#include "launch.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/fd.h"

namespace nccom {
namespace {

constexpr const char* kRootVariable = "NEURON_RT_ROOT_COMM_ID";

// A plain number of reasonable size. The steps of Slurm that are no srun (batch script, interactive
// shell) have ids close to 2^32.
std::optional<uint32_t> number(const char* name) {
  const char* text = ::getenv(name);
  if (text == nullptr || *text < '0' || *text > '9') return std::nullopt;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  constexpr unsigned long kMost = 1u << 20;
  if (*end != '\0' || value > kMost) return std::nullopt;
  return static_cast<uint32_t>(value);
}

base::Result<std::string> free_port() {
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
  return std::to_string(ntohs(address.sin_port));
}

// "-x NAME" for every variable of the runtime: mpirun takes only those along to other hosts.
void add_variables(std::vector<std::string>* line) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.rfind("NEURON_", 0) != 0 && text.rfind("NCCOM_", 0) != 0) continue;
    line->insert(line->end(), {"-x", text.substr(0, text.find('='))});
  }
}

// Processes that share a host must not claim the same cores.
void choose_cores(uint32_t local_process, uint32_t local_processes, uint32_t ranks) {
  if (local_processes <= 1 || ::getenv("NEURON_RT_VISIBLE_CORES") != nullptr) return;
  const uint32_t first = local_process * ranks;
  const std::string cores = std::to_string(first) + "-" + std::to_string(first + ranks - 1);
  ::setenv("NEURON_RT_VISIBLE_CORES", cores.c_str(), 1);
}

// One task on every node of the job.
std::vector<std::string> srun_line(const Options& o) {
  const std::string nodes = std::to_string(o.nodes);
  std::vector<std::string> line{"srun", "-N", nodes, "-n", nodes, "--ntasks-per-node", "1"};
  if (!o.slurm_job.empty()) line.push_back("--jobid=" + o.slurm_job);
  if (o.slurm_cpus != 0) line.push_back("--cpus-per-task=" + std::to_string(o.slurm_cpus));
  if (o.slurm_copy) line.push_back("--bcast=/tmp/nccom-test-" + std::to_string(::getpid()));
  return line;
}

// A host that is named twice takes two processes.
std::vector<std::string> mpirun_line(const Options& o, const std::vector<std::string>& hosts) {
  std::vector<std::string> line{"mpirun", "-np", std::to_string(o.nodes)};
  if (hosts.empty()) {
    line.insert(line.end(), {"-npernode", "1"});
  } else {
    std::string list;
    for (uint32_t i = 0; i < o.nodes; ++i) list += (i == 0 ? "" : ",") + hosts[i];
    line.insert(line.end(), {"--host", list});
  }
  add_variables(&line);
  return line;
}

// A process that runs the command.
base::Result<pid_t> start(std::vector<std::string> line) {
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return base::errno_error("nccom-test", "fork");
  if (child != 0) return child;
  ::execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "nccom-test: more than one instance needs MPI or Slurm: %s: %s\n",
               arguments[0], std::strerror(errno));
  ::_exit(2);
}

// Runs a script on all nodes of the job and waits for it.
base::Status run_everywhere(const Options& o, const std::string& script) {
  Options once = o;
  once.slurm_copy = false;
  std::vector<std::string> line = srun_line(once);
  line.push_back(script);
  const auto process = start(line);
  if (!process) return process.error();
  if (wait_for(*process) == 0) return {};
  return base::Error{base::Fault::kUsage, 1, "nccom-test",
                     "argument --slurm-setup-script: " + script + " failed"};
}

std::vector<std::string> default_hosts() {
  const char* home = ::getenv("HOME");
  if (home == nullptr) return {};
  auto hosts = read_hosts(std::string(home) + "/hosts");
  return hosts ? *hosts : std::vector<std::string>();
}

}  // namespace

base::Status choose_root(const std::string& host) {
  if (::getenv(kRootVariable) != nullptr) return {};
  const auto port = free_port();
  if (!port) return port.error();
  ::setenv(kRootVariable, (host + ":" + *port).c_str(), 1);
  return {};
}

base::Result<bool> place_of_process(std::vector<Options>* streams) {
  // The first one says that this process is a task: the shell of sbatch or salloc has the other
  // variables of Slurm, too, but only a task of srun belongs to a numbered step.
  constexpr std::array<std::array<const char*, 5>, 2> kLaunchers{{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
  }};
  for (const auto& [task, rank, size, local_rank, local_size] : kLaunchers) {
    if (!number(task)) continue;
    const auto process = number(rank);
    const auto processes = number(size);
    if (!process || !processes || *processes == 0 || *process >= *processes) continue;
    const uint32_t all = streams->front().ranks;
    const uint32_t ranks = all / *processes;
    if (all % *processes != 0) {
      return base::Error{base::Fault::kUsage, 2, "nccom-test",
                         "argument -r/--nworkers: " + std::to_string(all) + " ranks for the " +
                             std::to_string(*processes) + " tasks of " + size};
    }
    for (Options& o : *streams) {
      o.rank_start = *process * ranks;
      o.local_ranks = ranks;
    }
    choose_cores(number(local_rank).value_or(0), number(local_size).value_or(1), ranks);
    return true;
  }
  return false;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

base::Result<pid_t> launch(const Options& o, const std::vector<std::string>& command) {
  std::vector<std::string> hosts = o.hosts.empty() ? default_hosts() : o.hosts;
  if (!hosts.empty() && hosts.size() < o.nodes) {
    return base::Error{
        base::Fault::kUsage, 2, "nccom-test",
        std::to_string(hosts.size()) + " hosts for " + std::to_string(o.nodes) + " instances"};
  }
  if (base::Status s = choose_root(hosts.empty() ? "127.0.0.1" : hosts[0]); !s) return s.error();
  if (!o.slurm_script.empty()) {
    if (base::Status s = run_everywhere(o, o.slurm_script); !s) return s.error();
  }
  std::vector<std::string> line = o.slurm ? srun_line(o) : mpirun_line(o, hosts);
  line.insert(line.end(), command.begin(), command.end());
  return start(std::move(line));
}

}  // namespace nccom
