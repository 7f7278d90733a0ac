// Device reset, reset of one NeuronCore, and the reset register of simulators
// (spec/hw-registers.md 8).
#include <string.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

#define FIRST_LOOK_MS 100u  // 8.2: the driver's first look, and its interval
#define RESET_MS 30000u

// A word of the misc RAM, which is elsewhere on v3 and v4.
static uint32_t word(const struct device* d, uint32_t v2_offset) {
  return v2_offset - MISC + d->layout->misc;
}

static void request(const struct device* d, uint32_t kind) {
  reg_write(d, word(d, MISC_RESET), kind);
  reg_write(d, word(d, MISC_TRIGGER), 1);
}

static bool acknowledged(const struct device* d) {
  const uint64_t end = now_ns() + RESET_MS * 1000000ull;
  do {
    sleep_ms(FIRST_LOOK_MS);
    if (reg_read(d, word(d, MISC_RESET)) == 0)
      return reg_wait(d, word(d, MISC_STATUS), MISC_STATUS_BUSY, 0, 1000);
  } while (now_ns() < end);
  return false;
}

bool reset_device(const struct device* d) {
  const bool simulator = d->revision == REVISION_QEMU;
  const uint32_t qemu_reset = d->layout->qemu_reset;
  if (simulator) {  // 8.5: v2 makes the mailbox request as well
    const bool v2 = d->layout->generation == 2;
    reg_write(d, qemu_reset, v2 ? 1 : ~0u);
    if (!v2) return reg_wait(d, qemu_reset, ~0u, 0, RESET_MS);
  }
  request(d, RESET_DEVICE);
  return acknowledged(d) && (!simulator || reg_wait(d, qemu_reset, ~0u, 0, RESET_MS));
}

static uint32_t semaphores(unsigned block) {
  return block < NCS ? NC_EVENTS(block) : TOPSP(block - NCS);
}

static uint32_t notifications(unsigned block) {
  return block < NCS ? NC_NOTIFY(block) : TOPSP_NOTIFY(block - NCS);
}

// Leaves a trace in every NeuronCore (blocks 0, 1) and CC-core (2 to 7).
static void mark_blocks(const struct device* d) {
  for (unsigned b = 0; b < NCS + TOPSPS; ++b) {
    reg_write(d, semaphores(b) + SEM_SET(200), 100 + b);
    reg_write(d, semaphores(b) + EVENT(255), 1);
    const uint32_t set = notifications(b) + NQ_SET(40);
    reg_write(d, set + NQ_BASE_HIGH, (uint32_t)(HOST_WINDOW >> 32));
    reg_write(d, set + NQ_SIZE, 64);
  }
}

static bool is_marked(const struct device* d, unsigned b) {
  return reg_read(d, semaphores(b) + SEM_READ(200)) == 100 + b &&
         reg_read(d, semaphores(b) + EVENT(255)) == 1 &&
         reg_read(d, notifications(b) + NQ_SET(40) + NQ_SIZE) == 64;
}

static bool is_clear(const struct device* d, unsigned b) {
  return reg_read(d, semaphores(b) + SEM_READ(200)) == 0 &&
         reg_read(d, semaphores(b) + EVENT(255)) == 0 &&
         reg_read(d, notifications(b) + NQ_SET(40) + NQ_SIZE) == 0;
}

static void check_reset_values(const struct device* d, unsigned engine, unsigned q) {
  const uint32_t u = udma_unit(d, engine);
  for (int half = 0; half < 2; ++half) {
    const uint32_t at = u + (half == 0 ? M2S_QUEUE(q) : S2M_QUEUE(q));
    const char* name = half == 0 ? "M2S" : "S2M";
    ok_equal(reg_read(d, at + Q_CONFIG), CONFIG_DISABLED, "8.4: engine %u %s queue %u is disabled",
             engine, name, q);
    ok_equal(reg_read(d, at + Q_TAIL), POINTER(0, 1), "8.4: its tail is 0 with ring id 1");
    ok_equal(reg_read(d, at + Q_HEAD), POINTER(0, 1), "8.4: its head is 0 with ring id 1");
    ok_equal(reg_read(d, at + Q_LENGTH), 0, "8.4: it has no ring");
  }
  ok_equal(reg_read(d, u + M2S_QUEUE(q) + Q_RATE_LIMIT), 7, "3.4: the rate-limit mask is 0b111");
  ok_equal(reg_read(d, u + GROUP_M2S + GROUP_MASK), 0xFFFFFFFF, "3.9: M2S errors are masked");
  ok_equal(reg_read(d, u + GROUP_S2M + GROUP_MASK), 0xFFFFFFFF, "3.9: S2M errors are masked");
  ok_equal(reg_read(d, u + GROUP_M2S), 0, "3.9: no M2S error");
  ok_equal(reg_read(d, u + GROUP_S2M), 0, "3.9: no S2M error");
}

static void check_device_reset(struct device* d) {
  uint32_t identity[3], bars[6];
  for (uint32_t i = 0; i < 3; ++i)
    identity[i] = reg_read(d, i == 0 ? MISC_ROUTING_ID : MISC_SERIAL_LOW + 4 * (i - 1));
  for (unsigned i = 0; i < 6; ++i) bars[i] = config_read(d, 0x10 + 4 * i, 4);
  for (uint32_t i = 0; i < 7; ++i) reg_write(d, MISC_ELECTION + 4 * i, 0xE1EC0000 + i);
  mark_blocks(d);
  struct queue q;
  udma_init_engine(d, 7, false);
  queue_init(&q, d, 7, 15, 32);
  const uint64_t begin = now_ns();
  if (!ok(reset_device(d), "8.2: device reset is acknowledged")) bail_out("no reset");
  say("device reset took %llu ms", (unsigned long long)(now_ns() - begin) / 1000000);
  for (uint32_t i = 0; i < 3; ++i)
    ok_equal(reg_read(d, i == 0 ? MISC_ROUTING_ID : MISC_SERIAL_LOW + 4 * (i - 1)), identity[i],
             "8.4: identity word %u is preserved", i);
  bool kept = true;
  for (uint32_t i = 0; i < 7; ++i) kept &= reg_read(d, MISC_ELECTION + 4 * i) == 0xE1EC0000 + i;
  ok(kept, "7.1: election words are preserved");
  for (uint32_t i = 0; i < 7; ++i) reg_write(d, MISC_ELECTION + 4 * i, 0);
  kept = (config_read(d, 4, 2) & 6) == 6;
  for (unsigned i = 0; i < 6; ++i) kept &= config_read(d, 0x10 + 4 * i, 4) == bars[i];
  ok(kept, "8.4: configuration space and BARs are preserved");
  for (unsigned b = 0; b < NCS + TOPSPS; ++b)
    ok(is_clear(d, b), "8.4: semaphores, events, notification sets of %s %u are clear",
       b < NCS ? "NC" : "CC-core", b < NCS ? b : b - NCS);
  check_reset_values(d, 7, 15);
}

// The driver asks again when it has waited for long; the device is busy then.
static void check_repeated_request(const struct device* d) {
  request(d, RESET_DEVICE);
  request(d, RESET_DEVICE);
  ok(acknowledged(d), "8.2: a request that is repeated is accepted");
}

// NC 1 and its CC-cores 3 to 5; everything else goes on, the copy engine of NC 0 above all.
static void check_nc_reset(const struct device* d) {
  struct queue q;
  udma_init_engine(d, 32, true);
  queue_init(&q, d, 32, 0, 64);
  struct memory from = memory_get(4096), to = memory_get(4096);
  const uint64_t hbm = HBM1 + HBM_RESERVED;
  fill(from.at, 4096, 8);
  for (int i = 0; i < 40; ++i) {  // into the second lap
    copy_add(&q, hbm, from.device, 4096);
    if (!queue_run(&q)) break;
  }
  struct queue busy;  // of NC 1
  udma_init_engine(d, 17, true);
  queue_init(&busy, d, 17, 1, 2048);
  copy_add_all(&busy, hbm + (1u << 30), hbm + (2u << 30), 2000ull * MAX_DESCRIPTOR);
  doorbell_rx(&busy);
  doorbell_tx(&busy);
  mark_blocks(d);
  reg_write(d, MISC_RESET_MAP, RESET_MAP_NC1);
  request(d, RESET_NCS);
  ok(acknowledged(d), "8.2: reset of NC 1 is acknowledged");
  for (unsigned b = 0; b < NCS + TOPSPS; ++b) {
    const bool covered = b == 1 || b >= NCS + 3;
    ok(covered ? is_clear(d, b) : is_marked(d, b), "8.1: %s %u %s", b < NCS ? "NC" : "CC-core",
       b < NCS ? b : b - NCS, covered ? "is reset" : "is left alone");
  }
  const uint32_t tail = queue_read(&q, true, Q_TAIL);
  ok_equal(tail, POINTER(80 - 64, 2), "10.6: the copy queue of NC 0 keeps its pointers");
  copy_add(&q, to.device, hbm, 4096);
  ok(queue_run(&q) && same(to.at, from.at, 4096), "6.6: HBM survives, and the queue works on");
  udma_init_engine(d, 17, true);
  queue_restart(&busy);
  memset(to.at, 0, 4096);
  copy_add(&busy, to.device, hbm, 4096);
  ok(queue_run(&busy) && same(to.at, from.at, 4096),
     "10.6: an engine of NC 1 that was at work, too");
}

static void check_simulator_register(const struct device* d) {
  if (d->revision == REVISION_QEMU) {
    reg_write(d, NC_EVENTS(0) + SEM_SET(1), 1);
    reg_write(d, QEMU_RESET, 1);
    ok(reg_wait(d, QEMU_RESET, ~0u, 0, RESET_MS), "8.5: the QEMU reset register returns to 0");
    ok(reset_device(d), "8.5: QEMU reset with the mailbox request");
    ok_equal(reg_read(d, NC_EVENTS(0) + SEM_READ(1)), 0, "8.5: it is a device reset");
  } else {
    reg_write(d, NC_EVENTS(0) + SEM_SET(1), 1);
    reg_write(d, QEMU_RESET, 1);
    ok_equal(reg_read(d, QEMU_RESET), 0, "8.5: no QEMU reset register on silicon");
    ok_equal(reg_read(d, NC_EVENTS(0) + SEM_READ(1)), 1, "8.5: a store to it resets nothing");
  }
}

// A reset of the PC resets what is on its bus.
void check_after_boot(struct device* d) {
  for (unsigned e = 0; e < 8; ++e) check_reset_values(d, e, e);
  ok_equal(reg_read(d, NC_EVENTS(0) + SEM_READ(3)), 0, "PCI: semaphores are as at power on");
  ok_equal(reg_read(d, MISC_RUNTIME), 0, "PCI: misc RAM is as at power on");
}

void check_reset(struct device* d) {
  check_device_reset(d);
  check_repeated_request(d);
  check_nc_reset(d);
  check_simulator_register(d);
}
