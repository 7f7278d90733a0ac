// The I/O thread of the device-node server: accepts, receives, validates, and turns messages into
// tasks of the request queue. Owns the sockets' membership in epoll; connections live on while a
// task holds them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "driver/node/connection.h"
#include "driver/node/request_queue.h"
#include "driver/node/sessions.h"

namespace driver {

// What a client learns when it connects, per node.
struct NodeFacts {
  uint64_t minors = 0;
  std::string sysfs_root;
  std::string host_name;  // empty: the host's own
  std::vector<std::string> extra_paths;
};

class IoLoop {
 public:
  struct Params {
    base::UniqueFd listener;            // channels and files
    base::UniqueFd attribute_listener;  // sysfs attributes open for writing or polled
    std::vector<NodeFacts>
        nodes;           // minors may still be empty: the driver is asked at the first hello
    unsigned major = 0;  // of the character device
    int status_fd = -1;
  };
  IoLoop(Params params, RequestQueue& queue, Sessions& sessions);
  ~IoLoop();

  base::Status start();
  void stop();
  uint64_t protocol_errors() const { return protocol_errors_.load(); }
  size_t connections() const { return connection_count_.load(); }

 private:
  using ConnectionPtr = std::shared_ptr<Connection>;

  void run();
  void accept_client(int listener, Role role);
  std::shared_ptr<ClientProcess> watch_process(int socket, pid_t pid);
  void process_exited(uint64_t id);
  void receive(const ConnectionPtr& connection);
  bool handle(const ConnectionPtr& connection, base::ConstByteSpan packet);
  bool handle_first(const ConnectionPtr& connection, const wire::Header& header,
                    base::ConstByteSpan body);
  bool handle_request(const ConnectionPtr& connection, const wire::Header& header,
                      base::ConstByteSpan body);
  void hello(const ConnectionPtr& connection, const wire::Header& header);
  void send_hello(Connection& connection, const wire::Header& header);
  NodeFacts facts(uint32_t node) const;
  bool write_attribute(const ConnectionPtr& connection, base::ConstByteSpan packet);
  void close(const ConnectionPtr& connection, bool violation);

  Params params_;
  mutable std::mutex facts_lock_;  // params_.nodes: the kernel thread fills them in
  RequestQueue& queue_;
  Sessions& sessions_;
  base::UniqueFd epoll_;
  base::UniqueFd stop_;
  std::thread thread_;
  std::atomic<uint64_t> protocol_errors_{0};
  std::atomic<size_t> connection_count_{0};

  // I/O thread only. One number space for connections and processes, used as epoll data.
  uint64_t next_id_ = 16;
  std::map<uint64_t, ConnectionPtr> connections_;
  std::map<uint64_t, std::shared_ptr<ClientProcess>> processes_;
  std::map<pid_t, uint64_t> by_pid_;
  std::vector<uint8_t> buffer_;
};

}  // namespace driver
