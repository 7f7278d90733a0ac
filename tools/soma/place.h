// Where a command runs: a machine that is alive, and one of its nodes (the hosts of the platform).
//
// A machine is found by the name that `soma up` gave it, or by the environment of a command that
// runs against it. Its private directory holds `info`: a line each of socket path, clock and number
// of nodes, then the host name of each node, empty where it is that of the real host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace soma {

struct Running {
  std::string directory;
  std::string socket_path;
  std::string clock;
  std::vector<std::string> hosts;  // by node

  uint32_t nodes() const { return static_cast<uint32_t>(hosts.size()); }
  // The node that a command knows as `host`: by name, or the caller's own as "localhost".
  std::optional<uint32_t> node_of(const std::string& host, uint32_t own) const;
};

void write_info(const Running& running);
// Errors are those of the command line (Fault::kConfig).
base::Result<Running> find_named(const std::string& name);
// The machine that this process runs against; none if there is none.
std::optional<Running> find_enclosing();
// The node that this process is on, with an enclosing machine.
uint32_t own_node();

// "localhost" or an address of the loopback interface.
bool is_loopback(const std::string& host);

// `environment` ("NAME=value" each) with a variable set.
void set_variable(std::vector<std::string>& environment, const std::string& name,
                  const std::string& value);
std::vector<std::string> own_environment();
// What a login on another host would start with, and what clients of the machine need.
std::vector<std::string> login_environment();

}  // namespace soma
