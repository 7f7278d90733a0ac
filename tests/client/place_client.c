/* Where a program is, as far as public interfaces tell: its host's names, the host's place in a
 * pod, and for each device its number on the host and among all chips of the platform. Arguments
 * are names of hosts to look up. */
#include <arpa/inet.h>
#include <ndl/ndl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void host(void) {
  char name[256] = "", product[256] = "";
  gethostname(name, sizeof name);
  FILE* file = fopen("/sys/class/dmi/id/product_name", "r");
  if (file != NULL) {
    if (fgets(product, sizeof product, file) == NULL) product[0] = 0;
    fclose(file);
    product[strcspn(product, "\n")] = 0;
  }
  printf("host %s %s\n", name, product);
}

static void pod(void) {
  uint8_t id[256] = {0};
  uint32_t state = 0, type = 0, size = 0, modes = 0;
  int node = 99;
  enum neuron_ultraserver_mode mode;
  if (ndl_pod_status(id, &state, &type, &size, &node, &mode, &modes) != 0) {
    printf("pod unknown\n");
    return;
  }
  printf("pod type %u state %u size %u node %d\n", type, state, size, node);
}

/* Register `chip` of CC-core 0: docs/hardware-contract.md 1. */
static int chip_of(ndl_device_t* device) {
  const uint64_t window = device->device_type == 2 ? 0x10000000 : 0xF0000000;
  uint64_t address = device->csr_base[0] + window + 0x2FF8;
  uint32_t chip = 0;
  return ndl_bar_read(device, 0, &address, 1, &chip) == 0 ? (int)chip : -1;
}

static void lookup(const char* name) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  struct addrinfo* found = NULL;
  char text[INET_ADDRSTRLEN] = "unknown";
  if (getaddrinfo(name, "4711", &hints, &found) == 0) {
    const struct sockaddr_in* address = (const struct sockaddr_in*)found->ai_addr;
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    printf("lookup %s %s %d\n", name, text, ntohs(address->sin_port));
    freeaddrinfo(found);
  } else {
    printf("lookup %s unknown\n", name);
  }
  const struct hostent* entry = gethostbyname(name);
  if (entry == NULL || entry->h_addrtype != AF_INET) return;
  inet_ntop(AF_INET, entry->h_addr_list[0], text, sizeof text);
  printf("gethostbyname %s\n", text);
}

int main(int argc, char** argv) {
  int indexes[64];
  const int count = ndl_available_devices(indexes, 64);
  host();
  for (int i = 0; i < count; ++i) {
    ndl_device_t* device = NULL;
    uint32_t id = 999;
    ndl_device_init_param_t param = {0};
    if (ndl_open_device(indexes[i], &param, &device) != 0) {
      printf("device %d does not open\n", indexes[i]);
      continue;
    }
    ndl_get_host_device_id(device, &id);
    printf("device %d type %u id %u chip %d neighbours", indexes[i], device->device_type, id,
           chip_of(device));
    for (int n = 0; n < device->connected_device_count; ++n) {
      printf("%s%u", n == 0 ? " " : ",", device->connected_devices[n]);
    }
    printf("\n");
    ndl_close_device(device);
  }
  pod();
  for (int i = 1; i < argc; ++i) lookup(argv[i]);
  return 0;
}
