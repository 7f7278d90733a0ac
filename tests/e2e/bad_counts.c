/* Two ranks of an all-to-all-v whose metadata is first good, then rubbish on one of them, then good
 * again. Rubbish must move nothing, give its rank the documented status and leave the other rank
 * and the machine alone.
 *
 *   bad_counts alltoallv_two_ranks.neff
 *
 * Prints "NAME: STATUS STATUS, DATA" per execution, DATA being "right" or what is wrong. Uses only
 * the public headers of libnrt. */
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kElements = 1024, kWords = 8, kBytes = kElements * 4 };
static const uint32_t kUntouched = 0xEEEEEEEE;

struct Rank {
  nrt_model_t* model;
  nrt_tensor_t *x, *y, *m;
  nrt_tensor_set_t *in, *out;
  NRT_STATUS status;
  uint32_t words[kWords];
};
static struct Rank ranks[2];

static void require(NRT_STATUS status, const char* what) {
  if (status == NRT_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  exit(2);
}

static nrt_tensor_t* tensor(int rank, const char* name, size_t bytes, nrt_tensor_set_t* set) {
  nrt_tensor_t* made = NULL;
  require(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, rank, bytes, name, &made), name);
  require(nrt_add_tensor_to_tensor_set(set, name, made), name);
  return made;
}

static uint32_t value(uint32_t rank, uint32_t element) {
  return rank << 16 | element;
}

static void set_up(int rank) {
  struct Rank* r = &ranks[rank];
  require(nrt_allocate_tensor_set(&r->in), "set");
  require(nrt_allocate_tensor_set(&r->out), "set");
  r->x = tensor(rank, "x", kBytes, r->in);
  r->m = tensor(rank, "m", kWords * 4, r->in);
  r->y = tensor(rank, "y", kBytes, r->out);
  uint32_t data[kElements];
  for (uint32_t i = 0; i < kElements; ++i) data[i] = value((uint32_t)rank, i);
  require(nrt_tensor_write(r->x, data, 0, kBytes), "write");
}

static void* execute(void* argument) {
  struct Rank* r = argument;
  r->status = nrt_execute(r->model, r->in, r->out);
  return NULL;
}

/* Where the block from `sender` belongs at `receiver`, or 0 elements if it is illegal. */
static uint32_t legal(int sender, int receiver) {
  const uint64_t count = ranks[sender].words[receiver];
  const int good = ranks[sender].words[2 + receiver] + count <= kElements &&
                   ranks[receiver].words[6 + sender] + count <= kElements;
  return good ? (uint32_t)count : 0;
}

static const char* wrong(void) {
  static uint32_t wanted[kElements], got[kElements], words[kWords];
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < kElements; ++i) wanted[i] = kUntouched;
    for (int s = 0; s < 2; ++s) {
      for (uint32_t i = 0; i < legal(s, k); ++i) {
        wanted[ranks[k].words[6 + s] + i] = value((uint32_t)s, ranks[s].words[2 + k] + i);
      }
    }
    require(nrt_tensor_read(ranks[k].y, got, 0, kBytes), "read");
    if (memcmp(got, wanted, kBytes) != 0) return "another output";
    require(nrt_tensor_read(ranks[k].m, words, 0, sizeof words), "read");
    for (int s = 0; s < 2; ++s) {
      if (words[4 + s] != ranks[s].words[k]) return "other receive counts";
    }
  }
  return "right";
}

static void run(const char* name, const uint32_t first[kWords], const uint32_t second[kWords]) {
  pthread_t threads[2];
  memcpy(ranks[0].words, first, sizeof ranks[0].words);
  memcpy(ranks[1].words, second, sizeof ranks[1].words);
  uint32_t empty[kElements];
  for (int i = 0; i < kElements; ++i) empty[i] = kUntouched;
  for (int k = 0; k < 2; ++k) {
    require(nrt_tensor_write(ranks[k].m, ranks[k].words, 0, sizeof ranks[k].words), "write");
    require(nrt_tensor_write(ranks[k].y, empty, 0, kBytes), "write");
  }
  for (int k = 0; k < 2; ++k) pthread_create(&threads[k], NULL, execute, &ranks[k]);
  for (int k = 0; k < 2; ++k) pthread_join(threads[k], NULL);
  printf("%s: %s %s, %s\n", name, nrt_get_status_as_str(ranks[0].status),
         nrt_get_status_as_str(ranks[1].status), wrong());
}

int main(int argc, char** argv) {
  static unsigned char neff[1 << 20];
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  const size_t size = file != NULL ? fread(neff, 1, sizeof neff, file) : 0;
  if (size == 0) return 2;
  fclose(file);
  require(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "init");
  for (uint32_t r = 0; r < 2; ++r) {
    require(nrt_load_collectives(neff, size, (int)r, 1, r, 2, &ranks[r].model), "load");
    set_up((int)r);
  }
  /* Rows: send counts, send displacements, receive counts, receive displacements. */
  const uint32_t good[2][kWords] = {{100, 200, 0, 500, 7, 7, 0, 300},
                                    {0, 724, 9, 300, 7, 7, 800, 20}};
  const uint32_t rubbish[kWords] = {0xFFFFFFFF, 1, 0, 0xFFFFFFFF, 7, 7, 0x80000000, 0xFFFFFFF0};
  uint32_t late[kWords];
  memcpy(late, good[1], sizeof late);
  late[6] = 824; /* 200 elements end at 1024: the last place */
  late[7] = 0;
  run("good", good[0], good[1]);
  run("at the end", good[0], late);
  late[6] = 825;
  run("one too far", good[0], late);
  run("rubbish", good[0], rubbish);
  run("good again", good[0], good[1]);
  fflush(stdout);
  nrt_close();
  return 0;
}
