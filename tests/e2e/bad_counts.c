/* Two ranks of an operation of variable size, executed with one metadata after the other, good and
 * bad. Bad blocks must move nothing, give their rank the documented status, and leave the other
 * rank and the machine alone.
 *
 *   bad_counts NEFF KIND ROWS TABLE
 *
 * KIND: alltoallv, allgatherv, reducescatterv. ROWS: of the metadata. A line of TABLE is a name,
 * then the words of rank 0 and of rank 1. Prints "NAME: STATUS STATUS, DATA" per line, DATA being
 * "right" or what is wrong. Uses only the public headers of libnrt. */
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kElements = 1024, kMaxWords = 8, kBytes = kElements * 4 };
static const uint32_t kUntouched = 0xEEEEEEEE;

struct Rank {
  nrt_model_t* model;
  nrt_tensor_t *x, *y, *m;
  nrt_tensor_set_t *in, *out;
  NRT_STATUS status;
  uint32_t words[kMaxWords];
};
static struct Rank ranks[2];
static int rows;
static int gathers, folds;

static void require(NRT_STATUS status, const char* what) {
  if (status == NRT_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  exit(2);
}

static size_t metadata_bytes(void) {
  return (size_t)rows * 2 * sizeof(uint32_t);
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
  r->m = tensor(rank, "m", metadata_bytes(), r->in);
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

/* Column of the send rows for this receiver. */
static int column(int receiver) {
  return gathers ? 0 : receiver;
}

static uint64_t place(int sender, int receiver) {
  if (folds) return 0;
  return rows == 4 ? ranks[receiver].words[6 + sender] : (uint64_t)sender * (kElements / 2);
}

/* Elements of the block from `sender` to `receiver`; 0 if it is illegal. */
static uint32_t legal(int sender, int receiver) {
  const uint64_t count = ranks[sender].words[column(receiver)];
  const int good = ranks[sender].words[2 + column(receiver)] + count <= kElements &&
                   place(sender, receiver) + count <= kElements;
  return good ? (uint32_t)count : 0;
}

/* What the output of `receiver` holds; where blocks overlap anything may be. */
static void expect(int receiver, uint32_t* wanted, int* blocks) {
  for (int i = 0; i < kElements; ++i) wanted[i] = kUntouched, blocks[i] = 0;
  for (int s = 0; s < 2; ++s) {
    if (folds && s != receiver) continue;
    const uint32_t from = ranks[s].words[2 + column(receiver)];
    for (uint32_t i = 0; i < legal(s, receiver); ++i) {
      const uint64_t at = place(s, receiver) + i;
      wanted[at] = folds ? value(0, from + i) + value(1, from + i) : value((uint32_t)s, from + i);
      ++blocks[at];
    }
  }
}

static const char* wrong(void) {
  static uint32_t wanted[kElements], got[kElements], words[kMaxWords];
  static int blocks[kElements];
  for (int k = 0; k < 2; ++k) {
    expect(k, wanted, blocks);
    require(nrt_tensor_read(ranks[k].y, got, 0, kBytes), "read");
    for (int i = 0; i < kElements; ++i) {
      if (blocks[i] < 2 && got[i] != wanted[i]) return "another output";
    }
    require(nrt_tensor_read(ranks[k].m, words, 0, metadata_bytes()), "read");
    for (int i = 0; i < rows * 2; ++i) {
      const int announced = !folds && i / 2 == 2;
      const uint32_t was = announced ? ranks[i % 2].words[column(k)] : ranks[k].words[i];
      if (words[i] != was) return announced ? "other receive counts" : "other metadata";
    }
  }
  return "right";
}

static void run(const char* name) {
  pthread_t threads[2];
  uint32_t empty[kElements];
  for (int i = 0; i < kElements; ++i) empty[i] = kUntouched;
  for (int k = 0; k < 2; ++k) {
    require(nrt_tensor_write(ranks[k].m, ranks[k].words, 0, metadata_bytes()), "write");
    require(nrt_tensor_write(ranks[k].y, empty, 0, kBytes), "write");
  }
  for (int k = 0; k < 2; ++k) pthread_create(&threads[k], NULL, execute, &ranks[k]);
  for (int k = 0; k < 2; ++k) pthread_join(threads[k], NULL);
  printf("%s: %s %s, %s\n", name, nrt_get_status_as_str(ranks[0].status),
         nrt_get_status_as_str(ranks[1].status), wrong());
  fflush(stdout);
}

/* The next line of the table; 0 at its end. */
static int next(FILE* table, char* name) {
  if (fscanf(table, "%63s", name) != 1) return 0;
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < rows * 2; ++i) {
      if (fscanf(table, "%u", &ranks[k].words[i]) != 1) exit(2);
    }
  }
  return 1;
}

int main(int argc, char** argv) {
  static unsigned char neff[1 << 20];
  if (argc != 5) return 2;
  FILE* file = fopen(argv[1], "rb");
  FILE* table = fopen(argv[4], "r");
  const size_t size = file != NULL ? fread(neff, 1, sizeof neff, file) : 0;
  gathers = strcmp(argv[2], "allgatherv") == 0;
  folds = strcmp(argv[2], "reducescatterv") == 0;
  rows = atoi(argv[3]);
  if (size == 0 || table == NULL || rows < 2 || rows > 4) return 2;
  fclose(file);
  require(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "init");
  for (uint32_t r = 0; r < 2; ++r) {
    require(nrt_load_collectives(neff, size, (int)r, 1, r, 2, &ranks[r].model), "load");
    set_up((int)r);
  }
  char name[64];
  while (next(table, name)) run(name);
  fclose(table);
  nrt_close();
  return 0;
}
