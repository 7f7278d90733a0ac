// DMA descriptors. Layout of copies: spec/hw-registers.md 3.5. The compute and transpose forms
// (metadata descriptor, operations 0b011 and 0b100) and the mark of scattered buffers are our
// decision, docs/hardware-contract.md 6.
#pragma once

#include <cstdint>

#include "arch/contract/dtype.h"

namespace contract {

struct Descriptor {
  uint32_t w0 = 0;       // length, ring id, packet bits
  uint32_t w1 = 0;       // M2S: operation word; S2M: zero
  uint64_t address = 0;  // device address; in a metadata descriptor: DmaCompute packed
};
static_assert(sizeof(Descriptor) == 16);

namespace desc {

constexpr uint32_t kLengthMask = 0xFFFF;  // 0 means 64 KiB
constexpr uint32_t kMaxLength = 0x1'0000;
constexpr uint32_t kMaxPacketBytes = 0xF'FFFF;
constexpr uint32_t kMaxPacketDescriptors = 65;  // 64 buffers and one metadata descriptor
constexpr uint32_t kMeta = 1u << 23;
constexpr uint32_t kRingIdShift = 24;
constexpr uint32_t kFirst = 1u << 26;
constexpr uint32_t kLast = 1u << 27;
constexpr uint32_t kInterrupt = 1u << 28;
constexpr uint32_t kStrongOrder = 1u << 29;  // S2M, v3 and later
constexpr uint32_t kDmb = 1u << 30;
constexpr uint32_t kWriteBarrier = 1u << 26;  // in w1
constexpr uint32_t kOpMask = 0x03F0'0000;     // operation [25:23] and type [22:20] of w1
constexpr uint32_t kOpCopy =
    0x0108'0003;  // operation 0b010, copy source data, first and last block
constexpr uint32_t kOpCompute = 0x0188'0003;    // operation 0b011
constexpr uint32_t kOpTranspose = 0x0208'0003;  // operation 0b100
constexpr uint32_t kScattered = 1u << 27;       // in w1: a row that was found through an index

constexpr uint32_t length(uint32_t w0) {
  const uint32_t n = w0 & kLengthMask;
  return n == 0 ? kMaxLength : n;
}
constexpr uint32_t ring_id(uint32_t w0) {
  return (w0 >> kRingIdShift) & 3;
}
constexpr uint32_t operation(uint32_t w1) {
  return (w1 >> 23) & 7;
}

constexpr Descriptor tx_copy(uint64_t from, uint32_t bytes, uint32_t ring_id,
                             uint32_t flags = kFirst | kLast, bool write_barrier = false) {
  return {(bytes & kLengthMask) | ring_id << kRingIdShift | flags,
          kOpCopy | (write_barrier ? kWriteBarrier : 0), from};
}
constexpr Descriptor rx(uint64_t to, uint32_t bytes, uint32_t ring_id) {
  return {(bytes & kLengthMask) | ring_id << kRingIdShift, 0, to};
}

}  // namespace desc

// Lengths of rings, in descriptors (spec/hw-registers.md 3.5).
namespace ring {

constexpr uint32_t kMultiple = 16;
constexpr uint32_t kLeast = 32;
constexpr uint32_t kMost = (1u << 24) - kMultiple;

// The least legal length that has room for so many.
constexpr uint32_t length_for(uint32_t descriptors) {
  const uint32_t length = (descriptors + kMultiple - 1) / kMultiple * kMultiple;
  return length < kLeast ? kLeast : length;
}

}  // namespace ring

enum class ReduceOp : uint8_t { kAdd = 0, kFma = 1, kMax = 2, kMin = 3 };

// Contents of the metadata descriptor that opens a compute packet: FIRST | kMeta, length 0,
// operation word kOpCompute with the ReduceOp in the type bits [22:20]. The source descriptors
// follow, the last one carries LAST; each source holds the same element count. The result, elements
// x size of dst bytes, is written `copies` times: the S2M descriptors hold all of copy 0, then all
// of copy 1.
struct DmaCompute {
  static constexpr uint32_t kMaxSources = 16;
  static constexpr uint32_t kMaxCopies = 4;

  ReduceOp op = ReduceOp::kAdd;
  DType src = DType::kInvalid;
  DType dst = DType::kInvalid;
  uint8_t sources = 1;        // to kMaxSources
  bool has_constant = false;  // min and max: starting value; fma: scale of all following sources
  uint8_t constant_kind = 0;  // 0 float32, 1 int32, 2 uint32
  uint32_t constant_bits = 0;
  uint8_t copies = 1;  // to kMaxCopies

  // One source that is written as it is: bytes move untouched, whatever their type.
  constexpr bool plain() const {
    const bool starts_with_constant =
        has_constant && (op == ReduceOp::kMax || op == ReduceOp::kMin);
    return sources == 1 && src == dst && op != ReduceOp::kFma && !starts_with_constant;
  }
  constexpr Descriptor pack(uint32_t ring_id) const {
    return {desc::kFirst | desc::kMeta | ring_id << desc::kRingIdShift,
            desc::kOpCompute | static_cast<uint32_t>(op) << 20,
            static_cast<uint64_t>(constant_bits) << 32 | static_cast<uint32_t>(src) |
                static_cast<uint32_t>(dst) << 4 | (sources - 1u) << 8 |
                static_cast<uint32_t>(has_constant) << 12 |
                static_cast<uint32_t>(constant_kind) << 13 | (copies - 1u) << 15};
  }
  // The caller has checked that `d` is a metadata descriptor; field ranges are checked by the DMA
  // engine.
  static constexpr DmaCompute unpack(const Descriptor& d) {
    DmaCompute c;
    c.take(d);
    return c;
  }
  constexpr void take(const Descriptor& d) {
    const auto low = static_cast<uint32_t>(d.address);
    op = static_cast<ReduceOp>((d.w1 >> 20) & 7);
    src = static_cast<DType>(low & 15);
    dst = static_cast<DType>((low >> 4) & 15);
    sources = static_cast<uint8_t>(((low >> 8) & 15) + 1);
    has_constant = ((low >> 12) & 1) != 0;
    constant_kind = static_cast<uint8_t>((low >> 13) & 3);
    copies = static_cast<uint8_t>(((low >> 15) & 3) + 1);
    constant_bits = static_cast<uint32_t>(d.address >> 32);
  }
};

// Contents of the metadata descriptor that opens a transpose packet: FIRST | kMeta, length 0,
// operation word kOpTranspose. The sources that follow are one matrix of so many rows, row by row;
// the S2M descriptors take it column by column.
struct DmaTranspose {
  uint32_t rows = 1;
  uint8_t element_bytes = 2;  // 2 or 4

  constexpr Descriptor pack(uint32_t ring_id) const {
    return {desc::kFirst | desc::kMeta | ring_id << desc::kRingIdShift, desc::kOpTranspose,
            static_cast<uint64_t>(rows) << 32 | element_bytes};
  }
  static constexpr DmaTranspose unpack(const Descriptor& d) {
    return {static_cast<uint32_t>(d.address >> 32), static_cast<uint8_t>(d.address)};
  }
};

}  // namespace contract
