/* Ranks of an all-reduce that can be stopped between any two steps: at each it prints a word and
 * waits for a line on stdin (at the end of stdin it goes on).
 *
 *   staged_ranks FILE.neff WORLD FIRST COUNT EXECUTIONS
 *
 * With STAGED_CLOSE=N in the environment it calls nrt_close N ms after the last execution has
 * begun.
 *
 * Ranks FIRST to FIRST + COUNT - 1 are threads of this process, on its first COUNT cores. Words:
 * "ready" (cores are up), "loaded", and "executed N" after each execution but the last; a rank that
 * fails ends that. Then one line per rank: its first status that is not success, or "right" or
 * "wrong" for its sums. Exits with 0 only if all are right. Uses only the public headers of libnrt.
 */
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMost = 32 };

struct rank {
  uint32_t number, world;
  int core;
  nrt_model_t* model;
  nrt_tensor_set_t* sets[2];
  nrt_tensor_t* tensors[2];
  uint64_t bytes;
  NRT_STATUS status;
};

static struct rank ranks[kMost];

static void stage(const char* word) {
  printf("%s\n", word);
  fflush(stdout);
  for (int c = 0; c != '\n' && c != EOF;) c = getchar();
}

static void note(struct rank* r, NRT_STATUS status) {
  if (r->status == NRT_SUCCESS) r->status = status;
}

static void make_tensors(struct rank* r) {
  nrt_tensor_info_array_t* info = NULL;
  note(r, nrt_get_model_tensor_info(r->model, &info));
  for (int s = 0; s < 2; ++s) note(r, nrt_allocate_tensor_set(&r->sets[s]));
  for (uint64_t t = 0; info != NULL && t < info->tensor_count; ++t) {
    const nrt_tensor_info_t* one = &info->tensor_array[t];
    const int out = one->usage == NRT_TENSOR_USAGE_OUTPUT;
    r->bytes = one->size;
    note(r, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, r->core, one->size, one->name,
                                &r->tensors[out]));
    if (r->status != NRT_SUCCESS) return;
    note(r, nrt_add_tensor_to_tensor_set(r->sets[out], one->name, r->tensors[out]));
  }
}

static void* execute(void* argument) {
  struct rank* r = argument;
  if (r->status == NRT_SUCCESS) note(r, nrt_execute(r->model, r->sets[0], r->sets[1]));
  return NULL;
}

static int right(const struct rank* r) {
  const float expected = (float)(r->world * (r->world + 1) / 2);
  float* sums = malloc(r->bytes);
  size_t wrong = nrt_tensor_read(r->tensors[1], sums, 0, r->bytes) != NRT_SUCCESS;
  for (size_t i = 0; i < r->bytes / sizeof *sums; ++i) wrong += sums[i] != expected;
  free(sums);
  return wrong == 0;
}

static void write_input(struct rank* r) {
  if (r->status != NRT_SUCCESS) return;
  float* data = malloc(r->bytes);
  for (size_t i = 0; i < r->bytes / sizeof *data; ++i) data[i] = (float)(r->number + 1);
  note(r, nrt_tensor_write(r->tensors[0], data, 0, r->bytes));
  free(data);
}

static void* close_later(void* milliseconds) {
  usleep((useconds_t)atoi(milliseconds) * 1000);
  nrt_close();
  return NULL;
}

static int any_failed(int count) {
  int failed = 0;
  for (int i = 0; i < count; ++i) failed += ranks[i].status != NRT_SUCCESS;
  return failed != 0;
}

static int report(int count) {
  int bad = 0;
  for (int i = 0; i < count; ++i) {
    const struct rank* r = &ranks[i];
    const char* text = nrt_get_status_as_str(r->status);
    if (r->status == NRT_SUCCESS) text = right(r) ? "right" : "wrong";
    bad += text[0] != 'r';
    printf("rank %u: %s (%d)\n", r->number, text, (int)r->status);
  }
  fflush(stdout);
  return bad != 0;
}

int main(int argc, char** argv) {
  static unsigned char neff[1 << 20];
  FILE* file = argc == 6 ? fopen(argv[1], "rb") : NULL;
  const size_t size = file != NULL ? fread(neff, 1, sizeof neff, file) : 0;
  const int count = size != 0 ? atoi(argv[4]) : 0;
  if (count < 1 || count > kMost) return 2;
  fclose(file);
  if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) return 3;
  stage("ready");
  for (int i = 0; i < count; ++i) {
    struct rank* r = &ranks[i];
    r->world = (uint32_t)atoi(argv[2]);
    r->number = (uint32_t)(atoi(argv[3]) + i);
    r->core = i;
    note(r, nrt_load_collectives(neff, size, i, 1, r->number, r->world, &r->model));
    if (r->status == NRT_SUCCESS) make_tensors(r);
    write_input(r);
  }
  stage("loaded");
  char* close_after = getenv("STAGED_CLOSE");
  pthread_t closer;
  const int executions = atoi(argv[5]);
  for (int n = 1; n <= executions && !any_failed(count); ++n) {
    pthread_t threads[kMost];
    for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, execute, &ranks[i]);
    const int closes = n == executions && close_after != NULL;
    if (closes) pthread_create(&closer, NULL, close_later, close_after);
    for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
    if (closes) pthread_join(closer, NULL);
    char word[32];
    snprintf(word, sizeof word, "executed %d", n);
    if (n < executions) stage(word);
  }
  const int bad = report(count);
  nrt_close();
  return bad;
}
