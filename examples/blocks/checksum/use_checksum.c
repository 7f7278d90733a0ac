/* Lets the checksum engine add up a tensor, and compares with the same sum computed here.
 *
 *   use_checksum FILE.neff [repeat]
 *
 * Exit status: 0 right, 1 wrong data or a failed call, 2 wrong usage. */
#include <nrt/nrt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 65536, kResult = 64 };

static uint32_t crc32(const uint8_t* data, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

static void check(const char* what, NRT_STATUS status) {
  if (status == NRT_SUCCESS) return;
  fprintf(stderr, "%s: %s (%d)\n", what, nrt_get_status_as_str(status), (int)status);
  exit(1);
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size);
  if (bytes == NULL || fread(bytes, 1, *size, file) != *size) exit(1);
  fclose(file);
  return bytes;
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: %s FILE.neff [repeat]\n", argv[0]);
    return 2;
  }
  const int rounds = argc == 3 ? atoi(argv[2]) : 1;
  size_t size = 0;
  void* neff = read_file(argv[1], &size);
  check("nrt_init", nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  nrt_model_t* model = NULL;
  check("nrt_load", nrt_load(neff, size, -1, -1, &model));
  nrt_tensor_t* data = NULL;
  nrt_tensor_t* crc = NULL;
  check("data", nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBytes, "data", &data));
  check("crc", nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kResult, "crc", &crc));
  nrt_tensor_set_t* in = NULL;
  nrt_tensor_set_t* out = NULL;
  check("inputs", nrt_allocate_tensor_set(&in));
  check("outputs", nrt_allocate_tensor_set(&out));
  check("inputs", nrt_add_tensor_to_tensor_set(in, "data", data));
  check("outputs", nrt_add_tensor_to_tensor_set(out, "crc", crc));
  int wrong = 0;
  static uint8_t bytes[kBytes];
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kBytes; ++i) bytes[i] = (uint8_t)(i * 31 + i / 251 + (size_t)round);
    check("nrt_tensor_write", nrt_tensor_write(data, bytes, 0, kBytes));
    check("nrt_execute", nrt_execute(model, in, out));
    uint8_t result[kResult];
    check("nrt_tensor_read", nrt_tensor_read(crc, result, 0, sizeof result));
    uint32_t device = 0;
    memcpy(&device, result, sizeof device);
    const uint32_t expected = crc32(bytes, kBytes);
    printf("device %08x, host %08x: %s\n", device, expected,
           device == expected ? "equal" : "WRONG");
    wrong += device != expected;
  }
  nrt_unload(model);
  nrt_close();
  return wrong == 0 ? 0 : 1;
}
