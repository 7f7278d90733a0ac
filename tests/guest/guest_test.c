// Drives an emulated Neuron device from inside a guest, with nothing but /sys/bus/pci, memory whose
// physical address is known, and the register specification: what a kernel driver's author has.
//
// usage: guest_test [--once | --leave-busy | --after-boot | --other-boot]
//   (nothing)      all checks, removal of the device and a new scan, all checks again, measurements
//   --once         all checks once
//   --leave-busy   gives the DMA engines work and ends: the guest is to be reset now
//   --after-boot   the device is as at power on; then all checks once
//   --other-boot   no device; exit status 0 at the first, third... boot since the machine's power
//   on
//
// Prints one line for each check and a verdict; exit status 0 when all passed.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <unistd.h>

#include "check.h"
#include "registers.h"
#include "suites.h"

// On a guest with several processors another one uses the device all the while: it reads a register
// and writes behind what the checks use of HBM. What the checks do must not suffer.
static atomic_bool company_leaves;
static void* keep_company(void* argument) {
  enum { kBurst = 20, kBehind = 400 << 20 };
  const struct device* device = argument;
  for (uint32_t turn = 0; !atomic_load(&company_leaves); ++turn) {
    for (unsigned i = 0; i < kBurst; ++i) {
      (void)reg_read(device, MISC_SERIAL_LOW);
      ((volatile uint32_t*)(device->hbm + kBehind))[i] = turn;
    }
    sleep_ms(1);
  }
  return NULL;
}

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
  pthread_t company;
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  say("%ld processors", processors);
  atomic_store(&company_leaves, false);
  if (processors > 1 && pthread_create(&company, NULL, keep_company, device) != 0)
    bail_out("cannot start a thread");
  for (unsigned i = 0; i < sizeof suites / sizeof suites[0]; ++i) {
    const uint64_t begin = now_ns();
    memory_give_back_all();
    say("--- %s", suites[i].name);
    suites[i].run(device);
    say("%llu ms", (unsigned long long)(now_ns() - begin) / 1000000);
  }
  atomic_store(&company_leaves, true);
  if (processors > 1) pthread_join(company, NULL);
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
