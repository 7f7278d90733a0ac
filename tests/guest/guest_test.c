// Drives an emulated Neuron device from inside a guest, with nothing but /sys/bus/pci, memory whose
// physical address is known, and the register specification: what a kernel driver's author has.
//
// usage: guest_test [--once | --each | --election | --leave-busy | --after-boot | --other-boot]
//   (nothing)      all checks, removal of the device and a new scan, all checks again, measurements
//   --once         all checks once
//   --each         every device there is, of any generation: probe, reset, copies
//   --election     that of a Trainium2 ultraserver, with guests on its other nodes
//   --leave-busy   gives the DMA engines work and ends: the guest is to be reset now
//   --after-boot   the device is as at power on; then all checks once
//   --other-boot   no device; exit status 0 at the first, third... boot since the machine's power
//   on
//
// Prints one line for each check and a verdict; exit status 0 when all passed.
#include <stdio.h>
#include <string.h>
#include <sys/io.h>

#include "check.h"
#include "registers.h"
#include "suites.h"

static void check_all(struct device* device) {
  static const struct {
    const char* name;
    void (*run)(struct device*);
  } suites[] = {{"PCI", check_pci},
                {"registers", check_registers},
                {"mailbox", check_mailbox},
                {"reset", check_reset},
                {"copies", check_copies},
                {"queues", check_queues},
                {"errors", check_dma_errors},
                {"semaphores and events", check_semaphores},
                {"notifications", check_notifications}};
  enum { kBehind = 400 << 20 };
  company_comes(device, (volatile uint32_t*)(device->hbm + kBehind), false);
  for (unsigned i = 0; i < sizeof suites / sizeof suites[0]; ++i) {
    const uint64_t begin = now_ns();
    memory_give_back_all();
    say("--- %s", suites[i].name);
    suites[i].run(device);
    say("%llu ms", (unsigned long long)(now_ns() - begin) / 1000000);
  }
  company_leaves();
  memory_give_back_all();
}

// A byte of the PC's battery-backed memory that nobody uses, ports 0x70 (index) and 0x71 (data).
static int other_boot(void) {
  enum { kIndexPort = 0x70, kDataPort = 0x71, kByte = 0x7E, kMark = 0xA5 };
  if (ioperm(kIndexPort, 2, 1) != 0) {
    perror("ioperm");
    return 2;
  }
  outb(kByte, kIndexPort);
  const int first = inb(kDataPort) != kMark;
  outb(kByte, kIndexPort);
  outb(first ? kMark : 0, kDataPort);
  return first ? 0 : 1;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(mode, "--other-boot") == 0) return other_boot();
  if (strcmp(mode, "--each") == 0) {
    check_each();
    return verdict();
  }
  if (strcmp(mode, "--election") == 0) {
    check_election();
    return verdict();
  }
  struct device device;
  if (!device_open(&device)) bail_out("no Trainium1 or Inferentia2 on the PCI bus");
  if (strcmp(mode, "--leave-busy") == 0) {
    leave_busy(&device);
    return verdict();
  }
  if (strcmp(mode, "--after-boot") == 0) check_after_boot(&device);
  check_all(&device);
  if (mode[0] == 0) {
    say("--- removal");
    check_removal(&device);
    check_all(&device);
    say("--- measurements");
    measure(&device);
  }
  device_close(&device);
  return verdict();
}
