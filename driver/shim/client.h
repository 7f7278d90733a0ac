// The process's connection to the device-node server. Everything here may be called from any
// thread, from a signal handler and in a forked child: no locks, no allocation, errno untouched
// unless stated.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "driver/node/protocol.h"
#include "driver/node/virtual_clock.h"

namespace driver::shim {

// Set once, by the library's constructor.
struct Facts {
  bool active = false;  // a server has answered
  bool virtual_clock = false;
  uint32_t node = 0;
  int32_t server_pid = 0;
  uint32_t major = 0;
  uint64_t minors = 0;
  const StatusLayout* page = nullptr;
  char socket_path[108] = {};
  char attribute_path[112] = {};
  char root[wire::kMaxPath] = {};
  size_t root_length = 0;
  char host_name[64] = {};
  uint32_t node_count = 0;
  char extra_paths[2048] = {};
  uint32_t extra_count = 0;
  char sdk[wire::kMaxPath] = {};  // where the SDK's programs and libraries lie; empty: the host's
  bool inside_tree = false;       // the working directory is in the virtual sysfs
};
extern Facts facts;

// Sends a request on a free channel and waits for the answer, which starts with an int64_t result.
// Returns that result, or -EIO when the server is gone. A descriptor that travels with the answer
// goes to *passed_fd.
int64_t call(wire::Kind kind, uint64_t token, const void* body, size_t size, void* reply,
             size_t reply_size, int* passed_fd);
int64_t call(wire::Kind kind, uint64_t token, const void* body, size_t size);

// Fills a path field; a longer name than any of ours is cut and then unknown to the server.
inline void copy_path(wire::SysfsBody* to, const char* from) {
  size_t i = 0;
  for (; i + 1 < sizeof to->path && from[i] != 0; ++i) to->path[i] = from[i];
  to->path[i] = 0;
}

struct DeviceFile {
  uint64_t token;
  int32_t minor;
  int32_t flags;
};
// Whether `fd` is an open device node, of this process or inherited.
bool device_file(int fd, DeviceFile* file);
// open(2) of /dev/neuron<minor>: a descriptor, or -errno.
int open_device(int minor, int flags);
// open(2) of a sysfs attribute for writing.
int open_attribute(const char* path, int flags);
// A socket of the server's that is readable after a change of the attribute that pollers are told
// of, from the `seen`th on; -1. *news: it has changed already.
int open_watch(const char* path, uint32_t seen, bool* news);
// Before the last step of close(2) or dup2(2) on any descriptor: tells the driver about a device
// node.
void before_close(int fd);
// Moves a descriptor out of the way of programs that expect small numbers or close a range of them.
int move_high(int fd);
// Before the process changes its user.
void keep_sockets();
// A name by which the server's socket `path` can be reached.
const char* reachable(const char* path, char (&by_descriptor)[32]);
// True once this process has opened a device node.
bool uses_devices();
// False when the server has died.
bool server_alive();

}  // namespace driver::shim
