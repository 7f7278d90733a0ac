// Semaphores and events, by the CPU and by DMA, and doorbells rung by DMA
// (spec/hw-registers.md 3.6, 4).
#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

static uint32_t block_of(unsigned b) {
  return b < NCS ? NC_EVENTS(b) : TOPSP(b - NCS);
}

static void check_semaphore(const struct device* d, uint32_t block, const char* name, unsigned n) {
  const uint32_t i = 255;
  reg_write(d, block + SEM_SET(i), 100);
  reg_write(d, block + SEM_INC(i), 7);
  reg_write(d, block + SEM_DEC(i), 2);
  ok_equal(reg_read(d, block + SEM_READ(i)), 105, "4: %s %u: set, increment, decrement", name, n);
  reg_write(d, block + SEM_READ(i), 999);
  ok_equal(reg_read(d, block + SEM_READ(i)), 105, "4: a store to the read alias has no effect");
  reg_write(d, block + SEM_SET(i), 1);
  reg_write(d, block + SEM_DEC(i), 3);
  ok_equal(reg_read(d, block + SEM_READ(i)), (uint32_t)-2, "4: semaphores go below zero");
  reg_write(d, block + SEM_INC(i), 2);
  ok_equal(reg_read(d, block + SEM_READ(i)), 0, "4: and come back");
  ok_equal(reg_read(d, block + SEM_READ(i - 1)), 0, "4: its neighbour is untouched");
}

static void check_events(const struct device* d, uint32_t block, const char* name, unsigned n) {
  reg_write(d, block + EVENT(17), 1);
  ok(reg_read(d, block + EVENT(17)) == 1 && reg_read(d, block + EVENT(18)) == 0,
     "4: %s %u: event is set", name, n);
  reg_write(d, block + EVENT(17), 0);
  ok_equal(reg_read(d, block + EVENT(17)), 0, "4: event is cleared");
  const uint32_t gap[] = {SEM_GAP, 0x800, 0xFFC};
  bool quiet = true;
  for (int i = 0; i < 3; ++i) {
    reg_write(d, block + gap[i], 0xFFFFFFFF);
    quiet &= reg_read(d, block + gap[i]) == 0;
  }
  ok(quiet, "4: words of the gap read 0 and ignore stores");
}

// The word that a signal copies stays in memory until it is done, hence one word for each.
static void check_signals(struct device* d) {
  struct queue q;
  queue_init(&q, d, 32, 1, 64);
  const struct memory words = memory_get(64 * 4);
  const uint32_t nc = NC_EVENTS(1), cc = TOPSP(4);
  const struct {
    uint32_t offset, value;
  } signals[] = {{nc + SEM_SET(5), 1000}, {nc + SEM_INC(5), 5}, {nc + SEM_DEC(5), 7},
                 {cc + SEM_INC(6), 1},    {cc + SEM_INC(6), 1}, {cc + SEM_INC(6), 1},
                 {nc + EVENT(9), 1}};
  for (unsigned i = 0; i < sizeof signals / sizeof signals[0]; ++i) {
    const struct memory word = {words.at + 4 * i, words.device + 4 * i};
    signal_add(&q, word, signals[i].value, signals[i].offset);
  }
  // Back into host memory: DMA reads registers, too.
  copy_add(&q, words.device + 200, BAR0_DEVICE_BASE + nc + SEM_READ(5), 4);
  q.tx.ring[q.tx.index - 1].w0 |= DMB;
  ok(queue_run(&q), "3.6: signals by DMA");
  ok_equal(reg_read(d, nc + SEM_READ(5)), 998, "3.6: set, increment and decrement by DMA");
  ok_equal(reg_read(d, cc + SEM_READ(6)), 3, "3.6: three increments of a CC-core's semaphore");
  ok_equal(reg_read(d, nc + EVENT(9)), 1, "3.6: an event by DMA");
  ok_equal(((volatile uint32_t*)words.at)[50], 998, "3.6: a semaphore read by DMA");
}

// How programs synchronise: data, barrier, increment. The data are there when the count is.
static void check_signal_after_data(struct device* d) {
  struct queue q;
  queue_init(&q, d, 32, 3, 64);
  const uint32_t bytes = 20 * MAX_DESCRIPTOR;
  const struct memory from = memory_get(bytes), to = memory_get(bytes), word = memory_get(4);
  fill(from.at, bytes, 2);
  copy_add_all(&q, to.device, from.device, bytes);
  q.tx.ring[q.tx.index - 1].w1 = OP_COPY_BARRIER;
  signal_add(&q, word, 1, NC_EVENTS(0) + SEM_INC(40));
  doorbell_rx(&q);
  doorbell_tx(&q);
  const bool counted = reg_wait(d, NC_EVENTS(0) + SEM_READ(40), ~0u, 1, PATIENCE_MS);
  ok(counted && same(to.at, from.at, bytes), "3.6: an increment comes after the data before it");
}

// One queue copies doorbell counts into the tail registers of another.
static void check_dma_doorbell(struct device* d) {
  struct queue worker, starter;
  udma_init_engine(d, 14, true);
  queue_init(&worker, d, 14, 8, 32);
  queue_init(&starter, d, 33, 2, 32);
  const struct memory from = memory_get(3000), to = memory_get(3000), words = memory_get(8);
  fill(from.at, 3000, 4);
  copy_add(&worker, to.device, from.device, 3000);
  marker_add(&worker);
  const struct memory second = {words.at + 4, words.device + 4};
  signal_add(&starter, words, 2, worker.unit + M2S_QUEUE(8) + Q_DOORBELL);
  signal_add(&starter, second, 2, worker.unit + S2M_QUEUE(8) + Q_DOORBELL);
  ok(queue_run(&starter) && marker_wait(&worker, PATIENCE_MS) && same(to.at, from.at, 3000),
     "3.6: a doorbell rung by DMA");
}

// One store for all 16 engines of a core; each ends with an increment of 1.
static void check_broadcast(struct device* d) {
  struct queue q[16];
  const struct memory words = memory_get(16 * 4);
  for (unsigned e = 0; e < 16; ++e) {
    udma_init_engine(d, 16 + e, true);
    queue_init(&q[e], d, 16 + e, 8, 32);
    const struct memory word = {words.at + 4 * e, words.device + 4 * e};
    signal_add(&q[e], word, 1, NC_EVENTS(1) + SEM_INC(60));
  }
  reg_write(d, BROADCAST(1) + M2S_QUEUE(8) + Q_DOORBELL, 1);
  reg_write(d, BROADCAST(1) + S2M_QUEUE(8) + Q_DOORBELL, 1);
  ok(reg_wait(d, NC_EVENTS(1) + SEM_READ(60), ~0u, 16, PATIENCE_MS),
     "3.6: a doorbell broadcast to 16 engines");
}

void check_semaphores(struct device* d) {
  if (!ok(reset_device(d), "8.2: device reset")) bail_out("no reset");
  for (unsigned b = 0; b < NCS + TOPSPS; ++b) {
    const char* name = b < NCS ? "NC" : "CC-core";
    check_semaphore(d, block_of(b), name, b < NCS ? b : b - NCS);
    check_events(d, block_of(b), name, b < NCS ? b : b - NCS);
  }
  udma_init_engine(d, 32, true);
  udma_init_engine(d, 33, true);
  check_signals(d);
  check_signal_after_data(d);
  check_dma_doorbell(d);
  check_broadcast(d);
  memory_give_back_all();
}
