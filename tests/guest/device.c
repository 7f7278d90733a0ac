#include "device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "registers.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
#define HUGE_PAGES 40u

static const struct layout kV2 = {2,           1ull << 44, 0x30FA0000, 0x30647010, 2, {HBM0, HBM1},
                                  16ull << 30, 32,         2,          1};
#define LAYOUT_V3(g)                                                                 \
  {                                                                                  \
    g, 1ull << 46, 0x06C84000, 0x06300010, 4,                                        \
        {0, 1ull << 38, 1ull << 47, 1ull << 47 | 1ull << 38}, 64ull << 30, 128, 4, 2 \
  }
static const struct layout kV3 = LAYOUT_V3(3), kV4 = LAYOUT_V3(4);

static const struct layout* layout_of(unsigned id) {
  switch (id) {
    case DEVICE_TRAINIUM1:
    case DEVICE_INFERENTIA2:
      return &kV2;
    case DEVICE_TRAINIUM2:
      return &kV3;
    case DEVICE_TRAINIUM3:
    case DEVICE_TRAINIUM3_OTHER:
      return &kV4;
    default:
      return NULL;
  }
}

static int open_file(const struct device* device, const char* file, int flags) {
  char path[128];
  snprintf(path, sizeof path, PCI_DEVICES "/%s/%s", device->name, file);
  const int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0) bail_out("cannot open %s: %s", path, strerror(errno));
  return fd;
}

static void write_one(int fd, const char* name) {
  if (write(fd, "1", 1) != 1) bail_out("cannot write 1 to %s: %s", name, strerror(errno));
  close(fd);
}

void device_poke(const struct device* device, const char* file) {
  write_one(open_file(device, file, O_WRONLY), file);
}

void bus_rescan(void) {
  write_one(open("/sys/bus/pci/rescan", O_WRONLY | O_CLOEXEC), "/sys/bus/pci/rescan");
}

// Lines of `resource` are: first address, last address, flags.
static void read_sizes(struct device* device) {
  FILE* file = fdopen(open_file(device, "resource", O_RDONLY), "r");
  for (int bar = 0; bar < 6; ++bar) {
    unsigned long long first = 0, last = 0, flags = 0;
    if (file == NULL || fscanf(file, "%llx %llx %llx", &first, &last, &flags) != 3)
      bail_out("cannot read the list of BARs");
    device->bar_size[bar] = first == 0 ? 0 : last - first + 1;
  }
  fclose(file);
}

unsigned device_index(const struct device* d, uint32_t routing_id) {
  static const uint8_t trn1[] = {0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10};
  static const uint8_t trn2[] = {0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10};
  if (d->id == DEVICE_INFERENTIA2) return routing_id;
  if (d->layout->generation == 2) return trn1[routing_id % 16] + routing_id / 16 * 16;
  return trn2[routing_id % 16];
}

static volatile uint8_t* map_bar(const struct device* device, int bar, uint64_t at,
                                 uint64_t bytes) {
  char file[16];
  snprintf(file, sizeof file, "resource%d", bar);
  const int fd = open_file(device, file, O_RDWR);
  void* mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
  if (mapped == MAP_FAILED) bail_out("cannot map BAR %d: %s", bar, strerror(errno));
  close(fd);
  return mapped;
}

static int by_name(const struct dirent** a, const struct dirent** b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

// All devices, by their place on the bus; `n` counts to MOST_DEVICES.
static unsigned find_all(struct device* devices) {
  struct dirent** names = NULL;
  const int count = scandir(PCI_DEVICES, &names, NULL, by_name);
  if (count < 0) bail_out("no " PCI_DEVICES);
  unsigned found = 0;
  for (int i = 0; i < count; ++i) {
    struct device d = {0};
    const bool is_device = names[i]->d_name[0] != '.' &&
                           snprintf(d.name, sizeof d.name, "%.15s", names[i]->d_name) > 0;
    free(names[i]);
    if (!is_device) continue;
    d.config = open_file(&d, "config", O_RDWR);
    d.vendor = (uint16_t)config_read(&d, 0, 2);
    d.id = (uint16_t)config_read(&d, 2, 2);
    d.layout = d.vendor == VENDOR_ID ? layout_of(d.id) : NULL;
    if (d.layout != NULL && found < MOST_DEVICES) {
      devices[found++] = d;
    } else {
      close(d.config);
    }
  }
  free(names);
  return found;
}

static uint64_t host_window;  // of the device that was opened last

static void open_registers(struct device* device) {
  host_window = device->layout->host_window;
  device->revision = (uint8_t)config_read(device, 8, 1);
  const bool elsewhere = device->revision == REVISION_QEMU && device->layout->generation == 2;
  device->register_bar = elsewhere ? 2 : 0;
  read_sizes(device);
  device_poke(device, "enable");
  command_bit(device, 1, true);
  command_bit(device, 2, true);
  if (device->bar_size[device->register_bar] == 0 || device->bar_size[4] == 0)
    bail_out("BAR %d or BAR 4 has no address", device->register_bar);
  device->registers =
      map_bar(device, device->register_bar, 0, device->bar_size[device->register_bar]);
}

bool device_open(struct device* device) {
  struct device all[MOST_DEVICES];
  const unsigned found = find_all(all);
  if (found > 1 || (found == 1 && all[0].layout->generation != 2))
    bail_out("%u devices; this test is for one of v2", found);
  if (found == 0) return false;
  *device = all[0];
  open_registers(device);
  device->hbm = map_bar(device, 4, 0, device->bar_size[4]);
  return true;
}

unsigned devices_count(void) {
  struct device all[MOST_DEVICES];
  const unsigned found = find_all(all);
  for (unsigned i = 0; i < found; ++i) close(all[i].config);
  return found;
}

void device_open_nth(struct device* device, unsigned n) {
  struct device all[MOST_DEVICES];
  const unsigned found = find_all(all);
  for (unsigned i = 0; i < found; ++i)
    if (i != n) close(all[i].config);
  if (n >= found) bail_out("there is no device %u", n);
  *device = all[n];
  open_registers(device);
}

volatile uint8_t* stack_map(const struct device* device, unsigned stack, uint64_t at,
                            size_t bytes) {
  const struct layout* layout = device->layout;
  // 1.2: drivers of a simulated v3 or v4 device take a quarter of the BAR.
  const bool quarter = device->revision == REVISION_QEMU && layout->generation != 2;
  const uint64_t stride = quarter ? device->bar_size[4] / 4 : layout->bar4_stride;
  return map_bar(device, 4, stack * stride + at, bytes);
}

void stack_unmap(volatile uint8_t* at, size_t bytes) {
  munmap((void*)at, bytes);
}

void device_close(struct device* device) {
  munmap((void*)device->registers, device->bar_size[device->register_bar]);
  if (device->hbm != NULL) munmap((void*)device->hbm, device->bar_size[4]);
  close(device->config);
}

uint32_t config_read(const struct device* device, unsigned offset, unsigned size) {
  uint32_t value = 0;
  if (pread(device->config, &value, size, offset) != (ssize_t)size)
    bail_out("cannot read configuration space at 0x%x", offset);
  return value;
}

void config_write(const struct device* device, unsigned offset, unsigned size, uint32_t value) {
  if (pwrite(device->config, &value, size, offset) != (ssize_t)size)
    bail_out("cannot write configuration space at 0x%x", offset);
}

void command_bit(const struct device* device, unsigned bit, bool on) {
  const uint32_t before = config_read(device, 4, 2);
  config_write(device, 4, 2, on ? before | 1u << bit : before & ~(1u << bit));
}

uint32_t reg_read(const struct device* device, uint32_t offset) {
  return *(const volatile uint32_t*)(device->registers + offset);
}

// What was written to memory before is there before the device sees this store.
void reg_write(const struct device* device, uint32_t offset, uint32_t value) {
  __sync_synchronize();
  *(volatile uint32_t*)(device->registers + offset) = value;
}

bool reg_wait(const struct device* device, uint32_t offset, uint32_t mask, uint32_t want,
              unsigned ms) {
  const uint64_t end = now_ns() + ms * 1000000ull;
  for (;;) {
    const bool late = now_ns() > end;
    if ((reg_read(device, offset) & mask) == want) return true;
    if (late) return false;
  }
}

// Huge pages, because only they are contiguous beyond 4 KiB. /proc/self/pagemap has one word for
// each 4 KiB: the page frame number in bits 54:0, "present" in bit 63.
static struct {
  uint8_t* base;
  uint64_t physical[HUGE_PAGES];
  size_t used;
} arena;

static void arena_make(void) {
  arena.base = mmap(NULL, (size_t)HUGE_PAGES * HUGE_PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
  if (arena.base == MAP_FAILED)
    bail_out("no %u huge pages of 2 MiB (/proc/sys/vm/nr_hugepages): %s", HUGE_PAGES,
             strerror(errno));
  const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  for (size_t page = 0; page < HUGE_PAGES; ++page) {
    const uintptr_t at = (uintptr_t)arena.base + page * HUGE_PAGE;
    uint64_t entry = 0;
    if (pread(map, &entry, sizeof entry, (off_t)(at / 4096 * sizeof entry)) != sizeof entry ||
        (entry >> 63) == 0 || (entry << 9) == 0)
      bail_out("/proc/self/pagemap does not say where memory is");
    arena.physical[page] = (entry & ((1ull << 55) - 1)) * 4096;
  }
  close(map);
  say("memory for DMA from physical address 0x%llx", (unsigned long long)arena.physical[0]);
}

struct memory memory_get(size_t bytes) {
  if (arena.base == NULL) arena_make();
  size_t at = (arena.used + 255) / 256 * 256;
  if (at / HUGE_PAGE != (at + bytes - 1) / HUGE_PAGE) at = (at / HUGE_PAGE + 1) * HUGE_PAGE;
  if (bytes > HUGE_PAGE || at + bytes > (size_t)HUGE_PAGES * HUGE_PAGE)
    bail_out("the test's own memory is used up");
  arena.used = at + bytes;
  memset(arena.base + at, 0, bytes);
  return (struct memory){arena.base + at,
                         host_window | (arena.physical[at / HUGE_PAGE] + at % HUGE_PAGE)};
}

void memory_give_back_all(void) {
  arena.used = 0;
}

void fill(void* to, size_t bytes, uint32_t seed) {
  uint8_t* at = to;
  uint32_t x = seed * 2654435761u | 1u;
  for (size_t i = 0; i < bytes; ++i) {  // xorshift32
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    at[i] = (uint8_t)x;
  }
}

// A BAR must be read in whole words, so no memcmp.
bool same(const volatile void* a, const void* b, size_t bytes) {
  const volatile uint32_t* left = a;
  const uint32_t* right = b;
  for (size_t i = 0; i < bytes / 4; ++i) {
    if (left[i] != right[i]) {
      say("differs at byte %zu: 0x%08x, expected 0x%08x", 4 * i, left[i], right[i]);
      return false;
    }
  }
  for (size_t i = bytes / 4 * 4; i < bytes; ++i) {
    if (((const volatile uint8_t*)a)[i] != ((const uint8_t*)b)[i]) {
      say("differs at byte %zu", i);
      return false;
    }
  }
  return true;
}

bool word_wait(const volatile uint32_t* word, uint32_t want, unsigned ms) {
  const uint64_t end = now_ns() + ms * 1000000ull;
  for (;;) {
    const bool late = now_ns() > end;
    for (int i = 0; i < 1000; ++i) {
      if (*word == want) {
        __sync_synchronize();
        return true;
      }
    }
    if (late) return false;
    sched_yield();
  }
}
