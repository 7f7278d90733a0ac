// Devices of any generation, all that are on the bus: what a driver's probe sees, reset, and copies
// through every HBM stack, seen from DMA and from BAR 4 (spec/hw-registers.md 1, 2.2 to 2.5, 8,
// 10.1 to 10.5).
#include <string.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

#define BYTES (2 * MAX_DESCRIPTOR + 12345u)
#define WINDOW (1u << 20)
#define COMPANY (400u << 20)  // where it writes, behind all copies
#define WORDS 1024u
#define PLACE 0x3000u  // of the copies in the window

static uint32_t misc(const struct device* d, uint32_t v2_offset) {
  return reg_read(d, d->layout->misc + v2_offset - MISC);
}

// The device's number.
static unsigned check_probe(const struct device* d) {
  static const uint64_t gib = 1ull << 30;
  const bool v2 = d->layout->generation == 2;
  ok(d->bar_size[d->register_bar] == (v2 ? 1 : 4) * gib, "1.3: size of BAR %d", d->register_bar);
  if (d->revision == REVISION_QEMU && !v2) {
    ok(d->bar_size[2] == 4 * gib, "1.2: registers also in BAR 2");
  } else {
    ok(d->bar_size[4] >= d->layout->stacks * d->layout->bar4_stride, "1.3: BAR 4 has every stack");
  }
  const uint64_t end = now_ns() + 20 * 1000000000ull;
  while (misc(d, MISC_ROUTING_ID) == NOT_READY && now_ns() < end) sleep_ms(10);
  const uint32_t routing_id = misc(d, MISC_ROUTING_ID);
  ok(routing_id < 64, "1.5: routing id %u", routing_id);
  return device_index(d, routing_id);
}

// host -> stack -> next stack -> host, with a look through BAR 4 at both.
static void check_stack(const struct device* d, struct queue* q, unsigned stack) {
  static uint32_t seed;  // what an earlier copy left behind must not pass
  const unsigned next = (stack + 1) % d->layout->stacks;
  const struct memory from = memory_get(BYTES), to = memory_get(BYTES);
  const uint64_t near = d->layout->hbm[stack] + HBM_RESERVED + PLACE;
  const uint64_t far = d->layout->hbm[next] + HBM_RESERVED + WINDOW / 2;
  fill(from.at, BYTES, ++seed);
  const uint64_t hops[4] = {from.device, near, far, to.device};
  bool good = true;
  for (int hop = 0; hop < 3 && good; ++hop) {
    copy_add_all(q, hops[hop + 1], hops[hop], BYTES);
    good = queue_run(q);
  }
  ok(good && same(to.at, from.at, BYTES), "10.5: host, HBM %u, HBM %u, host", stack, next);
  volatile uint8_t* window = stack_map(d, stack, HBM_RESERVED, WINDOW);
  ok(same(window + PLACE, from.at, BYTES / 4 * 4), "2.4: HBM %u through BAR 4", stack);
  volatile uint32_t* words = (volatile uint32_t*)window;
  const uint64_t begin = now_ns();
  for (uint32_t i = 0; i < WORDS; ++i) words[i] = i * 2654435761u + stack;
  const uint64_t written = now_ns();
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < WORDS; ++i) wrong |= words[i] ^ (i * 2654435761u + stack);
  const uint64_t read = now_ns();
  measured("bar4_write_4_kib_us %llu", (unsigned long long)(written - begin) / 1000);
  measured("bar4_read_4_kib_us %llu", (unsigned long long)(read - written) / 1000);
  ok(wrong == 0, "2.4: HBM %u keeps stores to BAR 4", stack);
  copy_add(q, to.device, d->layout->hbm[stack] + HBM_RESERVED, WORDS * 4);
  ok(queue_run(q) && same(window, to.at, WORDS * 4), "2.4: DMA from HBM %u sees stores to BAR 4",
     stack);
  stack_unmap(window, WINDOW);
}

static void check_device(const struct device* d) {
  volatile uint8_t* last = stack_map(d, d->layout->stacks - 1, COMPANY, WINDOW);
  if (!ok(reset_device(d), "8.2: device reset")) bail_out("no reset");
  company_comes(d, (volatile uint32_t*)last, true);
  // A copy engine of each pair of NeuronCores, and one on the compute side of the first and the
  // last.
  const unsigned copy = d->layout->engines;
  struct queue q;
  for (unsigned e = 0; e < d->layout->copy_engines; ++e) {
    for (unsigned number = 0; number < d->layout->copy_queues; ++number) {
      if (number == 0) udma_init_engine(d, copy + e, false);
      queue_init(&q, d, copy + e, number, 256);
      check_stack(d, &q, (e * d->layout->copy_queues + number) % d->layout->stacks);
      memory_give_back_all();
    }
  }
  queue_init(&q, d, copy, 0, 256);
  measure_driver_copy(&q, d->layout->hbm[0] + HBM_RESERVED + WINDOW);
  memory_give_back_all();
  const unsigned compute[] = {4, copy - 1};  // 2.6: these reach host memory and their own stacks
  for (unsigned i = 0; i < 2; ++i) {
    udma_init_engine(d, compute[i], false);
    queue_init(&q, d, compute[i], 3, 64);
    check_stack(d, &q, i == 0 ? 0 : d->layout->stacks - 1);
    memory_give_back_all();
  }
  company_leaves();
  stack_unmap(last, WINDOW);
}

void check_each(void) {
  const unsigned count = devices_count();
  if (count == 0) bail_out("no device on the PCI bus");
  uint64_t seen = 0;
  uint32_t serials[MOST_DEVICES];
  for (unsigned n = 0; n < count; ++n) {
    struct device d;
    device_open_nth(&d, n);
    const unsigned index = check_probe(&d);
    say("%s: %04x:%04x revision %02x is device %u", d.name, d.vendor, d.id, d.revision, index);
    ok(index < count && (seen >> index & 1) == 0, "1.5: device %u is there once", index);
    ok_equal(index, n, "1.5: devices come in the order of their sockets");
    seen |= 1ull << index;
    serials[n] = misc(&d, MISC_SERIAL_LOW);
    for (unsigned other = 0; other < n; ++other)
      if (serials[other] == serials[n]) ok(false, "7.1: serial number of device %u", other);
    check_device(&d);
    device_close(&d);
  }
}
