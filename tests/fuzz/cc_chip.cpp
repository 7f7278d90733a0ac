#include "tests/fuzz/cc_chip.h"

#include <cstring>

#include "arch/contract/address_map.h"
#include "tests/fuzz/finding.h"

namespace fuzz {

namespace udma = contract::udma;

namespace {

constexpr uint32_t kNoRing = ~0u;

// The half of a queue whose registers hold `address`.
uint32_t ring_of(uint64_t address) {
  const uint64_t offset = address - CcChip::kQueues;
  if (offset >= 2 * contract::kS2mOffset) return kNoRing;
  const uint64_t engine = offset % contract::kS2mOffset / udma::kM2sQStride;
  if (engine >= CcChip::kEngines) return kNoRing;
  return static_cast<uint32_t>(2 * engine + offset / contract::kS2mOffset);
}

}  // namespace

bool CcChip::inside(uint64_t address, size_t bytes) const {
  const uint64_t at = address - kMemory;
  return at <= kMemoryBytes && bytes <= kMemoryBytes - at;
}

bool CcChip::read32(uint64_t address, uint32_t* value) {
  ++accesses;
  if (address % 4 != 0) return false;
  if (inside(address, sizeof *value)) return read(address, value, sizeof *value);
  const uint32_t ring = ring_of(address);
  if (ring == kNoRing) return false;
  const uint64_t base = kRings + ring * kRingBytes;
  switch (address % udma::kM2sQStride) {
    case udma::kM2sQRingBaseLo:
      *value = static_cast<uint32_t>(base);
      break;
    case udma::kM2sQRingBaseHi:
      *value = static_cast<uint32_t>(base >> 32);
      break;
    case udma::kM2sQRingLength:
      *value = ring_length;
      break;
    case udma::kM2sQTail:
      *value = tail;
      break;
    default:
      *value = 0;
      break;
  }
  return true;
}

bool CcChip::write32(uint64_t address, uint32_t value) {
  ++accesses;
  if (address % 4 != 0) return false;
  stores.push_back({address, value});
  if (inside(address, sizeof value)) {
    std::memcpy(memory.data() + (address - kMemory), &value, sizeof value);
    return true;
  }
  const uint64_t semaphore = (address - kIncrement) / 4;
  if (semaphore < kSemaphores) {
    semaphores[semaphore] += value;
    return true;
  }
  return ring_of(address) != kNoRing;
}

bool CcChip::read(uint64_t address, void* to, size_t bytes) {
  ++accesses;
  if (!inside(address, bytes)) return false;
  std::memcpy(to, memory.data() + (address - kMemory), bytes);
  return true;
}

bool CcChip::write(uint64_t address, const void* from, size_t bytes) {
  ++accesses;
  if (!inside(address, bytes)) return false;
  std::memcpy(memory.data() + (address - kMemory), from, bytes);
  contract::Descriptor d;
  const uint64_t ring = (address - kRings) / kRingBytes;
  // The firmware writes nothing else, and nowhere else.
  if (bytes != sizeof d || ring >= made.size() ||
      (address - kRings) % kRingBytes / sizeof d >= ring_length) {
    found("a write that is no descriptor of a ring");
  }
  std::memcpy(&d, from, sizeof d);
  made[ring].push_back(d);
  return true;
}

void CcChip::notify(contract::NqType type, uint32_t payload, uint32_t /*pc*/, uint32_t /*info*/) {
  if (type == contract::NqType::kError) {
    ++errors;
  } else if ((payload & ~contract::cc_notify::kOpMask) == contract::cc_notify::kOutOfBounds) {
    ++out_of_bounds;
  }
}

uint32_t CcChip::value(uint32_t semaphore) const {
  if (semaphore >= kSemaphores) found("a semaphore that does not exist");
  return semaphores[semaphore];
}

void CcChip::subtract(uint32_t semaphore, uint32_t value) {
  if (semaphore >= kSemaphores) found("a semaphore that does not exist");
  semaphores[semaphore] -= value;
}

void CcChip::forget() {
  accesses = 0;
  stores.clear();
  for (auto& ring : made) ring.clear();
}

}  // namespace fuzz
