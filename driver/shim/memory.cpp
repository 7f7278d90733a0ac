// mmap and munmap of device nodes. The server answers an mmap with a descriptor of the memory
// behind it; register windows are mapped read-only, so that loads are free and stores fault
// (fault.cpp).
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "driver/shim/client.h"
#include "driver/shim/real.h"
#include "driver/shim/windows.h"

namespace shim = driver::shim;
namespace wire = driver::wire;

namespace driver::shim {
namespace {

constexpr uint64_t kPageSize = 4096;
uint64_t page_round(uint64_t size) {
  return (size + kPageSize - 1) & ~(kPageSize - 1);
}

// An entry is valid while its sequence is even and not 0; it is odd while it changes.
struct Entry {
  std::atomic<uint32_t> sequence{0};
  std::atomic<bool> used{false};
  Window window;
};
constexpr int kMaxWindows = 16384;
Entry entries[kMaxWindows];
std::atomic<int> high_water{0};
std::atomic<int> live{0};

// Held by the process of that id; a holder that is not this process was left behind by fork.
std::atomic<pid_t> table_lock{0};

class TableLock {
 public:
  TableLock() {
    const pid_t self = getpid();
    for (;;) {
      pid_t holder = 0;
      if (table_lock.compare_exchange_weak(holder, self, std::memory_order_acquire)) return;
      if (holder != 0 && holder != self &&
          table_lock.compare_exchange_weak(holder, self, std::memory_order_acquire)) {
        return;
      }
      syscall(SYS_sched_yield);
    }
  }
  ~TableLock() { table_lock.store(0, std::memory_order_release); }
};

void store_entry(Entry& entry, const Window& window, bool used) {
  entry.sequence.fetch_add(1, std::memory_order_acq_rel);
  entry.window = window;
  entry.used.store(used, std::memory_order_relaxed);
  entry.sequence.fetch_add(1, std::memory_order_release);
}

}  // namespace

bool add_window(const Window& window) {
  const TableLock lock;
  for (int i = 0; i < kMaxWindows; ++i) {
    if (entries[i].used.load(std::memory_order_relaxed)) continue;
    store_entry(entries[i], window, true);
    if (i >= high_water.load(std::memory_order_relaxed)) high_water.store(i + 1);
    live.fetch_add(1);
    return true;
  }
  return false;
}

bool remove_window(uint64_t start, uint64_t length, Window* removed) {
  if (live.load(std::memory_order_relaxed) == 0) return false;
  const TableLock lock;
  for (int i = 0; i < high_water.load(std::memory_order_relaxed); ++i) {
    Entry& entry = entries[i];
    if (!entry.used.load(std::memory_order_relaxed) || entry.window.start != start ||
        entry.window.length != length) {
      continue;
    }
    *removed = entry.window;
    store_entry(entry, {}, false);
    live.fetch_sub(1);
    return true;
  }
  return false;
}

bool find_mmio_window(uint64_t address, Window* found) {
  for (int i = 0; i < high_water.load(std::memory_order_acquire); ++i) {
    const Entry& entry = entries[i];
    const uint32_t before = entry.sequence.load(std::memory_order_acquire);
    if ((before & 1) != 0 || !entry.used.load(std::memory_order_relaxed)) continue;
    const Window window = entry.window;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.sequence.load(std::memory_order_relaxed) != before) continue;
    if (!window.store_is_mmio || address - window.start >= window.length) continue;
    *found = window;
    return true;
  }
  return false;
}

namespace {

void* refuse(int code) {
  errno = code;
  return MAP_FAILED;
}

struct Request {
  uint64_t length;  // whole pages
  int protection;
  int flags;
  DeviceFile file;
  uint64_t offset;
};

// Maps what the server answered with at `place`, which is reserved or named by the program; 0 or
// -errno.
int map_target(const Request& request, void* place, const wire::MmapReply& target, int fd) {
  const bool stores = target.store_is_mmio != 0 && (request.protection & PROT_WRITE) != 0;
  if (stores && !install_fault_handler()) return -ELIBACC;
  const bool shared = (request.flags & MAP_TYPE) != MAP_PRIVATE;
  const bool may_write = target.writable != 0 || !shared;
  const int protection = may_write ? request.protection : request.protection & ~PROT_WRITE;
  const bool no_replace = (request.flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE;
  const int flags = (request.flags & (MAP_TYPE | MAP_LOCKED | MAP_POPULATE)) |
                    (no_replace ? MAP_FIXED_NOREPLACE : MAP_FIXED);
  void* mapped = SHIM_REAL(mmap)(place, request.length, protection, flags, fd,
                                 static_cast<off_t>(target.fd_offset));
  if (mapped == MAP_FAILED) return -errno;
  // As the driver marks its mappings (spec/driver-ioctl.md 4.2).
  madvise(mapped, request.length, MADV_DONTFORK);
  madvise(mapped, request.length, MADV_DONTDUMP);
  if (!add_window({reinterpret_cast<uint64_t>(mapped), request.length, request.file.token,
                   request.offset, target.bar_offset, stores})) {
    SHIM_REAL(munmap)(mapped, request.length);
    return -ENOMEM;
  }
  return 0;
}

void* map_device(void* address, const Request& request) {
  // The address comes first, so that the driver can be told where the mapping will be.
  const bool fixed = (request.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
  void* place = address;
  if (!fixed) {
    place = SHIM_REAL(mmap)(address, request.length, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return MAP_FAILED;
  }
  const wire::MmapBody body = {reinterpret_cast<uint64_t>(place), request.offset, request.length,
                               request.protection, request.flags};
  wire::MmapReply reply;
  int fd = -1;
  const int64_t answer =
      call(wire::kMmap, request.file.token, &body, sizeof body, &reply, sizeof reply, &fd);
  int result = static_cast<int>(answer);
  if (answer >= 0) {
    const bool complete = fd >= 0 && reply.length >= request.length;
    result = complete ? map_target(request, place, reply, fd) : -EIO;
    if (result < 0) {
      const wire::MunmapBody undo = {request.offset, request.length};
      call(wire::kMunmap, request.file.token, &undo, sizeof undo);
    }
  }
  if (fd >= 0) syscall(SYS_close, fd);
  if (result >= 0) return place;
  if (!fixed) SHIM_REAL(munmap)(place, request.length);
  return refuse(-result);
}

}  // namespace
}  // namespace driver::shim

SHIM_EXPORT void* mmap(void* address, size_t length, int protection, int flags, int fd,
                       off_t offset) noexcept {
  shim::DeviceFile file;
  if ((flags & MAP_ANONYMOUS) == 0 && shim::device_file(fd, &file)) {
    const uint64_t rounded = shim::page_round(length);
    if (length == 0 || rounded < length) return shim::refuse(EINVAL);
    return shim::map_device(address,
                            {rounded, protection, flags, file, static_cast<uint64_t>(offset)});
  }
  return SHIM_REAL(mmap)(address, length, protection, flags, fd, offset);
}

SHIM_EXPORT void* mmap64(void* address, size_t length, int protection, int flags, int fd,
                         off64_t offset) noexcept {
  return mmap(address, length, protection, flags, fd, offset);
}

SHIM_EXPORT int munmap(void* address, size_t length) noexcept {
  const int result = SHIM_REAL(munmap)(address, length);
  shim::Window window;
  // Only the whole mapping ends the driver's record of it (spec/driver-ioctl.md 4.3).
  if (result == 0 &&
      shim::remove_window(reinterpret_cast<uint64_t>(address), shim::page_round(length), &window)) {
    const wire::MunmapBody body = {window.offset, window.length};
    shim::call(wire::kMunmap, window.token, &body, sizeof body);
  }
  return result;
}
