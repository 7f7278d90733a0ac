// Numbers with scales of groups (spec/engine-isa.md 5.6, 10.2, 10.4).
#include <algorithm>
#include <cmath>

#include "tests/engines/reference.h"

namespace engine_reference {

using isa::DataType;
using isa::TensorOperand;

namespace {

constexpr unsigned kNumbersPerElement = 4;

// Group g of quadrant q, partitions 32 q + 8 g to 32 q + 8 g + 7: counted from the first scale.
unsigned scale_partition(unsigned lane) {
  return 32 * (lane / 32) + lane % 32 / 8;
}

}  // namespace

Reference::Matrix Reference::mx_matrix(const TensorOperand& tensor, const TensorOperand& scale,
                                       unsigned rows) {
  const View from = view(tensor);
  const View scales = view(scale);
  Matrix result;
  for (unsigned j = 0; j < kNumbersPerElement; ++j) {
    for (unsigned k = 0; k < rows; ++k) {
      std::vector<float> row;
      for (size_t i = 0; i < from.size(); ++i) {
        row.push_back(static_cast<float>(mx_number(tensor.dtype, element(from, k, i), j) *
                                         mx_scale(element(scales, scale_partition(k), i))));
      }
      result.push_back(row);
    }
  }
  return result;
}

void Reference::run(const isa::LdweightsMx& t) {
  weights_[{t.src.start_partition, 0}] = mx_matrix(t.src, t.scale, t.rows);
}

void Reference::run(const isa::MatmulMx& t) {
  product(t.dst, t.accumulate, weights_.at({t.moving.start_partition, 0}),
          mx_matrix(t.moving, t.scale, t.rows), t.columns);
}

// 2^(floor(log2 of the largest) - (Emax - 1)), 2^-127 at least; none for infinities and NaN.
void Reference::run(const isa::QuantizeMx& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const View scale = view(t.scale);
  const bool e5 = t.dst.dtype == DataType::kFloat8e5x4;
  const DataType number_type = e5 ? DataType::kFloat8e5 : DataType::kFloat8e4fn;
  std::vector<uint64_t> scales;
  for (unsigned group = 0; group < t.partitions / 8u; ++group) {
    for (size_t i = 0; i < dst.size(); ++i) {
      double largest = 0;
      for (unsigned member = 0; member < 32; ++member) {
        const double x = std::fabs(
            to_float(t.src.dtype, element(src, group * 8 + member / 4, i * 4 + member % 4)));
        if (!(x <= largest)) largest = std::isnan(largest) ? largest : x;
      }
      uint64_t byte = 0;
      if (!std::isfinite(largest)) {
        byte = 255;
      } else if (largest != 0) {
        byte = static_cast<uint64_t>(std::max(std::ilogb(largest) - (e5 ? 14 : 7) + 127, 0));
      }
      scales.push_back(byte);
    }
  }
  std::vector<uint64_t> elements;
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      uint64_t bits = 0;
      for (unsigned j = 0; j < kNumbersPerElement; ++j) {
        const double x = to_float(t.src.dtype, element(src, lane, i * 4 + j));
        const auto quotient = static_cast<float>(x / mx_scale(scales[lane / 8 * dst.size() + i]));
        bits |= from_float(number_type, quotient) << (8 * j);
      }
      elements.push_back(bits);
    }
  }
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) put_bits(dst, lane, i, elements[lane * dst.size() + i]);
  }
  for (unsigned group = 0; group < t.partitions / 8u; ++group) {
    for (size_t i = 0; i < dst.size(); ++i) {
      put_bits(scale, scale_partition(group * 8), i, scales[group * dst.size() + i]);
    }
  }
}

}  // namespace engine_reference
