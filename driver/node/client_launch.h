// What a client program needs in its environment to see the devices of a running server: the
// preloaded shim, the libraries, and where the server is. Used by the tool that starts programs,
// and by tests.
#pragma once

#include <string>
#include <vector>

namespace driver {

enum class ClientClock { kVirtual, kHost };

struct ClientLaunch {
  std::string socket_path;
  std::string shim_path;                  // libsoma-shim.so
  std::vector<std::string> library_dirs;  // put in front of LD_LIBRARY_PATH
  ClientClock clock = ClientClock::kVirtual;
  unsigned node = 0;
  std::string sdk;  // what /opt/aws/neuron is to the program; empty: the host's
};

// `base` is an environment ("NAME=value" each); returns it with LD_PRELOAD and LD_LIBRARY_PATH
// extended and the shim's own variables set. Earlier values of those variables stay behind ours.
std::vector<std::string> client_environment(const ClientLaunch& launch,
                                            const std::vector<std::string>& base);
// The same from this process's environment.
std::vector<std::string> client_environment(const ClientLaunch& launch);

}  // namespace driver
