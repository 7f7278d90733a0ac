// Figures for people and for benchmarks; no check depends on them.
#include <string.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

#define READS 2000u
#define MEGABYTES 64u
#define ROUNDS 3

static void measure_reads(const struct device* d) {
  const uint64_t begin = now_ns();
  uint32_t all = 0;
  for (unsigned i = 0; i < READS; ++i) all |= reg_read(d, MISC_SERIAL_LOW);
  measured("bar_read_ns %llu", (unsigned long long)(now_ns() - begin) / READS);
  ok(all == reg_read(d, MISC_SERIAL_LOW), "%u reads agree", READS);
}

// 1024 descriptors of 64 KiB with one doorbell, as a driver's copy of 64 MiB.
static void measure_copy(struct queue* q, const struct memory* host, bool to_device) {
  uint64_t best = ~0ull;
  bool good = true;
  for (int round = 0; round < ROUNDS; ++round) {
    const uint64_t begin = now_ns();
    for (uint32_t i = 0; i < MEGABYTES * 16; ++i) {
      const uint64_t hbm = HBM_RESERVED + (uint64_t)i * MAX_DESCRIPTOR;
      const uint64_t memory = host[i / 32].device + (i % 32) * MAX_DESCRIPTOR;
      copy_add(q, to_device ? hbm : memory, to_device ? memory : hbm, MAX_DESCRIPTOR);
    }
    good &= queue_run(q);
    const uint64_t spent = now_ns() - begin;
    if (spent < best) best = spent;
  }
  ok(good, "copies of %u MiB %s the device", MEGABYTES, to_device ? "to" : "from");
  measured("%s_device_mb_per_s %llu", to_device ? "host_to" : "from",
           (unsigned long long)(MEGABYTES * 1048576ull * 1000 / best));
}

// As a driver copies a program's buffer: 64 KiB at a time through a buffer of its own, each waited
// for.
void measure_driver_copy(struct queue* q, uint64_t hbm) {
  enum { kPieces = 256 };
  const struct memory bounce = memory_get(MAX_DESCRIPTOR), source = memory_get(MAX_DESCRIPTOR);
  fill(source.at, MAX_DESCRIPTOR, 5);
  const uint64_t begin = now_ns();
  bool good = true;
  for (uint64_t i = 0; i < kPieces && good; ++i) {
    memcpy(bounce.at, source.at, MAX_DESCRIPTOR);
    copy_add(q, hbm + i * MAX_DESCRIPTOR, bounce.device, MAX_DESCRIPTOR);
    good = queue_run(q);
  }
  const uint64_t spent = now_ns() - begin;
  ok(good, "%u copies of 64 KiB, one by one", (unsigned)kPieces);
  measured("driver_copy_mb_per_s %llu",
           (unsigned long long)((uint64_t)kPieces * MAX_DESCRIPTOR * 1000 / spent));
}

void measure(struct device* d) {
  if (!ok(reset_device(d), "8.2: device reset")) bail_out("no reset");
  measure_reads(d);
  struct queue q;
  struct memory host[MEGABYTES / 2];
  for (unsigned i = 0; i < MEGABYTES / 2; ++i) {
    host[i] = memory_get(HUGE_PAGE);
    fill(host[i].at, 4096, i);
  }
  udma_init_engine(d, 32, true);
  queue_init(&q, d, 32, 0, 8192);
  measure_copy(&q, host, true);
  ok(same(d->hbm + HBM_RESERVED + 30 * (uint64_t)HUGE_PAGE, host[30].at, 4096),
     "HBM has what was copied");
  measure_copy(&q, host, false);
  memory_give_back_all();
  queue_init(&q, d, 32, 0, 8192);
  measure_driver_copy(&q, HBM_RESERVED);
  memory_give_back_all();
}
