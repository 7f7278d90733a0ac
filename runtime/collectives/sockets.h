// Non-blocking TCP sockets of the bootstrap.
#pragma once

#include "base/fd.h"
#include "runtime/collectives/bootstrap.h"

namespace ccl::wire {

// Listens on the address; port 0 picks one. Falls back to all interfaces if the address is not
// local.
base::Result<base::UniqueFd> listen_on(const RootAddress& address);
base::Result<uint16_t> port_of(int fd);

// Starts to connect; finish with connected() when the socket becomes writable.
base::Result<base::UniqueFd> start_connect(const RootAddress& address);
// 0 connected, else errno.
int connected(int fd);

// Accepted connection, non-blocking; invalid if there is none.
base::UniqueFd accept_from(int listener);

}  // namespace ccl::wire
