// The operands of the instruction at work, lane by lane, and room to compute in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hw/core/tensor_access.h"

namespace hw {

// Working room of the thread, one per use at the same time.
enum Room : uint8_t { kFirst, kSecond, kThird, kFourth, kRooms };
template <typename T>
T* room(Room which, size_t n) {
  thread_local std::vector<T> rooms[kRooms];
  if (rooms[which].size() < n) rooms[which].resize(n);
  return rooms[which].data();
}

// How far ahead of its turn a lane is fetched (TensorAccess::expect).
constexpr uint32_t kLanesAhead = 2;

inline float as_float(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline void from_bits(uint32_t bits, float* to) {
  *to = as_float(bits);
}
inline void from_bits(uint32_t bits, uint32_t* to) {
  *to = bits;
}

// Lanes are those of the operand that is named first.
class Lanes {
 public:
  Lanes(const contract::isa::TensorUses& uses, const uint32_t* registers, base::num::Xorwow* random)
      : uses_(uses), registers_(registers), random_(random) {
    accesses_.reserve(contract::isa::TensorUses::kMost);
  }
  bool open(const TensorBox& box, Memory& memory, const Indices* indices) {
    accesses_.emplace_back(*uses_.uses[accesses_.size()].tensor, box, memory, random_, indices);
    return accesses_.back().open();
  }
  const TensorAccess& operator[](const contract::isa::TensorOperand& operand) const {
    for (unsigned i = 0; i < uses_.count; ++i) {
      if (uses_.uses[i].tensor == &operand) return accesses_[i];
    }
    return accesses_[0];
  }
  uint32_t count() const { return accesses_[0].box().partitions; }

  // Lanes that are folded side by side: a chain of additions waits for itself.
  static constexpr size_t kFolded = 8;
  // Calls `each(first lane, lanes)` for groups of at least `least` lanes, while there are any, with
  // n elements in each lane.
  template <typename Each>
  void each_group(size_t n, size_t least, Each&& each) const {
    const auto at_once =
        static_cast<uint32_t>(std::max(least, kElementsAtOnce / std::max<size_t>(n, 1)));
    for (uint32_t first = 0; first < count(); first += at_once) {
      each(first, std::min(at_once, count() - first));
    }
  }
  template <typename T>
  void read(const TensorAccess& from, uint32_t first, uint32_t lanes, T* to) const {
    for (uint32_t i = 0; i < lanes; ++i) {
      from.expect(first + i + kLanesAhead);
      from.read(first + i, to + i * from.elements());
    }
  }
  // The same, or where the numbers lie.
  const float* view(const TensorAccess& from, uint32_t first, uint32_t lanes, float* to) const {
    const float* there = lanes == 1 ? from.in_place(first) : nullptr;
    if (there == nullptr) read(from, first, lanes, to);
    return there == nullptr ? to : there;
  }
  const uint32_t* view(const TensorAccess& from, uint32_t first, uint32_t lanes,
                       uint32_t* to) const {
    read(from, first, lanes, to);
    return to;
  }
  template <typename T>
  void write(const TensorAccess& to, uint32_t first, uint32_t lanes, const T* from) const {
    for (uint32_t i = 0; i < lanes; ++i) to.write(first + i, from + i * to.elements());
  }
  // Bytes, `row` in each lane.
  void read(const TensorAccess& from, uint32_t first, uint32_t lanes, uint8_t* to,
            size_t row) const {
    for (uint32_t i = 0; i < lanes; ++i) from.read(first + i, to + i * row);
  }
  void write(const TensorAccess& to, uint32_t first, uint32_t lanes, const uint8_t* from,
             size_t row) const {
    for (uint32_t i = 0; i < lanes; ++i) to.write(first + i, from + i * row);
  }
  // The lane's number as a float32, or the word of an operator on bits.
  template <typename T>
  T value(const contract::isa::ScalarOperand& scalar, uint32_t lane) const {
    T result{};
    if (scalar.kind == contract::isa::ScalarOperand::kTile) {
      (*this)[scalar.tile].read(lane, &result);
    } else {
      from_bits(scalar.kind == contract::isa::ScalarOperand::kRegister ? registers_[scalar.bits]
                                                                       : scalar.bits,
                &result);
    }
    return result;
  }
  // ... n times for each lane.
  template <typename T>
  void spread(const contract::isa::ScalarOperand& scalar, uint32_t first, uint32_t lanes, size_t n,
              T* to) const {
    for (uint32_t i = 0; i < lanes; ++i) {
      std::fill_n(to + i * n, n, value<T>(scalar, first + i));
    }
  }

 private:
  // Two operands of so many elements stay in the nearest cache.
  static constexpr size_t kElementsAtOnce = 4096;

  contract::isa::TensorUses uses_;
  const uint32_t* registers_;
  base::num::Xorwow* random_;  // of each lane, or null
  std::vector<TensorAccess> accesses_;
};

}  // namespace hw
