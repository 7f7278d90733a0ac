/* One long copy from one HBM stack to the other by one DMA engine of core 0: the only request of
 * this program that takes long, so its simulated time is the longest of the report. Uses only
 * libndl's public header. */
#include <ndl/ndl.h>
#include <stdio.h>
#include <stdlib.h>

enum { kEngine = 2, kQueue = 1, kRing = 64, kCopies = 60, kPiece = 65536 };

struct descriptor {
  uint32_t w0, w1;
  uint64_t address;
};

static void die(const char* what) {
  perror(what);
  exit(2);
}
#define DO(call) \
  if ((call) != 0) die(#call)

static uint64_t allocate(ndl_device_t* device, size_t size, uint32_t hbm, uint32_t type,
                         uint64_t* handle) {
  uint64_t pa = 0;
  DO(ndl_memory_alloc(device, size, 0, 0, hbm, 0, 0, type, handle));
  DO(ndl_memory_get_pa(*handle, &pa));
  return pa;
}

int main(void) {
  ndl_device_t* device = NULL;
  uint64_t from, to, tx, rx;
  DO(ndl_open_device(0, NULL, &device));
  const uint64_t source =
      allocate(device, kCopies * kPiece, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &from);
  const uint64_t destination =
      allocate(device, kCopies * kPiece, 1, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &to);
  allocate(device, 4096, 0, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &tx);
  allocate(device, 4096, 0, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &rx);
  struct descriptor send[kCopies], receive[kCopies];
  for (uint32_t i = 0; i < kCopies; ++i) {
    /* Length 0 stands for 64 KiB; ring id 1; a packet of its own. */
    send[i] = (struct descriptor){1u << 24 | 3u << 26, 0x01080003, source + i * kPiece};
    receive[i] = (struct descriptor){1u << 24, 0, destination + i * kPiece};
  }
  DO(ndl_dma_copy_descriptors(tx, send, 0, kCopies, NEURON_DMA_QUEUE_TYPE_TX));
  DO(ndl_dma_copy_descriptors(rx, receive, 0, kCopies, NEURON_DMA_QUEUE_TYPE_RX));
  DO(ndl_dma_queue_init(0, kEngine, kQueue, kRing, kRing, tx, rx, 0, 0));
  DO(ndl_dma_queue_copy_start(0, kEngine, kQueue, kCopies, kCopies));
  struct neuron_dma_queue_state t, r = {0};
  for (int tries = 0; tries < 1000 && r.head_pointer != kCopies; ++tries) {
    DO(ndl_dma_queue_get_state(0, kEngine, kQueue, &t, &r));
  }
  if (r.head_pointer != kCopies) die("the copy does not end");
  DO(ndl_close_device(device));
  return 0;
}
