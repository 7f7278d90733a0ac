// A device-node server with a small device behind it and untrusted clients in front: the target's
// own process and a child.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/fd.h"
#include "driver/kernel/char_device.h"
#include "driver/node/node_server.h"
#include "driver/node/protocol.h"

namespace fuzz {

class Client {
 public:
  bool open() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  void send(const std::vector<uint8_t>& packet);
  void half_close();
  void close() { fd_.reset(); }

 private:
  friend class NodeBench;
  base::UniqueFd fd_;
  pid_t pid_ = 0;
};

class NodeDevice;

class NodeBench {
 public:
  // Where the clients' memory seems to be.
  static constexpr uint64_t kWindow = 0x7000'0000'0000;
  static constexpr uint64_t kWindowBytes = 0x2'0000;

  // The one of this process.
  static NodeBench& get();
  ~NodeBench();

  // To one of the two sockets, as one of the two processes.
  void connect(Client& client, bool attributes, bool as_child);
  driver::wire::Header header(const Client& client, driver::wire::Kind kind, size_t body) const;
  // Of the files that were opened for this input; 0 and numbers that nobody has, too.
  uint64_t token(uint8_t n) const;
  // How clients answer when the server asks for their memory.
  void set_answers(uint8_t mode) { answers_ = mode; }
  // How many more accesses to the own process's memory go through before one fails.
  void set_refusals(uint8_t n) { accesses_ = n; }

  // Until everything that was sent has been served.
  void serve(std::vector<Client>& clients);
  // The child dies, with whatever it has open; another takes its place.
  void kill_child(std::vector<Client>& clients);
  // After all clients have left: nothing may be open any more.
  void finish();

  // For the replaced system calls.
  ssize_t move_memory(pid_t pid, uint8_t* local, uint64_t remote, size_t size, bool write);
  void answer_memory_requests();

 private:
  class Executor;
  NodeBench();
  void start_child();
  base::UniqueFd connected(const std::string& path) const;
  base::UniqueFd connected_by_child(bool attributes);
  void hello();
  void receive(Client& client);
  void answer(Client& client, const driver::wire::Header& asked,
              const driver::wire::MemoryBody& body);

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<NodeDevice> devices_[2];
  std::unique_ptr<driver::NodeServer> server_;
  std::vector<uint8_t> window_ = std::vector<uint8_t>(kWindowBytes);
  std::vector<Client>* clients_ = nullptr;  // while the server works
  std::vector<uint64_t> tokens_;
  uint8_t answers_ = 0;
  uint8_t accesses_ = 0xFF;
  bool child_killed_ = false;
  pid_t child_ = 0;
  base::UniqueFd to_child_;
};

}  // namespace fuzz
