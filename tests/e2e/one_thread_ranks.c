/* Several ranks in one thread of one process, without a root id: all are loaded one after the
 * other, and execute through the asynchronous API, for a synchronous call of one would wait for the
 * others.
 *
 *   one_thread_ranks NEFF RANKS ROUNDS
 *
 * NEFF sums x of all ranks into y (float32). Prints "sums are right". */
#include <assert.h>
#include <nrt/nrt.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_experimental.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMaxRanks = 16 };

static void check(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}
static void require(NRT_STATUS status, const char* what) {
  if (status == NRT_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  exit(1);
}

static nrt_tensor_t* tensor(int core, const char* name, size_t bytes, nrt_tensor_set_t* set) {
  nrt_tensor_t* made = NULL;
  require(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, bytes, name, &made), name);
  require(nrt_add_tensor_to_tensor_set(set, name, made), name);
  return made;
}

int main(int argc, char** argv) {
  check(argc == 4, "arguments");
  const int ranks = atoi(argv[2]);
  const int rounds = atoi(argv[3]);
  check(ranks >= 1 && ranks <= kMaxRanks, "number of ranks");
  FILE* file = fopen(argv[1], "rb");
  check(file != NULL, argv[1]);
  fseek(file, 0, SEEK_END);
  const size_t size = (size_t)ftell(file);
  rewind(file);
  void* neff = malloc(size);
  check(fread(neff, 1, size, file) == size, "read of the NEFF");
  fclose(file);

  nrt_model_t* model[kMaxRanks];
  nrt_tensor_set_t *in[kMaxRanks], *out[kMaxRanks];
  nrt_tensor_t *x[kMaxRanks], *y[kMaxRanks];
  nrta_error_tracker_t* errors[kMaxRanks];
  size_t bytes = 0;
  require(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init");
  for (int r = 0; r < ranks; ++r) {
    require(nrt_load_collectives(neff, size, r, 1, (uint32_t)r, (uint32_t)ranks, &model[r]),
            "nrt_load_collectives");
    nrt_tensor_info_array_t* info = NULL;
    require(nrt_get_model_tensor_info(model[r], &info), "tensor info");
    bytes = info->tensor_array[0].size;
    nrt_free_model_tensor_info(info);
    require(nrt_allocate_tensor_set(&in[r]), "set");
    require(nrt_allocate_tensor_set(&out[r]), "set");
    x[r] = tensor(r, "x", bytes, in[r]);
    y[r] = tensor(r, "y", bytes, out[r]);
    require(nrta_error_tracker_create((uint32_t)r, &errors[r]), "tracker");
  }
  const size_t elements = bytes / sizeof(float);
  float* data = malloc(bytes);
  for (int round = 0; round < rounds; ++round) {
    nrta_seq_t sequence[kMaxRanks];
    for (int r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < elements; ++i)
        data[i] = (float)((i % 97 + 1) * (size_t)(r + round + 1));
      require(nrt_tensor_write(x[r], data, 0, bytes), "write");
    }
    for (int r = 0; r < ranks; ++r) {
      require(nrta_execute_schedule(model[r], in[r], out[r], 0, errors[r], &sequence[r]),
              "schedule");
    }
    size_t factor = 0;
    for (int r = 0; r < ranks; ++r) {
      int fd = -1;
      require(nrta_get_completion_handle(sequence[r], &fd), "completion handle");
      struct pollfd ready = {fd, POLLIN, 0};
      check(poll(&ready, 1, 120000) == 1, "a completion that never comes");
      close(fd);
      const nrta_error_t* list = NULL;
      size_t failures = 1;
      require(nrta_error_tracker_get_list(errors[r], &list, &failures), "list");
      check(failures == 0, "an execution that failed");
      factor += (size_t)(r + round + 1);
    }
    for (int r = 0; r < ranks; ++r) {
      require(nrt_tensor_read(y[r], data, 0, bytes), "read");
      for (size_t i = 0; i < elements; ++i) {
        check(data[i] == (float)((i % 97 + 1) * factor), "sum");
      }
    }
  }
  printf("sums are right\n");
  nrt_close();
  return 0;
}
