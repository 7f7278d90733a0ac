#include "base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace base {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void Mapping::reset() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

Error errno_error(const char* where, const char* what) {
  const int code = errno;
  return {Fault::kIo, code, where, std::string(what) + ": " + std::strerror(code)};
}

Result<Mapping> Mapping::map_shared(int fd, uint64_t offset, size_t size, bool writable) {
  const int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* at =
      ::mmap(nullptr, size, prot, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return errno_error("mmap", "cannot map shared memory");
  Mapping mapping;
  mapping.data_ = static_cast<uint8_t*>(at);
  mapping.size_ = size;
  return mapping;
}

Result<UniqueFd> make_memfd(const char* name, uint64_t size) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_error(name, "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return errno_error(name, "ftruncate");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errno_error(name, "sealing");
  }
  return fd;
}

}  // namespace base
