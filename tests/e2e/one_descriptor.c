/* Rings in device memory, built through the driver library, and what they do to device memory. The
 * same rings run twice: as built, and with the destination of one descriptor changed in place.
 * Every byte of the region is compared both times. Uses only libndl's public header; register-level
 * facts are those of the published DMA descriptors. */
#include <ndl/ndl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kEngine = 5,
  kQueue = 3,
  kRing = 64,
  kCopies = 24,
  kSlot = 4096,
  kSlots = 32,
  kRegion = kSlot * kSlots,
  kChanged = 13, /* the descriptor that is changed */
  kFreeSlot = 29 /* nobody else writes there */
};

struct descriptor {
  uint32_t w0, w1;
  uint64_t address;
};

static unsigned char source[kRegion], got[kRegion], want[kRegion];

static void die(const char* what) {
  perror(what);
  exit(2);
}
#define DO(call) \
  if ((call) != 0) die(#call)

static uint32_t length(int i) {
  return 256 + (uint32_t)i * 97;
}
static int place(int i) {
  return (i * 5 + 2) % 28;
} /* a permutation: 5 and 28 are coprime */

static uint64_t address_of(uint64_t handle) {
  uint64_t pa = 0;
  DO(ndl_memory_get_pa(handle, &pa));
  return pa;
}

/* Runs the rings from their start and waits until both halves have reached their tails. */
static void run(uint64_t tx, uint64_t rx) {
  struct neuron_dma_queue_state t, r;
  DO(ndl_dma_queue_init(0, kEngine, kQueue, kRing, kRing, tx, rx, 0, 0));
  DO(ndl_dma_queue_copy_start(0, kEngine, kQueue, kCopies, kCopies));
  for (int tries = 0; tries < 1000; ++tries) {
    DO(ndl_dma_queue_get_state(0, kEngine, kQueue, &t, &r));
    if ((t.head_pointer & 0xFFFFFF) == kCopies && (r.head_pointer & 0xFFFFFF) == kCopies) return;
  }
  fprintf(stderr, "the queue stays at %u and %u\n", t.head_pointer, r.head_pointer);
  exit(2);
}

static int compare(const char* what, uint64_t destination) {
  DO(ndl_memory_buf_copyout(destination, got, 0, kRegion));
  int wrong = 0, first = -1;
  for (int i = 0; i < kRegion; ++i) {
    if (got[i] == want[i]) continue;
    if (first < 0) first = i;
    ++wrong;
  }
  printf("%s: %d bytes differ", what, wrong);
  if (wrong != 0) printf(", the first at %d", first);
  printf("\n");
  return wrong != 0;
}

static void expect(const int* slots) {
  memset(want, 0xEE, kRegion);
  for (int i = 0; i < kCopies; ++i) {
    memcpy(want + slots[i] * kSlot + i, source + i * kSlot, length(i));
  }
}

int main(void) {
  ndl_device_t* device = NULL;
  uint64_t from = 0, to = 0, tx = 0, rx = 0;
  int slots[kCopies];
  DO(ndl_open_device(0, NULL, &device));
  DO(ndl_memory_alloc(device, kRegion, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &from));
  DO(ndl_memory_alloc(device, kRegion, 0, 0, 1, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &to));
  DO(ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &tx));
  DO(ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &rx));
  for (int i = 0; i < kRegion; ++i) source[i] = (unsigned char)(i * 31 + i / 251 + i / 4096);
  DO(ndl_memory_buf_copyin(from, source, 0, kRegion));

  struct descriptor send[kCopies], receive[kCopies];
  for (int i = 0; i < kCopies; ++i) {
    slots[i] = place(i);
    const uint32_t ring_id = 1u << 24;
    send[i].w0 = length(i) | ring_id | 3u << 26; /* first and last of its packet */
    send[i].w1 = 0x01080003;                     /* copy */
    send[i].address = address_of(from) + (uint64_t)i * kSlot;
    receive[i].w0 = length(i) | ring_id;
    receive[i].w1 = 0;
    receive[i].address = address_of(to) + (uint64_t)(slots[i] * kSlot + i);
  }
  DO(ndl_dma_copy_descriptors(tx, send, 0, kCopies, NEURON_DMA_QUEUE_TYPE_TX));
  DO(ndl_dma_copy_descriptors(rx, receive, 0, kCopies, NEURON_DMA_QUEUE_TYPE_RX));

  memset(got, 0xEE, kRegion);
  DO(ndl_memory_buf_copyin(to, got, 0, kRegion));
  run(tx, rx);
  expect(slots);
  int failed = compare("as built", to);

  /* Eight bytes of the prebuilt ring change; nothing else is written again. */
  const uint64_t moved = address_of(to) + kFreeSlot * kSlot + kChanged;
  memset(got, 0xEE, kRegion);
  DO(ndl_memory_buf_copyin(to, got, 0, kRegion));
  DO(ndl_memory_buf_copyin(rx, (void*)&moved, kChanged * 16 + 8, sizeof moved));
  run(tx, rx);
  failed |= compare("against the old expectation", to) == 0; /* it must have moved */
  slots[kChanged] = kFreeSlot;
  expect(slots);
  failed |= compare("one destination changed", to);
  for (uint64_t* h = (uint64_t[]){from, to, tx, rx, 0}; *h != 0; ++h) DO(ndl_memory_free(*h));
  DO(ndl_close_device(device));
  printf("%s\n", failed ? "FAILED" : "ok");
  return failed;
}
