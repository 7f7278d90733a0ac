// `srun`: tasks in blocks on the nodes of the machine, as one job step that has all of them.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "tools/soma/launch.h"

namespace soma::launch {
namespace {

constexpr int kSrunError = 1;

int srun_error(const std::string& what) {
  std::cerr << "srun: error: " << what << "\n";
  return kSrunError;
}

struct SrunRequest {
  uint32_t nodes = 0;  // 0: not given
  uint32_t tasks = 0;
  uint32_t per_node = 0;
  bool label = false;
  bool end_all = false;  // as soon as one task fails
  bool export_all = true;
  Words hosts;
  Words variables;
  std::string directory;
};

// "ALL,NAME=value", "NONE"
base::Status export_variables(SrunRequest& request, const std::string& list) {
  request.export_all = list.empty();
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string item = list.substr(at, end - at);
    at = end + 1;
    if (item == "ALL") {
      request.export_all = true;
    } else if (item.find('=') != std::string::npos) {
      request.variables.push_back(item);
    } else if (const char* value = std::getenv(item.c_str()); value != nullptr && item != "NONE") {
      request.variables.push_back(item + "=" + value);
    }
  }
  return {};
}

std::vector<Option> srun_options(SrunRequest& request) {
  return {
      {{"N", "nodes"},
       true,
       [&](const std::string& v) { return store_count(request.nodes, v, "-N"); }},
      {{"n", "ntasks"},
       true,
       [&](const std::string& v) { return store_count(request.tasks, v, "-n"); }},
      {{"ntasks-per-node"},
       true,
       [&](const std::string& v) { return store_count(request.per_node, v, "--ntasks-per-node"); }},
      {{"w", "nodelist"},
       true,
       [&](const std::string& v) {
         auto hosts = expand_hosts(v);
         if (hosts) request.hosts = *hosts;
         return hosts ? base::Status() : base::Status(hosts.error());
       }},
      {{"l", "label"},
       false,
       [&](const std::string&) {
         request.label = true;
         return base::Status();
       }},
      {{"K", "kill-on-bad-exit"},
       false,
       [&](const std::string& v) {
         request.end_all = v != "0";
         return base::Status();
       }},
      {{"D", "chdir"},
       true,
       [&](const std::string& v) {
         request.directory = v;
         return base::Status();
       }},
      {{"export"}, true, [&](const std::string& v) { return export_variables(request, v); }},
      // Without a meaning here: there is one job, which has the machine to itself.
      {{"u", "unbuffered", "exclusive", "overlap", "Q", "quiet", "v", "verbose"}, false, {}},
      {{"mpi", "J", "job-name", "p", "partition", "t", "time", "c", "cpus-per-task", "cpu-bind",
        "mem", "A", "account", "jobid", "bcast"},
       true,
       {}}};
}

// The nodes of the step, in order; completes the numbers of nodes and tasks.
base::Result<std::vector<uint32_t>> nodes_of_step(const Running& machine, SrunRequest& request) {
  std::vector<uint32_t> nodes;
  if (request.hosts.empty()) {
    for (uint32_t node = 0; node < machine.nodes(); ++node) nodes.push_back(node);
  } else {
    auto listed = nodes_of(machine, request.hosts);
    if (!listed) return listed.error();
    for (const uint32_t node : *listed) {
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
  }
  const auto given = static_cast<uint32_t>(nodes.size());
  if (request.nodes == 0) {
    request.nodes = request.tasks != 0 ? std::min(request.tasks, given) : 1;
    if (!request.hosts.empty()) request.nodes = given;
  }
  if (request.nodes > given) {
    return base::Error{base::Fault::kUsage, 0, "-N",
                       "only " + std::to_string(given) + " nodes are available"};
  }
  nodes.resize(request.nodes);
  if (request.tasks == 0) {
    request.tasks = request.nodes * std::max(request.per_node, 1u);
  }
  if (request.tasks < request.nodes) {
    request.nodes = request.tasks;
    nodes.resize(request.nodes);
  }
  const uint32_t most = (request.tasks + request.nodes - 1) / request.nodes;
  if (request.per_node != 0 && most > request.per_node) {
    return base::Error{base::Fault::kUsage, 0, "--ntasks-per-node",
                       std::to_string(request.tasks) + " tasks do not fit on " +
                           std::to_string(request.nodes) + " nodes"};
  }
  return nodes;
}

std::vector<Task> tasks_of(const Running& machine, const Words& command, const SrunRequest& request,
                           const std::vector<uint32_t>& nodes) {
  std::string names;
  for (const uint32_t node : nodes) {
    names += (names.empty() ? "" : ",") +
             (machine.hosts[node].empty() ? std::string("localhost") : machine.hosts[node]);
  }
  const Words base = request.export_all ? own_environment() : login_environment();
  std::vector<Task> tasks;
  for (uint32_t index = 0; index < request.nodes; ++index) {
    // Blocks, the larger ones first.
    const uint32_t size =
        request.tasks / request.nodes + (index < request.tasks % request.nodes ? 1 : 0);
    for (uint32_t local = 0; local < size; ++local) {
      const size_t rank = tasks.size();
      Task& task = tasks.emplace_back();
      task.node = nodes[index];
      task.command = command;
      task.environment = on_node(base, task.node);
      const auto set = [&](const char* name, const std::string& value) {
        set_variable(task.environment, name, value);
      };
      for (const std::string& variable : request.variables) {
        const size_t equal = variable.find('=');
        set_variable(task.environment, variable.substr(0, equal), variable.substr(equal + 1));
      }
      set("SLURM_JOB_ID", "1");
      set("SLURM_JOBID", "1");
      set("SLURM_STEP_ID", "0");
      set("SLURM_PROCID", std::to_string(rank));
      set("SLURM_LOCALID", std::to_string(local));
      set("SLURM_NODEID", std::to_string(index));
      set("SLURM_NTASKS", std::to_string(request.tasks));
      set("SLURM_NPROCS", std::to_string(request.tasks));
      set("SLURM_NNODES", std::to_string(request.nodes));
      set("SLURM_JOB_NUM_NODES", std::to_string(request.nodes));
      set("SLURM_NODELIST", names);
      set("SLURM_JOB_NODELIST", names);
      set("SLURMD_NODENAME", machine.hosts[task.node]);
      if (request.per_node != 0) set("SLURM_NTASKS_PER_NODE", std::to_string(request.per_node));
      task.directory = request.directory;
      task.reads_input = rank == 0;
      if (request.label) task.prefixes.fill(std::to_string(rank) + ": ");
    }
  }
  return tasks;
}

}  // namespace

int srun(const Running& machine, Words words) {
  SrunRequest request;
  const base::Status parsed = take_options(words, srun_options(request));
  if (!parsed) return srun_error(parsed.error().message());
  if (words.empty()) return srun_error("No command given to execute.");
  const auto nodes = nodes_of_step(machine, request);
  if (!nodes) return srun_error(nodes.error().message());
  TaskGroup group;
  const base::Status started = group.start(tasks_of(machine, words, request, *nodes));
  if (!started) return srun_error(started.error().message());
  int code = 0;
  for (const TaskGroup::End& end : group.wait(request.end_all).ends) {
    code = std::max(code, shell_code(end));
  }
  return code;
}

}  // namespace soma::launch
