// Copies between host memory and both HBM stacks, by copy engines and by compute-side engines, with
// rings of several sizes over several laps (spec/hw-registers.md 3.5, 3.6, 3.10 to 3.12, 10.5).
#include <string.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

#define NEAR_HBM (HBM0 + HBM_RESERVED)
#define FAR_HBM (HBM1 + HBM_RESERVED)

// Host -> HBM 0 -> HBM 1 -> host, of an amount that is no multiple of anything.
static bool round_trip(struct queue* q, uint32_t bytes, uint32_t seed) {
  const struct memory from = memory_get(bytes), to = memory_get(bytes);
  fill(from.at, bytes, seed);
  const uint64_t hops[4] = {from.device, NEAR_HBM, FAR_HBM, to.device};
  for (int hop = 0; hop < 3; ++hop) {
    copy_add_all(q, hops[hop + 1], hops[hop], bytes);
    if (!queue_run(q)) return false;
  }
  return same(to.at, from.at, bytes);
}

static void check_engine(struct device* d, unsigned engine, unsigned number, uint32_t length,
                         bool again) {
  struct queue q;
  udma_init_engine(d, engine, again);
  queue_init(&q, d, engine, number, length);
  ok(round_trip(&q, 3 * MAX_DESCRIPTOR + 12345, engine),
     "3.11: engine %u queue %u, ring of %u: host, HBM 0, HBM 1, host", engine, number, length);
}

// What a driver does after a device reset: all engines of the device.
static void check_all_engines(struct device* d) {
  bool good = true;
  for (unsigned engine = 0; engine < 34; ++engine) {
    struct queue q;
    udma_init_engine(d, engine, true);
    queue_init(&q, d, engine, engine % 16, 32);
    if (round_trip(&q, 500 + engine, engine)) continue;
    good = false;
    say("engine %u does not copy", engine);
  }
  ok(good, "10.2: all 34 engines copy");
}

static void check_window(struct device* d, struct queue* q) {
  const struct memory from = memory_get(1024);
  fill(from.at, 1024, 3);
  copy_add(q, NEAR_HBM + 4096, from.device, 1024);
  ok(queue_run(q) && same(d->hbm + NEAR_HBM + 4096, from.at, 1024),
     "2.1: BAR 4 shows what DMA wrote");
  for (int i = 0; i < 16; ++i)
    ((volatile uint32_t*)(d->hbm + NEAR_HBM + 8192))[i] = 0xC0DE0000u + (uint32_t)i;
  volatile uint8_t* bytes = d->hbm + NEAR_HBM + 12288;
  *(volatile uint64_t*)bytes = 0x1122334455667788;
  *(volatile uint16_t*)(bytes + 2) = 0xAABB;
  bytes[7] = 0xCC;
  ok_equal(*(volatile uint64_t*)bytes, 0xCC223344AABB7788, "1.3: BAR 4 takes accesses of any size");
  const struct memory to = memory_get(64);
  copy_add(q, to.device, NEAR_HBM + 8192, 64);
  bool good = queue_run(q);
  for (uint32_t i = 0; i < 16; ++i) {
    uint32_t word;
    memcpy(&word, to.at + 4 * i, 4);
    good &= word == 0xC0DE0000u + i;
  }
  ok(good, "2.1: DMA reads what was stored through BAR 4");
}

// Lengths from one byte on, at odd addresses; what is beside the destination stays.
static void check_lengths(struct queue* q) {
  static const uint32_t lengths[] = {1, 2, 3, 7, 63, 65, 511, 4095, 4097, 65535, 65536};
  const struct memory from = memory_get(MAX_DESCRIPTOR + 64), to = memory_get(MAX_DESCRIPTOR + 64);
  fill(from.at, MAX_DESCRIPTOR + 64, 11);
  for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
    const uint32_t n = lengths[i];
    memset(to.at, 0x5A, MAX_DESCRIPTOR + 64);
    copy_add(q, FAR_HBM + 5 + i, from.device + 3, n);
    copy_add(q, to.device + 17, FAR_HBM + 5 + i, n);
    q->tx.ring[(q->tx.index + q->tx.length - 1) % q->tx.length].w0 |= DMB;
    const bool done = queue_run(q);
    ok(done && same(to.at + 17, from.at + 3, n) && to.at[16] == 0x5A && to.at[17 + n] == 0x5A,
       "3.5: %u bytes at odd addresses", n);
  }
}

// Packets of 3 bytes, until five laps are done: every ring id has been used twice at one place.
static void check_laps(struct device* d, unsigned engine, uint32_t length, uint32_t batch) {
  struct queue q;
  queue_init(&q, d, engine, 1, length);
  const uint32_t total = 5 * length + 7;
  const struct memory from = memory_get(batch * 3), to = memory_get(batch * 3);
  fill(from.at, batch * 3, length);
  bool good = true;
  uint32_t done = 0;
  while (good && done < total) {
    memset(to.at, 0, batch * 3);
    for (uint32_t i = 0; i < batch; ++i) copy_add(&q, to.device + 3 * i, from.device + 3 * i, 3);
    good = queue_run(&q) && same(to.at, from.at, batch * 3);
    done += batch + 1;
  }
  ok(good, "3.6: engine %u, ring of %u: %u descriptors over five laps", engine, length, done);
  const uint32_t pointer = POINTER(q.tx.index, q.tx.ring_id);
  bool agree = true;
  for (int half = 0; half < 2; ++half) {
    agree &= queue_read(&q, half == 0, Q_TAIL) == pointer;
    agree &= queue_read(&q, half == 0, Q_HEAD) == pointer;
    agree &= (queue_read(&q, half == 0, Q_STATUS) & 0x1FFFFFF) == 0;
  }
  ok(agree, "3.4: its pointers are %u with ring id %u", q.tx.index, q.tx.ring_id);
}

// A ring may be wherever the engine can read.
static void check_ring_in_hbm(struct device* d) {
  struct queue q;
  queue_init(&q, d, 32, 2, 32);
  q.tx.ring = (volatile struct descriptor*)(d->hbm + NEAR_HBM + 0x10000);
  q.tx.ring_device = NEAR_HBM + 0x10000;
  q.rx.ring = (volatile struct descriptor*)(d->hbm + NEAR_HBM + 0x11000);
  q.rx.ring_device = NEAR_HBM + 0x11000;
  queue_restart(&q);
  ok(round_trip(&q, 1000, 6), "3.6: rings in HBM");
}

// One batch of the most that drivers put into one: 2032 descriptors and the marker.
static void check_large_batch(struct queue* q) {
  const struct memory from = memory_get(HUGE_PAGE), to = memory_get(HUGE_PAGE);
  fill(from.at, HUGE_PAGE, 21);
  for (uint32_t i = 0; i < 2032; ++i)
    copy_add(q, to.device + 1024 * i, from.device + 1024 * i, 1024);
  ok(queue_run(q) && same(to.at, from.at, 2032 * 1024) && to.at[2032 * 1024] == 0,
     "3.12: 2033 descriptors with one doorbell");
}

void check_copies(struct device* d) {
  if (!ok(reset_device(d), "8.2: device reset")) bail_out("no reset");
  check_engine(d, 32, 0, 8192, false);
  check_engine(d, 33, 0, 8192, false);
  check_engine(d, 0, 3, 64, false);
  check_engine(d, 15, 15, 32, false);
  check_engine(d, 16, 0, 48, false);  // rings need not be powers of two
  check_engine(d, 31, 7, 80, false);
  check_engine(d, 32, 0, 8192, true);
  check_all_engines(d);
  memory_give_back_all();
  struct queue q;
  queue_init(&q, d, 32, 0, 8192);
  check_window(d, &q);
  check_lengths(&q);
  check_large_batch(&q);
  check_ring_in_hbm(d);
  memory_give_back_all();
  check_laps(d, 33, 32, 13);
  check_laps(d, 33, 48, 31);
  check_laps(d, 33, 64, 1);
  check_laps(d, 33, 8192, 2000);
}
