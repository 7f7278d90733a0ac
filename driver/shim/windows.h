// Mappings of device nodes in this process. Lookups take no lock, because the fault handler makes
// them.
#pragma once

#include <stdint.h>

namespace driver::shim {

struct Window {
  uint64_t start = 0;
  uint64_t length = 0;
  uint64_t token = 0;
  uint64_t offset = 0;         // of the mmap call
  uint64_t bar_offset = 0;     // of the first byte
  bool registers = false;      // stores may be carried to the device
  bool store_is_mmio = false;  // and are
};

bool add_window(const Window& window);  // false: table full
// Removes the window that is exactly [start, start + length).
bool remove_window(uint64_t start, uint64_t length, Window* removed);
bool find_mmio_window(uint64_t address, Window* found);
// A window that has an address of [start, start + length).
bool find_window(uint64_t start, uint64_t length, Window* found);
// The window that starts at `start` has changed as `to` says; false when there is none.
bool change_window(uint64_t start, const Window& to);

// Makes stores into register windows reach the device from now on; false if they cannot be decoded.
bool install_fault_handler();

}  // namespace driver::shim
