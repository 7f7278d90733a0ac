#include "launch.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/fd.h"

namespace nccom {
namespace {

constexpr const char* kRootVariable = "NEURON_RT_ROOT_COMM_ID";

std::optional<uint32_t> number(const char* name) {
  const char* text = ::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
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

bool place_of_process(std::vector<Options>* streams) {
  constexpr std::array<std::array<const char*, 4>, 2> kLaunchers{{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
  }};
  for (const auto& names : kLaunchers) {
    const auto process = number(names[0]);
    const auto processes = number(names[1]);
    if (!process || !processes || *processes == 0 || *process >= *processes) continue;
    const uint32_t ranks = streams->front().ranks / *processes;
    for (Options& o : *streams) {
      o.rank_start = *process * ranks;
      o.local_ranks = ranks;
    }
    choose_cores(number(names[2]).value_or(0), number(names[3]).value_or(1), ranks);
    return true;
  }
  return false;
}

base::Error launch(const Options& o, const std::vector<std::string>& command) {
  std::vector<std::string> hosts = o.hosts.empty() ? default_hosts() : o.hosts;
  if (!hosts.empty() && hosts.size() < o.nodes) {
    return {base::Fault::kUsage, 2, "nccom-test",
            std::to_string(hosts.size()) + " hosts for " + std::to_string(o.nodes) + " instances"};
  }
  if (base::Status s = choose_root(hosts.empty() ? "127.0.0.1" : hosts[0]); !s) return s.error();
  std::vector<std::string> line;
  const std::string nodes = std::to_string(o.nodes);
  if (o.slurm) {
    line = {"srun", "-N", nodes, "-n", nodes, "--ntasks-per-node", "1"};
  } else {
    line = {"mpirun", "-np", nodes, "-npernode", "1"};
    if (!hosts.empty()) {
      std::string list;
      for (uint32_t i = 0; i < o.nodes; ++i) list += (i == 0 ? "" : ",") + hosts[i];
      line.insert(line.end(), {"--host", list});
    }
    add_variables(&line);
  }
  line.insert(line.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return {base::Fault::kUsage, 2, "nccom-test",
          "more than one instance needs MPI or Slurm: " + line[0] + ": " + std::strerror(errno)};
}

}  // namespace nccom
