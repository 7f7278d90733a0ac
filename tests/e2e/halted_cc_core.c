/* Two ranks of an all-reduce; while the first one waits for the second, a CC-core of the first is
 * halted from outside, as a hand on the hardware would. Both executions must end with a status, in
 * time, and not hang.
 *
 *   halted_cc_core FILE.neff CC-CORE      halts it (0 to 5)
 *   halted_cc_core FILE.neff none         the same without a halt: must succeed
 *
 * Prints "rank R: STATUS" per rank. Uses only the public headers of libnrt and libndl. */
#include <ndl/ndl.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Trainium1: the windows of the CC-cores in the register BAR, and their control register (2 = halt,
 * docs/hardware-contract.md 5). */
static const uint64_t kCcCores = 0x10000000, kCcWindow = 0x400000, kControl = 0x2004;

static nrt_model_t* models[2];
static NRT_STATUS results[2];

static void require(NRT_STATUS status, const char* what) {
  if (status == NRT_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  exit(2);
}

static void* execute(void* argument) {
  const int rank = (int)(intptr_t)argument;
  nrt_tensor_info_array_t* info = NULL;
  nrt_tensor_set_t* sets[2];
  require(nrt_get_model_tensor_info(models[rank], &info), "tensor info");
  for (int s = 0; s < 2; ++s) require(nrt_allocate_tensor_set(&sets[s]), "tensor set");
  for (uint64_t t = 0; t < info->tensor_count; ++t) {
    const nrt_tensor_info_t* one = &info->tensor_array[t];
    nrt_tensor_t* tensor = NULL;
    require(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, rank, one->size, one->name, &tensor),
            "tensor");
    require(nrt_add_tensor_to_tensor_set(sets[one->usage == NRT_TENSOR_USAGE_OUTPUT], one->name,
                                         tensor),
            "add");
  }
  results[rank] = nrt_execute(models[rank], sets[0], sets[1]);
  return NULL;
}

static void halt(uint32_t core) {
  ndl_device_t* device = NULL;
  if (ndl_open_device(0, NULL, &device) != 0) require(NRT_FAILURE, "open");
  uint64_t address = device->csr_base[0] + kCcCores + core * kCcWindow + kControl;
  uint32_t value = 2;
  if (ndl_bar_write(device, 0, &address, 1, &value) != 0) require(NRT_FAILURE, "halt");
  ndl_close_device(device);
}

int main(int argc, char** argv) {
  static unsigned char neff[1 << 20];
  FILE* file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  const size_t size = file != NULL ? fread(neff, 1, sizeof neff, file) : 0;
  if (size == 0) return 2;
  fclose(file);
  require(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "init");
  for (uint32_t r = 0; r < 2; ++r) {
    require(nrt_load_collectives(neff, size, (int)r, 1, r, 2, &models[r]), "load");
  }
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, execute, (void*)(intptr_t)0);
  usleep(300 * 1000); /* until rank 0 waits; without the wait the status is the same */
  if (strcmp(argv[2], "none") != 0) halt((uint32_t)strtoul(argv[2], NULL, 10));
  pthread_create(&threads[1], NULL, execute, (void*)(intptr_t)1);
  for (int r = 0; r < 2; ++r) pthread_join(threads[r], NULL);
  for (int r = 0; r < 2; ++r) printf("rank %d: %s\n", r, nrt_get_status_as_str(results[r]));
  fflush(stdout);
  nrt_close();
  return results[0] != NRT_SUCCESS || results[1] != NRT_SUCCESS;
}
