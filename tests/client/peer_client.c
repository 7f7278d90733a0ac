/* Memory of a device that a device of another host writes: libndl and published descriptors only.
 *   peer_client hold                     prints chip and address, then at each line of input what
 * is there peer_client send CHIP ADDRESS VALUE  fills it; says whether that came to an end */
#include <ndl/ndl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kEngine = 5, kQueue = 3, kRing = 64, kBytes = 4096, kMark = 64, kTries = 100 };

struct descriptor {
  uint32_t w0, w1;
  uint64_t address;
};

#define DO(call)     \
  if ((call) != 0) { \
    perror(#call);   \
    exit(2);         \
  }

static ndl_device_t* device;
static unsigned char bytes[kBytes];

static uint64_t allocate(uint32_t type, uint64_t* handle) {
  uint64_t address = 0;
  DO(ndl_memory_alloc(device, kBytes, 0, 0, 0, 0, 0, type, handle));
  DO(ndl_memory_get_pa(*handle, &address));
  return address;
}

/* Register `chip` of CC-core 0: docs/hardware-contract.md 1. */
static uint32_t own_chip(void) {
  uint64_t address = device->csr_base[0] + 0xF0000000 + 0x2FF8;
  uint32_t chip = 0;
  DO(ndl_bar_read(device, 0, &address, 1, &chip));
  return chip;
}

static int hold(void) {
  uint64_t handle = 0;
  const uint64_t address = allocate(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &handle);
  DO(ndl_memory_buf_copyin(handle, bytes, 0, kBytes));
  printf("%u %llu\n", own_chip(), (unsigned long long)address);
  fflush(stdout);
  for (int c; (c = getchar()) != EOF;) {
    if (c != '\n') continue;
    DO(ndl_memory_buf_copyout(handle, bytes, 0, kBytes));
    printf("%u %u\n", bytes[0], bytes[kBytes - 1]);
    fflush(stdout);
  }
  return 0;
}

/* A second packet of the queue ends after the first: what it writes at home says that both have. */
static int send_to(uint64_t chip, uint64_t address, int value) {
  uint64_t from = 0, mark = 0, tx = 0, rx = 0;
  const uint64_t source = allocate(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &from);
  const uint64_t marker = allocate(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &mark);
  allocate(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &tx);
  allocate(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &rx);
  DO(ndl_memory_buf_copyin(mark, bytes, 0, kBytes));
  memset(bytes, value, kBytes);
  DO(ndl_memory_buf_copyin(from, bytes, 0, kBytes));
  const uint64_t peer = 1ull << 63 | chip << 53 | address;
  const uint32_t packet = 1u << 24 | 3u << 26, copy = 0x01080003, ring = 1u << 24;
  struct descriptor send[2] = {{kBytes | packet, copy, source}, {kMark | packet, copy, source}};
  struct descriptor receive[2] = {{kBytes | ring, 0, peer}, {kMark | ring, 0, marker}};
  DO(ndl_dma_copy_descriptors(tx, send, 0, 2, NEURON_DMA_QUEUE_TYPE_TX));
  DO(ndl_dma_copy_descriptors(rx, receive, 0, 2, NEURON_DMA_QUEUE_TYPE_RX));
  DO(ndl_dma_queue_init(0, kEngine, kQueue, kRing, kRing, tx, rx, 0, 0));
  DO(ndl_dma_queue_copy_start(0, kEngine, kQueue, 2, 2));
  for (int tries = 0; tries < kTries; ++tries) {
    DO(ndl_memory_buf_copyout(mark, bytes, 0, kMark));
    if (bytes[0] != value) continue;
    printf("sent\n");
    return 0;
  }
  printf("no answer\n");
  return 1;
}

int main(int argc, char** argv) {
  DO(ndl_open_device(0, NULL, &device));
  if (argc == 2 && strcmp(argv[1], "hold") == 0) return hold();
  if (argc != 5) return 2;
  return send_to(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), atoi(argv[4]));
}
