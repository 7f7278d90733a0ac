/* Two ranks load the same NEFF, run its all-reduce, and check the sums.
 *
 *   allreduce_two_ranks FILE.neff                      both ranks as threads of this process
 *   allreduce_two_ranks FILE.neff --rank R --ranks N   one rank per process
 *
 * The ranks meet through NEURON_RT_ROOT_COMM_ID (default here: localhost:61239). One process per
 * rank also needs NEURON_RT_VISIBLE_CORES. Input: float32 tensors; the output of every rank must be
 * the sum over all ranks. Uses only the public runtime API. Exit status: 0 right, 1 wrong, 2 usage.
 */
#include <errno.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxThreads = 2, kRounds = 3 };

struct rank {
  uint32_t rank;
  uint32_t ranks;
  int core;
  nrt_model_t* model;
  nrt_tensor_info_array_t* info;
  int result;
};

static int failed(const struct rank* r, const char* what, NRT_STATUS status) {
  fprintf(stderr, "rank %u: %s: %s (%d)\n", r->rank, what, nrt_get_status_as_str(status),
          (int)status);
  return 1;
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  void* bytes = NULL;
  long end = file != NULL && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  if (end > 0 && fseek(file, 0, SEEK_SET) == 0 && (bytes = malloc((size_t)end)) != NULL) {
    if (fread(bytes, 1, (size_t)end, file) != (size_t)end) {
      free(bytes);
      bytes = NULL;
    }
  }
  if (bytes == NULL)
    fprintf(stderr, "%s: %s\n", path, file == NULL ? strerror(errno) : "cannot read");
  if (file != NULL) fclose(file);
  *size = end > 0 ? (size_t)end : 0;
  return bytes;
}

/* Differs by rank, index and round; sums of small integers are exact in float32. */
static float value(uint32_t rank, size_t i, int round) {
  return (float)((i * 3 + rank * 17 + (size_t)round * 5) % 512) - (float)(rank + 1);
}

static int write_inputs(struct rank* r, nrt_tensor_t** tensors, int round) {
  for (uint64_t t = 0; t < r->info->tensor_count; ++t) {
    const nrt_tensor_info_t* info = &r->info->tensor_array[t];
    if (info->usage != NRT_TENSOR_USAGE_INPUT) continue;
    float* data = malloc(info->size);
    if (data == NULL) return 1;
    for (size_t i = 0; i < info->size / sizeof(float); ++i) data[i] = value(r->rank, i, round);
    NRT_STATUS status = nrt_tensor_write(tensors[t], data, 0, info->size);
    free(data);
    if (status != NRT_SUCCESS) return failed(r, "nrt_tensor_write", status);
  }
  return 0;
}

static int check_outputs(struct rank* r, nrt_tensor_t** tensors, int round) {
  for (uint64_t t = 0; t < r->info->tensor_count; ++t) {
    const nrt_tensor_info_t* info = &r->info->tensor_array[t];
    if (info->usage != NRT_TENSOR_USAGE_OUTPUT) continue;
    float* data = malloc(info->size);
    if (data == NULL) return 1;
    NRT_STATUS status = nrt_tensor_read(tensors[t], data, 0, info->size);
    size_t n = info->size / sizeof(float);
    size_t wrong = 0;
    for (size_t i = 0; status == NRT_SUCCESS && i < n; ++i) {
      float expected = 0;
      for (uint32_t k = 0; k < r->ranks; ++k) expected += value(k, i, round);
      wrong += data[i] != expected;
    }
    free(data);
    if (status != NRT_SUCCESS) return failed(r, "nrt_tensor_read", status);
    printf("rank %u: %s: %zu elements, %zu wrong\n", r->rank, info->name, n, wrong);
    if (wrong != 0) return 1;
  }
  return 0;
}

static void* run(void* argument) {
  struct rank* r = argument;
  size_t count = (size_t)r->info->tensor_count;
  nrt_tensor_t** tensors = calloc(count, sizeof *tensors);
  nrt_tensor_set_t* sets[2] = {NULL, NULL};
  r->result = tensors == NULL;
  for (int s = 0; s < 2 && r->result == 0; ++s) {
    NRT_STATUS status = nrt_allocate_tensor_set(&sets[s]);
    if (status != NRT_SUCCESS) r->result = failed(r, "nrt_allocate_tensor_set", status);
  }
  for (size_t t = 0; t < count && r->result == 0; ++t) {
    const nrt_tensor_info_t* info = &r->info->tensor_array[t];
    NRT_STATUS status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, r->core, info->size,
                                            info->name, &tensors[t]);
    if (status == NRT_SUCCESS) {
      status = nrt_add_tensor_to_tensor_set(sets[info->usage == NRT_TENSOR_USAGE_OUTPUT],
                                            info->name, tensors[t]);
    }
    if (status != NRT_SUCCESS) r->result = failed(r, info->name, status);
  }
  for (int round = 0; round < kRounds && r->result == 0; ++round) {
    r->result = write_inputs(r, tensors, round);
    if (r->result != 0) break;
    NRT_STATUS status = nrt_execute(r->model, sets[0], sets[1]);
    r->result =
        status == NRT_SUCCESS ? check_outputs(r, tensors, round) : failed(r, "nrt_execute", status);
  }
  for (size_t t = 0; tensors != NULL && t < count; ++t) nrt_tensor_free(&tensors[t]);
  for (int s = 0; s < 2; ++s) nrt_destroy_tensor_set(&sets[s]);
  free(tensors);
  return NULL;
}

/* Loads the ranks of this process one after the other, then runs them side by side. */
static int run_ranks(const void* neff, size_t size, struct rank* ranks, int local) {
  int loaded = 0;
  int result = 0;
  for (; loaded < local && result == 0; ++loaded) {
    struct rank* r = &ranks[loaded];
    NRT_STATUS status = nrt_load_collectives(neff, size, r->core, 1, r->rank, r->ranks, &r->model);
    if (status != NRT_SUCCESS) {
      result = failed(r, "nrt_load_collectives", status);
      break;
    }
    status = nrt_get_model_tensor_info(r->model, &r->info);
    if (status != NRT_SUCCESS) result = failed(r, "nrt_get_model_tensor_info", status);
  }
  pthread_t threads[kMaxThreads];
  int started = 0;
  while (result == 0 && started < local) {
    if (pthread_create(&threads[started], NULL, run, &ranks[started]) != 0) result = 1;
    if (result == 0) ++started;
  }
  for (int i = 0; i < started; ++i) {
    pthread_join(threads[i], NULL);
    result |= ranks[i].result;
  }
  for (int i = 0; i < loaded; ++i) {
    NRT_STATUS status = nrt_unload(ranks[i].model);
    if (status != NRT_SUCCESS) result |= failed(&ranks[i], "nrt_unload", status);
    nrt_free_model_tensor_info(ranks[i].info);
  }
  return result;
}

int main(int argc, char** argv) {
  struct rank ranks[kMaxThreads] = {{0}};
  int local = kMaxThreads;
  for (int i = 0; i < kMaxThreads; ++i) {
    ranks[i].rank = (uint32_t)i;
    ranks[i].ranks = kMaxThreads;
    ranks[i].core = i;
  }
  for (int i = 2; i + 1 < argc; i += 2) {
    uint32_t number = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--rank") == 0) ranks[0].rank = number;
    if (strcmp(argv[i], "--ranks") == 0) ranks[0].ranks = number;
    local = 1;
  }
  if (argc < 2 || argc % 2 != 0 || ranks[0].rank >= ranks[0].ranks) {
    fprintf(stderr, "usage: %s FILE.neff [--rank R --ranks N]\n", argv[0]);
    return 2;
  }
  setenv("NEURON_RT_ROOT_COMM_ID", "localhost:61239", 0);
  size_t size = 0;
  void* neff = read_file(argv[1], &size);
  if (neff == NULL) return 1;
  NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
  int result = status == NRT_SUCCESS ? run_ranks(neff, size, ranks, local)
                                     : failed(&ranks[0], "nrt_init", status);
  nrt_close();
  free(neff);
  if (result == 0) printf("all-reduce of %u ranks: ok\n", ranks[0].ranks);
  return result;
}
