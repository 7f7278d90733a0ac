#include "hw/sync/shared_pages.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace hw {

SharedPages::SharedPages(uint64_t size, uint64_t used) : size_(size), used_(used) {
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<uint8_t*>(at);
}

SharedPages::~SharedPages() {
  if (!fd_.valid()) ::munmap(data_, size_);
}

base::Result<int> SharedPages::share(const char* name) {
  if (fd_.valid()) return fd_.get();
  auto fd = base::make_memfd(name, size_);
  if (!fd) return fd.error();
  auto mapping = base::Mapping::map_shared(fd->get(), 0, size_, true);
  if (!mapping) return mapping.error();
  std::memcpy(mapping->data(), data_, used_);
  ::munmap(data_, size_);
  fd_ = std::move(*fd);
  mapping_ = std::move(*mapping);
  data_ = mapping_.data();
  return fd_.get();
}

void SharedPages::clear() {
  std::memset(data_, 0, used_);
}

}  // namespace hw
