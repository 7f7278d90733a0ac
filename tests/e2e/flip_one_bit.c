/* Preloaded: the first tensor that the program reads back arrives with one bit changed. Shows that
 * a check of results can fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nrt/nrt.h>
#include <stdatomic.h>

static atomic_int done;

NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buffer, size_t offset, size_t size) {
  NRT_STATUS (*next)(const nrt_tensor_t*, void*, size_t, size_t) = 0;
  *(void**)&next = dlsym(RTLD_NEXT, "nrt_tensor_read");
  const NRT_STATUS status = next(tensor, buffer, offset, size);
  if (status == NRT_SUCCESS && size > 0 && atomic_exchange(&done, 1) == 0) {
    ((unsigned char*)buffer)[size / 2] ^= 0x40;
  }
  return status;
}
