// One client socket, and the process behind it. Shared between the I/O thread, which receives, and
// the kernel thread, which answers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/span.h"
#include "driver/kernel/char_device.h"
#include "driver/node/protocol.h"

namespace driver {

// A client process: its pid together with a pidfd, so that a recycled pid is never taken for it.
class ClientProcess {
 public:
  ClientProcess(pid_t pid, base::UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  bool alive() const;  // asks the kernel
  // False once process_vm_readv has been refused: memory then travels through the socket.
  std::atomic<bool> direct_memory{true};
  // I/O thread: has opened or used a file, so that its exit concerns the driver.
  bool used_files = false;

 private:
  pid_t pid_;
  base::UniqueFd pidfd_;
};

enum class Role { kFresh, kFreshWriter, kChannel, kFile, kWriter, kWatcher };

class Connection {
 public:
  Connection(uint64_t id, base::UniqueFd fd, std::shared_ptr<ClientProcess> process)
      : id(id), process(std::move(process)), fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  // Sends one message; `pass_fd` >= 0 travels with it. A client that does not take its answers is
  // cut off. Any thread.
  void reply(const wire::Header& request, const void* body, size_t size, int pass_fd = -1);
  void reply(const wire::Header& request, int64_t result);
  // Raw packet (sysfs attributes opened for reading and writing), then end of file for the reader.
  void send_text(const std::string& text);
  // One byte; a watcher that has not taken the last ones needs no more.
  void send_event();
  void shut_down();
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  void mark_closed();

  // Kernel thread: asks the client, which waits for an answer on this channel, to serve its memory.
  // Blocks the caller for at most `limit` of wall time; false when not served completely.
  bool remote_memory(wire::Kind kind, uint64_t address, base::ByteSpan to, base::ConstByteSpan from,
                     std::chrono::milliseconds limit);
  // I/O thread: delivers the client's answer; false when none was asked for.
  bool deliver_memory(const wire::MemoryBody& body, base::ConstByteSpan bytes);

  const uint64_t id;
  const std::shared_ptr<ClientProcess> process;
  // I/O thread only.
  Role role = Role::kFresh;
  std::string path;  // kWriter, kWatcher
  uint32_t node = 0;
  // A request is under way: a second one on the same channel is a violation.
  std::atomic<bool> busy{false};
  // Kernel thread only: the open file behind a kFile connection, 0 = none.
  uint64_t file = 0;
  // Token of that file for kIdentify; set before the answer to kOpen is sent.
  std::atomic<uint64_t> token{0};
  std::atomic<int32_t> minor{-1};
  std::atomic<int32_t> open_flags{0};
  std::atomic<size_t> pending_writes{0};

 private:
  bool send(const void* header, size_t header_size, const void* body, size_t size, int pass_fd);

  base::UniqueFd fd_;
  std::atomic<bool> closed_{false};
  std::mutex memory_lock_;
  std::condition_variable memory_arrived_;
  bool memory_expected_ = false;
  bool memory_done_ = false;
  wire::MemoryBody memory_answer_ = {};
  std::vector<uint8_t> memory_bytes_;
};

// The calling process's memory during one request: process_vm_readv and _writev, or, where the host
// refuses them, served by the client through its channel.
class ClientMemory final : public UserMemory {
 public:
  // `channel` null: only the direct way.
  ClientMemory(ClientProcess& process, Connection* channel)
      : process_(process), channel_(channel) {}
  bool read(uint64_t address, base::ByteSpan to) override;
  bool write(uint64_t address, base::ConstByteSpan from) override;

 private:
  enum class Outcome { kDone, kFault, kRefused };
  Outcome direct(uint64_t address, void* local, size_t size, bool to_client);
  bool remote(uint64_t address, base::ByteSpan to, base::ConstByteSpan from);

  ClientProcess& process_;
  Connection* channel_;
};

}  // namespace driver
