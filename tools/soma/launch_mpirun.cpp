// `mpirun`: ranks on the nodes of the machine, placed and told who they are as Open MPI does it.
// Ranks on the caller's node inherit its environment; others get that of a login and what -x names.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "tools/soma/launch.h"

namespace soma::launch {
namespace {

constexpr int kMpirunError = 1;
constexpr uint32_t kUnlimited = 4096;

int mpirun_error(const std::string& what) {
  std::cerr << "mpirun: " << what << "\n";
  return kMpirunError;
}

struct MpirunRequest {
  uint32_t ranks = 0;     // 0: not given
  uint32_t per_node = 0;  // 0: fill the slots of each node in turn
  bool by_node = false;   // one rank per node in turn
  bool oversubscribe = false;
  bool tag = false;
  Words hosts;                  // an entry each
  std::vector<uint32_t> slots;  // of each entry
  Words variables;              // NAME=value, for all ranks
  std::string directory;
};

// "node-0:4,node-1"
base::Status add_hosts(MpirunRequest& request, const std::string& list) {
  const auto hosts = expand_hosts(list);
  if (!hosts) return hosts.error();
  for (const std::string& item : *hosts) {
    const size_t colon = item.find(':');
    uint32_t slots = 1;
    if (colon != std::string::npos && item.substr(colon + 1) != "*") {
      const base::Status counted = store_count(slots, item.substr(colon + 1), item);
      if (!counted) return counted;
    } else if (colon != std::string::npos) {
      slots = kUnlimited;
    }
    request.hosts.push_back(item.substr(0, colon));
    request.slots.push_back(slots);
  }
  return {};
}

// Lines "HOST [slots=N] [max_slots=N]", comments behind '#'.
base::Status read_host_file(MpirunRequest& request, const std::string& path) {
  std::ifstream file(path);
  if (!file) return base::Error{base::Fault::kUsage, 0, path, "cannot read the list of hosts"};
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    if (!(words >> host)) continue;
    request.hosts.push_back(host);
    request.slots.push_back(kUnlimited);  // Open MPI counts the processors
    for (std::string word; words >> word;) {
      constexpr const char* kSlots = "slots=";
      if (word.rfind(kSlots, 0) == 0) {
        const base::Status counted = store_count(request.slots.back(), word.substr(6), path);
        if (!counted) return counted;
      } else if (word.rfind("max_slots=", 0) != 0 && word.rfind("max-slots=", 0) != 0) {
        return base::Error{base::Fault::kUsage, 0, path, "unknown word '" + word + "'"};
      }
    }
  }
  return {};
}

base::Status map_by(MpirunRequest& request, const std::string& policy) {
  if (policy == "node") {
    request.by_node = true;
  } else if (policy.rfind("ppr:", 0) == 0) {
    const size_t colon = policy.find(':', 4);
    if (colon == std::string::npos || policy.substr(colon + 1, 4) != "node") {
      return base::Error{base::Fault::kUsage, 0, "--map-by", "'" + policy + "' is not supported"};
    }
    return store_count(request.per_node, policy.substr(4, colon - 4), "--map-by");
  } else if (policy.rfind("slot", 0) != 0 && policy.rfind("core", 0) != 0) {
    return base::Error{base::Fault::kUsage, 0, "--map-by", "'" + policy + "' is not supported"};
  }
  return {};
}

void export_variable(MpirunRequest& request, const std::string& text) {
  if (text.find('=') != std::string::npos) {
    request.variables.push_back(text);
  } else if (const char* value = std::getenv(text.c_str())) {
    request.variables.push_back(text + "=" + value);
  }
}

std::vector<Option> mpirun_options(MpirunRequest& request) {
  const auto flag = [](bool& to) {
    return [&to](const std::string&) {
      to = true;
      return base::Status();
    };
  };
  return {
      {{"np", "n", "c"},
       true,
       [&](const std::string& v) { return store_count(request.ranks, v, "-np"); }},
      {{"npernode", "N", "ppn"},
       true,
       [&](const std::string& v) { return store_count(request.per_node, v, "-npernode"); }},
      {{"host", "H", "hosts"}, true, [&](const std::string& v) { return add_hosts(request, v); }},
      {{"hostfile", "machinefile", "default-hostfile"},
       true,
       [&](const std::string& v) { return read_host_file(request, v); }},
      {{"map-by"}, true, [&](const std::string& v) { return map_by(request, v); }},
      {{"bynode"}, false, flag(request.by_node)},
      {{"x"},
       true,
       [&](const std::string& v) {
         export_variable(request, v);
         return base::Status();
       }},
      {{"wdir", "wd"},
       true,
       [&](const std::string& v) {
         request.directory = v;
         return base::Status();
       }},
      {{"tag-output"}, false, flag(request.tag)},
      {{"oversubscribe"}, false, flag(request.oversubscribe)},
      // Without a meaning here: nothing is bound, any user may run, no MPI library is configured.
      {{"allow-run-as-root", "nooversubscribe", "byslot", "bind-to-none", "bind-to-core", "q",
        "quiet", "v", "verbose"},
       false,
       {}},
      {{"bind-to", "rank-by", "prefix"}, true, {}}};
}

base::Status parse(Words& words, MpirunRequest& request) {
  std::vector<Option> known = mpirun_options(request);
  known.push_back({{"mca", "gmca"}, true, {}, true});
  return take_options(words, known);
}

// Nodes in the order of the request, and how many ranks each takes.
struct Allocation {
  std::vector<uint32_t> nodes;
  std::map<uint32_t, uint32_t> slots;
};

base::Result<Allocation> allocate(const Running& machine, const MpirunRequest& request) {
  Allocation all;
  if (request.hosts.empty()) {
    for (uint32_t node = 0; node < machine.nodes(); ++node) {
      all.nodes.push_back(node);
      all.slots[node] = kUnlimited;
    }
    return all;
  }
  const auto listed = nodes_of(machine, request.hosts);
  if (!listed) return listed.error();
  for (size_t entry = 0; entry < listed->size(); ++entry) {
    const uint32_t node = (*listed)[entry];
    if (all.slots.count(node) == 0) all.nodes.push_back(node);
    all.slots[node] += request.slots[entry];
  }
  return all;
}

// As many as asked for, else as there are slots; a node without a limit then counts as one.
uint32_t ranks_wanted(const MpirunRequest& request, const Allocation& all) {
  if (request.ranks != 0) return request.ranks;
  if (request.hosts.empty() && request.per_node == 0) return 1;
  uint32_t wanted = 0;
  for (const auto& [node, slots] : all.slots) {
    wanted += request.per_node != 0 ? request.per_node : slots >= kUnlimited ? 1 : slots;
  }
  return wanted;
}

// The node of every rank, in blocks or in turn.
base::Result<std::vector<uint32_t>> place(const Running& machine, const MpirunRequest& request) {
  const auto all = allocate(machine, request);
  if (!all) return all.error();
  const uint32_t wanted = ranks_wanted(request, *all);
  std::map<uint32_t, uint32_t> counts;
  uint32_t placed = 0;
  const auto add = [&](uint32_t node, uint32_t limit) {
    const bool room = placed < wanted && counts[node] < limit;
    counts[node] += room ? 1 : 0;
    placed += room ? 1 : 0;
    return room;
  };
  const auto limit = [&](uint32_t node) {
    return request.per_node != 0 ? request.per_node : all->slots.at(node);
  };
  std::vector<uint32_t> ranks;
  const auto in_turn = [&](bool beyond_limits) {
    for (bool any = true; any;) {
      any = false;
      for (const uint32_t node : all->nodes) {
        if (!add(node, beyond_limits ? kUnlimited : limit(node))) continue;
        any = true;
        if (request.by_node) ranks.push_back(node);
      }
    }
  };
  if (request.by_node) {
    in_turn(false);
  } else {
    for (const uint32_t node : all->nodes) {
      while (add(node, limit(node))) {
      }
    }
  }
  if (request.oversubscribe && request.per_node == 0) in_turn(true);
  if (placed < wanted) {
    return base::Error{base::Fault::kUsage, 0, "mpirun",
                       "there are not enough slots for " + std::to_string(wanted) +
                           " ranks: the hosts given have " + std::to_string(placed)};
  }
  if (request.by_node) return ranks;
  for (const uint32_t node : all->nodes) ranks.insert(ranks.end(), counts[node], node);
  return ranks;
}

std::vector<Task> tasks_of(const Words& command, const MpirunRequest& request,
                           const std::vector<uint32_t>& ranks) {
  std::map<uint32_t, uint32_t> sizes;
  for (const uint32_t node : ranks) ++sizes[node];
  std::map<uint32_t, uint32_t> started;
  const Words here = own_environment();
  const Words elsewhere = login_environment();
  std::vector<Task> tasks;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const uint32_t node = ranks[rank];
    Task& task = tasks.emplace_back();
    task.node = node;
    task.command = command;
    task.environment = on_node(node == own_node() ? here : elsewhere, node);
    const auto set = [&](const char* name, uint64_t value) {
      set_variable(task.environment, name, std::to_string(value));
    };
    for (const std::string& variable : request.variables) {
      const size_t equal = variable.find('=');
      set_variable(task.environment, variable.substr(0, equal), variable.substr(equal + 1));
    }
    const uint32_t local = started[node]++;
    set("OMPI_COMM_WORLD_RANK", rank);
    set("OMPI_COMM_WORLD_SIZE", ranks.size());
    set("OMPI_COMM_WORLD_LOCAL_RANK", local);
    set("OMPI_COMM_WORLD_LOCAL_SIZE", sizes[node]);
    set("OMPI_COMM_WORLD_NODE_RANK", local);
    set("OMPI_UNIVERSE_SIZE", ranks.size());
    task.directory = request.directory;
    task.reads_input = rank == 0;
    if (request.tag) {
      const std::string tag = "[1," + std::to_string(rank) + "]<";
      task.prefixes = {tag + "stdout>:", tag + "stderr>:"};
    }
  }
  return tasks;
}

}  // namespace

int mpirun(const Running& machine, Words words) {
  MpirunRequest request;
  const base::Status parsed = parse(words, request);
  if (!parsed) return mpirun_error(parsed.error().message());
  if (words.empty()) return mpirun_error("no program given; usage: mpirun [options] PROGRAM ...");
  if (std::find(words.begin(), words.end(), ":") != words.end()) {
    return mpirun_error("several programs, separated by ':', are not supported here");
  }
  const auto ranks = place(machine, request);
  if (!ranks) return mpirun_error(ranks.error().message());
  const std::vector<Task> tasks = tasks_of(words, request, *ranks);
  TaskGroup group;
  const base::Status started = group.start(tasks);
  if (!started) return mpirun_error(started.error().message());
  const TaskGroup::Outcome outcome = group.wait(true);
  if (outcome.first == SIZE_MAX) return 0;
  const TaskGroup::End& end = outcome.ends[outcome.first];
  const std::string how = end.signal != 0 ? "was ended by signal " + std::to_string(end.signal)
                                          : "exited with code " + std::to_string(end.code);
  const uint32_t node = (*ranks)[outcome.first];
  (void)mpirun_error("rank " + std::to_string(outcome.first) + " on node " + std::to_string(node) +
                     " " + how + "; the others were ended");
  return shell_code(end);
}

}  // namespace soma::launch
