// What the PCI bus says about the device (spec/hw-registers.md 1.1 to 1.4), and what its switches
// do.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

static void check_identity(const struct device* d) {
  say("%s: %04x:%04x revision %02x", d->name, d->vendor, d->id, d->revision);
  ok(d->id == DEVICE_TRAINIUM1 || d->id == DEVICE_INFERENTIA2, "1.1: a v2 device");
  ok_equal(config_read(d, 0x0E, 1) & 0x7F, 0, "PCI: header type 0");
  ok(config_read(d, 0x0A, 2) != 0, "PCI: a class");
  ok_equal(config_read(d, 0x3D, 1), 0, "1.4: no interrupt pin");
  const uint32_t identity = config_read(d, 0, 4);
  config_write(d, 0, 4, ~identity);
  ok_equal(config_read(d, 0, 4), identity, "PCI: identity is read only");
}

static void check_bars(const struct device* d) {
  const int other = d->register_bar == 0 ? 2 : 0;
  ok(d->bar_size[d->register_bar] >= 1u << 30, "1.3: BAR %d holds the registers, 1 GiB",
     d->register_bar);
  ok_equal(d->bar_size[other], 0, "1.2: BAR %d is absent with revision %02x", other, d->revision);
  ok(d->bar_size[4] >= HBM_RESERVED * 2, "1.3: BAR 4 shows %llu MiB of HBM",
     (unsigned long long)d->bar_size[4] >> 20);
}

// Removal of a driver stores to registers after decode is off (10.7): nothing may come of it.
static void check_memory_decode(struct device* d) {
  reg_write(d, MISC_RUNTIME, 0x600D600D);
  command_bit(d, 1, false);
  reg_write(d, MISC_RUNTIME, 0xBAD0BAD0);
  command_bit(d, 1, true);
  ok_equal(reg_read(d, MISC_RUNTIME), 0x600D600D,
           "10.7: a store while memory decode is off has no effect");
}

// A function that is not a bus master does not touch memory.
static void check_bus_master(struct device* d) {
  struct queue q;
  udma_init_engine(d, 20, false);
  queue_init(&q, d, 20, 3, 32);
  struct memory from = memory_get(64), to = memory_get(64);
  fill(from.at, 64, 1);
  command_bit(d, 2, false);
  copy_add(&q, to.device, from.device, 64);
  marker_add(&q);
  doorbell_rx(&q);
  doorbell_tx(&q);
  ok(!marker_wait(&q, 20), "PCI: no DMA without bus mastering");
  command_bit(d, 2, true);
  ok(!marker_wait(&q, 20) || same(to.at, from.at, 64),
     "PCI: bus mastering that returns does no harm");
  ok(reset_device(d), "8.2: device reset afterwards");
}

void check_pci(struct device* d) {
  check_identity(d);
  check_bars(d);
  check_memory_decode(d);
  check_bus_master(d);
}

// No PCI-level reset takes place at removal, so memory and registers keep their contents (8.4).
void check_removal(struct device* d) {
  uint32_t pattern[16];
  fill(pattern, sizeof pattern, 77);
  for (int i = 0; i < 16; ++i) ((volatile uint32_t*)(d->hbm + HBM_RESERVED))[i] = pattern[i];
  reg_write(d, NC_EVENTS(1) + SEM_SET(9), 1234);
  const uint16_t id = d->id;
  device_poke(d, "remove");
  device_close(d);
  struct device gone;
  ok(!device_open(&gone), "sysfs: removed");
  bus_rescan();
  if (!ok(device_open(d), "sysfs: found again by a scan")) bail_out("no device");
  ok_equal(d->id, id, "sysfs: the same device");
  ok_equal(reg_read(d, NC_EVENTS(1) + SEM_READ(9)), 1234, "8.4: registers are preserved");
  ok(same(d->hbm + HBM_RESERVED, pattern, sizeof pattern), "8.4: HBM is preserved");
}
