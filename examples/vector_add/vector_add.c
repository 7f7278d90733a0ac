/* Loads a NEFF that adds its float32 inputs element by element, runs it, and checks the result.
 *
 *   vector_add FILE.neff [repeat]
 *
 * Every input tensor gets its own pattern; every output must equal the sum of all inputs. Uses only
 * the public runtime API. Exit status: 0 right, 1 wrong data or a failed call, 2 wrong usage. */
#include <errno.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char* what, NRT_STATUS status) {
  fprintf(stderr, "%s: %s (%d)\n", what, nrt_get_status_as_str(status), (int)status);
  return 1;
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return NULL;
  }
  void* bytes = NULL;
  long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  if (end > 0 && fseek(file, 0, SEEK_SET) == 0) {
    bytes = malloc((size_t)end);
    if (bytes != NULL && fread(bytes, 1, (size_t)end, file) != (size_t)end) {
      free(bytes);
      bytes = NULL;
    }
  }
  fclose(file);
  *size = end > 0 ? (size_t)end : 0;
  if (bytes == NULL) fprintf(stderr, "%s: cannot read\n", path);
  return bytes;
}

/* Small integers: their float32 sums are exact. */
static float pattern(size_t input, size_t i, int round) {
  return (float)((i * (input + 3) + input * 7 + (size_t)round) % 1000);
}

static int fill(nrt_tensor_t* tensor, const nrt_tensor_info_t* info, size_t input, int round) {
  size_t n = info->size / sizeof(float);
  float* data = malloc(info->size);
  if (data == NULL) return 1;
  for (size_t i = 0; i < n; ++i) data[i] = pattern(input, i, round);
  NRT_STATUS status = nrt_tensor_write(tensor, data, 0, info->size);
  free(data);
  return status == NRT_SUCCESS ? 0 : failed("nrt_tensor_write", status);
}

static int check(nrt_tensor_t* tensor, const nrt_tensor_info_t* info, size_t inputs, int round) {
  size_t n = info->size / sizeof(float);
  float* data = malloc(info->size);
  if (data == NULL) return 1;
  NRT_STATUS status = nrt_tensor_read(tensor, data, 0, info->size);
  if (status != NRT_SUCCESS) {
    free(data);
    return failed("nrt_tensor_read", status);
  }
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    float expected = 0;
    for (size_t k = 0; k < inputs; ++k) expected += pattern(k, i, round);
    if (data[i] == expected) continue;
    if (wrong++ == 0) {
      fprintf(stderr, "%s[%zu] = %g, expected %g\n", info->name, i, (double)data[i],
              (double)expected);
    }
  }
  free(data);
  printf("%s: %zu elements, %zu wrong\n", info->name, n, wrong);
  return wrong == 0 ? 0 : 1;
}

static int run(nrt_model_t* model, const nrt_tensor_info_array_t* info, int rounds) {
  nrt_tensor_set_t* sets[2] = {NULL, NULL};
  size_t count = (size_t)info->tensor_count;
  nrt_tensor_t** tensors = calloc(count, sizeof *tensors);
  int result = tensors == NULL;
  for (int s = 0; s < 2 && result == 0; ++s) {
    NRT_STATUS status = nrt_allocate_tensor_set(&sets[s]);
    if (status != NRT_SUCCESS) result = failed("nrt_allocate_tensor_set", status);
  }
  for (size_t i = 0; i < count && result == 0; ++i) {
    const nrt_tensor_info_t* t = &info->tensor_array[i];
    NRT_STATUS status =
        nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, t->size, t->name, &tensors[i]);
    if (status == NRT_SUCCESS) {
      status = nrt_add_tensor_to_tensor_set(sets[t->usage == NRT_TENSOR_USAGE_OUTPUT], t->name,
                                            tensors[i]);
    }
    if (status != NRT_SUCCESS) result = failed(t->name, status);
  }
  for (int round = 0; round < rounds && result == 0; ++round) {
    size_t inputs = 0;
    for (size_t i = 0; i < count && result == 0; ++i) {
      if (info->tensor_array[i].usage != NRT_TENSOR_USAGE_INPUT) continue;
      result = fill(tensors[i], &info->tensor_array[i], inputs++, round);
    }
    if (result != 0) break;
    NRT_STATUS status = nrt_execute(model, sets[0], sets[1]);
    if (status != NRT_SUCCESS) result = failed("nrt_execute", status);
    for (size_t i = 0; i < count && result == 0; ++i) {
      if (info->tensor_array[i].usage != NRT_TENSOR_USAGE_OUTPUT) continue;
      result = check(tensors[i], &info->tensor_array[i], inputs, round);
    }
  }
  for (size_t i = 0; tensors != NULL && i < count; ++i) nrt_tensor_free(&tensors[i]);
  for (int s = 0; s < 2; ++s) nrt_destroy_tensor_set(&sets[s]);
  free(tensors);
  return result;
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: %s FILE.neff [repeat]\n", argv[0]);
    return 2;
  }
  int rounds = argc == 3 ? atoi(argv[2]) : 1;
  size_t size = 0;
  void* neff = read_file(argv[1], &size);
  if (neff == NULL) return 1;
  NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
  if (status != NRT_SUCCESS) {
    free(neff);
    return failed("nrt_init", status);
  }
  nrt_model_t* model = NULL;
  nrt_tensor_info_array_t* info = NULL;
  int result = 1;
  status = nrt_load(neff, size, -1, -1, &model);
  free(neff);
  if (status != NRT_SUCCESS) {
    failed("nrt_load", status);
  } else if ((status = nrt_get_model_tensor_info(model, &info)) != NRT_SUCCESS) {
    failed("nrt_get_model_tensor_info", status);
  } else {
    result = run(model, info, rounds);
    status = nrt_unload(model);
    if (status != NRT_SUCCESS) result = failed("nrt_unload", status);
    nrt_free_model_tensor_info(info);
  }
  nrt_close();
  if (result == 0) printf("vector add: ok\n");
  return result;
}
