/* The rings that nrt_load built are what runs: one destination in one of their descriptors is
 * changed behind the runtime's back, in device memory, and exactly those bytes go elsewhere.
 *
 *   one_loaded_descriptor FILE.neff       a NEFF whose float32 output is the sum of its inputs
 *
 * A ring holds each transfer several times, for the laps of its ring ids, so one execution in
 * 16 or fewer shows the change. Every execution must either be right or misplace just those bytes.
 * Uses only the public headers of libnrt and libndl. */
#include <ndl/ndl.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kEngines = 16,    /* of core 0 */
  kQueues = 14,     /* those of the runtime */
  kHandEngine = 15, /* writes the change, on a queue that nobody uses */
  kHandQueue = 13,
  kExecutions = 32,
  kBackground = 0xEE
};
static const uint64_t kHbmEnd = 0x800000000; /* Trainium1: two stacks of 16 GiB from 0 */

struct descriptor {
  uint32_t w0, w1;
  uint64_t address;
};

static void die(const char* what) {
  fprintf(stderr, "failed: %s\n", what);
  exit(2);
}
#define DO(call) \
  if ((call) != 0) die(#call)

static nrt_model_t* model;
static nrt_tensor_set_t* sets[2];
static nrt_tensor_t* output;
static size_t bytes;
static float* sums;

static void load(const char* path) {
  static unsigned char neff[1 << 20];
  FILE* file = fopen(path, "rb");
  const size_t size = file != NULL ? fread(neff, 1, sizeof neff, file) : 0;
  if (size == 0) die(path);
  fclose(file);
  nrt_tensor_info_array_t* info = NULL;
  DO(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  DO(nrt_load(neff, size, 0, 1, &model));
  DO(nrt_get_model_tensor_info(model, &info));
  for (int s = 0; s < 2; ++s) DO(nrt_allocate_tensor_set(&sets[s]));
  for (uint64_t t = 0; t < info->tensor_count; ++t) {
    const nrt_tensor_info_t* one = &info->tensor_array[t];
    const int out = one->usage == NRT_TENSOR_USAGE_OUTPUT;
    nrt_tensor_t* tensor = NULL;
    bytes = one->size;
    DO(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes, one->name, &tensor));
    DO(nrt_add_tensor_to_tensor_set(sets[out], one->name, tensor));
    if (out) output = tensor;
    if (out) continue;
    float* data = malloc(bytes);
    if (sums == NULL) sums = calloc(1, bytes);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) {
      data[i] = (float)((i * (5 + t) + 1) % 4001);
      sums[i] += data[i];
    }
    DO(nrt_tensor_write(tensor, data, 0, bytes));
    free(data);
  }
}

/* The receive descriptors of core 0 that write to HBM: the lowest destination, which is the start
 * of the output, and the place of one descriptor in the middle of a ring. */
struct found {
  uint64_t output_start;
  uint64_t descriptor;
  uint64_t destination;
  uint32_t length;
};

static struct found find(void) {
  struct found f = {~0ull, 0, 0, 0};
  for (int e = 0; e < kEngines; ++e) {
    for (int q = 0; q < kQueues; ++q) {
      struct neuron_dma_queue_state t, r;
      DO(ndl_dma_queue_get_state(0, (uint8_t)e, (uint8_t)q, &t, &r));
      if (r.length == 0 || r.length > 65536 || r.base_addr == 0 || r.base_addr >= kHbmEnd) continue;
      struct descriptor* ring = calloc(r.length, sizeof *ring);
      if (ring == NULL) die("memory");
      DO(ndl_dma_descriptor_copyout(0, (uint8_t)e, (uint8_t)q, NEURON_DMA_QUEUE_TYPE_RX, 0,
                                    r.length, ring));
      for (uint32_t i = 0; i < r.length; ++i) {
        const uint32_t length = ring[i].w0 & 0xFFFF;
        if (ring[i].address == 0 || ring[i].address >= kHbmEnd || length < 16) continue;
        if (ring[i].address < f.output_start) f.output_start = ring[i].address;
        if (e != 3 || f.descriptor != 0) continue;
        f.descriptor = r.base_addr + i * sizeof *ring;
        f.destination = ring[i].address;
        f.length = length;
      }
      free(ring);
    }
  }
  if (f.descriptor == 0) die("no descriptor of core 0, engine 3, writes to HBM");
  return f;
}

/* Stores 8 bytes at any device address, by a DMA of our own. */
static void store(ndl_device_t* device, uint64_t address, uint64_t value) {
  uint64_t from = 0, tx = 0, rx = 0, pa = 0;
  DO(ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &from));
  DO(ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &tx));
  DO(ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, &rx));
  DO(ndl_memory_buf_copyin(from, &value, 0, sizeof value));
  DO(ndl_memory_get_pa(from, &pa));
  struct descriptor send = {8 | 1u << 24 | 3u << 26, 0x01080003, pa};
  struct descriptor receive = {8 | 1u << 24, 0, address};
  DO(ndl_dma_copy_descriptors(tx, &send, 0, 1, NEURON_DMA_QUEUE_TYPE_TX));
  DO(ndl_dma_copy_descriptors(rx, &receive, 0, 1, NEURON_DMA_QUEUE_TYPE_RX));
  DO(ndl_dma_queue_init(0, kHandEngine, kHandQueue, 64, 64, tx, rx, 0, 0));
  DO(ndl_dma_queue_copy_start(0, kHandEngine, kHandQueue, 1, 1));
  struct neuron_dma_queue_state t, r = {0};
  for (int tries = 0; tries < 1000 && (r.head_pointer & 0xFFFFFF) != 1; ++tries) {
    DO(ndl_dma_queue_get_state(0, kHandEngine, kHandQueue, &t, &r));
  }
  if ((r.head_pointer & 0xFFFFFF) != 1) die("the store does not end");
  for (uint64_t* h = (uint64_t[]){from, tx, rx, 0}; *h != 0; ++h) DO(ndl_memory_free(*h));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  load(argv[1]);
  unsigned char *got = malloc(bytes), *background = malloc(bytes);
  memset(background, kBackground, bytes);
  DO(nrt_execute(model, sets[0], sets[1])); /* binds the tensors: rings are complete now */
  DO(nrt_tensor_read(output, got, 0, bytes));
  if (memcmp(got, sums, bytes) != 0) die("wrong before the change");

  ndl_device_t* device = NULL;
  uint64_t elsewhere = 0, elsewhere_pa = 0;
  DO(ndl_open_device(0, NULL, &device));
  DO(ndl_memory_alloc(device, 65536, 0, 0, 1, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE,
                      &elsewhere));
  DO(ndl_memory_get_pa(elsewhere, &elsewhere_pa));
  const struct found f = find();
  const size_t at = f.destination - f.output_start;
  if (at + f.length > bytes) die("the descriptor does not write to the output");
  store(device, f.descriptor + 8, elsewhere_pa + 128);

  static unsigned char there[65536], want[65536];
  int moved = 0, right = 0;
  for (int n = 0; n < kExecutions; ++n) {
    memset(there, kBackground, sizeof there);
    DO(ndl_memory_buf_copyin(elsewhere, there, 0, sizeof there));
    DO(nrt_tensor_write(output, background, 0, bytes));
    DO(nrt_execute(model, sets[0], sets[1]));
    DO(nrt_tensor_read(output, got, 0, bytes));
    DO(ndl_memory_buf_copyout(elsewhere, there, 0, sizeof there));
    memset(want, kBackground, sizeof want);
    if (memcmp(got, sums, bytes) == 0 && memcmp(there, want, sizeof want) == 0) ++right;
    /* What it should have written is elsewhere, and its place in the output was left alone. */
    memcpy(want + 128, (unsigned char*)sums + at, f.length);
    if (memcmp(there, want, sizeof want) != 0) continue;
    unsigned char* expected = malloc(bytes);
    memcpy(expected, sums, bytes);
    memset(expected + at, kBackground, f.length);
    moved += memcmp(got, expected, bytes) == 0;
    free(expected);
  }
  printf("%u bytes at %zu of the output: %d executions moved them, %d did not, %d went wrong\n",
         f.length, at, moved, right, kExecutions - moved - right);
  DO(ndl_memory_free(elsewhere));
  DO(ndl_close_device(device));
  DO(nrt_unload(model));
  nrt_close();
  return moved == 0 || moved + right != kExecutions;
}
