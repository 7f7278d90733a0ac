// Sockets on the loopback interface, for tests in which processes or threads meet there.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/fd.h"

namespace sockets {

// A socket bound to `port`, or not valid if that is taken.
inline base::UniqueFd bound_to(uint16_t port) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

// A socket bound to a port that was free.
inline base::UniqueFd bound() {
  base::UniqueFd fd = bound_to(0);
  EXPECT_TRUE(fd.valid());
  return fd;
}

inline uint16_t port_of(const base::UniqueFd& fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

// A port that is free now.
inline uint16_t free_port() {
  return port_of(bound());
}

// The first of two such ports in a row, below those that others are given: processes begin to look
// at places of their own.
inline uint16_t free_ports() {
  constexpr uint32_t kFirst = 10000;
  constexpr uint32_t kCount = 20000;
  static uint32_t next = static_cast<uint32_t>(::getpid()) * 2654435761U;
  for (uint32_t tries = 0; tries < kCount; ++tries) {
    const auto port = static_cast<uint16_t>(kFirst + next++ * 2 % kCount);
    const base::UniqueFd one = bound_to(port);
    const base::UniqueFd two = bound_to(static_cast<uint16_t>(port + 1));
    if (one.valid() && two.valid()) return port;
  }
  ADD_FAILURE() << "no free ports";
  return 0;
}

}  // namespace sockets
