/* Preloaded in front of libndl: there is no memory for DMA rings. */
#include <dlfcn.h>
#include <errno.h>
#include <ndl/ndl.h>
#include <stdint.h>

int ndl_memory_alloc(ndl_device_t* device, size_t size, uint64_t align, uint32_t host_memory,
                     uint32_t dram_channel, uint32_t region, uint32_t nc_id, uint32_t category,
                     uint64_t* handle) {
  int (*next)(ndl_device_t*, size_t, uint64_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
              uint64_t*);
  *(void**)&next = dlsym(RTLD_NEXT, "ndl_memory_alloc");
  if (category == NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE) {
    errno = ENOMEM;
    return -1;
  }
  return next(device, size, align, host_memory, dram_channel, region, nc_id, category, handle);
}
