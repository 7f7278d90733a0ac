// A host outside this process: a guest whose accesses arrive on a socket. The loop of the attached
// machine waits for poll_fd() and calls serve(); both are called on the machine's kernel thread.
#pragma once

#include "base/error.h"

namespace driver::qemu {

class FrontEnd {
 public:
  virtual ~FrontEnd() = default;

  // Readable when serve() has something to do; -1: not at the moment. Asked before every wait, so
  // it may change (a listening socket, then its connection).
  virtual int poll_fd() const = 0;
  // Handles what has arrived, without blocking. False: the host is gone and does not come back. An
  // error: it broke the protocol; the front end serves nothing more.
  virtual base::Result<bool> serve() = 0;
};

}  // namespace driver::qemu
