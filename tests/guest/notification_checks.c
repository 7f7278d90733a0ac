// Notification queues of CC-cores and compute engines, in host memory and in HBM
// (spec/hw-registers.md 5). What raises a notification and how an entry looks is the hardware
// contract's (docs/hardware-contract.md 3 to 5).
#include <string.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

struct entry {
  uint32_t header;  // phase [31], source [15:8], type [3:0]
  uint32_t payload;
  uint64_t timestamp;  // picoseconds
  uint64_t debug_id;
  uint32_t pc, info;
};
_Static_assert(sizeof(struct entry) == 32, "docs/hardware-contract.md 4");

#define PHASE_1 NOTIFY_PHASE

// The order of spec/hw-registers.md 5.3.
static void set_ring(const struct device* d, uint32_t block, unsigned set, uint64_t ring,
                     uint32_t bytes) {
  reg_write(d, block + NQ_SET(set) + NQ_BASE_HIGH, (uint32_t)(ring >> 32));
  reg_write(d, block + NQ_SET(set) + NQ_BASE_LOW, (uint32_t)ring);
  reg_write(d, block + NQ_SET(set) + NQ_SIZE, bytes);
}

static void load_program(const struct device* d, uint32_t cc) {
  static const uint32_t program[2][4] = {{CC_OP_NOTIFY, 0x00AB0000, 0, 0}, {CC_OP_DONE, 0, 0, 0}};
  for (uint32_t r = 0; r < 2; ++r) {
    for (uint32_t w = 0; w < 4; ++w) reg_write(d, cc + CC_PROGRAM + 16 * r + 4 * w, program[r][w]);
  }
  reg_write(d, cc + CC_OPERATION(3), 0);
}

// A CC-core runs a program of two records five times; the ring holds four entries.
static void check_notify(const struct device* d) {
  const uint32_t cc = TOPSP(1), block = TOPSP_NOTIFY(1);
  const struct memory ring = memory_get(4 * sizeof(struct entry));
  volatile struct entry* entries = (volatile struct entry*)ring.at;
  set_ring(d, block, 0, ring.device, 4 * sizeof(struct entry));
  load_program(d, cc);
  reg_write(d, cc + CC_CONTROL, CC_RUN);
  uint64_t last = 0;
  for (uint32_t n = 0; n < 5; ++n) {
    reg_write(d, cc + CC_TRIGGER, 3);
    const uint32_t phase = n < 4 ? PHASE_1 : 0;
    const volatile struct entry* e = &entries[n % 4];
    ok(word_wait(&e->header, phase | 1u << 8 | NOTIFY_TYPE_NOTIFY, PATIENCE_MS),
       "5: NOTIFY %u of a CC-core is in memory, phase %u", n, phase >> 31);
    ok_equal(e->payload, 0x00AB0000 | 3, "5: its payload");
    ok(e->timestamp > last, "5: its time is later than the last one's");
    last = e->timestamp;
    ok_equal(reg_read(d, block + NQ_SET(0) + NQ_HEAD), (n + 1) * 32 % 128, "5.2: head");
  }
  ok(reg_wait(d, cc + CC_STATUS, ~0u, CC_STATE_IDLE, PATIENCE_MS), "contract 5: it is idle again");
  set_ring(d, block, 0, 0, 0);
  reg_write(d, cc + CC_TRIGGER, 3);
  (void)reg_wait(d, cc + CC_STATUS, ~0u, CC_STATE_IDLE, PATIENCE_MS);
  sleep_ms(2);
  ok(entries[1].header >> 31 == 1, "5.2: a set of size 0 writes nothing");
  reg_write(d, cc + CC_CONTROL, CC_RESET);
}

static void check_cc_error(const struct device* d) {
  const uint32_t cc = TOPSP(5), block = TOPSP_NOTIFY(5);
  const struct memory ring = memory_get(64);
  set_ring(d, block, 0, ring.device, 64);
  reg_write(d, cc + CC_CONTROL, CC_RUN);
  reg_write(d, cc + CC_TRIGGER, 5000);  // beyond the table
  const volatile struct entry* e = (volatile struct entry*)ring.at;
  ok(word_wait(&e->header, PHASE_1 | 5u << 8 | NOTIFY_TYPE_ERROR, PATIENCE_MS),
     "5.1: ERROR of a CC-core whose operation does not exist");
  ok_equal(e->payload, CC_ERROR_OPERATION, "5: its payload is the error code");
  ok_equal(reg_read(d, cc + CC_STATUS), CC_STATE_ERROR, "contract 5: the CC-core has stopped");
  ok_equal(reg_read(d, cc + CC_ERROR_CODE), CC_ERROR_OPERATION, "contract 5: it says why");
  reg_write(d, cc + CC_CONTROL, CC_RESET);
  ok_equal(reg_read(d, cc + CC_STATUS), CC_STATE_RESET, "contract 5: its reset recovers");
}

// A compute engine whose program is no instruction; its ring is in HBM.
static void check_engine_error(const struct device* d, unsigned nc, unsigned engine) {
  const uint64_t program = HBM_RESERVED + 0x20000, ring = HBM_RESERVED + 0x21000;
  volatile uint32_t* words = (volatile uint32_t*)(d->hbm + program);
  volatile uint32_t* entry = (volatile uint32_t*)(d->hbm + ring);
  for (int i = 0; i < 16; ++i) words[i] = 0xFFFFFFFF;
  for (int i = 0; i < 32; ++i) entry[i] = 0;
  set_ring(d, NC_NOTIFY(nc), engine, ring, 128);
  const uint32_t control = NC_ENGINES(nc) + ENGINE(engine);
  reg_write(d, control + ENGINE_PROGRAM_LOW, (uint32_t)program);
  reg_write(d, control + ENGINE_PROGRAM_HIGH, 0);
  reg_write(d, control + ENGINE_PROGRAM_COUNT, 1);
  reg_write(d, control + ENGINE_CONTROL, ENGINE_START);
  ok(word_wait(entry, PHASE_1 | engine << 8 | NOTIFY_TYPE_ERROR, PATIENCE_MS),
     "5.1: ERROR of engine %u of NC %u, in HBM", engine, nc);
  ok_equal(entry[1], ENGINE_ERROR_INSTRUCTION, "5: its payload is the error code");
  ok_equal(reg_read(d, NC_NOTIFY(nc) + NQ_SET(engine) + NQ_HEAD), 32, "5.2: head");
  ok_equal(reg_read(d, control + ENGINE_STATUS), ENGINE_STATE_ERROR,
           "contract 3: the engine has stopped");
  reg_write(d, control + ENGINE_CONTROL, ENGINE_RESET);
  ok_equal(reg_read(d, control + ENGINE_STATUS), ENGINE_STATE_IDLE,
           "contract 3: its reset recovers");
}

void check_notifications(struct device* d) {
  if (!ok(reset_device(d), "8.2: device reset")) bail_out("no reset");
  check_notify(d);
  check_cc_error(d);
  check_engine_error(d, 0, 4);
  check_engine_error(d, 1, 0);
  memory_give_back_all();
}
