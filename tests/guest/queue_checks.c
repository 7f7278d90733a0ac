// How queues behave: orders of doorbells, packet shapes, barriers, several at once, stops and
// resets with work pending (spec/hw-registers.md 3.4, 3.6, 3.7, 3.13).
#include <string.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

#define SCRATCH (HBM1 + HBM_RESERVED)
#define A_WHILE_MS 5u  // in which a wrong device would have moved the data

static struct memory filled(size_t bytes, uint32_t seed) {
  const struct memory m = memory_get(bytes);
  fill(m.at, bytes, seed);
  return m;
}

static void check_doorbells(struct device* d) {
  struct queue q;
  queue_init(&q, d, 1, 4, 32);
  const struct memory from = filled(4096, 1), to = memory_get(4096), none = memory_get(4096);
  copy_add(&q, to.device, from.device, 4096);
  marker_add(&q);
  doorbell_rx(&q);
  ok(!marker_wait(&q, A_WHILE_MS) && same(to.at, none.at, 4096),
     "3.6: destinations without sources move nothing");
  ok_equal(queue_read(&q, false, Q_TAIL), POINTER(2, 1), "3.6: their tail is there");
  doorbell_tx(&q);
  ok(marker_wait(&q, PATIENCE_MS) && same(to.at, from.at, 4096), "3.6: S2M doorbell first");
  memset(to.at, 0, 4096);
  copy_add(&q, to.device, from.device, 4096);
  marker_add(&q);
  doorbell_tx(&q);
  ok(!marker_wait(&q, A_WHILE_MS) && same(to.at, none.at, 4096),
     "3.6: sources without destinations move nothing");
  doorbell_rx(&q);
  ok(marker_wait(&q, PATIENCE_MS) && same(to.at, from.at, 4096), "3.6: M2S doorbell first");
  memset(to.at, 0, 4096);
  for (int i = 0; i < 4; ++i) {  // one descriptor at a time
    copy_add(&q, to.device + 1024 * i, from.device + 1024 * i, 1024);
    doorbell_tx(&q);
    doorbell_rx(&q);
  }
  ok(queue_run(&q) && same(to.at, from.at, 4096), "3.6: doorbells while earlier work is in flight");
}

// FIRST and LAST make a packet; its bytes are one stream, however it is cut.
static void check_shapes(struct device* d) {
  struct queue q;
  queue_init(&q, d, 1, 5, 64);
  const struct memory from = filled(1000, 2), to = memory_get(2048);
  tx_add(&q, from.device, 100, FIRST, OP_COPY);
  tx_add(&q, from.device + 100, 200, 0, OP_COPY);
  tx_add(&q, from.device + 300, 33, LAST, OP_COPY);
  rx_add(&q, to.device, 333);
  ok(queue_run(&q) && same(to.at, from.at, 333) && to.at[333] == 0,
     "3.6: three sources, one destination");
  memset(to.at, 0, 2048);
  tx_add(&q, from.device, 1000, FIRST | LAST, OP_COPY);
  rx_add(&q, to.device, 601);
  rx_add(&q, to.device + 601, 399);
  ok(queue_run(&q) && same(to.at, from.at, 1000) && to.at[1000] == 0,
     "3.6: one source, two destinations");
  memset(to.at, 0, 2048);
  tx_add(&q, from.device, 10, FIRST, OP_COPY);
  tx_add(&q, from.device + 10, 90, LAST, OP_COPY);
  rx_add(&q, to.device, 50);
  rx_add(&q, to.device + 50, 50);
  ok(queue_run(&q) && same(to.at, from.at, 100) && to.at[100] == 0,
     "3.6: two sources, two destinations, cut elsewhere");
  memset(to.at, 0, 2048);
  tx_add(&q, from.device, 333, FIRST | LAST, OP_COPY);
  rx_add(&q, to.device, 500);
  tx_add(&q, from.device + 333, 100, FIRST | LAST, OP_COPY);
  rx_add(&q, to.device + 500, 100);
  ok(queue_run(&q) && same(to.at, from.at, 333) && to.at[333] == 0 &&
         same(to.at + 500, from.at + 333, 100),
     "3.6: a packet that ends early finishes its destination");
}

// Each copy reads what the one before it wrote; DMB holds it back until that is there.
static void check_dmb(struct device* d) {
  struct queue q;
  queue_init(&q, d, 2, 0, 64);
  const struct memory from = filled(MAX_DESCRIPTOR, 3), to = memory_get(MAX_DESCRIPTOR);
  uint64_t last = from.device;
  for (uint64_t i = 0; i < 16; ++i) {
    const uint64_t next = i == 15 ? to.device : SCRATCH + i * MAX_DESCRIPTOR;
    tx_add(&q, last, MAX_DESCRIPTOR, FIRST | LAST | DMB, OP_COPY);
    rx_add(&q, next, MAX_DESCRIPTOR);
    last = next;
  }
  ok(queue_run(&q) && same(to.at, from.at, MAX_DESCRIPTOR), "3.6: a chain of 16 copies with DMB");
}

// The marker must not pass the data, and every packet before the barrier is data.
static void check_barrier(struct device* d) {
  struct queue q;
  queue_init(&q, d, 2, 1, 64);
  const struct memory from = filled(16 * MAX_DESCRIPTOR, 4), to = memory_get(16 * MAX_DESCRIPTOR);
  bool good = true;
  for (int i = 0; i < 5 && good; ++i) {
    memset(to.at, 0, 16 * MAX_DESCRIPTOR);
    copy_add_all(&q, to.device, from.device, 16 * MAX_DESCRIPTOR - 1);
    good = queue_run(&q) && same(to.at, from.at, 16 * MAX_DESCRIPTOR - 1);
  }
  ok(good, "3.6: the marker after a write barrier comes after all data");
}

static void check_several(struct device* d) {
  struct queue q[4];
  struct memory from[4], to[4];
  for (unsigned i = 0; i < 4; ++i) {
    queue_init(&q[i], d, i < 2 ? 2 : 3, 8 + i, 64);
    from[i] = filled(4 * MAX_DESCRIPTOR, 10 + i);
    to[i] = memory_get(4 * MAX_DESCRIPTOR);
    copy_add_all(&q[i], to[i].device, from[i].device, 4 * MAX_DESCRIPTOR);
    marker_add(&q[i]);
  }
  for (int i = 0; i < 4; ++i) doorbell_rx(&q[i]);
  for (int i = 3; i >= 0; --i) doorbell_tx(&q[i]);
  for (int i = 0; i < 4; ++i)
    ok(marker_wait(&q[i], PATIENCE_MS) && same(to[i].at, from[i].at, 4 * MAX_DESCRIPTOR),
       "3.6: engine %u queue %u beside other queues", q[i].engine, q[i].number);
}

// A stopped queue takes doorbells and goes on when it is enabled.
static void check_quiesce(struct device* d) {
  struct queue q;
  queue_init(&q, d, 3, 0, 32);
  const struct memory from = filled(4096, 5), to = memory_get(4096), none = memory_get(4096);
  queue_write(&q, true, Q_CONFIG, CONFIG_DISABLED);
  queue_write(&q, false, Q_CONFIG, CONFIG_DISABLED);
  copy_add(&q, to.device, from.device, 4096);
  marker_add(&q);
  doorbell_rx(&q);
  doorbell_tx(&q);
  ok(!marker_wait(&q, A_WHILE_MS) && same(to.at, none.at, 4096), "3.7: a stopped queue is quiet");
  queue_write(&q, true, Q_CONFIG, CONFIG_ENABLED);
  queue_write(&q, false, Q_CONFIG, CONFIG_ENABLED);
  ok(marker_wait(&q, PATIENCE_MS) && same(to.at, from.at, 4096), "3.7: and goes on when enabled");
}

static void check_reset_pending(struct device* d) {
  struct queue q;
  queue_init(&q, d, 3, 1, 32);
  const struct memory from = filled(4096, 6), to = memory_get(4096), none = memory_get(4096);
  copy_add(&q, to.device, from.device, 4096);
  copy_add(&q, to.device, from.device, 4096);
  doorbell_tx(&q);
  queue_reset_half(&q, true);
  queue_reset_half(&q, false);
  ok(queue_read(&q, true, Q_TAIL) == POINTER(0, 1) && queue_read(&q, true, Q_HEAD) == POINTER(0, 1),
     "3.6: reset of a queue with work clears its pointers");
  q.rx.added = 2;
  doorbell_rx(&q);
  sleep_ms(A_WHILE_MS);
  ok(same(to.at, none.at, 4096), "3.6: the dropped work is not done");
  queue_restart(&q);
  copy_add(&q, to.device, from.device, 4096);
  ok(queue_run(&q) && same(to.at, from.at, 4096), "3.11: the queue works again");
}

// What the driver does when a process dies (3.13): a new ring while the old one is running; the old
// one is not touched any more.
static void check_reset_in_flight(struct device* d) {
  struct queue q;
  queue_init(&q, d, 3, 2, 1024);
  const struct memory from = filled(MAX_DESCRIPTOR, 7), to = memory_get(MAX_DESCRIPTOR);
  for (int i = 0; i < 1000; ++i) copy_add(&q, SCRATCH, from.device, MAX_DESCRIPTOR);
  doorbell_rx(&q);
  doorbell_tx(&q);
  volatile struct descriptor *old_tx = q.tx.ring, *old_rx = q.rx.ring;
  const struct memory rings = memory_get(2 * 64 * sizeof(struct descriptor));
  q.tx.ring = (volatile struct descriptor*)rings.at;
  q.rx.ring = q.tx.ring + 64;
  q.tx.ring_device = rings.device;
  q.rx.ring_device = rings.device + 64 * sizeof(struct descriptor);
  q.tx.length = q.rx.length = 64;
  queue_restart(&q);
  for (int i = 0; i < 1024; ++i) {
    old_tx[i].address = old_rx[i].address = UNMAPPED_DEVICE;
    old_tx[i].w0 = old_rx[i].w0 = 0xFFFFFFFF;
  }
  copy_add(&q, to.device, from.device, MAX_DESCRIPTOR);
  ok(queue_run(&q) && same(to.at, from.at, MAX_DESCRIPTOR),
     "3.13: a queue gets a new ring while the old one runs");
  const uint32_t state = reg_read(d, q.unit + M2S_STATE) | reg_read(d, q.unit + S2M_STATE);
  ok(!STATE_ABORTED(state), "3.7: its engine is well");
}

void check_queues(struct device* d) {
  if (!ok(reset_device(d), "8.2: device reset")) bail_out("no reset");
  for (unsigned e = 1; e < 4; ++e) udma_init_engine(d, e, true);
  check_doorbells(d);
  check_shapes(d);
  check_dmb(d);
  check_barrier(d);
  memory_give_back_all();
  check_several(d);
  check_quiesce(d);
  check_reset_pending(d);
  check_reset_in_flight(d);
  memory_give_back_all();
}

// Work that a reset of the guest ends: copies into memory that will be somebody else's then.
void leave_busy(struct device* d) {
  static struct queue q[8];
  for (unsigned i = 0; i < 8; ++i) {
    udma_init_engine(d, i, false);
    queue_init(&q[i], d, i, i, 8192);
    const struct memory to = memory_get(MAX_DESCRIPTOR);
    for (int n = 0; n < 8000; ++n) copy_add(&q[i], to.device, SCRATCH, MAX_DESCRIPTOR);
  }
  reg_write(d, NC_EVENTS(0) + SEM_SET(3), 0xBEEF);
  reg_write(d, MISC_RUNTIME, 0xBEEF);
  for (int i = 0; i < 8; ++i) {
    doorbell_rx(&q[i]);
    doorbell_tx(&q[i]);
  }
  ok_equal(reg_read(d, NC_EVENTS(0) + SEM_READ(3)), 0xBEEF, "engines 0 to 7 have 4 GiB to copy");
}
