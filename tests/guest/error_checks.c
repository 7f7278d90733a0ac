// DMA errors: what is wrong with the descriptors or the addresses stops the engine and is named in
// its interrupt groups; a reset, or the command "normal operation", recovers it (sections 3.6, 3.7,
// 3.9, 3.10).
#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

static bool aborted(const struct queue* q) {
  const uint64_t end = now_ns() + PATIENCE_MS * 1000000ull;
  do {
    const uint32_t m2s = reg_read(q->device, q->unit + M2S_STATE);
    const uint32_t s2m = reg_read(q->device, q->unit + S2M_STATE);
    if (STATE_ABORTED(m2s) || STATE_ABORTED(s2m)) return true;
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

// Makes one copy with a flaw; the queue's other descriptors are good.
static void provoke(struct queue* q, unsigned flaw, const struct memory* to) {
  const struct memory from = memory_get(256);
  fill(from.at, 256, 9);
  const uint64_t source = flaw == 2 ? UNMAPPED_DEVICE : from.device;
  const uint64_t destination = flaw == 3 ? UNMAPPED_DEVICE : to->device;
  if (flaw == 0) q->tx.ring_id = 2;
  if (flaw == 1) q->rx.ring_id = 3;
  copy_add(q, destination, source, 256);
  doorbell_rx(q);
  doorbell_tx(q);
}

static void check_flaw(struct device* d, unsigned flaw) {
  static const struct flaw flaws[] = {
      {"ring id mismatch of a source", CAUSE_M2S_RING_ID, 0},
      {"ring id mismatch of a destination", 0, CAUSE_S2M_RING_ID},
      {"source at an address without memory", CAUSE_M2S_DATA_READ, 0},
      {"destination at an address without memory", 0, CAUSE_S2M_DATA_WRITE},
  };
  const struct flaw* f = &flaws[flaw];
  struct queue q;
  udma_init_engine(d, 8 + flaw, true);
  queue_init(&q, d, 8 + flaw, 6, 32);
  ok(works(&q), "3.11: engine %u works", q.engine);
  const struct memory to = memory_get(256), none = memory_get(256);
  provoke(&q, flaw, &to);
  ok(aborted(&q), "3.9: %s aborts the engine", f->name);
  ok_equal(reg_read(d, q.unit + GROUP_M2S), f->cause_m2s, "3.9: causes of M2S");
  ok_equal(reg_read(d, q.unit + GROUP_S2M), f->cause_s2m, "3.9: causes of S2M");
  ok(same(to.at, none.at, 256), "3.9: nothing was moved");
  copy_add(&q, to.device, to.device, 4);
  doorbell_rx(&q);
  doorbell_tx(&q);
  ok(STATE_ABORTED(reg_read(d, q.unit + M2S_STATE) | reg_read(d, q.unit + S2M_STATE)),
     "3.7: the engine stays aborted");
  queue_restart(&q);  // otherwise it would run into the same descriptor
  reg_write(d, q.unit + M2S_CHANGE_STATE, STATE_NORMAL);
  reg_write(d, q.unit + S2M_CHANGE_STATE, STATE_NORMAL);
  ok(works(&q), "3.7: the command for normal operation recovers it");
  provoke(&q, flaw, &to);
  (void)aborted(&q);
}

// Drivers of later generations mask ring id errors (3.10, step 28); here too the mask decides.
static void check_masked(struct device* d) {
  struct queue q;
  udma_init_engine(d, 12, true);
  const uint32_t m2s = udma_unit(12) + GROUP_M2S + GROUP_ABORT_MASK;
  const uint32_t s2m = udma_unit(12) + GROUP_S2M + GROUP_ABORT_MASK;
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
  for (unsigned flaw = 0; flaw < 4; ++flaw) check_flaw(d, flaw);
  check_masked(d);
  ok(reset_device(d), "8.2: device reset with aborted engines");
  for (unsigned engine = 8; engine < 12; ++engine) {
    struct queue q;
    ok_equal(
        reg_read(d, udma_unit(engine) + GROUP_M2S) | reg_read(d, udma_unit(engine) + GROUP_S2M), 0,
        "8.4: engine %u has no error", engine);
    udma_init_engine(d, engine, true);
    queue_init(&q, d, engine, 6, 32);
    ok(works(&q), "8.4: engine %u works again", engine);
  }
  memory_give_back_all();
}
