// The device-node server: puts a driver's character devices and sysfs in front of client processes,
// over a Unix socket in a private directory (docs/architecture.md#processes). One I/O thread
// receives and checks messages; what they ask for runs as driver tasks on the machine's kernel
// thread, in the order of admission that the owner of requests() decides. Answers are sent from the
// kernel thread.
//
//   auto server = driver::NodeServer::start({{&device}, &executor, ""});
//   while (running) {
//     if (!server->requests().wait_for_request(100ms)) continue;
//     server->status().machine_busy();
//     server->requests().admit_one();
//     ... run the machine to quiescence ...
//     server->status().machine_idle(elapsed_ps);
//   }
//
// Everything but requests().push is called from the kernel thread. The server may be destroyed only
// when no driver task of it is under way.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "driver/node/request_queue.h"
#include "driver/node/status_page.h"

namespace driver {

class CharDevice;

class NodeServer {
 public:
  // What else tells a program where it runs. Empty: the real host's.
  struct Identity {
    std::string host_name;     // gethostname, uname
    std::string product_name;  // DMI: the instance type, "trn1.2xlarge" (spec/driver-ioctl.md 3.16)
  };
  struct Params {
    std::vector<CharDevice*> nodes;          // one driver instance per node of the platform
    std::vector<Identity> identities;        // by node; may be shorter
    pcie::HostExecutor* executor = nullptr;  // runs the driver tasks
    std::string
        directory;  // private directory to create; empty: a fresh one in the runtime directory
  };
  static base::Result<std::unique_ptr<NodeServer>> start(Params params);
  ~NodeServer();
  NodeServer(const NodeServer&) = delete;
  NodeServer& operator=(const NodeServer&) = delete;

  RequestQueue& requests();
  StatusPage& status();
  const std::string& directory() const;
  const std::string& socket_path() const;

  size_t open_files() const;
  std::vector<std::string> in_flight() const;  // who waits on what
  uint64_t protocol_errors() const;            // connections closed for a malformed message
  size_t connections() const;

 private:
  struct Impl;
  explicit NodeServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driver
