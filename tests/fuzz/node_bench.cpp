#include "tests/fuzz/node_bench.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "tests/fuzz/finding.h"

extern "C" ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);

namespace fuzz {

namespace wire = driver::wire;

namespace {

constexpr int kPatienceMs = 5000;  // of a server that is to answer at once
constexpr int kMaxDepth = 4;       // of tasks that wait inside each other

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

int connect_to(const sockaddr_un& address) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (fd >= 0 && ::connect(fd, generic, sizeof address) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

void pass(int socket, int fd) {
  uint8_t byte = fd >= 0 ? 1 : 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  (void)__real_sendmsg(socket, &message, MSG_NOSIGNAL);
}

// A packet and the descriptors that came along; the size, or at most 0 when there is none.
ssize_t take(int socket, uint8_t* to, size_t size, std::vector<base::UniqueFd>& fds, int flags) {
  iovec part{to, size};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  for (cmsghdr* each = n < 0 ? nullptr : CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    for (size_t k = 0; k < (each->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++k) {
      fds.emplace_back(base::load<int>(CMSG_DATA(each) + k * sizeof(int)));
    }
  }
  return n;
}

}  // namespace

// Tasks run at once, on the stack of whoever admits them; one that waits lets the next ones run.
class NodeBench::Executor final : public pcie::HostExecutor {
 public:
  void spawn(std::string /*name*/, std::function<void()> task) override {
    ++depth_;
    task();
    --depth_;
  }
  void delay(base::Ps time) override {
    now_ += time;
    others();
  }
  bool wait(const void* /*channel*/, base::Ps /*timeout*/) override {
    others();
    return false;
  }
  void wake(const void* /*channel*/) override {}
  base::Ps now() const override { return now_; }

  driver::RequestQueue* queue = nullptr;

 private:
  void others() {
    while (depth_ < kMaxDepth && queue != nullptr && queue->admit_one()) {
    }
  }
  int depth_ = 0;
  base::Ps now_ = 0;
};

// Knows its open files; moves memory of clients as their requests say.
class NodeDevice final : public driver::CharDevice {
 public:
  explicit NodeDevice(pcie::HostExecutor& executor) : executor_(executor) {
    auto file = base::make_memfd("node fuzz", kBytes);
    if (!file) found("no memory file");
    file_ = std::move(*file);
  }
  size_t open_files() const { return files_.size(); }

  std::vector<int> minors() const override { return {0, 3}; }
  base::Result<int> open(int minor, int flags, const driver::Caller&) override {
    if (minor != 0 && minor != 3) found("a device that does not exist is opened");
    if ((flags & O_EXCL) != 0) return base::Error{base::Fault::kUsage, EBUSY, "node", "busy"};
    files_.insert(++last_);
    return last_;
  }
  // The argument's bytes come back inverted; odd numbers wait in between.
  int ioctl(int file, uint32_t request, uint64_t arg, const driver::Caller& caller) override {
    check(file);
    std::vector<uint8_t> bytes(request >> 16 & 0x3FFF);
    if ((request & 1) != 0) bytes.resize(bytes.size() * 5);  // more than one part
    if (!caller.memory->read(arg, bytes)) return -EFAULT;
    if ((request & 2) != 0) executor_.delay(1000);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(~b);
    check(file);
    return caller.memory->write(arg, bytes) ? 0 : -EFAULT;
  }
  base::Result<driver::MmapTarget> mmap(int file, uint64_t offset, uint64_t length, bool,
                                        bool write, const driver::Caller&) override {
    check(file);
    if (offset >= kBytes || length > kBytes - offset) {
      return base::Error{base::Fault::kUsage, EINVAL, "node", "no memory there"};
    }
    driver::MmapTarget target{file_.get(), offset, length, write, false, 0};
    target.store_is_mmio = offset >= kBytes / 2;
    return target;
  }
  void munmap(int file, uint64_t, uint64_t, const driver::Caller&) override { check(file); }
  int mmio_write(int file, uint64_t, uint32_t value, const driver::Caller&) override {
    check(file);
    if ((value & 1) != 0) executor_.delay(1000);
    return 0;
  }
  void flush(int file, const driver::Caller&) override {
    check(file);
    executor_.delay(1000);
  }
  void release(int file) override {
    check(file);
    files_.erase(file);
  }
  std::vector<driver::SysfsFile> sysfs_files(int minor) const override {
    if (minor == 0) return {{"/sys/class/neuron_device/neuron0/core_count", 0444}};
    if (minor == 3) return {{"/sys/class/neuron_device/neuron3/note", 0644}};
    return {};
  }
  base::Result<std::string> sysfs_read(const std::string&) override { return text_; }
  base::Status sysfs_write(const std::string&, const std::string& text) override {
    text_ = text;
    ++changes_;
    return {};
  }
  driver::SysfsEvents sysfs_events(const std::string&) override { return {changes_, true}; }

 private:
  static constexpr uint64_t kBytes = 0x1'0000;
  void check(int file) const {
    if (files_.count(file) == 0) found("a call on a file that is not open");
  }

  pcie::HostExecutor& executor_;
  base::UniqueFd file_;
  std::set<int> files_;
  int last_ = 0;
  std::string text_ = "2\n";
  uint32_t changes_ = 0;
};

void Client::send(const std::vector<uint8_t>& packet) {
  if (!fd_.valid() || packet.empty()) return;
  (void)::send(fd_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Client::half_close() {
  if (fd_.valid()) ::shutdown(fd_.get(), SHUT_WR);
}

NodeBench& NodeBench::get() {
  static NodeBench bench;
  return bench;
}

NodeBench::NodeBench() : executor_(std::make_unique<Executor>()) {
  for (auto& device : devices_) device = std::make_unique<NodeDevice>(*executor_);
  driver::NodeServer::Params params;
  params.nodes = {devices_[0].get(), devices_[1].get()};
  params.identities = {{"node-0", "trn1.2xlarge"}};
  params.executor = executor_.get();
  auto server = driver::NodeServer::start(params);
  if (!server) found(server.error().message().c_str());
  server_ = std::move(*server);
  executor_->queue = &server_->requests();
  start_child();
}

NodeBench::~NodeBench() {
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

// Connects on demand and passes the socket on: its peer credentials are the child's.
void NodeBench::start_child() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) found("no socket pair");
  const sockaddr_un addresses[2] = {address_of(server_->socket_path()),
                                    address_of(server_->socket_path() + "-rw")};
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0) found("no child process");
  if (child_ == 0) {  // only system calls: the parent has threads
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    constexpr int kCommands = 3;  // the only descriptor beyond the standard ones
    if (ends[1] != kCommands && ::dup2(ends[1], kCommands) < 0) ::_exit(1);
    ::syscall(SYS_close_range, kCommands + 1, ~0u, 0);
    uint8_t which = 0;
    while (::read(kCommands, &which, 1) == 1) {
      const int fd = connect_to(addresses[which & 1]);
      pass(kCommands, fd);
      if (fd >= 0) ::close(fd);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  to_child_.reset(ends[0]);
}

base::UniqueFd NodeBench::connected(const std::string& path) const {
  return base::UniqueFd(connect_to(address_of(path)));
}

base::UniqueFd NodeBench::connected_by_child(bool attributes) {
  uint8_t which = attributes ? 1 : 0;
  if (::write(to_child_.get(), &which, 1) != 1) found("the child has gone");
  std::vector<base::UniqueFd> fds;
  if (take(to_child_.get(), &which, 1, fds, 0) != 1) found("the child does not answer");
  return fds.empty() ? base::UniqueFd() : std::move(fds.front());
}

void NodeBench::connect(Client& client, bool attributes, bool as_child) {
  client.fd_ = as_child ? connected_by_child(attributes)
                        : connected(server_->socket_path() + (attributes ? "-rw" : ""));
  client.pid_ = as_child ? child_ : ::getpid();
  if (!client.open()) found("the server does not accept connections");
}

wire::Header NodeBench::header(const Client& client, wire::Kind kind, size_t body) const {
  wire::Header header{};
  header.magic = wire::kMagic;
  header.version = wire::kVersion;
  header.length = static_cast<uint32_t>(sizeof header + body);
  header.kind = kind;
  header.pid = client.pid_;
  header.tid = 1;
  return header;
}

uint64_t NodeBench::token(uint8_t n) const {
  return n < tokens_.size() ? tokens_[n] : n == 0 || n > 250 ? n : tokens_.empty() ? 7 : tokens_[0];
}

// A new client is greeted when everything before has been looked at.
void NodeBench::hello() {
  Client client;
  connect(client, false, false);
  const wire::Header asked = header(client, wire::kHello, 0);
  std::vector<uint8_t> packet(sizeof asked);
  base::store(packet.data(), asked);
  client.send(packet);
  const int patience = 20;
  for (int waited = 0; waited < kPatienceMs; waited += patience) {
    while (server_->requests().admit_one()) {
    }
    pollfd readable{client.fd(), POLLIN, 0};
    if (::poll(&readable, 1, patience) == 1) return receive(client);
  }
  found("the server greets nobody any more");
}

void NodeBench::serve(std::vector<Client>& clients) {
  clients_ = &clients;
  for (int spins = 0;; ++spins) {
    int unread = 0;
    for (const Client& client : clients) {
      int bytes = 0;
      if (client.open() && ::ioctl(client.fd(), SIOCOUTQ, &bytes) == 0) unread += bytes;
    }
    while (server_->requests().admit_one()) {
    }
    if (unread == 0) break;
    if (spins > 100) ::usleep(1000);
    if (spins > 100 + kPatienceMs) found("the server does not read what it is sent");
    std::this_thread::yield();
  }
  hello();
  while (server_->requests().admit_one()) {
  }
  for (Client& client : clients) receive(client);
  clients_ = nullptr;
}

// What the server has sent: tokens of files that were opened, and requests for memory.
void NodeBench::receive(Client& client) {
  std::vector<uint8_t> packet(wire::kMaxMessage);
  for (int i = 0; client.open() && i < 64; ++i) {
    std::vector<base::UniqueFd> fds;
    const ssize_t n = take(client.fd(), packet.data(), packet.size(), fds, MSG_DONTWAIT);
    if (n <= 0) return;
    const auto size = static_cast<size_t>(n);
    if (size < sizeof(wire::Header)) continue;
    const auto head = base::load<wire::Header>(packet.data());
    const uint8_t* body = packet.data() + sizeof head;
    if (head.kind == wire::kReply && size == sizeof head + sizeof(wire::OpenReply)) {
      const auto reply = base::load<wire::OpenReply>(body);
      if (reply.result == 0) tokens_.push_back(reply.token);
    }
    if ((head.kind == wire::kMemoryRead || head.kind == wire::kMemoryWrite) &&
        size >= sizeof head + sizeof(wire::MemoryBody)) {
      answer(client, head, base::load<wire::MemoryBody>(body));
    }
  }
}

void NodeBench::answer_memory_requests() {
  if (clients_ == nullptr) return;
  for (Client& client : *clients_) {
    if (client.open() && client.pid_ != ::getpid()) receive(client);
  }
}

// Modes: 0 as asked, 1 refused, 2 another address, 3 too short, 4 too long, 5 leaves instead,
// 6 answers twice, 7 a broken packet.
void NodeBench::answer(Client& client, const wire::Header& asked, const wire::MemoryBody& body) {
  const uint8_t mode = answers_ % 8;
  if (mode == 5) return client.close();
  size_t bytes = asked.kind == wire::kMemoryRead ? std::min(body.size, wire::kMaxMemoryPart) : 0;
  if (mode == 3 && bytes > 0) --bytes;
  if (mode == 4) ++bytes;
  wire::MemoryBody result = body;
  result.ok = mode == 1 ? 0 : 1;
  result.address += mode == 2 ? 1 : 0;
  wire::Header head = header(client, wire::kMemoryData, sizeof result + bytes);
  if (mode == 7) head.length += 1;
  std::vector<uint8_t> packet(sizeof head + sizeof result + bytes, 0x5A);
  base::store(packet.data(), head);
  base::store(packet.data() + sizeof head, result);
  client.send(packet);
  if (mode == 6) client.send(packet);
}

ssize_t NodeBench::move_memory(pid_t pid, uint8_t* local, uint64_t remote, size_t size,
                               bool write) {
  errno = EPERM;
  if (pid != ::getpid()) return -1;
  errno = EFAULT;
  const uint64_t offset = remote - kWindow;
  if (remote < kWindow || offset >= kWindowBytes || accesses_ == 0) return -1;
  if (accesses_ != 0xFF) --accesses_;
  const size_t n = std::min<uint64_t>(size, kWindowBytes - offset);
  if (write) {
    std::memcpy(&window_[offset], local, n);
  } else {
    std::memcpy(local, &window_[offset], n);
  }
  return static_cast<ssize_t>(n);
}

void NodeBench::kill_child(std::vector<Client>& clients) {
  if (child_killed_) return;  // once per input is enough
  child_killed_ = true;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
  serve(clients);
  start_child();
}

void NodeBench::finish() {
  std::vector<Client> none;
  for (int spins = 0; server_->connections() != 0 || server_->requests().pending() != 0; ++spins) {
    while (server_->requests().admit_one()) {
    }
    if (spins > 100) ::usleep(1000);
    if (spins > 100 + kPatienceMs) found("connections outlive their clients");
    std::this_thread::yield();
  }
  hello();
  while (server_->requests().admit_one()) {
  }
  if (server_->open_files() != 0) found("files outlive their clients");
  if (!server_->in_flight().empty()) found("a request never ends");
  for (const auto& device : devices_) {
    if (device->open_files() != 0) found("the device is never released");
  }
  tokens_.clear();
  answers_ = 0;
  accesses_ = 0xFF;
  child_killed_ = false;
}

}  // namespace fuzz

extern "C" {

ssize_t __wrap_process_vm_readv(pid_t pid, const iovec* local, unsigned long, const iovec* remote,
                                unsigned long, unsigned long) {
  return fuzz::NodeBench::get().move_memory(pid, static_cast<uint8_t*>(local->iov_base),
                                            reinterpret_cast<uint64_t>(remote->iov_base),
                                            local->iov_len, false);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const iovec* local, unsigned long, const iovec* remote,
                                 unsigned long, unsigned long) {
  return fuzz::NodeBench::get().move_memory(pid, static_cast<uint8_t*>(local->iov_base),
                                            reinterpret_cast<uint64_t>(remote->iov_base),
                                            local->iov_len, true);
}

ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = __real_sendmsg(fd, message, flags);
  // A request for memory: the client answers before the server waits.
  driver::wire::Header header{};
  if (sent > 0 && message->msg_iov[0].iov_len >= sizeof header) {
    header = base::load<driver::wire::Header>(message->msg_iov[0].iov_base);
  }
  if (header.kind == driver::wire::kMemoryRead || header.kind == driver::wire::kMemoryWrite) {
    fuzz::NodeBench::get().answer_memory_requests();
  }
  return sent;
}

}  // extern "C"
