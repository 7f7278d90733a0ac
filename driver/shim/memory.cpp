// mmap and munmap of device nodes. The server answers an mmap with a descriptor of the memory
// behind it; register windows are mapped read-only, so that loads are free and stores fault
// (fault.cpp).
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
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

bool change_window(uint64_t start, const Window& to) {
  const TableLock lock;
  for (int i = 0; i < high_water.load(std::memory_order_relaxed); ++i) {
    Entry& entry = entries[i];
    if (!entry.used.load(std::memory_order_relaxed) || entry.window.start != start) continue;
    store_entry(entry, to, true);
    return true;
  }
  return false;
}

namespace {

template <typename Wanted>
bool find_if(Wanted wanted, Window* found) {
  for (int i = 0; i < high_water.load(std::memory_order_acquire); ++i) {
    const Entry& entry = entries[i];
    const uint32_t before = entry.sequence.load(std::memory_order_acquire);
    if ((before & 1) != 0 || !entry.used.load(std::memory_order_relaxed)) continue;
    const Window window = entry.window;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.sequence.load(std::memory_order_relaxed) != before || !wanted(window)) continue;
    *found = window;
    return true;
  }
  return false;
}

}  // namespace

bool find_mmio_window(uint64_t address, Window* found) {
  return find_if(
      [address](const Window& window) {
        return window.store_is_mmio && address - window.start < window.length;
      },
      found);
}

bool find_window(uint64_t start, uint64_t length, Window* found) {
  if (live.load(std::memory_order_relaxed) == 0) return false;
  return find_if(
      [start, length](const Window& window) {
        return start < window.start + window.length && window.start < start + length;
      },
      found);
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
  const bool shared = (request.flags & MAP_TYPE) != MAP_PRIVATE;
  const bool registers = target.store_is_mmio != 0 && shared;
  const bool stores = registers && (request.protection & PROT_WRITE) != 0;
  if (stores && !install_fault_handler()) return -ELIBACC;
  const bool may_write = target.writable != 0 || !shared;
  const int protection = may_write ? request.protection : request.protection & ~PROT_WRITE;
  const bool no_replace = (request.flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE;
  const int flags = (request.flags & (MAP_TYPE | MAP_LOCKED | MAP_POPULATE)) |
                    (no_replace ? MAP_FIXED_NOREPLACE : MAP_FIXED);
  void* mapped = SHIM_REAL(mmap)(place, request.length, protection, flags, fd,
                                 static_cast<off_t>(target.fd_offset));
  if (mapped == MAP_FAILED) return -errno;
  // As the driver marks its mappings (spec/driver-ioctl.md 4.2).
  SHIM_REAL(madvise)(mapped, request.length, MADV_DONTFORK);
  SHIM_REAL(madvise)(mapped, request.length, MADV_DONTDUMP);
  if (!add_window({reinterpret_cast<uint64_t>(mapped), request.length, request.file.token,
                   request.offset, target.bar_offset, registers, stores})) {
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

// Registers stay mapped read-only, so that stores fault and are carried to the device.
SHIM_EXPORT int mprotect(void* address, size_t length, int protection) noexcept {
  const auto start = reinterpret_cast<uint64_t>(address);
  shim::Window window;
  if (!shim::find_window(start, length, &window) || !window.registers) {
    return SHIM_REAL(mprotect)(address, length, protection);
  }
  const bool stores = (protection & PROT_WRITE) != 0;
  if (stores && !shim::install_fault_handler()) return shim::fail(ELIBACC);
  const int result = SHIM_REAL(mprotect)(address, length, protection & ~PROT_WRITE);
  if (result == 0) {
    window.store_is_mmio = stores;
    shim::change_window(window.start, window);
  }
  return result;
}

// What a kernel refuses on the driver's kind of mapping: device addresses, not to be expanded, not
// dumped, not copied by fork (spec/driver-ioctl.md 4.2).
SHIM_EXPORT void* mremap(void* address, size_t old_length, size_t length, int flags, ...) noexcept {
  va_list arguments;
  va_start(arguments, flags);
  void* target = va_arg(arguments, void*);
  va_end(arguments);
  const auto start = reinterpret_cast<uint64_t>(address);
  shim::Window window;
  if (!shim::find_window(start, old_length == 0 ? 1 : old_length, &window)) {
    return SHIM_REAL(mremap)(address, old_length, length, flags, target);
  }
  const uint64_t old_pages = shim::page_round(old_length);
  if (shim::page_round(length) > old_pages || (flags & MREMAP_DONTUNMAP) != 0) {
    return shim::refuse((flags & MREMAP_DONTUNMAP) != 0 ? EINVAL : EFAULT);
  }
  void* moved = SHIM_REAL(mremap)(address, old_length, length, flags, target);
  // The driver's record stays; stores follow what has moved as a whole.
  if (moved != MAP_FAILED && start == window.start && old_pages == window.length) {
    const uint64_t old_start = window.start;
    window.start = reinterpret_cast<uint64_t>(moved);
    window.length = shim::page_round(length);
    shim::change_window(old_start, window);
  }
  return moved;
}

SHIM_EXPORT int madvise(void* address, size_t length, int advice) noexcept {
  shim::Window window;
  if (!shim::find_window(reinterpret_cast<uint64_t>(address), length, &window)) {
    return SHIM_REAL(madvise)(address, length, advice);
  }
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_DOFORK:
    case MADV_DODUMP:
    case MADV_HUGEPAGE:
    case MADV_COLD:
    case MADV_PAGEOUT:
      return shim::fail(EINVAL);
    case MADV_REMOVE:
      return shim::fail(ENODEV);
    default:
      return SHIM_REAL(madvise)(address, length, advice);
  }
}

SHIM_EXPORT int msync(void* address, size_t length, int flags) {
  shim::Window window;
  if ((flags & MS_SYNC) != 0 &&
      shim::find_window(reinterpret_cast<uint64_t>(address), length, &window)) {
    return shim::fail(EINVAL);
  }
  return SHIM_REAL(msync)(address, length, flags);
}
