/* Asynchronous requests as a program of a user's sends them: writes, many executions with a full
 * queue, a read, waiting on descriptors only.
 *
 *   async_client NEFF COUNT
 *
 * NEFF adds a and b into c (float32). Prints "sync_ns S async_ns A": host time of COUNT executions
 * one by one and through the queue, the best of several rounds. Uses only the public headers of
 * libnrt; GENERATION chooses the form of the asynchronous functions. */
#include <assert.h>
#include <nrt/nrt.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_experimental.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 10 };

static nrt_model_t* model;
static nrt_tensor_set_t *in, *out;
static nrt_tensor_t *a, *b, *c;
static size_t bytes;

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

/* Of the host, whatever clock the machine shows. */
static uint64_t host_ns(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void* read_file(const char* name, size_t* size) {
  FILE* file = fopen(name, "rb");
  check(file != NULL, name);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* data = malloc(*size);
  check(fread(data, 1, *size, file) == *size, "read of the NEFF");
  fclose(file);
  return data;
}

#if GENERATION == 3
static NRT_STATUS results[4];
#define WHERE 0, /* lnc_idx */
#define REPORT(n) &results[n]
#else
static nrta_error_tracker_t* errors;
#define WHERE
#define REPORT(n) errors
#endif

static void wait_readable(int fd) {
  struct pollfd ready = {fd, POLLIN, 0};
  check(poll(&ready, 1, 60000) == 1, "a completion that never comes");
}

static void wait_for(nrta_seq_t sequence) {
#if GENERATION == 3
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  require(nrta_event_register_seq_id_completion(sequence, fd), "event");
#else
  int fd = -1;
  require(nrta_get_completion_handle(sequence, &fd), "completion handle");
#endif
  wait_readable(fd);
  close(fd);
  bool done = false;
  require(nrta_is_completed(sequence, &done), "is_completed");
  check(done, "a readable descriptor of an unfinished request");
}

static nrt_tensor_t* tensor(const char* name, nrt_tensor_set_t* set) {
  nrt_tensor_t* made = NULL;
  require(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes, name, &made), name);
  require(nrt_add_tensor_to_tensor_set(set, name, made), name);
  return made;
}

static void execute_each(int count) {
  for (int i = 0; i < count; ++i) require(nrt_execute(model, in, out), "nrt_execute");
}

static void execute_all(int count) {
  nrta_seq_t last = 0;
  for (int sent = 0; sent < count;) {
    NRT_STATUS status = nrta_execute_schedule(model, in, out, 0, REPORT(3), &last);
    if (status == NRT_QUEUE_FULL) {
      wait_for(last - 16); /* lets a part of the queue drain */
      continue;
    }
    require(status, "nrta_execute_schedule");
    check(NRTA_SEQ_GET_SEQ_NUM(last) >= (uint64_t)++sent, "a number that is too small");
  }
  wait_for(last);
  nrta_seq_t completed = 0;
  require(nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &completed), "nrta_get_sequence");
  check(completed == last, "last completed number");
}

int main(int argc, char** argv) {
  check(argc == 3, "arguments");
  const int count = atoi(argv[2]);
  size_t size = 0;
  void* neff = read_file(argv[1], &size);
  require(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init");
  require(nrt_load(neff, size, 0, 1, &model), "nrt_load");
  nrt_tensor_info_array_t* info = NULL;
  require(nrt_get_model_tensor_info(model, &info), "tensor info");
  bytes = info->tensor_array[0].size;
  nrt_free_model_tensor_info(info);
  require(nrt_allocate_tensor_set(&in), "set");
  require(nrt_allocate_tensor_set(&out), "set");
  a = tensor("a", in);
  b = tensor("b", in);
  c = tensor("c", out);
#if GENERATION != 3
  require(nrta_error_tracker_create(0, &errors), "tracker");
#endif

  const size_t elements = bytes / sizeof(float);
  float* data = malloc(bytes);
  float* more = malloc(bytes);
  float* sums = calloc(1, bytes);
  for (size_t i = 0; i < elements; ++i) {
    data[i] = (float)(i % 1000);
    more[i] = (float)(i % 77);
  }
  nrta_seq_t wrote = 0, wrote_more = 0, read = 0;
  require(nrta_tensor_write(a, data, 0, bytes, WHERE 0, REPORT(0), &wrote), "write");
  require(nrta_tensor_write(b, more, 0, bytes, WHERE 0, REPORT(1), &wrote_more), "write");
  check(wrote_more == wrote + 1, "consecutive numbers");
  wait_for(wrote_more);

  execute_each(1); /* loads the rings */
  uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
  for (int round = 0; round < 2 * kRounds; ++round) {
    const uint64_t begin = host_ns();
    (round % 2 == 0 ? execute_each : execute_all)(count);
    const uint64_t time = host_ns() - begin;
    if (time < best[round % 2]) best[round % 2] = time;
  }

  require(nrta_tensor_read(sums, c, 0, bytes, WHERE 0, REPORT(2), &read), "read");
  wait_for(read);
  for (size_t i = 0; i < elements; ++i) check(sums[i] == data[i] + more[i], "data");
  nrta_seq_t unused = 0;
  check(nrta_execute_schedule(model, in, out, 1, REPORT(3), &unused) == NRT_INVALID, "queue 1");
  check(nrta_tensor_read(sums, c, bytes, 1, WHERE 0, REPORT(3), &unused) == NRT_INVALID, "range");
#if GENERATION == 3
  for (int i = 0; i < 4; ++i) require(results[i], "a status word");
#else
  const nrta_error_t* list = NULL;
  size_t failures = 1;
  require(nrta_error_tracker_get_list(errors, &list, &failures), "list");
  check(failures == 0, "errors in the tracker");
  nrta_error_tracker_destroy(errors);
#endif
  printf("sync_ns %llu async_ns %llu\n", (unsigned long long)best[0], (unsigned long long)best[1]);
  nrt_close();
  return 0;
}
