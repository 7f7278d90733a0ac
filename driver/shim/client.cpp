#include "driver/shim/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

#include "driver/shim/real.h"

namespace driver::shim {

Facts facts;

namespace {

constexpr int kSoCookie = 57;  // SO_COOKIE: a number that no other socket of this boot has

std::atomic<bool> device_opened{false};
std::atomic<uint32_t> next_serial{1};

int raw_close(int fd) {
  return static_cast<int>(syscall(SYS_close, fd));
}

int32_t current_tid() {
  return static_cast<int32_t>(syscall(SYS_gettid));
}

class KeepErrno {
 public:
  ~KeepErrno() { errno = saved_; }

 private:
  int saved_ = errno;
};

uint64_t cookie_of(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return getsockopt(fd, SOL_SOCKET, kSoCookie, &cookie, &size) == 0 ? cookie : 0;
}

int connect_to(const char* path, int type_flags) {
  char by_descriptor[32];
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, reachable(path, by_descriptor), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | type_flags, 0);
  if (fd < 0) return -errno;
  int result;
  do {
    result = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return fd;
  raw_close(fd);
  return -EIO;
}

wire::Header make_header(wire::Kind kind, uint64_t token, size_t body_size) {
  wire::Header header = {};
  header.magic = wire::kMagic;
  header.version = wire::kVersion;
  header.length = static_cast<uint32_t>(sizeof header + body_size);
  header.kind = kind;
  header.pid = getpid();
  header.tid = current_tid();
  header.node = facts.node;
  header.serial = next_serial.fetch_add(1, std::memory_order_relaxed);
  header.token = token;
  return header;
}

bool send_parts(int fd, const void* first, size_t first_size, const void* second,
                size_t second_size) {
  iovec parts[2] = {{const_cast<void*>(first), first_size},
                    {const_cast<void*>(second), second_size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t sent;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(first_size + second_size);
}

// Answers the server's request for a piece of this process's memory. The kernel checks the
// addresses, so a bad one is reported instead of killing the process.
bool serve_memory(int fd, const wire::Header& peeked) {
  wire::Header header;
  wire::MemoryBody body;
  const size_t prefix = sizeof header + sizeof body;
  char start[sizeof header + sizeof body];
  if (recv(fd, start, prefix, MSG_PEEK) != static_cast<ssize_t>(prefix)) return false;
  memcpy(&body, start + sizeof header, sizeof body);
  if (body.size > wire::kMaxMemoryPart) return false;
  void* target = reinterpret_cast<void*>(body.address);
  const bool reading = peeked.kind == wire::kMemoryRead;
  iovec parts[2] = {{start, prefix}, {target, reading ? 0 : body.size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t got = recvmsg(fd, &message, 0);
  body.ok = got == static_cast<ssize_t>(prefix + (reading ? 0 : body.size)) ? 1 : 0;
  const size_t payload = reading && body.ok != 0 ? body.size : 0;
  header = make_header(wire::kMemoryData, 0, sizeof body + payload);
  memcpy(start, &header, sizeof header);
  memcpy(start + sizeof header, &body, sizeof body);
  if (send_parts(fd, start, prefix, target, payload)) return true;
  if (errno != EFAULT) return false;
  body.ok = 0;
  header = make_header(wire::kMemoryData, 0, sizeof body);
  memcpy(start, &header, sizeof header);
  memcpy(start + sizeof header, &body, sizeof body);
  return send_parts(fd, start, prefix, nullptr, 0);
}

// A program may have made its device node, which is the socket, non-blocking.
bool wait_for_bytes(int fd) {
  pollfd waiting = {fd, POLLIN, 0};
  return errno == EINTR ||
         (errno == EAGAIN && (SHIM_REAL(poll)(&waiting, 1, -1) > 0 || errno == EINTR));
}

// Receives one answer of at most `size` bytes behind the header; false when the connection is gone.
bool receive_reply(int fd, void* reply, size_t size, int* passed_fd) {
  for (;;) {
    wire::Header header;
    ssize_t got;
    do {
      got = recv(fd, &header, sizeof header, MSG_PEEK);
    } while (got < 0 && wait_for_bytes(fd));
    if (got != sizeof header || header.magic != wire::kMagic) return false;
    if (header.kind == wire::kMemoryRead || header.kind == wire::kMemoryWrite) {
      if (!serve_memory(fd, header)) return false;
      continue;
    }
    if (header.kind != wire::kReply) return false;
    iovec parts[2] = {{&header, sizeof header}, {reply, size}};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got < static_cast<ssize_t>(sizeof header + sizeof(int64_t))) return false;
    const cmsghdr* rights = CMSG_FIRSTHDR(&message);
    if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
      int received;
      memcpy(&received, CMSG_DATA(rights), sizeof received);
      if (passed_fd != nullptr) {
        *passed_fd = received;
      } else {
        raw_close(received);
      }
    }
    return true;
  }
}

// Channels. A channel belongs to the process that opened it: a forked child replaces what it
// inherited. The cookie tells whether the program has closed our descriptor and reused its number.
struct Channel {
  enum State : int { kEmpty, kFree, kBusy };
  std::atomic<int> state{kEmpty};
  int fd = -1;
  uint64_t cookie = 0;
  pid_t pid = 0;
};
constexpr int kMaxChannels = 512;  // threads inside a request at one time
Channel channels[kMaxChannels];

bool is_channel(uint64_t cookie) {
  for (const Channel& channel : channels) {
    if (channel.state.load(std::memory_order_acquire) != Channel::kEmpty &&
        channel.cookie == cookie) {
      return true;
    }
  }
  return false;
}

int open_channel(wire::HelloReply* hello, int* page_fd) {
  const int fd = connect_to(facts.socket_path, SOCK_CLOEXEC);
  if (fd < 0) return fd;
  const wire::Header header = make_header(wire::kHello, 0, 0);
  hello->result = -EIO;
  if (!send_parts(fd, &header, sizeof header, nullptr, 0) ||
      !receive_reply(fd, hello, sizeof *hello, page_fd) || hello->result < 0) {
    raw_close(fd);
    return -EIO;
  }
  return move_high(fd);
}

// Where the host restricts process_vm_readv to descendants, the server is let in by name. Not
// inherited.
void admit_server() {
  prctl(PR_SET_PTRACER, static_cast<unsigned long>(facts.server_pid), 0, 0, 0);
}

bool usable(const Channel& channel) {
  return channel.fd >= 0 && channel.pid == getpid() && cookie_of(channel.fd) == channel.cookie;
}

bool renew(Channel& channel) {
  if (channel.fd >= 0 && cookie_of(channel.fd) == channel.cookie) raw_close(channel.fd);
  wire::HelloReply hello;
  channel.fd = open_channel(&hello, nullptr);
  if (channel.fd < 0) return false;
  channel.cookie = cookie_of(channel.fd);
  channel.pid = getpid();
  admit_server();
  return true;
}

Channel* take_channel() {
  for (const int wanted : {Channel::kFree, Channel::kEmpty}) {
    for (Channel& channel : channels) {
      int expected = wanted;
      if (!channel.state.compare_exchange_strong(expected, Channel::kBusy,
                                                 std::memory_order_acquire)) {
        continue;
      }
      if (wanted == Channel::kFree && usable(channel)) return &channel;
      if (renew(channel)) return &channel;
      channel.state.store(Channel::kEmpty, std::memory_order_release);
      return nullptr;
    }
  }
  return nullptr;
}

void give_back(Channel* channel, bool broken) {
  if (broken) {
    if (cookie_of(channel->fd) == channel->cookie) raw_close(channel->fd);
    channel->fd = -1;
    channel->cookie = 0;
  }
  channel->state.store(broken ? Channel::kEmpty : Channel::kFree, std::memory_order_release);
}

// Open device nodes by socket cookie, so that dup, dup2, fcntl and fork need no bookkeeping. A file
// that the table does not know, because the process inherited it through exec or the table wrapped,
// is asked.
struct Known {
  std::atomic<uint64_t> cookie{0};
  std::atomic<uint64_t> token{0};
  std::atomic<int32_t> minor{0};
  std::atomic<int32_t> flags{0};
};
constexpr uint32_t kMaxKnown = 1024;
Known known[kMaxKnown];
std::atomic<uint32_t> next_known{0};

void remember(uint64_t cookie, const DeviceFile& file) {
  Known& entry = known[next_known.fetch_add(1, std::memory_order_relaxed) % kMaxKnown];
  entry.cookie.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.token.store(file.token, std::memory_order_relaxed);
  entry.minor.store(file.minor, std::memory_order_relaxed);
  entry.flags.store(file.flags, std::memory_order_relaxed);
  entry.cookie.store(cookie, std::memory_order_release);
  device_opened.store(true, std::memory_order_relaxed);
}

bool recall(uint64_t cookie, DeviceFile* file) {
  const uint32_t used = next_known.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kMaxKnown && i < used; ++i) {
    const Known& entry = known[i];
    if (entry.cookie.load(std::memory_order_acquire) != cookie) continue;
    *file = {entry.token.load(std::memory_order_relaxed),
             entry.minor.load(std::memory_order_relaxed),
             entry.flags.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    return entry.cookie.load(std::memory_order_relaxed) == cookie;
  }
  return false;
}

bool identify(int fd, uint64_t cookie, DeviceFile* file) {
  sockaddr_un peer = {};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
      peer.sun_family != AF_UNIX || strcmp(peer.sun_path, facts.socket_path) != 0 ||
      is_channel(cookie)) {
    return false;
  }
  const wire::Header header = make_header(wire::kIdentify, 0, 0);
  wire::OpenReply reply = {};
  reply.result = -EIO;
  if (!send_parts(fd, &header, sizeof header, nullptr, 0) ||
      !receive_reply(fd, &reply, sizeof reply, nullptr) || reply.result < 0) {
    return false;
  }
  *file = {reply.token, reply.minor, reply.flags};
  remember(cookie, *file);
  return true;
}

uint32_t environment_number(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : static_cast<uint32_t>(strtoul(text, nullptr, 10));
}

__attribute__((constructor)) void connect_at_start() {
  const KeepErrno keep;
  const char* path = getenv("SOMA_SOCKET");
  if (path == nullptr || strlen(path) >= sizeof facts.socket_path) return;
  strcpy(facts.socket_path, path);
  strcpy(facts.attribute_path, path);
  strcat(facts.attribute_path, "-rw");
  facts.node = environment_number("SOMA_NODE");
  wire::HelloReply hello = {};
  int page_fd = -1;
  Channel& channel = channels[0];
  channel.fd = open_channel(&hello, &page_fd);
  if (channel.fd < 0 || page_fd < 0) return;
  channel.cookie = cookie_of(channel.fd);
  channel.pid = getpid();
  channel.state.store(Channel::kFree, std::memory_order_release);
  void* page = mmap(nullptr, sizeof(StatusLayout), PROT_READ, MAP_SHARED, page_fd, 0);
  raw_close(page_fd);
  if (page == MAP_FAILED) return;
  facts.page = static_cast<const StatusLayout*>(page);
  facts.server_pid = hello.server_pid;
  facts.major = hello.major;
  facts.minors = hello.minors;
  memcpy(facts.root, hello.sysfs_root, sizeof facts.root - 1);
  facts.root_length = strlen(facts.root);
  memcpy(facts.extra_paths, hello.paths, sizeof facts.extra_paths);
  facts.extra_count = hello.path_count;
  memcpy(facts.host_name, hello.host_name, sizeof facts.host_name - 1);
  facts.node_count = hello.node_count;
  const char* clock = getenv("SOMA_CLOCK");
  facts.virtual_clock = clock == nullptr || strcmp(clock, "host") != 0;
  char directory[wire::kMaxPath];
  facts.inside_tree = facts.root_length > 0 && getcwd(directory, sizeof directory) != nullptr &&
                      strncmp(directory, facts.root, facts.root_length) == 0;
  const char* sdk = getenv("SOMA_SDK");
  if (sdk != nullptr && strlen(sdk) < sizeof facts.sdk) strcpy(facts.sdk, sdk);
  admit_server();
  facts.active = facts.page->magic == kStatusMagic && facts.page->version == kStatusVersion;
}

}  // namespace

int move_high(int fd) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t wanted = limit.rlim_cur > 1024 ? 1000 : limit.rlim_cur * 3 / 4;
  const int high = static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, wanted));
  if (high < 0) return fd;
  raw_close(fd);
  return high;
}

int64_t call(wire::Kind kind, uint64_t token, const void* body, size_t size, void* reply,
             size_t reply_size, int* passed_fd) {
  const KeepErrno keep;
  if (!facts.active) return -EIO;
  Channel* channel = take_channel();
  if (channel == nullptr) return -EIO;
  const wire::Header header = make_header(kind, token, size);
  memset(reply, 0, reply_size);
  const bool ok = send_parts(channel->fd, &header, sizeof header, body, size) &&
                  receive_reply(channel->fd, reply, reply_size, passed_fd);
  give_back(channel, !ok);
  int64_t result = -EIO;
  if (ok) memcpy(&result, reply, sizeof result);
  return result;
}

int64_t call(wire::Kind kind, uint64_t token, const void* body, size_t size) {
  wire::ReplyBody reply;
  return call(kind, token, body, size, &reply, sizeof reply, nullptr);
}

bool device_file(int fd, DeviceFile* file) {
  if (!facts.active || fd < 0) return false;
  const KeepErrno keep;
  const uint64_t cookie = cookie_of(fd);
  if (cookie == 0) return false;
  return recall(cookie, file) || identify(fd, cookie, file);
}

int open_device(int minor, int flags) {
  const KeepErrno keep;
  if (minor < 0 || minor >= 64 || (facts.minors >> minor & 1) == 0) return -ENOENT;
  if ((flags & O_DIRECTORY) != 0) return -ENOTDIR;
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
  const int fd = connect_to(facts.socket_path, (flags & O_CLOEXEC) != 0 ? SOCK_CLOEXEC : 0);
  if (fd < 0) return fd;
  const wire::OpenBody body = {minor, flags};
  const wire::Header header = make_header(wire::kOpen, 0, sizeof body);
  wire::OpenReply reply = {};
  reply.result = -EIO;
  if (!send_parts(fd, &header, sizeof header, &body, sizeof body) ||
      !receive_reply(fd, &reply, sizeof reply, nullptr) || reply.result < 0) {
    raw_close(fd);
    return static_cast<int>(reply.result < 0 ? reply.result : -EIO);
  }
  remember(cookie_of(fd), {reply.token, reply.minor, reply.flags});
  if ((flags & O_NONBLOCK) != 0) syscall(SYS_fcntl, fd, F_SETFL, O_NONBLOCK);
  return fd;
}

int open_attribute(const char* path, int flags) {
  const KeepErrno keep;
  const int fd = connect_to(facts.attribute_path, (flags & O_CLOEXEC) != 0 ? SOCK_CLOEXEC : 0);
  if (fd < 0) return fd;
  wire::SysfsBody body = {};
  copy_path(&body, path);
  const bool readable = (flags & O_ACCMODE) == O_RDWR;
  const wire::Header header = make_header(wire::kSysfsOpen, readable ? 1 : 0, sizeof body);
  wire::ReplyBody reply = {-EIO};
  if (!send_parts(fd, &header, sizeof header, &body, sizeof body) ||
      !receive_reply(fd, &reply, sizeof reply, nullptr) || reply.result < 0) {
    raw_close(fd);
    return static_cast<int>(reply.result < 0 ? reply.result : -EIO);
  }
  return fd;
}

int open_watch(const char* path, uint32_t seen, bool* news) {
  const KeepErrno keep;
  const int fd = connect_to(facts.attribute_path, SOCK_CLOEXEC);
  if (fd < 0) return -1;
  wire::SysfsBody body = {};
  copy_path(&body, path);
  const wire::Header header = make_header(wire::kSysfsWatch, seen, sizeof body);
  wire::ReplyBody reply = {-EIO};
  if (!send_parts(fd, &header, sizeof header, &body, sizeof body) ||
      !receive_reply(fd, &reply, sizeof reply, nullptr) || reply.result < 0) {
    raw_close(fd);
    return -1;
  }
  *news = reply.result != 0;
  return move_high(fd);
}

void before_close(int fd) {
  DeviceFile file;
  if (device_file(fd, &file)) call(wire::kFlush, file.token, nullptr, 0);
}

bool uses_devices() {
  return device_opened.load(std::memory_order_relaxed);
}

// One that has ended and that nobody has reaped yet does not live.
bool server_alive() {
  const KeepErrno keep;
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, facts.server_pid, 0));
  if (fd < 0) return kill(facts.server_pid, 0) == 0 || errno == EPERM;
  pollfd ended = {fd, POLLIN, 0};
  const bool alive = SHIM_REAL(poll)(&ended, 1, 0) == 0;
  raw_close(fd);
  return alive;
}

}  // namespace driver::shim
