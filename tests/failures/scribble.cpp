/* Preloaded in front of libnrt and the shim: a rank that writes garbage over what is its own on a
 * Trainium1 device, as a defect of a runtime might, while its second execution is under way:
 * program memory, operation table and semaphores of its CC-cores, semaphores and engine registers
 * of its core, and its DMA rings, as far as the driver lets it. SCRIBBLE_CORE is the core's number
 * on its device, SCRIBBLE_DEVICE the device, SCRIBBLE_SEED what the garbage depends on,
 * SCRIBBLE_WHAT a string of the letters p (programs), o (operations), c (CC-core semaphores), s
 * (semaphores), e (engines), r (rings). With SCRIBBLE_FLIP one bit of every eighth word changes,
 * but for rings. */
#include <dlfcn.h>
#include <ndl/ndl.h>
#include <nrt/nrt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/failures/driver_calls.h"

/* spec/hw-registers.md 2.2 and docs/hardware-contract.md 5: offsets in the register BAR. */
static const uint64_t kCore = 0x04000000, kCcCores = 0x10000000, kCcWindow = 0x400000;
static const uint64_t kPrograms = 0x10000, kOperations = 0x4000, kSet = 0x1400;
static const uint64_t kSemaphores = 0x02700000, kEngines = 0x02600000, kEngineStride = 0x10000;
enum { kCcPerCore = 3, kRings = 64, kWords = 256 };

static struct ring {
  int fd;
  uint64_t memory; /* the driver's handle */
  uint32_t type;
} rings[kRings];
static unsigned ring_count, executions;
static uint64_t state;

static uint32_t number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? (uint32_t)strtoul(text, NULL, 0) : 0;
}

static uint32_t garbage(void) { /* xorshift64* */
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)(state * 2685821657736338717ull >> 32);
}

static void fill(ndl_device_t* device, uint64_t at, uint32_t words) {
  for (uint32_t i = 0; i < words; ++i) {
    uint64_t address = device->csr_base[0] + at + 4 * i;
    uint32_t value = garbage();
    if (getenv("SCRIBBLE_FLIP") != NULL) {
      if (garbage() % 8 != 0 || ndl_bar_read(device, 0, &address, 1, &value) != 0) continue;
      value ^= 1u << garbage() % 32;
    }
    ndl_bar_write(device, 0, &address, 1, &value); /* what the driver refuses stays */
  }
}

static void fill_rings(void) {
  for (unsigned r = 0; r < ring_count && r < kRings; ++r) {
    uint32_t words[4 * 16];
    for (unsigned i = 0; i < sizeof words / sizeof *words; ++i) words[i] = garbage();
    driver::uapi::dma_copy_descriptors64 request = {};
    request.mem_handle = rings[r].memory;
    request.buffer = (uint64_t)words;
    request.num_descs = 16;
    request.queue_type = rings[r].type;
    failures::next_ioctl(rings[r].fd, driver::uapi::kDmaCopyDescriptors64, &request);
  }
}

static void* scribble(void* unused) {
  ndl_device_t* device = NULL;
  const char* what = getenv("SCRIBBLE_WHAT");
  usleep(200 * 1000); /* until the rank waits for the others */
  state = number("SCRIBBLE_SEED") + 1;
  if (what == NULL || ndl_open_device((int)number("SCRIBBLE_DEVICE"), NULL, &device) != 0) _exit(9);
  const uint32_t core = number("SCRIBBLE_CORE");
  const uint64_t cc = kCcCores + core * kCcPerCore * kCcWindow;
  for (unsigned i = 0; i < kCcPerCore; ++i) {
    if (strchr(what, 'p')) fill(device, cc + i * kCcWindow + kPrograms, kWords);
    if (strchr(what, 'o')) fill(device, cc + i * kCcWindow + kOperations, kWords);
    if (strchr(what, 'c')) fill(device, cc + i * kCcWindow + kSet, kWords);
  }
  if (strchr(what, 's')) fill(device, core * kCore + kSemaphores + kSet, kWords);
  for (unsigned i = 0; i < 5 && strchr(what, 'e'); ++i) {
    fill(device, core * kCore + kEngines + i * kEngineStride, 16);
  }
  if (strchr(what, 'r')) fill_rings();
  ndl_close_device(device);
  fprintf(stderr, "scribbled\n");
  return unused;
}

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if ((uint32_t)request == driver::uapi::kDmaCopyDescriptors64 && ring_count < kRings) {
    const auto* asked = (const driver::uapi::dma_copy_descriptors64*)argument;
    rings[ring_count++] = ring{fd, asked->mem_handle, asked->queue_type};
  }
  return failures::next_ioctl(fd, request, argument);
}

extern "C" NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* in,
                                  nrt_tensor_set_t* out) {
  NRT_STATUS (*next)(nrt_model_t*, const nrt_tensor_set_t*, nrt_tensor_set_t*);
  *(void**)&next = dlsym(RTLD_NEXT, "nrt_execute");
  pthread_t thread;
  const int hit = ++executions == 2 && pthread_create(&thread, NULL, scribble, NULL) == 0;
  const NRT_STATUS status = next(model, in, out);
  if (hit) pthread_join(thread, NULL);
  return status;
}
