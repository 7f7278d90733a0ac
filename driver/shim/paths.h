// Which path names belong to the virtual devices: /dev/neuronN, the class, device and module
// directories of the driver in sysfs, /proc/devices, and files that the server lists.
#pragma once

#include <stddef.h>

#include "driver/node/protocol.h"

namespace driver::shim {

struct Place {
  enum Kind { kHost, kDevice, kTree } kind = kHost;
  int minor = -1;                      // kDevice
  char path[2 * wire::kMaxPath] = {};  // kTree: the real file
  // kTree: the name without the private root
  const char* virtual_path() const;
};

// Classifies `path`, relative to `dirfd` when it is relative. Host paths cost a few comparisons.
// Creates the virtual sysfs on first use.
bool locate(int dirfd, const char* path, Place* place);
// The same, or null when `path` is the host's: the name to use in a call of libc that only follows
// it.
const char* redirect(int dirfd, const char* path, Place* place);
// Brings a file's text up to date before it is opened; 0 or -errno.
int refresh(const Place& place);
bool is_dev_directory(const char* path);
// Length of the private root when `path` lies inside it, else 0.
size_t root_prefix(const char* path);

}  // namespace driver::shim
