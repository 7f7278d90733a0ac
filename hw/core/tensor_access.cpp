#include "hw/core/tensor_access.h"

#include <cstring>
#include <vector>

#include "base/num/kernels.h"
#include "base/num/operators.h"
#include "base/num/types.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;
namespace tpb = contract::tpb;

namespace {

// Rows of at least so many neighbouring elements are converted where they lie.
constexpr size_t kLongRow = 16;

template <size_t kBytes>
void gather_row(const uint8_t* from, int64_t step, size_t n, uint8_t* to) {
  for (size_t i = 0; i < n; ++i, from += step, to += kBytes) std::memcpy(to, from, kBytes);
}
template <size_t kBytes>
void scatter_row(const uint8_t* from, int64_t step, size_t n, uint8_t* to) {
  for (size_t i = 0; i < n; ++i, from += kBytes, to += step) std::memcpy(to, from, kBytes);
}

// `step` in bytes.
void gather(const uint8_t* from, int64_t step, size_t n, size_t bytes, uint8_t* to) {
  if (step == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from, n * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      return gather_row<1>(from, step, n, to);
    case 2:
      return gather_row<2>(from, step, n, to);
    case 4:
      return gather_row<4>(from, step, n, to);
    default:
      return gather_row<8>(from, step, n, to);
  }
}
void scatter(const uint8_t* from, int64_t step, size_t n, size_t bytes, uint8_t* to) {
  if (step == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from, n * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      return scatter_row<1>(from, step, n, to);
    case 2:
      return scatter_row<2>(from, step, n, to);
    case 4:
      return scatter_row<4>(from, step, n, to);
    default:
      return scatter_row<8>(from, step, n, to);
  }
}

// Between packed integers of up to 32 bits and words.
template <typename T>
void widen(const uint8_t* from, uint32_t* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<uint32_t>(value);
  }
}
template <typename T>
void narrow(const uint32_t* from, uint8_t* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<T>(from[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

// Packed elements of the lane at work.
uint8_t* packed(size_t bytes) {
  thread_local std::vector<uint8_t> room;
  if (room.size() < bytes) room.resize(bytes);
  return room.data();
}

}  // namespace

FreePattern::FreePattern(const isa::TensorOperand& operand) {
  for (const isa::PatternDim& d : operand.dims) {
    if (d.count <= 1) continue;
    elements *= d.count;
    if (dims > 0 && d.step == step[dims - 1] * static_cast<int64_t>(count[dims - 1])) {
      count[dims - 1] *= d.count;  // goes on where the dimension before it ends
      continue;
    }
    count[dims] = d.count;
    step[dims] = d.step;
    ++dims;
  }
}

FreePattern FreePattern::apart(const isa::TensorOperand& operand) {
  FreePattern p(isa::TensorOperand{});
  p.dims = 2;
  p.elements = p.count[1] = operand.dims[0].count;
  p.step[0] = 0;
  p.step[1] = operand.dims[0].step;
  return p;
}

TensorAccess::TensorAccess(const isa::TensorOperand& operand, const TensorBox& box, Memory& memory,
                           num::Xorwow* random, const Indices* indices)
    : box_(box),
      memory_(memory),
      type_(operand.dtype),
      bytes_(isa::data_type_bytes(operand.dtype)),
      pattern_(indices == nullptr ? FreePattern(operand) : FreePattern::apart(operand)),
      pitch_(box.memory == isa::Memory::kSbuf ? tpb::kPartitionStride : tpb::kPsumStride),
      random_(random),
      indices_(indices) {}

bool TensorAccess::open() {
  // The whole box was checked against the partition; `start` may lie above `begin`.
  const uint64_t first = box_.first_partition * pitch_ + box_.begin;
  uint8_t* at = memory_.at(first, (box_.partitions - 1) * pitch_ + box_.end - box_.begin);
  origin_ = at + (box_.start - box_.begin);
  return at != nullptr;
}

void TensorAccess::read(uint32_t lane, uint8_t* to) const {
  const uint8_t* from = at(lane);
  const size_t row = pattern_.count[0];
  each_row(lane, [&](int64_t offset) {
    gather(from + offset, pattern_.step[0] * static_cast<int64_t>(bytes_), row, bytes_, to);
    to += row * bytes_;
  });
}

void TensorAccess::write(uint32_t lane, const uint8_t* from) const {
  uint8_t* to = at(lane);
  const size_t row = pattern_.count[0];
  each_row(lane, [&](int64_t offset) {
    scatter(from, pattern_.step[0] * static_cast<int64_t>(bytes_), row, bytes_, to + offset);
    from += row * bytes_;
  });
}

void TensorAccess::read(uint32_t lane, float* to) const {
  const auto to_float = num::kernels().to_float;
  const size_t row = pattern_.count[0];
  if (pattern_.step[0] == 1 && (row >= kLongRow || pattern_.contiguous())) {
    const uint8_t* from = at(lane);
    each_row(lane, [&](int64_t offset) {
      to_float(num_type(type_), from + offset, to, row);
      to += row;
    });
    return;
  }
  uint8_t* bytes = packed(elements() * bytes_);
  read(lane, bytes);
  to_float(num_type(type_), bytes, to, elements());
}

void TensorAccess::convert(num::Type type, uint32_t lane, const float* from, size_t n,
                           uint8_t* to) const {
  if (random_ == nullptr) {
    num::kernels().from_float(type, from, to, n);
  } else {
    num::from_float_stochastic(type, from, to, n, random_ + lane);
  }
}

void TensorAccess::convert(uint32_t lane, const float* from, size_t n, uint8_t* to) const {
  convert(num_type(type_), lane, from, n, to);
}

void TensorAccess::write(uint32_t lane, const float* from) const {
  const size_t row = pattern_.count[0];
  if (pattern_.step[0] == 1 && (row >= kLongRow || pattern_.contiguous())) {
    uint8_t* to = at(lane);
    each_row(lane, [&](int64_t offset) {
      convert(lane, from, row, to + offset);
      from += row;
    });
    return;
  }
  uint8_t* bytes = packed(elements() * bytes_);
  convert(lane, from, elements(), bytes);
  write(lane, bytes);
}

const float* TensorAccess::in_place(uint32_t lane) const {
  const bool whole = type_ == isa::DataType::kFloat32 && pattern_.contiguous() &&
                     reinterpret_cast<uintptr_t>(at(lane)) % alignof(float) == 0;
  return whole ? reinterpret_cast<const float*>(at(lane)) : nullptr;
}

void TensorAccess::add(uint32_t lane, float* sums) const {
  if (type_ == isa::DataType::kFloat32 && pattern_.contiguous() && random_ == nullptr) {
    const auto* from = reinterpret_cast<const uint8_t*>(sums);
    num::kernels().add(num::Type::kFp32, at(lane), from, at(lane), elements());
    return;
  }
  thread_local std::vector<float> old;
  old.resize(elements());
  read(lane, old.data());
  num::apply(num::Operator::kAdd, sums, old.data(), sums, elements());
  write(lane, sums);
}

void TensorAccess::read(uint32_t lane, uint32_t* to) const {
  uint8_t* bytes = packed(elements() * bytes_);
  read(lane, bytes);
  switch (type_) {
    case isa::DataType::kInt8:
      return widen<int8_t>(bytes, to, elements());
    case isa::DataType::kInt16:
      return widen<int16_t>(bytes, to, elements());
    default:
      break;
  }
  switch (bytes_) {  // what is no integer: its bits
    case 1:
      return widen<uint8_t>(bytes, to, elements());
    case 2:
      return widen<uint16_t>(bytes, to, elements());
    default:
      return widen<uint32_t>(bytes, to, elements());
  }
}

void TensorAccess::write(uint32_t lane, const uint32_t* from) const {
  uint8_t* bytes = packed(elements() * bytes_);
  switch (bytes_) {
    case 1:
      narrow<uint8_t>(from, bytes, elements());
      break;
    case 2:
      narrow<uint16_t>(from, bytes, elements());
      break;
    default:
      narrow<uint32_t>(from, bytes, elements());
      break;
  }
  write(lane, bytes);
}

}  // namespace hw
