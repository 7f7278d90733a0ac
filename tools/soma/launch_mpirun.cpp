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

constexpr int kError = 1;
constexpr uint32_t kUnlimited = 4096;

int complain(const std::string& what) {
  std::cerr << "mpirun: " << what << "\n";
  return kError;
}

struct Request {
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

base::Status store(uint32_t& to, const std::string& text, const std::string& what) {
  const auto count = count_of(text, what);
  if (!count) return count.error();
  to = *count;
  return {};
}

// "node-0:4,node-1"
base::Status add_hosts(Request& request, const std::string& list) {
  const auto hosts = expand_hosts(list);
  if (!hosts) return hosts.error();
  for (const std::string& item : *hosts) {
    const size_t colon = item.find(':');
    uint32_t slots = 1;
    if (colon != std::string::npos && item.substr(colon + 1) != "*") {
      const base::Status counted = store(slots, item.substr(colon + 1), item);
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
base::Status read_host_file(Request& request, const std::string& path) {
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
        const base::Status counted = store(request.slots.back(), word.substr(6), path);
        if (!counted) return counted;
      } else if (word.rfind("max_slots=", 0) != 0 && word.rfind("max-slots=", 0) != 0) {
        return base::Error{base::Fault::kUsage, 0, path, "unknown word '" + word + "'"};
      }
    }
  }
  return {};
}

base::Status map_by(Request& request, const std::string& policy) {
  if (policy == "node") {
    request.by_node = true;
  } else if (policy.rfind("ppr:", 0) == 0) {
    const size_t colon = policy.find(':', 4);
    if (colon == std::string::npos || policy.substr(colon + 1, 4) != "node") {
      return base::Error{base::Fault::kUsage, 0, "--map-by", "'" + policy + "' is not supported"};
    }
    return store(request.per_node, policy.substr(4, colon - 4), "--map-by");
  } else if (policy.rfind("slot", 0) != 0 && policy.rfind("core", 0) != 0) {
    return base::Error{base::Fault::kUsage, 0, "--map-by", "'" + policy + "' is not supported"};
  }
  return {};
}

void export_variable(Request& request, const std::string& text) {
  if (text.find('=') != std::string::npos) {
    request.variables.push_back(text);
  } else if (const char* value = std::getenv(text.c_str())) {
    request.variables.push_back(text + "=" + value);
  }
}

std::vector<Option> options(Request& request) {
  const auto flag = [](bool& to) {
    return [&to](const std::string&) {
      to = true;
      return base::Status();
    };
  };
  return {
      {{"np", "n", "c"},
       true,
       [&](const std::string& v) { return store(request.ranks, v, "-np"); }},
      {{"npernode", "N", "ppn"},
       true,
       [&](const std::string& v) { return store(request.per_node, v, "-npernode"); }},
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

base::Status parse(Words& words, Request& request) {
  std::vector<Option> known = options(request);
  known.push_back({{"mca", "gmca"}, true, {}});
  // "--mca NAME VALUE": an option of two values, which only an MPI library would read.
  for (size_t at = 0; at + 2 < words.size() && words[at] != "--"; ++at) {
    if (words[at] != "--mca" && words[at] != "-mca") continue;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(at) + 2);
  }
  return take_options(words, known);
}

// The node of every rank.
base::Result<std::vector<uint32_t>> place(const Running& machine, const Request& request) {
  std::vector<uint32_t> nodes;
  std::map<uint32_t, uint32_t> slots;
  if (request.hosts.empty()) {
    for (uint32_t node = 0; node < machine.nodes(); ++node) nodes.push_back(node);
    for (const uint32_t node : nodes) slots[node] = kUnlimited;
  } else {
    const auto listed = nodes_of(machine, request.hosts);
    if (!listed) return listed.error();
    for (size_t entry = 0; entry < listed->size(); ++entry) {
      const uint32_t node = (*listed)[entry];
      if (slots.count(node) == 0) nodes.push_back(node);
      slots[node] += request.slots[entry];
    }
  }
  uint32_t wanted = request.ranks;
  if (wanted == 0 && request.per_node != 0) {
    wanted = request.per_node * static_cast<uint32_t>(nodes.size());
  }
  if (wanted == 0 && request.hosts.empty()) wanted = 1;
  std::vector<uint32_t> ranks;
  const auto full = [&] { return wanted != 0 && ranks.size() >= wanted; };
  if (request.by_node) {
    for (uint32_t round = 0; !full() && round < kUnlimited; ++round) {
      const size_t before = ranks.size();
      for (const uint32_t node : nodes) {
        if (!full() && (round < slots[node] || request.oversubscribe)) ranks.push_back(node);
      }
      if (ranks.size() == before) break;
    }
  } else {
    for (const uint32_t node : nodes) {
      const uint32_t here = request.per_node != 0 ? request.per_node : slots[node];
      for (uint32_t slot = 0; slot < here && !full(); ++slot) ranks.push_back(node);
    }
    for (size_t at = 0; request.oversubscribe && request.per_node == 0 && !full(); ++at) {
      if (wanted == 0) break;
      ranks.push_back(nodes[at % nodes.size()]);
    }
    std::stable_sort(ranks.begin(), ranks.end(), [&](uint32_t a, uint32_t b) {
      return std::find(nodes.begin(), nodes.end(), a) < std::find(nodes.begin(), nodes.end(), b);
    });
  }
  if (ranks.size() < wanted) {
    return base::Error{base::Fault::kUsage, 0, "mpirun",
                       "there are not enough slots for " + std::to_string(wanted) +
                           " ranks: the hosts given have " + std::to_string(ranks.size())};
  }
  return ranks;
}

std::vector<Task> tasks_of(const Words& command, const Request& request,
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
  Request request;
  const base::Status parsed = parse(words, request);
  if (!parsed) return complain(parsed.error().message());
  if (words.empty()) return complain("no program given; usage: mpirun [options] PROGRAM ...");
  if (std::find(words.begin(), words.end(), ":") != words.end()) {
    return complain("several programs, separated by ':', are not supported here");
  }
  const auto ranks = place(machine, request);
  if (!ranks) return complain(ranks.error().message());
  const std::vector<Task> tasks = tasks_of(words, request, *ranks);
  TaskGroup group;
  const base::Status started = group.start(tasks);
  if (!started) return complain(started.error().message());
  const TaskGroup::Outcome outcome = group.wait(true);
  if (outcome.first == SIZE_MAX) return 0;
  const TaskGroup::End& end = outcome.ends[outcome.first];
  const std::string how = end.signal != 0 ? "was ended by signal " + std::to_string(end.signal)
                                          : "exited with code " + std::to_string(end.code);
  const uint32_t node = (*ranks)[outcome.first];
  (void)complain("rank " + std::to_string(outcome.first) + " on node " + std::to_string(node) +
                 " " + how + "; the others were ended");
  return shell_code(end);
}

}  // namespace soma::launch
