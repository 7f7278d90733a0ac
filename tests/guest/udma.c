#include "udma.h"

#include "check.h"
#include "registers.h"

#define QUEUES 16u

static bool v2(const struct device* d) {
  return d->layout->generation == 2;
}

// spec/hw-registers.md 2.4: four windows of 32 engines, and two copy engines on each die.
static uint32_t window(unsigned engine) {
  return 0x80000000u + engine / 32 * 0x10000000u;
}

static uint32_t udma_unit_v3(unsigned engine) {
  static const uint32_t copy[] = {0x06800000, 0x06900000, 0x46800000, 0x46900000};
  if (engine >= 128) return copy[engine - 128];
  const uint32_t first = engine / 32 % 2 == 0 ? 0x02000000 : 0x04000000;
  return window(engine) + first + engine % 32 * 0x100000u;
}

uint32_t udma_unit(const struct device* d, unsigned engine) {
  if (!v2(d)) return udma_unit_v3(engine);
  if (engine < 16) return APB + engine * 0x40000u;
  if (engine < 32) return APB + 0x700000u + (engine - 16) * 0x40000u;
  return engine == 32 ? APB + 0x600000u : APB + 0xD00000u;
}

static uint32_t sdma_wrapper(const struct device* d, unsigned engine) {
  if (!v2(d)) return udma_unit_v3(engine) + 0x40000u;
  if (engine < 16) return APB + 0x400000u + engine * 0x7000u;
  if (engine < 32) return APB + 0xB00000u + (engine - 16) * 0x7000u;
  return engine == 32 ? APB + 0x640000u : APB + 0xD40000u;
}

// spec/hw-registers.md 3.8: how a doorbell that is broadcast to the engines of a core travels.
static void init_broadcast(const struct device* d, unsigned engine) {
  const unsigned e = engine % 16;
  const bool last = e == 0 || e == 3 || e == 6 || e == 9 || e == 15;
  reg_write(d, sdma_wrapper(d, engine) + 0x100, 0xFFFFu >> e);
  reg_write(d, sdma_wrapper(d, engine) + 0x104, last ? 0xFFFFu : 0);
}

struct store {
  uint32_t offset, value;
};

static void write_all(const struct device* d, uint32_t base, const struct store* all, size_t n) {
  for (size_t i = 0; i < n; ++i) reg_write(d, base + all[i].offset, all[i].value);
}
#define WRITE_ALL(d, base, all) write_all(d, base, all, sizeof(all) / sizeof((all)[0]))

// Step 27: AXI error tables, their control, and the interrupt groups that only v2 has.
static void init_axi_errors(const struct device* d, uint32_t u) {
  static const uint32_t words[] = {1, 2, 3, 9, 10, 11};
  static const uint32_t groups[] = {0x3AD00, 0x3AE00, 0x3AF00, 0x3B000, 0x3B100, 0x3B200};
  for (uint32_t t = 0; t < 6; ++t) {
    for (uint32_t w = 0; w < 6; ++w) reg_write(d, u + 0x3A900 + t * 0x40 + words[w] * 4, 0xF);
  }
  for (uint32_t t = 0; t < 6; ++t) {
    for (uint32_t q = 0; q < QUEUES; ++q) {
      reg_write(d, u + 0x3AB00 + t * 8, q << 3 | 7);
      reg_write(d, u + 0x3AB04 + t * 8, 0x10);
    }
  }
  for (uint32_t g = 0; g < 6; ++g) {
    const struct store group[] = {{0x28, 0x28}, {0x30, 0}, {0x18, 0}};
    WRITE_ALL(d, u + groups[g], group);
  }
  reg_write(d, u + 0x3A300, 0xFFFFFFFF);
}

static void set_bits(const struct device* d, uint32_t offset, uint32_t also, uint32_t bits) {
  const uint32_t value = reg_read(d, offset) | bits;
  reg_write(d, offset, value);
  if (also != 0) reg_write(d, also, value);
}

// Step 28: engines on the compute side do not look at ring ids.
static void mask_ring_ids(const struct device* d, unsigned engine) {
  const uint32_t u = udma_unit(d, engine);
  const uint32_t block = engine / 32 % 2 == 0 ? 0x0C000000 : 0x0C400000;
  const uint32_t f = window(engine) + block + engine % 32 * 0x20000u;
  set_bits(d, u + 0x3A010, u + 0x3A030, 0x20000);
  set_bits(d, u + 0x3A050, u + 0x3A070, 0x800);
  set_bits(d, f + 0x90, 0, 0x800);
  set_bits(d, f + 0xD0, 0, 4);
  set_bits(d, u + 0x20C, 0, 0x20000);
  set_bits(d, u + 0x2020C, 0, 0x800);
}

// spec/hw-registers.md 3.10, in its order.
void udma_init_engine(const struct device* d, unsigned engine, bool again) {
  const bool is_v2 = v2(d);
  const struct store before_selectors[] = {{0x310, is_v2 ? 0x01000400 : 0x010008F8},
                                           {0x124, is_v2 ? 0x0000086F : 0x20808080},
                                           {0x3A300, 0x05F5E100},
                                           {0x408, 0},
                                           {0x254, 0x010FFFFF},
                                           {0x258, 0x00000102}};
  static const struct store between[] = {{0x118, 0x00010008}, {0x2038C, 0}};
  const struct store outstanding[] = {{0x20124, is_v2 ? 0x00400008 : 0x00400080},
                                      {0x20128, 0x40804080}};
  static const struct store interrupts[] = {
      {0x3A028, 0x28},       {0x380E8, 0x28},       {0x3A030, 0xF0000000}, {0x3A0B0, 0xFFFFFFC0},
      {0x3A018, 0xF0000000}, {0x3A098, 0xFFFFFFC0}, {0x380D8, 0xFFFFFAFF}, {0x3A068, 0x28},
      {0x380E8, 0x28},       {0x3A070, 0x000010F8}, {0x3A0B0, 0xFFFFF03F}, {0x3A058, 0x000010F8},
      {0x3A098, 0xFFFFF03F}, {0x380D8, 0xFFFFF9FF}};
  static const struct store prefetch[] = {{0x20380, 0x1004}, {0x304, 0x00010041},
                                          {0x308, 0x4181},   {0x20308, 0x4181},
                                          {0x11C, 0x10008},  {0x2011C, 0x10008}};
  static const struct store wrapper[] = {{0x1C, 1}, {0x20, 1}, {0x00, 1}};
  const uint32_t u = udma_unit(d, engine);
  if (is_v2 && engine < d->layout->engines) init_broadcast(d, engine);
  for (uint32_t q = 0; q < QUEUES; ++q) {
    reg_write(d, u + M2S_QUEUE(q) + Q_CONFIG, again ? 0x03030000 : 0x00030000);
    reg_write(d, u + S2M_QUEUE(q) + Q_CONFIG, again ? 0x03030000 : 0x00030000);
  }
  WRITE_ALL(d, u, before_selectors);
  for (uint32_t q = 0; q < QUEUES; ++q) reg_write(d, u + 0x3C400 + q * 0x40, 0xFFFFFFFF);
  WRITE_ALL(d, u, between);
  for (uint32_t q = 0; q < QUEUES; ++q) {
    for (uint32_t k = 1; k < 4; ++k) reg_write(d, u + 0x3C400 + q * 0x40 + k * 4, 0xFFFFFFFF);
  }
  WRITE_ALL(d, u, outstanding);
  if (d->layout->generation == 4)
    reg_write(d, u + 0x2012C, (reg_read(d, u + 0x2012C) & ~0x3FFu) | 0x100);
  reg_write(d, u + 0x3B460, reg_read(d, u + 0x3B460) & ~1u);
  WRITE_ALL(d, u, interrupts);
  WRITE_ALL(d, u, prefetch);
  WRITE_ALL(d, sdma_wrapper(d, engine), wrapper);
  if (is_v2) {
    init_axi_errors(d, u);
    return;
  }
  reg_write(d, sdma_wrapper(d, engine) + 0x800, 0x26);
  if (engine < d->layout->engines) mask_ring_ids(d, engine);
}

static void half_start(struct half* half) {
  half->index = 0;
  half->ring_id = 1;
  half->added = 0;
}

void queue_init(struct queue* queue, const struct device* device, unsigned engine, unsigned number,
                uint32_t length) {
  *queue = (struct queue){.device = device, .engine = engine, .number = number};
  queue->unit = udma_unit(device, engine);
  queue->words = memory_get(8);
  for (int i = 0; i < 2; ++i) {
    struct half* half = i == 0 ? &queue->tx : &queue->rx;
    const struct memory ring = memory_get(length * sizeof(struct descriptor));
    half->ring = (volatile struct descriptor*)ring.at;
    half->ring_device = ring.device;
    half->length = length;
  }
  queue_restart(queue);
}

uint32_t queue_read(const struct queue* queue, bool tx, uint32_t offset) {
  const uint32_t at = tx ? M2S_QUEUE(queue->number) : S2M_QUEUE(queue->number);
  return reg_read(queue->device, queue->unit + at + offset);
}

void queue_write(const struct queue* queue, bool tx, uint32_t offset, uint32_t value) {
  const uint32_t at = tx ? M2S_QUEUE(queue->number) : S2M_QUEUE(queue->number);
  reg_write(queue->device, queue->unit + at + offset, value);
}

void queue_reset_half(struct queue* queue, bool tx) {
  queue_write(queue, tx, tx ? Q_M2S_CONTROL : Q_S2M_CONTROL, CONTROL_RESET);
  half_start(tx ? &queue->tx : &queue->rx);
}

void queue_restart(struct queue* queue) {
  for (int i = 0; i < 2; ++i) {
    const bool tx = i == 0;
    const struct half* half = tx ? &queue->tx : &queue->rx;
    // 3 takes the mask off the pause that makes a descriptor's DMB bit work.
    if (tx) queue_write(queue, tx, Q_RATE_LIMIT, 3);
    queue_write(queue, tx, Q_CONFIG, CONFIG_DISABLED);
    queue_reset_half(queue, tx);
    queue_write(queue, tx, Q_BASE_LOW, (uint32_t)half->ring_device);
    queue_write(queue, tx, Q_BASE_HIGH, (uint32_t)(half->ring_device >> 32));
    queue_write(queue, tx, Q_LENGTH, half->length);
    queue_write(queue, tx, tx ? Q_M2S_COMPLETION : Q_S2M_COMPLETION, 0);
    queue_write(queue, tx, Q_CONFIG, CONFIG_ENABLED);
  }
}

static void add(struct half* half, uint32_t w0, uint32_t w1, uint64_t address) {
  volatile struct descriptor* d = &half->ring[half->index];
  d->w0 = w0 | half->ring_id << RING_ID_SHIFT;
  d->w1 = w1;
  d->address = address;
  ++half->added;
  if (++half->index == half->length) {
    half->index = 0;
    half->ring_id = (half->ring_id + 1) & 3;
  }
}

void tx_add(struct queue* queue, uint64_t from, uint32_t bytes, uint32_t flags,
            uint32_t operation) {
  add(&queue->tx, (bytes & 0xFFFF) | flags, operation, from);  // length 0 is 64 KiB
}

void rx_add(struct queue* queue, uint64_t to, uint32_t bytes) {
  add(&queue->rx, bytes & 0xFFFF, 0, to);
}

void copy_add(struct queue* queue, uint64_t to, uint64_t from, uint32_t bytes) {
  tx_add(queue, from, bytes, FIRST | LAST, OP_COPY);
  rx_add(queue, to, bytes);
}

void copy_add_all(struct queue* queue, uint64_t to, uint64_t from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += MAX_DESCRIPTOR) {
    const uint64_t left = bytes - at;
    copy_add(queue, to + at, from + at, left < MAX_DESCRIPTOR ? (uint32_t)left : MAX_DESCRIPTOR);
  }
}

void signal_add(struct queue* queue, struct memory word, uint32_t value, uint32_t bar_offset) {
  *(volatile uint32_t*)word.at = value;
  copy_add(queue, BAR0_DEVICE_BASE + bar_offset, word.device, 4);
}

void doorbell_rx(struct queue* queue) {
  queue_write(queue, false, Q_DOORBELL, queue->rx.added);
  queue->rx.added = 0;
}

void doorbell_tx(struct queue* queue) {
  queue_write(queue, true, Q_DOORBELL, queue->tx.added);
  queue->tx.added = 0;
}

// The barrier belongs into the descriptor before the marker: writes of later descriptors wait.
void marker_add(struct queue* queue) {
  volatile uint32_t* words = (volatile uint32_t*)queue->words.at;
  struct half* tx = &queue->tx;
  if (tx->added != 0) {
    const uint32_t previous = (tx->index == 0 ? tx->length : tx->index) - 1;
    tx->ring[previous].w1 |= OP_COPY_BARRIER;
  }
  words[0] = MARKER;
  words[1] = 0;
  copy_add(queue, queue->words.device + 4, queue->words.device, 4);
}

bool marker_wait(struct queue* queue, unsigned ms) {
  return word_wait((volatile uint32_t*)queue->words.at + 1, MARKER, ms);
}

bool queue_run(struct queue* queue) {
  marker_add(queue);
  doorbell_rx(queue);
  doorbell_tx(queue);
  return marker_wait(queue, PATIENCE_MS);
}
