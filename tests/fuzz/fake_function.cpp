#include "tests/fuzz/fake_function.h"

#include <algorithm>
#include <cstring>

#include "tests/fuzz/finding.h"

namespace fuzz {

namespace {

constexpr uint32_t kBarAt = 0x10;
constexpr uint8_t kBar64 = 0x4;
constexpr uint32_t kMaxDma = 0x2'0000;

// The part of [offset, offset + size) that lies in a BAR of `limit` bytes.
size_t inside(uint64_t offset, size_t size, uint64_t limit) {
  return offset >= limit ? 0 : static_cast<size_t>(std::min<uint64_t>(size, limit - offset));
}

}  // namespace

FakeFunction::FakeFunction(pcie::HostMemory& memory) : memory_(memory) {
  identity_.vendor = 0x1D0F;
  identity_.device = 0x7164;
  identity_.bar_size[0] = kBar0;
  identity_.bar_size[4] = kBar4;
  bars_[0].resize(kBar0);
  bars_[1].resize(kBar4);
  auto file = base::make_memfd("fake HBM", kBar4);
  if (!file) found("no memory file");
  file_ = std::move(*file);
  reset();
}

void FakeFunction::reset() {
  config_.fill(0);
  base::store(&config_[0], identity_.vendor);
  base::store(&config_[2], identity_.device);
  config_[kBarAt] = config_[kBarAt + 16] = kBar64;
}

uint32_t FakeFunction::config_read(uint32_t offset, unsigned size) {
  uint32_t value = 0;
  if (size > sizeof value) found("a configuration access of more than four bytes");
  for (unsigned i = 0; i < size && uint64_t{offset} + i < config_.size(); ++i) {
    value |= uint32_t{config_[offset + i]} << (8 * i);
  }
  return value;
}

// BARs and the command register; BAR bits below the size stay zero.
void FakeFunction::config_write(uint32_t offset, unsigned size, uint32_t value) {
  if (size > sizeof value) found("a configuration access of more than four bytes");
  for (unsigned i = 0; i < size && uint64_t{offset} + i < config_.size(); ++i) {
    const uint32_t at = offset + i;
    uint8_t mask = at == 4 ? 6 : 0;
    for (const uint32_t bar : {0u, 4u}) {
      const uint32_t base = kBarAt + 4 * bar;
      if (at < base || at >= base + 8) continue;
      mask = static_cast<uint8_t>(~(identity_.bar_size[bar] - 1) >> (8 * (at - base)));
    }
    const auto byte = static_cast<uint8_t>(value >> (8 * i));
    config_[at] = static_cast<uint8_t>((config_[at] & ~mask) | (byte & mask));
  }
}

void FakeFunction::bar_read(int bar, uint64_t offset, base::ByteSpan to) {
  if (!to.empty()) std::memset(to.data(), 0, to.size());
  if (bar != 0 && bar != 4) return;
  const std::vector<uint8_t>& bytes = bars_[bar / 4];
  const size_t n = inside(offset, to.size(), bytes.size());
  if (n != 0) std::memcpy(to.data(), &bytes[offset], n);
}

void FakeFunction::bar_write(int bar, uint64_t offset, base::ConstByteSpan from) {
  if (bar != 0 && bar != 4) return;
  std::vector<uint8_t>& bytes = bars_[bar / 4];
  const size_t n = inside(offset, from.size(), bytes.size());
  if (n == 0) return;
  std::memcpy(&bytes[offset], from.data(), n);
  if (bar != 0 || offset > kStart || offset + n <= kStart) return;
  dma(base::load<uint64_t>(&bytes[kAddress]), base::load<uint32_t>(&bytes[kLength]),
      base::load<uint32_t>(&bytes[kStart]));
}

void FakeFunction::dma(uint64_t address, uint32_t length, uint32_t operation) {
  std::vector<uint8_t> bytes(length % kMaxDma);
  bool done = false;
  if (operation % 4 == kDirect) {
    uint8_t* at = memory_.direct(address, bytes.size());
    done = at != nullptr;
    if (done && !bytes.empty()) {
      std::memcpy(bytes.data(), at, bytes.size());
      std::memcpy(at, bytes.data(), bytes.size());
    }
  } else if (operation % 4 == kWrite) {
    done = memory_.write(address, bytes);
  } else {
    done = memory_.read(address, bytes);
    if (done && operation % 4 == kReadWrite) done = memory_.write(address, bytes);
  }
  if (done) moved_ += bytes.size();
}

base::Result<pcie::BarMapping> FakeFunction::bar_map(int bar, uint64_t offset, uint64_t length) {
  if (bar != 4 || offset > kBar4 || length > kBar4 - offset) {
    return base::Error{base::Fault::kUnsupported, 0, "fake", "nothing to map"};
  }
  return pcie::BarMapping{file_.get(), offset, length, true};
}

}  // namespace fuzz
