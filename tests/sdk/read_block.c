/* Reads one word of the region for attached blocks of device 0, through the driver, as a CPU does.
 * Exit status: 0 and the word, 1 if the driver refuses, 2 for anything else. */
#include <errno.h>
#include <ndl/ndl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s OFFSET (in BAR 0)\n", argv[0]);
    return 2;
  }
  int indexes[1];
  ndl_device_init_param_t params = {0};
  ndl_device_t* device = NULL;
  if (ndl_available_devices(indexes, 1) < 1 || ndl_open_device(0, &params, &device) != 0) {
    perror("device 0");
    return 2;
  }
  uint64_t address = device->csr_base[0] + strtoull(argv[1], NULL, 0);
  uint32_t word = 0;
  if (ndl_bar_read(device, 0, &address, 1, &word) != 0) {
    perror("read");
    return 1;
  }
  printf("0x%08x\n", word);
  return 0;
}
