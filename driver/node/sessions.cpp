#include "driver/node/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>

#include "base/fd.h"
#include "driver/uapi/requests.h"

namespace driver {
namespace {

constexpr uint64_t kPageSize = 4096;  // spec/driver-ioctl.md Appendix C item 11

int64_t errno_of(const base::Error& error) {
  return -(error.code > 0 ? error.code : EIO);
}

// Unguessable, so that only holders of the file's socket and their children can name the file.
// Never reaches any output of the machine.
uint64_t random_token() {
  uint64_t token = 0;
  while (token == 0) {
    if (getrandom(&token, sizeof token, 0) != sizeof token) token = 0;
  }
  return token;
}

bool readable(int flags) {
  return (flags & O_ACCMODE) != O_WRONLY;
}
bool writable(int flags) {
  return (flags & O_ACCMODE) == O_RDWR;
}

// The memory of a process that has left.
class NoMemory final : public UserMemory {
 public:
  bool read(uint64_t /*address*/, base::ByteSpan /*to*/) override { return false; }
  bool write(uint64_t /*address*/, base::ConstByteSpan /*from*/) override { return false; }
};

// A descriptor that cannot be mapped writable.
base::UniqueFd read_only_clone(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return base::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

// Counts the call on its file and process, so that exit and release wait for it as they do in a
// kernel, where a call holds its file and a process dies only when its threads have left.
struct Sessions::Call {
  Call(Sessions& sessions, std::shared_ptr<File> file, Connection& channel,
       const wire::Header& header, const std::string& what)
      : sessions(sessions),
        file(std::move(file)),
        memory(*channel.process, &channel),
        caller{header.pid, header.tid, &memory},
        number(sessions.next_call_++) {
    ++this->file->in_flight;
    this->file->users[caller.tgid] = true;
    ++sessions.processes_[caller.tgid].in_flight;
    sessions.calls_[number] = what + " on neuron" + std::to_string(this->file->minor) +
                              " by process " + std::to_string(caller.tgid);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    sessions.calls_.erase(number);
    --file->in_flight;
    Process& process = sessions.processes_[caller.tgid];
    if (--process.in_flight == 0) {
      const bool died = process.died != nullptr;
      sessions.processes_.erase(caller.tgid);
      if (died) sessions.exit_process(caller.tgid);
    }
    sessions.release_if_done(file);
    sessions.changed();
  }

  Sessions& sessions;
  std::shared_ptr<File> file;
  ClientMemory memory;
  Caller caller;
  uint64_t number;
};

std::shared_ptr<Sessions::File> Sessions::find(const wire::Header& header) {
  const auto number = by_token_.find(header.token);
  if (number == by_token_.end()) return nullptr;
  return files_.at(number->second);
}

void Sessions::open(std::shared_ptr<Connection> connection, const wire::Header& header,
                    const wire::OpenBody& body) {
  CharDevice& device = *nodes_[header.node].device;
  const auto minors = device.minors();
  if (std::find(minors.begin(), minors.end(), body.minor) == minors.end()) {
    return answer(*connection, header, -ENOENT);
  }
  ClientMemory memory(*connection->process, nullptr);
  const Caller caller = {header.pid, header.tid, &memory};
  const auto opened = device.open(body.minor, body.flags, caller);
  if (!opened) {
    answer(*connection, header, errno_of(opened.error()));
    return;
  }
  auto file = std::make_shared<File>();
  file->number = next_number_++;
  file->token = random_token();
  file->device = &device;
  file->id = *opened;
  file->minor = body.minor;
  file->flags = body.flags;
  file->users[caller.tgid] = true;
  // The client may have gone while the driver waited for the device; its event found no file then.
  if (connection->closed()) {
    flush_as(*file, caller.tgid);
    device.release(file->id);
    return;
  }
  files_[file->number] = file;
  by_token_[file->token] = file->number;
  connection->file = file->number;
  connection->minor = file->minor;
  connection->open_flags = file->flags;
  connection->token = file->token;
  changed();
  const wire::OpenReply reply = {0, file->token, file->minor, file->flags};
  answer(*connection, header, &reply, sizeof reply);
}

void Sessions::ioctl(std::shared_ptr<Connection> channel, const wire::Header& header,
                     const wire::IoctlBody& body) {
  auto file = find(header);
  if (file == nullptr) return answer(*channel, header, -EBADF);
  int64_t result;
  {
    Call call(*this, file, *channel, header,
              "ioctl " + std::to_string(uapi::request_number(body.request)));
    result = file->device->ioctl(file->id, body.request, body.argument, call.caller);
  }
  answer(*channel, header, result);
}

void Sessions::mmap(std::shared_ptr<Connection> channel, const wire::Header& header,
                    const wire::MmapBody& body) {
  auto file = find(header);
  if (file == nullptr) return answer(*channel, header, -EBADF);
  const bool shared = (body.flags & MAP_TYPE) != MAP_PRIVATE;
  const bool write = (body.protection & PROT_WRITE) != 0;
  // What mprotect may allow later: stores into a private mapping reach nobody.
  const bool may_write = shared && writable(file->flags);
  // Checks that a kernel makes before it asks the driver (spec/driver-ioctl.md 4.1).
  if (!readable(file->flags) || (write && shared && !may_write)) {
    return answer(*channel, header, -EACCES);
  }
  if (body.length == 0 || body.offset % kPageSize != 0 || body.length > UINT64_MAX - kPageSize) {
    return answer(*channel, header, -EINVAL);
  }
  const uint64_t length = (body.length + kPageSize - 1) & ~(kPageSize - 1);
  Call call(*this, file, *channel, header, "mmap");
  const auto target = file->device->mmap(
      file->id, body.offset, length, (body.protection & PROT_READ) != 0, may_write, call.caller);
  if (!target) return answer(*channel, header, errno_of(target.error()));
  base::UniqueFd clone;
  const bool pass_writable = target->writable && !target->store_is_mmio;
  if (!pass_writable) {
    clone = read_only_clone(target->fd);
    if (!clone.valid()) return answer(*channel, header, -ENFILE);
  }
  wire::MmapReply reply = {};
  reply.fd_offset = target->fd_offset;
  reply.length = target->length;
  reply.bar_offset = target->mmio_bar_offset;
  reply.writable = pass_writable ? 1 : 0;
  reply.store_is_mmio = target->store_is_mmio ? 1 : 0;
  // Before the answer: the client may ask for the address's placement with its next request.
  if (body.address != 0) {
    file->device->mmap_done(file->id, body.address, body.offset, length, call.caller);
  }
  answer(*channel, header, &reply, sizeof reply, pass_writable ? target->fd : clone.get());
}

void Sessions::munmap(std::shared_ptr<Connection> channel, const wire::Header& header,
                      const wire::MunmapBody& body) {
  auto file = find(header);
  if (file == nullptr) return answer(*channel, header, -EBADF);
  {
    Call call(*this, file, *channel, header, "munmap");
    file->device->munmap(file->id, body.offset, body.length, call.caller);
  }
  answer(*channel, header, 0);
}

void Sessions::mmio_write(std::shared_ptr<Connection> channel, const wire::Header& header,
                          const wire::MmioWriteBody& body) {
  auto file = find(header);
  if (file == nullptr) return answer(*channel, header, -EBADF);
  if (body.bar_offset % sizeof(uint32_t) != 0) return answer(*channel, header, -EINVAL);
  int64_t result;
  {
    Call call(*this, file, *channel, header, "register store");
    result = file->device->mmio_write(file->id, body.bar_offset, body.value, call.caller);
  }
  answer(*channel, header, result);
}

void Sessions::flush(std::shared_ptr<Connection> channel, const wire::Header& header) {
  auto file = find(header);
  if (file == nullptr) return answer(*channel, header, -EBADF);
  {
    Call call(*this, file, *channel, header, "close");
    file->device->flush(file->id, call.caller);
    file->users[header.pid] = false;
  }
  answer(*channel, header, 0);
}

void Sessions::sysfs_refresh(std::shared_ptr<Connection> channel, const wire::Header& header,
                             const std::string& path) {
  const auto changes = nodes_[header.node].sysfs->refresh(path);
  const int64_t seen = changes ? int64_t{*changes} : errno_of(changes.error());
  answer(*channel, header, seen);
}

void Sessions::sysfs_watch(std::shared_ptr<Connection> watcher, const wire::Header& header) {
  const auto seen = static_cast<uint32_t>(header.token);
  const SysfsEvents events = nodes_[header.node].sysfs->events(watcher->path);
  const bool news = events.changes != seen && events.announced;
  watchers_.push_back({watcher, events.changes});
  answer(*watcher, header, news ? 1 : 0);
  if (news) watcher->send_event();
}

void Sessions::changed() {
  status_.changed();
  if (watchers_.empty()) return;
  size_t kept = 0;
  for (Watcher& watcher : watchers_) {
    if (watcher.connection->closed()) continue;
    const Connection& connection = *watcher.connection;
    const SysfsEvents events = nodes_[connection.node].sysfs->events(connection.path);
    if (events.changes != watcher.seen && events.announced) watcher.connection->send_event();
    watcher.seen = events.changes;
    watchers_[kept++] = watcher;
  }
  watchers_.resize(kept);
}

void Sessions::sysfs_open(std::shared_ptr<Connection> writer, const wire::Header& header,
                          const std::string& path, bool readable) {
  const auto text = nodes_[header.node].sysfs->read_writable(path);
  answer(*writer, header, text ? 0 : errno_of(text.error()));
  if (text && readable) writer->send_text(*text);
}

void Sessions::sysfs_write(uint32_t node, const std::string& path, const std::string& text) {
  // write(2) has returned long ago: a refusal can no longer be reported to the writer.
  const auto status = nodes_[node].sysfs->write(path, text);
  static_cast<void>(status.ok());
  changed();
}

void Sessions::file_closed(std::shared_ptr<Connection> connection) {
  const auto found = files_.find(connection->file);
  if (found == files_.end()) return;
  const std::shared_ptr<File> file = found->second;
  file->socket_closed = true;
  release_if_done(file);
}

void Sessions::flush_as(File& file, int32_t tgid) {
  NoMemory memory;
  file.device->flush(file.id, {tgid, tgid, &memory});
}

void Sessions::release_if_done(const std::shared_ptr<File>& file) {
  if (!file->socket_closed || file->in_flight > 0 || by_token_.erase(file->token) == 0) return;
  // The token is gone, so nothing new starts while flush waits inside the driver; the table of
  // users may change meanwhile.
  std::vector<int32_t> missing;
  for (auto& [tgid, used] : file->users) {
    if (used) missing.push_back(tgid);
    used = false;
  }
  for (const int32_t tgid : missing) flush_as(*file, tgid);
  file->device->release(file->id);
  files_.erase(file->number);
  changed();
}

void Sessions::process_died(std::shared_ptr<ClientProcess> process) {
  const auto busy = processes_.find(process->pid());
  if (busy != processes_.end()) {
    busy->second.died = std::move(process);
    return;
  }
  exit_process(process->pid());
}

void Sessions::exit_process(int32_t tgid) {
  // flush may suspend this task and other tasks may change the table: walk over a copy.
  std::vector<std::shared_ptr<File>> held;
  for (const auto& [number, file] : files_) {
    const auto user = file->users.find(tgid);
    if (user != file->users.end() && user->second) held.push_back(file);
  }
  for (const auto& file : held) {
    auto user = file->users.find(tgid);
    if (user == file->users.end() || !user->second) continue;
    user->second = false;
    ++file->in_flight;
    flush_as(*file, tgid);
    --file->in_flight;
    file->users.erase(tgid);
    release_if_done(file);
  }
  changed();
}

Sessions::NodeNames Sessions::names(uint32_t node) const {
  NodeNames names;
  for (const int minor : nodes_[node].device->minors()) {
    if (minor >= 0 && minor < 64) names.minors |= uint64_t{1} << minor;
  }
  names.extra_paths = nodes_[node].sysfs->extra_paths();
  return names;
}

std::vector<std::string> Sessions::in_flight() const {
  std::vector<std::string> names;
  for (const auto& [number, name] : calls_) names.push_back(name);
  return names;
}

}  // namespace driver
