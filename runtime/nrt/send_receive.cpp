#include "runtime/nrt/send_receive.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "runtime/collectives/sockets.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// IPv4 in its IPv6 form, so that both can be compared.
using Ip = in6_addr;

std::optional<Ip> parse_ip(const std::string& text) {
  Ip ip{};
  if (inet_pton(AF_INET6, text.c_str(), &ip) == 1) return ip;
  return inet_pton(AF_INET6, ("::ffff:" + text).c_str(), &ip) == 1 ? std::optional<Ip>(ip)
                                                                   : std::nullopt;
}

std::optional<Ip> peer_of(int connection) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  if (storage.ss_family == AF_INET6) return reinterpret_cast<sockaddr_in6&>(storage).sin6_addr;
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(storage).sin_addr, text, sizeof text);
  return parse_ip(text);
}

// Only those can be bound.
bool is_of_this_host(const Ip& ip) {
  base::UniqueFd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = ip;
  if (fd.valid()) {
    return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  if (!IN6_IS_ADDR_V4MAPPED(&ip)) return false;
  fd.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in old{};
  old.sin_family = AF_INET;
  std::memcpy(&old.sin_addr, &ip.s6_addr[12], sizeof old.sin_addr);
  return fd.valid() && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&old), sizeof old) == 0;
}

// A host may be reached by one of its addresses and answer from another if it is this one.
bool same_host(const std::string& wanted, int connection) {
  const auto a = parse_ip(wanted);
  const auto b = peer_of(connection);
  if (!a || !b) return false;
  return std::memcmp(&*a, &*b, sizeof *a) == 0 || (is_of_this_host(*a) && is_of_this_host(*b));
}

class TensorMemory final : public TransferMemory {
 public:
  TensorMemory(TensorView view, uint64_t offset) : view_(std::move(view)), offset_(offset) {}
  base::Status read(uint64_t offset, base::ByteSpan to) override {
    return read_tensor(view_, offset_ + offset, to);
  }
  base::Status write(uint64_t offset, base::ConstByteSpan from) override {
    return write_tensor(view_, offset_ + offset, from);
  }

 private:
  TensorView view_;
  uint64_t offset_;
};

base::Error bad_handle(const char* what) {
  return error(NRT_INVALID_HANDLE, std::string("The ") + what + " is NULL or not alive");
}

}  // namespace

// ---- Cores ----

base::Result<SendReceive::End*> SendReceive::enabled_end(int lnc) {
  const int64_t index = int64_t{lnc} - first_;
  if (index < 0 || index >= static_cast<int64_t>(ends_.size())) {
    return error(NRT_FAILURE,
                 "Core " + std::to_string(lnc) + " of the host is not of this process");
  }
  End& end = ends_[static_cast<size_t>(index)];
  if (!end.enabled) {
    return error(NRT_FAILURE,
                 "Send and receive are not initialized on core " + std::to_string(lnc));
  }
  return &end;
}

base::Status SendReceive::enable(int lnc) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t index = int64_t{lnc} - first_;
  if (index < 0 || index >= static_cast<int64_t>(ends_.size())) {
    return error(NRT_FAILURE,
                 "Core " + std::to_string(lnc) + " of the host is not of this process");
  }
  End& end = ends_[static_cast<size_t>(index)];
  if (end.enabled || end.broken) {
    return error(NRT_FAILURE, end.enabled ? "Send and receive are already initialized on this core"
                                          : "An earlier close of this core has failed");
  }
  const uint32_t port = limits_.port + static_cast<uint32_t>(lnc);
  if (port > UINT16_MAX) return error(NRT_FAILURE, "The port of this core would be above 65535");
  // Of both families, where the host has both.
  auto listener = ccl::wire::listen_on({"::", static_cast<uint16_t>(port)});
  if (!listener) listener = ccl::wire::listen_on({"0.0.0.0", static_cast<uint16_t>(port)});
  if (!listener) return error(NRT_FAILURE, listener.error().message(), base::Fault::kIo);
  end.listener = std::move(*listener);
  end.enabled = true;
  return {};
}

base::Status SendReceive::disable(int lnc) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = enabled_end(lnc);
  if (!found) return found.error();
  meet(*found);
  const auto index = static_cast<uint32_t>(*found - ends_.data());
  size_t unfinished = 0;
  for (auto it = channels_.begin(); it != channels_.end();) {
    if (it->second.end != index) {
      ++it;
      continue;
    }
    const auto ready = it->second.object->connected();
    if (!ready || !*ready || !it->second.object->idle()) ++unfinished;
    it = channels_.erase(it);
  }
  for (auto it = requests_.begin(); it != requests_.end();) {
    it = it->second.end == index ? requests_.erase(it) : std::next(it);
  }
  **found = {};
  if (unfinished == 0) return {};
  (*found)->broken = true;
  return error(NRT_FAILURE, std::to_string(unfinished) +
                                " communicators were not connected or had unfinished requests");
}

// Bytes of a receive are written before it is reported.
base::Status SendReceive::flush(int lnc) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = enabled_end(lnc);
  return found ? base::Status() : base::Status(found.error());
}

// ---- Channels ----

base::Result<const void*> SendReceive::open(bool sender, const char* ip, int peer, int lnc) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = enabled_end(lnc);
  if (!found) return found.error();
  End& end = **found;
  if (ip == nullptr || !parse_ip(ip)) {
    return error(NRT_FAILURE, "The address of the peer is neither IPv4 nor IPv6");
  }
  if (peer < 0 || peer + uint32_t{limits_.port} > UINT16_MAX) {
    return error(NRT_FAILURE, "The peer has no core " + std::to_string(peer));
  }
  if (end.channels >= kMaxChannels) {
    return error(NRT_RESOURCE,
                 "The core has " + std::to_string(kMaxChannels) + " communicators already");
  }
  const auto number = static_cast<uint32_t>(peer);
  std::shared_ptr<PeerChannel> channel;
  if (sender) {
    std::weak_ptr<PeerChannel>& last = end.last_sender[{ip, number}];
    channel =
        std::make_shared<PeerChannel>(ip, number, static_cast<uint32_t>(lnc), limits_, last.lock());
    last = channel;
  } else {
    channel = std::make_shared<PeerChannel>(limits_);
    end.wanted.push_back({ip, number, channel});
  }
  ++end.channels;
  channels_[channel.get()] = {static_cast<uint32_t>(&end - ends_.data()), channel};
  return channel.get();
}

// Gives connections that have come to the ends that want them, oldest first.
void SendReceive::meet(End* end) {
  while (end->listener.valid()) {
    base::UniqueFd arrival = ccl::wire::accept_from(end->listener.get());
    if (!arrival.valid()) break;
    end->arrivals.push_back(std::move(arrival));
  }
  std::vector<base::UniqueFd> waiting;
  for (base::UniqueFd& arrival : end->arrivals) {
    const auto sender = peek_sender(arrival.get());
    if (!sender) continue;  // closed
    const auto wanted = std::find_if(end->wanted.begin(), end->wanted.end(), [&](const Wanted& w) {
      return *sender && w.peer == **sender && same_host(w.ip, arrival.get());
    });
    if (wanted == end->wanted.end()) {
      waiting.push_back(std::move(arrival));
      continue;
    }
    wanted->channel->attach(std::move(arrival));
    end->wanted.erase(wanted);
  }
  end->arrivals = std::move(waiting);
}

base::Result<bool> SendReceive::connected(const void* channel) {
  std::shared_ptr<PeerChannel> object;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = channels_.find(channel);
    if (at == channels_.end()) return bad_handle("communicator");
    meet(&ends_[at->second.end]);
    object = at->second.object;
  }
  return object->connected();
}

// ---- Requests ----

base::Result<const void*> SendReceive::start(const void* channel, bool send, const TensorView& view,
                                             uint64_t offset, uint64_t length) {
  Request request;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = channels_.find(channel);
    if (at == channels_.end() || at->second.object->sender() != send) {
      return bad_handle("communicator");
    }
    request.end = at->second.end;
    request.channel = at->second.object;
  }
  if (base::Status s = check_range(view, offset, length); !s.ok()) {
    return error(NRT_FAILURE, s.error().what);
  }
  auto transfer = request.channel->start(std::make_unique<TensorMemory>(view, offset), length);
  if (!transfer) return transfer.error();
  request.transfer = *transfer;
  const std::lock_guard<std::mutex> lock(mutex_);
  const void* handle = transfer->get();
  requests_[handle] = std::move(request);
  return handle;
}

base::Result<std::optional<uint64_t>> SendReceive::finished(const void* handle) {
  Request request;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = requests_.find(handle);
    if (at == requests_.end()) return bad_handle("request");
    request = at->second;
  }
  if (!request.channel->advance(*request.transfer)) return std::optional<uint64_t>();
  if (!request.transfer->status.ok()) return request.transfer->status.error();
  const std::lock_guard<std::mutex> lock(mutex_);
  requests_.erase(handle);
  return std::optional<uint64_t>(request.transfer->moved);
}

}  // namespace nrt
