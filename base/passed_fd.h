// A descriptor that travels with a message on a local socket (unix(7), SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <cstring>

namespace base {

class PassedFd {
 public:
  // The message carries `fd`; it must be sent while this lives.
  void attach(msghdr* message, int fd) {
    message->msg_control = control_;
    message->msg_controllen = sizeof control_;
    cmsghdr* rights = CMSG_FIRSTHDR(message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace base
