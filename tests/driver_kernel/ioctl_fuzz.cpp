// Untrusted bytes into the driver's system calls: a stream of opens, closes, ioctls, mmaps and
// munmaps of two processes over a fake device, whose arguments and memory the input provides.
// Nothing may crash, hang or leave the client's memory; afterwards a fresh process is served.
//
// One step is 4 bytes {action, request number, request size, offset of the argument} and up to 64
// bytes of argument.
#include <cstdlib>

#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr size_t kStepBytes = 4;
constexpr size_t kArgumentBytes = 64;
constexpr size_t kMaxSteps = 64;

// Client memory at a fixed address; everything else faults.
class WindowMemory final : public driver::UserMemory {
 public:
  static constexpr uint64_t kBase = 0x10'0000;
  bool read(uint64_t address, base::ByteSpan to) override {
    if (!inside(address, to.size())) return false;
    if (!to.empty()) std::memcpy(to.data(), &bytes_[address - kBase], to.size());
    return true;
  }
  bool write(uint64_t address, base::ConstByteSpan from) override {
    if (!inside(address, from.size())) return false;
    if (!from.empty()) std::memcpy(&bytes_[address - kBase], from.data(), from.size());
    return true;
  }

 private:
  bool inside(uint64_t address, uint64_t size) const {
    return address >= kBase && address - kBase < bytes_.size() &&
           size <= bytes_.size() - (address - kBase);
  }
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(64 * 1024);
};

class Stream {
 public:
  Stream() { bench_.start(); }

  void step(const uint8_t* head, base::ConstByteSpan argument) {
    const int32_t tgid = 1 + (head[0] >> 7);
    const driver::Caller caller{tgid, tgid, &memory_};
    const uint64_t address = WindowMemory::kBase + uint64_t{head[3]} * kArgumentBytes;
    (void)memory_.write(address, argument);
    bool done = false;
    bench_.executor.spawn("client", [&] {
      call(head, address, argument, caller);
      done = true;
    });
    bench_.executor.run();
    if (!done) std::abort();  // no request of one client at a time may wait for ever
  }

  void finish() {
    for (const auto& [file, tgid] : files_) bench_.close(file, tgid);
    const int file = bench_.open(DriverBench::kTgid);
    if (file <= 0 || bench_.alloc(file, 4096, true) == 0) std::abort();
  }

 private:
  void call(const uint8_t* head, uint64_t address, base::ConstByteSpan argument,
            const driver::Caller& caller) {
    if (files_.empty() || (head[0] & 0x7F) == 0) {
      const auto file = bench_.driver().open(0, O_RDWR, caller);
      if (file) files_.emplace_back(*file, caller.tgid);
      return;
    }
    const size_t index = head[0] % files_.size();
    const int file = files_[index].first;
    uint64_t words[2] = {};
    std::memcpy(words, argument.data(), std::min(sizeof words, argument.size()));
    if ((head[0] & 0x7F) == 1) {
      bench_.driver().flush(file, {files_[index].second, files_[index].second, &memory_});
      bench_.driver().release(file);
      files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(index));
    } else if ((head[0] & 0x7F) == 2) {
      (void)bench_.driver().mmap(file, words[0], words[1], true, (head[1] & 1) != 0, caller);
    } else if ((head[0] & 0x7F) == 3) {
      bench_.driver().munmap(file, words[0], words[1], caller);
    } else {
      constexpr uint32_t kType = 'N';
      const uint32_t direction = head[2] >> 6;  // as _IOC encodes it
      const uint32_t request =
          direction << 30 | static_cast<uint32_t>(head[2] & 0x3F) << 18 | kType << 8 | head[1];
      (void)bench_.driver().ioctl(file, request, address, caller);
    }
  }

  WindowMemory memory_;
  DriverBench bench_;
  std::vector<std::pair<int, int32_t>> files_;
};

}  // namespace
}  // namespace driver_test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using driver_test::kArgumentBytes;
  using driver_test::kStepBytes;
  driver_test::Stream stream;
  for (size_t at = 0, steps = 0; at + kStepBytes <= size && steps < driver_test::kMaxSteps;
       ++steps) {
    const uint8_t* head = data + at;
    at += kStepBytes;
    const size_t n = std::min(kArgumentBytes, size - at);
    stream.step(head, {data + at, n});
    at += n;
  }
  stream.finish();
  return 0;
}
