// `ssh`, `mpirun` and `srun` as a command that runs against a machine finds them on its PATH: they
// start processes on the machine's nodes. Stand-ins with the options that scripts commonly use; an
// option that they do not know is an error that names it.
//
// Differs from the real tools: no MPI library is served (programs read rank and size from the
// environment), all nodes share the host's files and network, no login scripts run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/soma/place.h"
#include "tools/soma/task_group.h"

namespace soma::launch {

using Words = std::vector<std::string>;

// One option: its names without dashes, whether it takes a value, what it does. No action: known
// and without effect here.
struct Option {
  std::vector<std::string> names;
  bool value = false;
  std::function<base::Status(const std::string&)> action;
  bool pair = false;  // a second value follows, which nobody reads
};

// Takes options off the front of `words` until the first word that is none. Long names may have one
// dash or two, and a value after '='; names of one letter may have the value attached.
base::Status take_options(Words& words, const std::vector<Option>& options);

base::Result<uint32_t> count_of(const std::string& text, const std::string& what);
base::Status store_count(uint32_t& to, const std::string& text, const std::string& what);
// "node-0,node-[2-4]" as names.
base::Result<Words> expand_hosts(const std::string& list);
// The nodes that a list of hosts means, entry by entry: those with the names, one per entry for
// loopback addresses, and for names that the machine does not have, one per name in order.
base::Result<std::vector<uint32_t>> nodes_of(const Running& machine, const Words& hosts);

// `environment` for a process on `node`.
Words on_node(Words environment, uint32_t node);

// The exit code of the process; messages have been printed.
int ssh(const Running& machine, Words words);
int mpirun(const Running& machine, Words words);
int srun(const Running& machine, Words words);

}  // namespace soma::launch
