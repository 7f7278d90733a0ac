#include "driver/node/io_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#include "driver/uapi/requests.h"

namespace driver {
namespace {

constexpr uint64_t kListenerId = 0;
constexpr uint64_t kStopId = 1;
constexpr uint64_t kAttributeListenerId = 2;
// Bounds what hostile clients can make the server hold.
constexpr size_t kMaxConnections = 8192;
constexpr size_t kMaxPendingWrites = 64;
// With so many requests waiting the machine has enough to do while more come together: one look at
// the sockets then finds several.
constexpr size_t kPlenty = 16;
constexpr std::chrono::microseconds kGather{50};
constexpr size_t kMaxAttributeText = 4096;  // one page, as sysfs gives a store handler

void watch(int epoll, int fd, uint64_t id) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// The kernel's own answer to "who is at the other end" where it gives one, else by number.
base::UniqueFd peer_pidfd(int socket, pid_t pid) {
  constexpr int kSoPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5
  int fd = -1;
  socklen_t size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0) return base::UniqueFd(fd);
  return base::UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

template <typename Body>
bool take(base::ConstByteSpan bytes, Body* body) {
  if (bytes.size() != sizeof(Body)) return false;
  memcpy(body, bytes.data(), sizeof(Body));
  return true;
}

bool take_path(base::ConstByteSpan bytes, std::string* path) {
  if (bytes.size() != sizeof(wire::SysfsBody)) return false;
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const size_t length = strnlen(text, wire::kMaxPath);
  if (length == 0 || length == wire::kMaxPath || text[0] != '/') return false;
  path->assign(text, length);
  return true;
}

}  // namespace

IoLoop::IoLoop(Params params, RequestQueue& queue, Sessions& sessions)
    : params_(std::move(params)), queue_(queue), sessions_(sessions), buffer_(wire::kMaxMessage) {}

IoLoop::~IoLoop() {
  stop();
}

base::Status IoLoop::start() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  stop_.reset(eventfd(0, EFD_CLOEXEC));
  if (!epoll_.valid() || !stop_.valid()) return base::errno_error("device nodes", "epoll");
  watch(epoll_.get(), params_.listener.get(), kListenerId);
  watch(epoll_.get(), params_.attribute_listener.get(), kAttributeListenerId);
  watch(epoll_.get(), stop_.get(), kStopId);
  thread_ = std::thread([this] { run(); });
  return {};
}

void IoLoop::stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  thread_.join();
  for (auto& [id, connection] : connections_) {
    connection->mark_closed();
    connection->shut_down();
  }
}

void IoLoop::run() {
  epoll_event events[64];
  for (;;) {
    const int count = epoll_wait(epoll_.get(), events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kStopId) return;
      if (id == kListenerId) {
        accept_client(params_.listener.get(), Role::kFresh);
      } else if (id == kAttributeListenerId) {
        accept_client(params_.attribute_listener.get(), Role::kFreshWriter);
      } else if (processes_.count(id) != 0) {
        process_exited(id);
      } else if (const auto found = connections_.find(id); found != connections_.end()) {
        const ConnectionPtr connection = found->second;
        receive(connection);
      }
    }
    if (queue_.pending() > kPlenty) std::this_thread::sleep_for(kGather);
  }
}

void IoLoop::accept_client(int listener, Role role) {
  base::UniqueFd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    // Out of descriptors: the waiting client stays readable, so pause instead of spinning.
    if (errno == EMFILE || errno == ENFILE)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return;
  }
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (connections_.size() >= kMaxConnections ||
      getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) {
    return;
  }
  auto process = watch_process(socket.get(), peer.pid);
  if (process == nullptr) return;
  const uint64_t id = next_id_++;
  const int fd = socket.get();
  connections_[id] = std::make_shared<Connection>(id, std::move(socket), std::move(process));
  connections_[id]->role = role;
  connection_count_ = connections_.size();
  watch(epoll_.get(), fd, id);
}

std::shared_ptr<ClientProcess> IoLoop::watch_process(int socket, pid_t pid) {
  const auto known = by_pid_.find(pid);
  if (known != by_pid_.end()) {
    const auto process = processes_.at(known->second);
    if (process->alive()) return process;
    process_exited(known->second);  // its number has been given to a new process
  }
  base::UniqueFd pidfd = peer_pidfd(socket, pid);
  if (!pidfd.valid()) return nullptr;
  const uint64_t id = next_id_++;
  auto process = std::make_shared<ClientProcess>(pid, std::move(pidfd));
  processes_[id] = process;
  by_pid_[pid] = id;
  watch(epoll_.get(), process->pidfd(), id);
  return process;
}

void IoLoop::process_exited(uint64_t id) {
  const auto process = processes_.at(id);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process->pidfd(), nullptr);
  by_pid_.erase(process->pid());
  processes_.erase(id);
  // Most processes are shells and tools that never touch a device.
  if (!process->used_files) return;
  queue_.push("exit of a client", [this, process] { sessions_.process_died(process); });
}

void IoLoop::receive(const ConnectionPtr& connection) {
  const ssize_t size =
      recv(connection->fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return close(connection, false);
  // MSG_TRUNC: the packet's real length, even when it did not fit.
  if (static_cast<size_t>(size) > buffer_.size() ||
      !handle(connection, {buffer_.data(), static_cast<size_t>(size)})) {
    close(connection, true);
  }
}

void IoLoop::close(const ConnectionPtr& connection, bool violation) {
  if (violation) ++protocol_errors_;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->fd(), nullptr);
  connections_.erase(connection->id);
  connection_count_ = connections_.size();
  connection->mark_closed();
  connection->shut_down();
  if (connection->role == Role::kFile) {
    queue_.push("release", [this, connection] { sessions_.file_closed(connection); });
  }
}

bool IoLoop::handle(const ConnectionPtr& connection, base::ConstByteSpan packet) {
  if (connection->role == Role::kWriter) return write_attribute(connection, packet);
  if (connection->role == Role::kWatcher) return false;  // has nothing more to say
  wire::Header header;
  if (packet.size() < sizeof header) return false;
  memcpy(&header, packet.data(), sizeof header);
  if (header.magic != wire::kMagic || header.version != wire::kVersion ||
      header.length != packet.size() || header.kind == 0 || header.kind > wire::kLastRequest ||
      header.node >= params_.nodes.size() || header.tid <= 0) {
    return false;
  }
  const auto body = packet.sub(sizeof header, packet.size() - sizeof header);
  if (connection->role == Role::kFile) {
    // The holder may be a process that inherited the file: nothing but the token is told.
    if (header.kind != wire::kIdentify || !body.empty()) return false;
    const uint64_t token = connection->token;
    const wire::OpenReply reply = {token == 0 ? -EAGAIN : 0, token, connection->minor,
                                   connection->open_flags};
    connection->reply(header, &reply, sizeof reply);
    return true;
  }
  if (header.pid != connection->process->pid()) return false;
  if (connection->role != Role::kChannel) return handle_first(connection, header, body);
  return handle_request(connection, header, body);
}

bool IoLoop::handle_first(const ConnectionPtr& connection, const wire::Header& header,
                          base::ConstByteSpan body) {
  connection->node = header.node;
  if (connection->role == Role::kFreshWriter) {
    if (!take_path(body, &connection->path)) return false;
    if (header.kind == wire::kSysfsWatch) {
      connection->role = Role::kWatcher;
      queue_.push("sysfs poll",
                  [this, connection, header] { sessions_.sysfs_watch(connection, header); });
      return true;
    }
    if (header.kind != wire::kSysfsOpen) return false;
    connection->role = Role::kWriter;
    const bool readable = header.token == 1;
    queue_.push("sysfs open", [this, connection, header, readable] {
      sessions_.sysfs_open(connection, header, connection->path, readable);
    });
    return true;
  }
  if (header.kind == wire::kHello && body.empty()) {
    connection->role = Role::kChannel;
    hello(connection, header);
    return true;
  }
  if (wire::OpenBody open; header.kind == wire::kOpen && take(body, &open)) {
    connection->role = Role::kFile;
    connection->process->used_files = true;
    queue_.push("open",
                [this, connection, header, open] { sessions_.open(connection, header, open); });
    return true;
  }
  return false;
}

NodeFacts IoLoop::facts(uint32_t node) const {
  const std::lock_guard<std::mutex> guard(facts_lock_);
  return params_.nodes[node];
}

// Answered here, so that programs start without waiting for the machine; only the first ones, that
// come before the driver has found its devices, go to the kernel thread.
void IoLoop::hello(const ConnectionPtr& connection, const wire::Header& header) {
  if (facts(header.node).minors != 0) return send_hello(*connection, header);
  connection->busy = true;
  queue_.push("first program", [this, connection, header] {
    const Sessions::NodeNames names = sessions_.names(header.node);
    {
      const std::lock_guard<std::mutex> guard(facts_lock_);
      params_.nodes[header.node].minors = names.minors;
      params_.nodes[header.node].extra_paths = names.extra_paths;
    }
    send_hello(*connection, header);
  });
}

void IoLoop::send_hello(Connection& connection, const wire::Header& header) {
  const NodeFacts facts = this->facts(header.node);
  wire::HelloReply reply = {};
  reply.server_pid = getpid();
  reply.major = params_.major;
  reply.minors = facts.minors;
  reply.node_count = static_cast<uint32_t>(params_.nodes.size());
  memcpy(reply.sysfs_root, facts.sysfs_root.c_str(),
         std::min<size_t>(facts.sysfs_root.size(), wire::kMaxPath - 1));
  memcpy(reply.host_name, facts.host_name.c_str(),
         std::min<size_t>(facts.host_name.size(), sizeof reply.host_name - 1));
  for (const std::string& path : facts.extra_paths) {
    if (reply.path_bytes + path.size() + 1 > sizeof reply.paths) break;
    memcpy(reply.paths + reply.path_bytes, path.c_str(), path.size() + 1);
    reply.path_bytes += static_cast<uint32_t>(path.size() + 1);
    ++reply.path_count;
  }
  connection.reply(header, &reply, sizeof reply, params_.status_fd);
}

bool IoLoop::handle_request(const ConnectionPtr& connection, const wire::Header& header,
                            base::ConstByteSpan body) {
  if (header.kind == wire::kMemoryData) {
    wire::MemoryBody answer;
    if (body.size() < sizeof answer) return false;
    memcpy(&answer, body.data(), sizeof answer);
    const auto bytes = body.sub(sizeof answer, body.size() - sizeof answer);
    return bytes.size() <= wire::kMaxMemoryPart && connection->deliver_memory(answer, bytes);
  }
  if (connection->busy.exchange(true)) return false;
  if (header.token != 0) connection->process->used_files = true;
  switch (header.kind) {
    case wire::kIoctl:
      if (wire::IoctlBody ioctl; take(body, &ioctl)) {
        queue_.push(
            "ioctl " + std::to_string(uapi::request_number(ioctl.request)),
            [this, connection, header, ioctl] { sessions_.ioctl(connection, header, ioctl); });
        return true;
      }
      return false;
    case wire::kMmap:
      if (wire::MmapBody mmap; take(body, &mmap)) {
        queue_.push("mmap",
                    [this, connection, header, mmap] { sessions_.mmap(connection, header, mmap); });
        return true;
      }
      return false;
    case wire::kMunmap:
      if (wire::MunmapBody munmap; take(body, &munmap)) {
        queue_.push("munmap", [this, connection, header, munmap] {
          sessions_.munmap(connection, header, munmap);
        });
        return true;
      }
      return false;
    case wire::kMmioWrite:
      if (wire::MmioWriteBody store; take(body, &store)) {
        queue_.push("register store", [this, connection, header, store] {
          sessions_.mmio_write(connection, header, store);
        });
        return true;
      }
      return false;
    case wire::kFlush:
      if (!body.empty()) return false;
      queue_.push("flush", [this, connection, header] { sessions_.flush(connection, header); });
      return true;
    case wire::kSysfsRefresh:
      if (std::string path; take_path(body, &path)) {
        queue_.push("sysfs read", [this, connection, header, path] {
          sessions_.sysfs_refresh(connection, header, path);
        });
        return true;
      }
      return false;
    default:
      return false;
  }
}

bool IoLoop::write_attribute(const ConnectionPtr& connection, base::ConstByteSpan packet) {
  if (packet.size() > kMaxAttributeText || connection->pending_writes >= kMaxPendingWrites) {
    return false;
  }
  ++connection->pending_writes;
  std::string text(reinterpret_cast<const char*>(packet.data()), packet.size());
  queue_.push("sysfs write", [this, connection, text = std::move(text)] {
    --connection->pending_writes;
    sessions_.sysfs_write(connection->node, connection->path, text);
  });
  return true;
}

}  // namespace driver
