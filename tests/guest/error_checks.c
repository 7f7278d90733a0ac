// DMA errors: what is wrong with the descriptors or the addresses stops the engine and is named in
// its interrupt groups; a reset, or the command "normal operation", recovers it
// (spec/hw-registers.md 3.6, 3.7, 3.9, 3.10).
#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

static bool is_aborted(const struct queue* q) {
  return STATE_ABORTED(reg_read(q->device, q->unit + M2S_STATE)) ||
         STATE_ABORTED(reg_read(q->device, q->unit + S2M_STATE));
}

static bool aborted(const struct queue* q) {
  const uint64_t end = now_ns() + PATIENCE_MS * 1000000ull;
  do {
    if (is_aborted(q)) return true;
  } while (now_ns() < end);
  return false;
}

static bool works(struct queue* q) {
  const struct memory from = memory_get(512), to = memory_get(512);
  fill(from.at, 512, q->engine);
  queue_restart(q);
  copy_add(q, to.device, from.device, 512);
  return queue_run(q) && same(to.at, from.at, 512);
}

struct flaw {
  const char* name;
  uint32_t cause_m2s, cause_s2m;
};
enum {
  TX_RING_ID,
  RX_RING_ID,
  SOURCE,
  DESTINATION,
  HOST_SOURCE,
  HOST_DESTINATION,
  TX_RING,
  RX_RING
};
static const struct flaw flaws[] = {
    [TX_RING_ID] = {"ring id mismatch of a source", CAUSE_M2S_RING_ID, 0},
    [RX_RING_ID] = {"ring id mismatch of a destination", 0, CAUSE_S2M_RING_ID},
    [SOURCE] = {"source where nothing is", CAUSE_M2S_DATA_READ, 0},
    [DESTINATION] = {"destination where nothing is", 0, CAUSE_S2M_DATA_WRITE},
    [HOST_SOURCE] = {"source that is no memory of the host", CAUSE_M2S_DATA_READ, 0},
    [HOST_DESTINATION] = {"destination that is no memory of the host", 0, CAUSE_S2M_DATA_WRITE},
    [TX_RING] = {"ring of sources where nothing is", CAUSE_M2S_RING_READ, 0},
    [RX_RING] = {"ring of destinations where nothing is", 0, CAUSE_S2M_RING_READ},
};
#define FLAWS (sizeof flaws / sizeof flaws[0])
#define FIRST_ENGINE 4u

// Makes one copy with a flaw; the queue's other descriptors are good.
static void provoke(struct queue* q, unsigned flaw, const struct memory* to) {
  const struct memory from = memory_get(256);
  fill(from.at, 256, 9);
  uint64_t source = from.device, destination = to->device;
  if (flaw == SOURCE) source = UNMAPPED_DEVICE;
  if (flaw == HOST_SOURCE) source = PC_HOLE;
  if (flaw == DESTINATION) destination = UNMAPPED_DEVICE;
  if (flaw == HOST_DESTINATION) destination = PC_HOLE;
  if (flaw == TX_RING_ID) q->tx.ring_id = 2;
  if (flaw == RX_RING_ID) q->rx.ring_id = 3;
  if (flaw == TX_RING || flaw == RX_RING) {
    struct half* half = flaw == TX_RING ? &q->tx : &q->rx;
    const uint64_t good = half->ring_device;
    half->ring_device = UNMAPPED_DEVICE;
    queue_restart(q);
    half->ring_device = good;
  }
  copy_add(q, destination, source, 256);
  doorbell_rx(q);
  doorbell_tx(q);
}

static void command(const struct queue* q, uint32_t value) {
  reg_write(q->device, q->unit + M2S_CHANGE_STATE, value);
  reg_write(q->device, q->unit + S2M_CHANGE_STATE, value);
}

static void check_flaw(struct device* d, unsigned flaw) {
  struct queue q;
  udma_init_engine(d, FIRST_ENGINE + flaw, true);
  queue_init(&q, d, FIRST_ENGINE + flaw, 6, 32);
  ok(works(&q), "3.11: engine %u works", q.engine);
  const struct memory to = memory_get(256), none = memory_get(256);
  provoke(&q, flaw, &to);
  ok(aborted(&q), "3.9: %s aborts the engine", flaws[flaw].name);
  ok_equal(reg_read(d, q.unit + GROUP_M2S), flaws[flaw].cause_m2s, "3.9: causes of M2S");
  ok_equal(reg_read(d, q.unit + GROUP_S2M), flaws[flaw].cause_s2m, "3.9: causes of S2M");
  ok(same(to.at, none.at, 256), "3.9: nothing was moved");
  copy_add(&q, to.device, to.device, 4);
  doorbell_rx(&q);
  doorbell_tx(&q);
  ok(is_aborted(&q), "3.7: the engine stays aborted");
  queue_restart(&q);  // otherwise it would run into the same descriptor
  command(&q, STATE_NORMAL);
  ok(works(&q), "3.7: the command for normal operation recovers it");
  provoke(&q, flaw, &to);
  (void)aborted(&q);
}

static void check_abort(struct device* d) {
  struct queue q;
  udma_init_engine(d, 13, true);
  queue_init(&q, d, 13, 2, 1024);
  const struct memory from = memory_get(MAX_DESCRIPTOR), to = memory_get(64);
  for (int i = 0; i < 1000; ++i) copy_add(&q, HBM1 + HBM_RESERVED, from.device, MAX_DESCRIPTOR);
  doorbell_rx(&q);
  doorbell_tx(&q);
  command(&q, STATE_ABORT);
  ok(is_aborted(&q), "3.7: the command to abort stops an engine at work");
  queue_restart(&q);
  copy_add(&q, to.device, from.device, 64);
  marker_add(&q);
  doorbell_rx(&q);
  doorbell_tx(&q);
  ok(!marker_wait(&q, 5), "3.7: it moves nothing");
  command(&q, STATE_NORMAL);
  ok(marker_wait(&q, PATIENCE_MS), "3.7: the command for normal operation lets it go on");
}

// Drivers of later generations mask ring id errors (3.10, step 28); here too the mask decides.
static void check_masked(struct device* d) {
  struct queue q;
  udma_init_engine(d, 12, true);
  const uint32_t m2s = udma_unit(d, 12) + GROUP_M2S + GROUP_ABORT_MASK;
  const uint32_t s2m = udma_unit(d, 12) + GROUP_S2M + GROUP_ABORT_MASK;
  reg_write(d, m2s, reg_read(d, m2s) | CAUSE_M2S_RING_ID);
  reg_write(d, s2m, reg_read(d, s2m) | CAUSE_S2M_RING_ID);
  queue_init(&q, d, 12, 0, 32);
  const struct memory from = memory_get(256), to = memory_get(256);
  fill(from.at, 256, 10);
  q.tx.ring_id = 3;
  q.rx.ring_id = 2;
  copy_add(&q, to.device, from.device, 256);
  ok(queue_run(&q) && same(to.at, from.at, 256), "3.10: with the error masked ring ids are free");
}

void check_dma_errors(struct device* d) {
  for (unsigned flaw = 0; flaw < FLAWS; ++flaw) check_flaw(d, flaw);
  check_masked(d);
  check_abort(d);
  ok(reset_device(d), "8.2: device reset with aborted engines");
  for (unsigned engine = FIRST_ENGINE; engine < FIRST_ENGINE + FLAWS; ++engine) {
    struct queue q;
    ok_equal(reg_read(d, udma_unit(d, engine) + GROUP_M2S) |
                 reg_read(d, udma_unit(d, engine) + GROUP_S2M),
             0, "8.4: engine %u has no error", engine);
    udma_init_engine(d, engine, true);
    queue_init(&q, d, engine, 6, 32);
    ok(works(&q), "8.4: engine %u works again", engine);
  }
  memory_give_back_all();
}
