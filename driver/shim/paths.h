// Which path names belong to the virtual devices: /dev/neuronN, the class, device and module
// directories of the driver in sysfs, /proc/devices, and files that the server lists.
#pragma once

#include <stddef.h>

#include "driver/node/protocol.h"

namespace driver::shim {

constexpr unsigned kNodeMode = 0666;  // the package's udev rule (spec/driver-ioctl.md 1.1)

struct Place {
  enum Kind { kHost, kDevice, kTree } kind = kHost;
  int minor = -1;  // kDevice
  int error = 0;   // kDevice: why the name leads nowhere
  // kTree: the real file. kDevice: a file that stands for the node where there must be one; what
  // somebody did to the node's mode and owner is kept by it, so it may be absent.
  char path[2 * wire::kMaxPath] = {};
  // kTree: the name without the private root
  const char* virtual_path() const;
};

// Classifies `path`, relative to `dirfd` when it is relative. Host paths cost a few comparisons.
// Creates the virtual sysfs on first use.
bool locate(int dirfd, const char* path, Place* place);
// The same, or null when `path` is the host's: the name to use in a call of libc that only follows
// it.
const char* redirect(int dirfd, const char* path, Place* place);
// "/dev/neuron12" gives 12, anything else -1.
int device_minor(const char* path);
// Makes the file that stands for a node; false with errno.
bool make_stand_in(const Place& place);
// One number per file, by whichever of its names.
uint64_t inode_of(const Place& place);
// Brings a file's text up to date; how often its value has changed, or -errno.
int64_t refresh(const Place& place);
bool is_dev_directory(const char* path);
// Length of the private root when `path` lies inside it, else 0.
size_t root_prefix(const char* path);

}  // namespace driver::shim
