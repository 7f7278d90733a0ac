// Open files and client processes as the driver sees them: which calls of CharDevice each client
// event becomes, and in which order. Lives on the kernel thread; every public function runs inside
// a driver task, of which several can be suspended in CharDevice at one time.
//
// A real kernel flushes a file at every close(2) and once more per descriptor at exit or exec,
// always before the release. Here an explicit close is a kFlush message; exit is seen through the
// pidfd, exec and everything else as the end of the file's socket. A process that has used the file
// since its last flush gets the missing one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/node/connection.h"
#include "driver/node/status_page.h"
#include "driver/node/sysfs_tree.h"

namespace driver {

class Sessions {
 public:
  struct Node {
    CharDevice* device;
    SysfsMirror* sysfs;
  };
  Sessions(std::vector<Node> nodes, StatusPage& status)
      : nodes_(std::move(nodes)), status_(status) {}

  // Requests; each sends exactly one answer. Bodies have been checked for size, `header.node` for
  // range.
  void open(std::shared_ptr<Connection> file, const wire::Header& header,
            const wire::OpenBody& body);
  void ioctl(std::shared_ptr<Connection> channel, const wire::Header& header,
             const wire::IoctlBody& body);
  void mmap(std::shared_ptr<Connection> channel, const wire::Header& header,
            const wire::MmapBody& body);
  void munmap(std::shared_ptr<Connection> channel, const wire::Header& header,
              const wire::MunmapBody& body);
  void mmio_write(std::shared_ptr<Connection> channel, const wire::Header& header,
                  const wire::MmioWriteBody& body);
  void flush(std::shared_ptr<Connection> channel, const wire::Header& header);
  void sysfs_refresh(std::shared_ptr<Connection> channel, const wire::Header& header,
                     const std::string& path);
  void sysfs_open(std::shared_ptr<Connection> writer, const wire::Header& header,
                  const std::string& path, bool readable);
  void sysfs_watch(std::shared_ptr<Connection> watcher, const wire::Header& header);
  void sysfs_write(uint32_t node, const std::string& path, const std::string& text);

  // Events.
  void file_closed(std::shared_ptr<Connection> file);
  void process_died(std::shared_ptr<ClientProcess> process);

  // The devices of a node and the files outside the standard sysfs directories.
  struct NodeNames {
    uint64_t minors = 0;
    std::vector<std::string> extra_paths;
  };
  NodeNames names(uint32_t node) const;

  size_t open_files() const { return files_.size(); }
  // What is under way, for a report of who waits on what: "ioctl 54 on neuron0 by process 17".
  std::vector<std::string> in_flight() const;

 private:
  struct File {
    uint64_t number = 0;
    uint64_t token = 0;
    CharDevice* device = nullptr;
    int id = 0;
    int minor = 0;
    int flags = 0;
    int in_flight = 0;
    bool socket_closed = false;
    std::map<int32_t, bool> users;  // by process: has used the file since its last flush
  };
  struct Process {
    int in_flight = 0;
    std::shared_ptr<ClientProcess> died;  // set when the exit waits for calls under way
  };
  struct Call;  // brackets one call of CharDevice on a file
  struct Watcher {
    std::shared_ptr<Connection> connection;
    uint32_t seen = 0;  // changes of the attribute
  };

  // Sends the answer, after the time that the request took has reached the clients' clock.
  template <typename... Answer>
  void answer(Connection& connection, const wire::Header& header, const Answer&... answer) {
    status_.show_progress();
    connection.reply(header, answer...);
  }
  // A request has been executed: readers of attributes look again, pollers are told.
  void changed();
  std::shared_ptr<File> find(const wire::Header& header);
  void flush_as(File& file, int32_t tgid);
  void release_if_done(const std::shared_ptr<File>& file);
  void exit_process(int32_t tgid);

  std::vector<Node> nodes_;
  StatusPage& status_;
  uint64_t next_number_ = 1;
  std::map<uint64_t, std::shared_ptr<File>> files_;  // by number: the order of opening
  std::map<uint64_t, uint64_t> by_token_;
  std::map<int32_t, Process> processes_;  // with calls under way
  uint64_t next_call_ = 1;
  std::map<uint64_t, std::string> calls_;
  std::vector<Watcher> watchers_;
};

}  // namespace driver
