// The device through sysfs: configuration space and BARs; and host memory that it can reach by DMA.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where the generations differ (spec/hw-registers.md 2.2 to 2.5, 8.5).
struct layout {
  unsigned generation;
  uint64_t host_window;
  uint32_t misc, qemu_reset;  // in the register BAR
  unsigned stacks;
  uint64_t hbm[4];        // device addresses
  uint64_t bar4_stride;   // between the stacks in BAR 4, but for the revision of a simulator
  unsigned engines;       // on the compute side
  unsigned copy_engines;  // numbered behind them
  unsigned copy_queues;   // of each that drivers use
};

struct device {
  const struct layout* layout;
  char name[16];  // of its directory in /sys/bus/pci/devices
  uint16_t vendor, id;
  uint8_t revision;
  int register_bar;  // 0, or 2 with the revision of a simulator (spec/hw-registers.md 1.2)
  uint64_t bar_size[6];
  volatile uint8_t* registers;
  volatile uint8_t* hbm;  // BAR 4 of v2: HBM 0 from its start
  int config;             // descriptor of the configuration space
};

// Finds the one v2 device and maps its BARs; false when there is none. Anything else that is wrong
// ends the program.
bool device_open(struct device* device);
#define MOST_DEVICES 64u
// Any generation: how many there are, in the order of the bus.
unsigned devices_count(void);
// What drivers call a device of a host that they do not know by its name
// (spec/hw-registers.md 1.5).
unsigned device_index(const struct device* device, uint32_t routing_id);
// Opens the n-th, without HBM.
void device_open_nth(struct device* device, unsigned n);
// Maps `bytes` of BAR 4 where it shows a stack from `at` on; both are whole pages.
volatile uint8_t* stack_map(const struct device* device, unsigned stack, uint64_t at, size_t bytes);
void stack_unmap(volatile uint8_t* at, size_t bytes);
void device_close(struct device* device);
// Writes "1" to a file in the device's directory (remove, enable).
void device_poke(const struct device* device, const char* file);
void bus_rescan(void);

uint32_t config_read(const struct device* device, unsigned offset, unsigned size);
void config_write(const struct device* device, unsigned offset, unsigned size, uint32_t value);
// Bit of the command register (PCI 3.0, 6.2.2): 1 memory, 2 bus master.
void command_bit(const struct device* device, unsigned bit, bool on);

uint32_t reg_read(const struct device* device, uint32_t offset);
void reg_write(const struct device* device, uint32_t offset, uint32_t value);
// Reads until (value & mask) == want; false after `ms`.
bool reg_wait(const struct device* device, uint32_t offset, uint32_t mask, uint32_t want,
              unsigned ms);

// A piece of physically contiguous, zeroed memory.
struct memory {
  uint8_t* at;
  uint64_t device;  // its address as descriptors and mailbox words have it
};
#define HUGE_PAGE (2u << 20)
// At most HUGE_PAGE, aligned to 256 bytes. Memory is given back all at once.
struct memory memory_get(size_t bytes);
void memory_give_back_all(void);

void fill(void* to, size_t bytes, uint32_t seed);  // pseudo random bytes
bool same(const volatile void* a, const void* b, size_t bytes);
bool word_wait(const volatile uint32_t* word, uint32_t want, unsigned ms);
