#include "runtime/collectives/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/collectives/types.h"

namespace ccl::wire {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

base::Result<AddressList> resolve(const RootAddress& address, bool passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                             std::to_string(address.port).c_str(), &hints, &found);
  if (rc != 0) {
    return base::Error{base::Fault::kIo, kNrtFailure, "bootstrap",
                       "cannot resolve " + address.host + ": " + gai_strerror(rc)};
  }
  return AddressList(found, freeaddrinfo);
}

base::UniqueFd socket_for(const addrinfo& info) {
  base::UniqueFd fd(
      ::socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info.ai_protocol));
  const int on = 1;
  if (fd.valid()) setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

int try_listen(const addrinfo& info, base::UniqueFd* out) {
  constexpr int kBacklog = 1024;
  base::UniqueFd fd = socket_for(info);
  if (!fd.valid()) return errno;
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), info.ai_addr, info.ai_addrlen) != 0) return errno;
  if (::listen(fd.get(), kBacklog) != 0) return errno;
  *out = std::move(fd);
  return 0;
}

}  // namespace

base::Result<base::UniqueFd> listen_on(const RootAddress& address) {
  int error = 0;
  for (const bool any : {false, true}) {
    RootAddress where = address;
    if (any) where.host.clear();
    auto list = resolve(where, true);
    if (!list) return list.error();
    for (const addrinfo* info = list->get(); info != nullptr; info = info->ai_next) {
      base::UniqueFd fd;
      error = try_listen(*info, &fd);
      if (error == 0) return fd;
    }
    if (error != EADDRNOTAVAIL) break;
  }
  return base::Error{base::Fault::kIo, error, "bootstrap",
                     "cannot listen on " + address.host + ":" + std::to_string(address.port) +
                         ": " + std::strerror(error)};
}

base::Result<uint16_t> port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return base::errno_error("bootstrap", "getsockname");
  }
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

base::Result<base::UniqueFd> start_connect(const RootAddress& address) {
  auto list = resolve(address, false);
  if (!list) return list.error();
  int error = ECONNREFUSED;
  for (const addrinfo* info = list->get(); info != nullptr; info = info->ai_next) {
    base::UniqueFd fd = socket_for(*info);
    if (!fd.valid()) {
      error = errno;
      continue;
    }
    if (::connect(fd.get(), info->ai_addr, info->ai_addrlen) == 0 || errno == EINPROGRESS) {
      return fd;
    }
    error = errno;
  }
  return base::Error{base::Fault::kIo, error, "bootstrap",
                     "connect to " + address.host + ": " + std::strerror(error)};
}

int connected(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

base::UniqueFd accept_from(int listener) {
  base::UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int on = 1;
  if (fd.valid()) setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace ccl::wire
