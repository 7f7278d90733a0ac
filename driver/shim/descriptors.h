// Which descriptor numbers of this process may be ours: sysfs attributes, and device nodes as far
// as poll(2) is concerned. A number is only a hint, because the program may close it behind our
// back: whoever goes by it asks what is behind the descriptor now. Numbers from kDescriptors on are
// not tracked; an attribute there is read as it was when it was opened.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "driver/shim/paths.h"

namespace driver::shim {

constexpr int kDescriptors = 4096;

struct Descriptor {
  // What the status page said before the attribute's text was fetched: generation and changes.
  std::atomic<uint64_t> text_of{0};
  std::atomic<uint32_t> events{0};  // changes of the attribute that its reader has seen
  std::atomic<bool> ours{false};
  std::atomic<bool> read{false};  // what happened before the first read is news to poll(2)
  std::atomic<int> watch{-1};     // socket that is readable when there is news
  std::atomic<int32_t> watch_pid{0};
};

extern Descriptor descriptors[kDescriptors];
extern std::atomic<bool> any_descriptor;  // this process has had one of ours

// The one check that others pay.
inline Descriptor* noted(int fd) {
  if (!any_descriptor.load(std::memory_order_relaxed)) return nullptr;
  if (static_cast<unsigned>(fd) >= static_cast<unsigned>(kDescriptors)) return nullptr;
  Descriptor& descriptor = descriptors[fd];
  return descriptor.ours.load(std::memory_order_acquire) ? &descriptor : nullptr;
}

void note_descriptor(int fd);
void note_attribute(int fd, uint64_t text_of, int64_t events);
// After dup(2) and the like.
void note_copy(int from, int to);
void forget_descriptor(int fd);

// What the status page says now; 0 is never an answer.
uint64_t page_state();

// Whether a noted descriptor is a file of the tree, or of the node's place in it (O_PATH).
bool tree_file(int fd, Place* place);

// Before a read at `position` (-1: where the descriptor stands): a read from the start of an
// attribute makes a new text, as sysfs does. 0 or -errno of the attribute.
int renew_text(int fd, int64_t position);

// A socket that poll(2) may look at instead of the attribute: readable when it has changed. -1:
// there is news already, or nobody who could tell.
int watch_of(int fd, const Place& place);

}  // namespace driver::shim
