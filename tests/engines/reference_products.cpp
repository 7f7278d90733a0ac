// The Tensor engine: weights, products, transposes (spec/engine-isa.md 5.5, 7).
#include <cmath>

#include "tests/engines/reference.h"

namespace engine_reference {

using isa::Accumulate;
using isa::DataType;
using isa::Memory;
using isa::TensorOp;
using isa::TensorOperand;

namespace {

constexpr uint32_t kBankBytes = 2048;  // spec/engine-isa.md 2

}  // namespace

// Rows of an operand of the array; the rows of its second slice come behind those of the first.
Reference::Matrix Reference::matrix(const TensorOperand& tensor, unsigned rows, unsigned slices) {
  const View source = view(tensor);
  const size_t columns = source.size() / slices;
  Matrix values;
  for (unsigned slice = 0; slice < slices; ++slice) {
    for (unsigned row = 0; row < rows; ++row) {
      values.emplace_back();
      for (size_t i = 0; i < columns; ++i) {
        const float value = number(source, row, slice * columns + i).nominal();
        values.back().push_back(tensor.dtype == DataType::kFloat32r ? rounded_to_10_bits(value)
                                                                    : value);
      }
    }
  }
  return values;
}

void Reference::run(const isa::Ldweights& t) {
  const View src = view(t.src);
  auto& bits = weight_bits_[{t.src.start_partition, t.column}];
  bits.assign(t.rows, {});
  for (unsigned k = 0; k < t.rows; ++k) {
    for (size_t m = 0; m < src.size(); ++m) bits[k].push_back(element(src, k, m));
  }
  weights_[{t.src.start_partition, t.column}] = matrix(t.src, t.rows, 1u + t.double_row);
}

void Reference::open_banks(const View& dst, unsigned lane) {
  const size_t partition = dst.tensor.start_partition + lane;
  for (const uint32_t byte : dst.places) {
    const size_t first = partition * kPsumHalfwords + byte / kBankBytes * (kBankBytes / 2);
    for (size_t w = first; w < first + kBankBytes / 2; ++w) by_product_[w] = false;
  }
}

// Bits of the weights, in elements of at least 16 bits (spec/engine-isa.md 7). The moving matrix
// has one number that is not 0 in each column.
void Reference::transpose(const isa::Matmul& t) {
  const View dst = view(t.dst);
  const Matrix moving = matrix(t.moving, t.rows, 1);
  const auto& weights = weight_bits_.at({t.moving.start_partition, t.dst.start_partition});
  for (unsigned m = 0; m < t.columns; ++m) {
    for (size_t n = 0; n < dst.size(); ++n) {
      uint64_t bits = 0;
      for (size_t k = 0; k < moving.size(); ++k) {
        if (moving[k][n] != 0) bits = weights.at(k).at(m);
      }
      put_bits(dst, m, n, bits);
      const size_t half = (t.dst.start_partition + m) * kPsumHalfwords + dst.places[n] / 2;
      for (unsigned h = 0; h < isa::data_type_bytes(t.dst.dtype) / 2; ++h) {
        by_product_[half + h] = true;
      }
    }
  }
}

void Reference::run(const isa::Matmul& t) {
  if (t.transpose != 0) return transpose(t);
  product(t.dst, t.accumulate, weights_.at({t.moving.start_partition, t.dst.start_partition}),
          matrix(t.moving, t.rows, 1u + t.double_row), t.columns);
}

void Reference::product(const TensorOperand& tensor, Accumulate accumulate, const Matrix& weights,
                        const Matrix& moving, unsigned columns) {
  const View dst = view(tensor);
  const DataType type = tensor.dtype;
  for (unsigned m = 0; m < columns; ++m) {
    if (accumulate == Accumulate::kStart) open_banks(dst, m);
    for (size_t n = 0; n < dst.size(); ++n) {
      float sum = 0;
      for (size_t k = 0; k < moving.size(); ++k) {
        sum = std::fma(weights.at(k).at(m), moving[k][n], sum);
      }
      // Elements may meet again within one product, so each is there before the next.
      uint8_t* place = at(Memory::kPsum, tensor.start_partition + m, dst.places[n]);
      const size_t half = (tensor.start_partition + m) * kPsumHalfwords + dst.places[n] / 2;
      const bool adds = accumulate == Accumulate::kAdd ||
                        (accumulate != Accumulate::kOverwrite && by_product_[half]);
      Range result = Range::exactly(sum);
      if (adds) {
        const float old = to_float(type, load_bits(type, place));
        result = operate(TensorOp::kAdd, Range::exactly(old), result);
      }
      for (unsigned h = 0; h < isa::data_type_bytes(type) / 2; ++h) by_product_[half + h] = true;
      put(dst, m, n, result);
      store_bits(type, written_.back().bits, place);
    }
  }
}

}  // namespace engine_reference
