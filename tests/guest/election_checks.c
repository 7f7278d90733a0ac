// The election of Trainium2 ultraservers (spec/hw-registers.md 9), as the driver of one node holds
// it: the devices of this guest find their counterparts on three other nodes, which other guests
// drive, through the links alone.
#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

#define ROUND_MS 50u       // 9.4: between two looks
#define DEADLINE_S 500ull  // 9.4 has 600 s
#define RING 1024u
#define STATUS_INIT_PRIMARY 0x00FF0000u
#define STATUS_GOOD 3u
#define MISC_DEVICE 0x008006C84000ull  // 9.2
#define LINK_WINDOW(e) (0x10000000000000ull + (uint64_t)((e) / 32) * 0x4000000000000ull)

enum { kLeft, kRight, kSides };
enum { kRoutingId = 0x024, kSerial = 0x038, kValues = 0x180, kStatus = 0x190 };

struct link {
  struct queue queue;
  struct memory page;
};

struct participant {
  struct device device;
  unsigned index;
  uint64_t serial;
  struct link links[kSides][2];
};

static uint64_t deadline;

static uint32_t word(const struct device* d, uint32_t offset) {
  return reg_read(d, d->layout->misc + offset);
}

static void set_word(const struct device* d, uint32_t offset, uint32_t value) {
  reg_write(d, d->layout->misc + offset, value);
}

// 9.3
static void open_links(struct participant* p) {
  static const unsigned engines[kSides][2] = {{36, 68}, {4, 100}};
  for (int side = 0; side < kSides; ++side) {
    for (int i = 0; i < 2; ++i) {
      struct link* link = &p->links[side][i];
      udma_init_engine(&p->device, engines[side][i], true);
      queue_init(&link->queue, &p->device, engines[side][i], 0, RING);
      link->page = memory_get(4096);
    }
  }
}

// 9.3: `bytes` of the neighbour's misc RAM, to the third word of the page.
static const volatile uint32_t* remote_read(struct link* link, uint32_t offset, uint32_t bytes) {
  volatile uint32_t* page = (volatile uint32_t*)link->page.at;
  struct queue* q = &link->queue;
  page[0] = 1;
  page[1] = 0;
  tx_add(q, LINK_WINDOW(q->engine) + MISC_DEVICE + offset, bytes, FIRST | LAST, OP_COPY_BARRIER);
  rx_add(q, link->page.device + 8, bytes);
  tx_add(q, link->page.device, 4, FIRST | LAST, OP_COPY_BARRIER);
  rx_add(q, link->page.device + 4, 4);
  doorbell_rx(q);
  doorbell_tx(q);
  if (!word_wait(page + 1, 1, PATIENCE_MS)) bail_out("a link does not answer");
  return page + 2;
}

// Until the last word says that the neighbour is there.
static const volatile uint32_t* remote_wait(struct link* link, uint32_t offset, uint32_t bytes) {
  for (;;) {
    const volatile uint32_t* at = remote_read(link, offset, bytes);
    const uint32_t last = at[bytes / 4 - 1];
    if (last != 0 && last != NOT_READY) return at;
    if (now_ns() > deadline) bail_out("a neighbour does not come");
    sleep_ms(ROUND_MS);
  }
}

// Step 2: both cables of a side lead to one device.
static uint64_t neighbour(struct participant* p, int side) {
  uint64_t serials[2];
  for (int i = 0; i < 2; ++i) {
    // The low word comes first; it is the one that is never 0 (9.4).
    const volatile uint32_t* at = remote_wait(&p->links[side][i], kSerial, 4);
    serials[i] = at[0];
    at = remote_read(&p->links[side][i], kSerial, 8);
    serials[i] |= (uint64_t)at[1] << 32;
  }
  ok_equal(serials[1], serials[0], "9.2: both %s links of device %u", side ? "right" : "left",
           p->index);
  return serials[0];
}

static void set_values(const struct device* d, uint64_t left, uint64_t right) {
  set_word(d, kValues + 0, (uint32_t)(left >> 32));
  set_word(d, kValues + 4, (uint32_t)left);
  set_word(d, kValues + 8, (uint32_t)(right >> 32));
  set_word(d, kValues + 12, (uint32_t)right);
}

static void clear_values(const struct device* d) {
  for (uint32_t at = 16; at != 0; at -= 4) set_word(d, kValues + at - 4, 0);
}

// Step 4: what the neighbour has on its left and on its right.
static void values_of(struct participant* p, int side, uint64_t* left, uint64_t* right) {
  const volatile uint32_t* at = remote_wait(&p->links[side][0], kValues, 16);
  *left = (uint64_t)at[0] << 32 | at[1];
  *right = (uint64_t)at[2] << 32 | at[3];
}

// Step 7: both neighbours have come as far.
static void wait_for_both(struct participant* p) {
  for (int side = 0; side < kSides; ++side) {
    for (;;) {
      const uint32_t status = remote_read(&p->links[side][0], kStatus, 4)[0] & 0xFF;
      if (status != 0) {
        ok_equal(status, STATUS_GOOD, "9.4: %s neighbour of device %u agrees",
                 side ? "right" : "left", p->index);
        break;
      }
      if (now_ns() > deadline) bail_out("a neighbour does not agree");
      sleep_ms(ROUND_MS);
    }
  }
}

static void secondary(struct participant* p) {
  const struct device* d = &p->device;
  set_word(d, kStatus, 0);
  for (int side = 0; side < kSides; ++side) (void)neighbour(p, side);
  set_values(d, p->index, p->index);
  for (int side = 0; side < kSides; ++side) {
    uint64_t left, right;
    values_of(p, side, &left, &right);
    ok_equal(left, p->index, "9.4: device %u is wired to its like", p->index);
  }
  set_word(d, kStatus, STATUS_GOOD);
  wait_for_both(p);
  clear_values(d);
}

static unsigned node_id(uint64_t own, uint64_t left, uint64_t right, uint64_t diagonal,
                        uint64_t* pod) {
  if (own < diagonal && own < left && own < right) {
    *pod = own;
    return 0;
  }
  if (own >= diagonal && diagonal < left && diagonal < right) {
    *pod = diagonal;
    return 2;
  }
  *pod = left < right ? left : right;
  return left < right ? 1 : 3;
}

static void primary(struct participant* p) {
  const struct device* d = &p->device;
  set_word(d, kStatus, STATUS_INIT_PRIMARY);
  const uint64_t left = neighbour(p, kLeft), right = neighbour(p, kRight);
  set_values(d, left, right);
  uint64_t of_left[2], of_right[2], pod;
  values_of(p, kLeft, &of_left[0], &of_left[1]);
  values_of(p, kRight, &of_right[0], &of_right[1]);
  ok(of_left[0] == p->serial && of_right[1] == p->serial, "9.5: cables have one name");
  ok_equal(of_right[0], of_left[1], "9.4: both neighbours see one diagonal");
  const unsigned node = node_id(p->serial, left, right, of_left[1], &pod);
  set_word(d, kStatus, STATUS_INIT_PRIMARY | STATUS_GOOD);
  wait_for_both(p);
  clear_values(d);
  set_word(d, kStatus, STATUS_GOOD | 3u << 8 | node << 16 | 4u << 24);
  set_word(d, kStatus + 4, (uint32_t)(pod >> 32));
  set_word(d, kStatus + 8, (uint32_t)pod);
  say("elected: node %u of 4, pod %llx, serial %llx", node, (unsigned long long)pod,
      (unsigned long long)p->serial);
}

void check_election(void) {
  static struct participant all[MOST_DEVICES];
  const unsigned count = devices_count();
  if (count == 0) bail_out("no device on the PCI bus");
  deadline = now_ns() + DEADLINE_S * 1000000000ull;
  for (unsigned n = 0; n < count; ++n) {
    struct participant* p = &all[n];
    device_open_nth(&p->device, n);
    p->index = device_index(&p->device, word(&p->device, kRoutingId));
    if (!ok_equal(p->index, n, "1.5: number of a device")) bail_out("the order is another");
    if (!ok(reset_device(&p->device), "8.2: device reset")) bail_out("no reset");
    p->serial = word(&p->device, kSerial) | (uint64_t)word(&p->device, kSerial + 4) << 32;
    open_links(p);
  }
  // 9.4: in the same order on every node.
  for (unsigned n = 1; n < count; ++n) secondary(&all[n]);
  primary(&all[0]);
}
