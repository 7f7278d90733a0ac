#include "driver/node/connection.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/passed_fd.h"

namespace driver {

bool ClientProcess::alive() const {
  pollfd watched = {pidfd_.get(), POLLIN, 0};
  return poll(&watched, 1, 0) == 0;
}

bool Connection::send(const void* header, size_t header_size, const void* body, size_t size,
                      int pass_fd) {
  iovec parts[2] = {{const_cast<void*>(header), header_size}, {const_cast<void*>(body), size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  base::PassedFd passed;
  if (pass_fd >= 0) passed.attach(&message, pass_fd);
  ssize_t sent;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(header_size + size);
}

void Connection::reply(const wire::Header& request, const void* body, size_t size, int pass_fd) {
  wire::Header header = request;
  header.kind = wire::kReply;
  header.length = static_cast<uint32_t>(sizeof header + size);
  // The answer ends the request: the client may send the next one before send() has returned.
  busy.store(false, std::memory_order_release);
  if (!send(&header, sizeof header, body, size, pass_fd)) shut_down();
}

void Connection::reply(const wire::Header& request, int64_t result) {
  const wire::ReplyBody body = {result};
  reply(request, &body, sizeof body);
}

void Connection::send_text(const std::string& text) {
  if (!text.empty()) send(text.data(), text.size(), nullptr, 0, -1);
  shutdown(fd_.get(), SHUT_WR);
}

void Connection::send_event() {
  const char event = 1;
  send(&event, sizeof event, nullptr, 0, -1);
}

void Connection::shut_down() {
  shutdown(fd_.get(), SHUT_RDWR);
}

void Connection::mark_closed() {
  closed_.store(true, std::memory_order_release);
  const std::lock_guard<std::mutex> guard(memory_lock_);
  memory_arrived_.notify_all();
}

bool Connection::remote_memory(wire::Kind kind, uint64_t address, base::ByteSpan to,
                               base::ConstByteSpan from, std::chrono::milliseconds limit) {
  const size_t size = kind == wire::kMemoryRead ? to.size() : from.size();
  {
    const std::lock_guard<std::mutex> guard(memory_lock_);
    memory_expected_ = true;
    memory_done_ = false;
  }
  wire::Header header = {};
  header.magic = wire::kMagic;
  header.version = wire::kVersion;
  header.kind = kind;
  wire::MemoryBody body = {address, static_cast<uint32_t>(size), 0};
  std::vector<uint8_t> message(sizeof header + sizeof body + from.size());
  header.length = static_cast<uint32_t>(message.size());
  memcpy(message.data(), &header, sizeof header);
  memcpy(message.data() + sizeof header, &body, sizeof body);
  if (!from.empty()) memcpy(message.data() + sizeof header + sizeof body, from.data(), from.size());
  if (!send(message.data(), message.size(), nullptr, 0, -1)) return false;

  std::unique_lock<std::mutex> guard(memory_lock_);
  memory_arrived_.wait_for(guard, limit, [this] { return memory_done_ || closed(); });
  memory_expected_ = false;
  if (!memory_done_ || memory_answer_.ok != 1 || memory_answer_.address != address ||
      memory_answer_.size != size || memory_bytes_.size() != to.size()) {
    return false;
  }
  std::copy(memory_bytes_.begin(), memory_bytes_.end(), to.data());
  return true;
}

bool Connection::deliver_memory(const wire::MemoryBody& body, base::ConstByteSpan bytes) {
  const std::lock_guard<std::mutex> guard(memory_lock_);
  if (!memory_expected_ || memory_done_) return false;
  memory_answer_ = body;
  memory_bytes_.assign(bytes.begin(), bytes.end());
  memory_done_ = true;
  memory_arrived_.notify_all();
  return true;
}

ClientMemory::Outcome ClientMemory::direct(uint64_t address, void* local, size_t size,
                                           bool to_client) {
  auto* bytes = static_cast<char*>(local);
  size_t done = 0;
  while (done < size) {
    // A dead process's pid may already belong to somebody else.
    if (!process_.alive()) return Outcome::kFault;
    const iovec here = {bytes + done, size - done};
    const iovec there = {reinterpret_cast<void*>(address + done), size - done};
    const ssize_t moved = to_client ? process_vm_writev(process_.pid(), &here, 1, &there, 1, 0)
                                    : process_vm_readv(process_.pid(), &here, 1, &there, 1, 0);
    if (moved <= 0) {
      const bool refused = moved < 0 && (errno == EPERM || errno == ENOSYS);
      return refused ? Outcome::kRefused : Outcome::kFault;
    }
    done += static_cast<size_t>(moved);
  }
  return Outcome::kDone;
}

bool ClientMemory::remote(uint64_t address, base::ByteSpan to, base::ConstByteSpan from) {
  // Bounds how long a stopped client can hold the machine.
  constexpr std::chrono::milliseconds kLimit{2000};
  if (channel_ == nullptr) return false;
  const bool reading = from.empty();
  const size_t size = reading ? to.size() : from.size();
  for (size_t done = 0; done < size;) {
    const size_t part = std::min<size_t>(size - done, wire::kMaxMemoryPart);
    const bool ok = reading ? channel_->remote_memory(wire::kMemoryRead, address + done,
                                                      to.sub(done, part), {}, kLimit)
                            : channel_->remote_memory(wire::kMemoryWrite, address + done, {},
                                                      from.sub(done, part), kLimit);
    if (!ok) return false;
    done += part;
  }
  return true;
}

bool ClientMemory::read(uint64_t address, base::ByteSpan to) {
  if (to.empty()) return true;
  if (process_.direct_memory.load(std::memory_order_relaxed)) {
    const Outcome outcome = direct(address, to.data(), to.size(), false);
    if (outcome != Outcome::kRefused) return outcome == Outcome::kDone;
    process_.direct_memory.store(false, std::memory_order_relaxed);
  }
  return remote(address, to, {});
}

bool ClientMemory::write(uint64_t address, base::ConstByteSpan from) {
  if (from.empty()) return true;
  if (process_.direct_memory.load(std::memory_order_relaxed)) {
    const Outcome outcome = direct(address, const_cast<uint8_t*>(from.data()), from.size(), true);
    if (outcome != Outcome::kRefused) return outcome == Outcome::kDone;
    process_.direct_memory.store(false, std::memory_order_relaxed);
  }
  return remote(address, {}, from);
}

}  // namespace driver
