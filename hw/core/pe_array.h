// The Tensor engine's array and the accumulation beside PSUM. Source of truth: spec/engine-isa.md
// 2, 5.5 and 7.
//
// Exact: products and sums in float32, in order of the rows, each step a fused multiply-add; what
// was in PSUM is added last. float32r is rounded to 10 bits of mantissa first. Numbers of MX
// operands are multiplied by their scales in float32 first, which is exact unless it overflows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "contract/isa_types.h"
#include "hw/core/tensor_access.h"

namespace hw {

class PeArray {
 public:
  // Weights whose values are not known: zeros.
  void expect(const contract::isa::Ldweights& o) { place(o); }
  void expect(const contract::isa::LdweightsMx& o) { place(o); }
  // Operands are open.
  void load(const contract::isa::Ldweights& o, const TensorAccess& source);
  void load(const contract::isa::LdweightsMx& o, const TensorAccess& source,
            const TensorAccess& scale);
  // False: there are no weights on its tile, they have another number of rows or columns, or a type
  // that does not go with what moves.
  bool fits(const contract::isa::Matmul& o) const;
  bool fits(const contract::isa::MatmulMx& o) const;
  void multiply(const contract::isa::Matmul& o, const TensorAccess& moving,
                const TensorAccess& destination);
  void multiply(const contract::isa::MatmulMx& o, const TensorAccess& moving,
                const TensorAccess& scale, const TensorAccess& destination);

 private:
  // A rectangle of the array with its weights.
  struct Tile {
    uint32_t first_row = 0;
    uint32_t rows = 0;
    uint32_t first_column = 0;
    uint32_t columns = 0;
    uint32_t slices = 1;
    bool mx = false;
    contract::isa::DataType type = contract::isa::DataType::kFloat32;
    std::vector<float> weights;  // (slices x rows) x columns
    std::vector<uint8_t> bytes;  // as they were, rows x (slices x columns): for transposes
    // A timing-only run needs none of them.
    void make_room() {
      if (!weights.empty()) return;
      weights.resize(size_t{slices} * rows * columns);
      if (!mx) bytes.resize(weights.size() * contract::isa::data_type_bytes(type));
    }
    bool overlaps(const Tile& other) const {
      return first_row < other.first_row + other.rows && other.first_row < first_row + rows &&
             first_column < other.first_column + other.columns &&
             other.first_column < first_column + columns;
    }
  };
  // PSUM in units of its smallest element.
  static constexpr size_t kUnit = 2;
  static constexpr size_t kUnits = contract::tpb::kPsumPartitionBytes / kUnit;
  static constexpr size_t kUnitsPerBank = contract::tpb::kPsumBankBytes / kUnit;
  // A bit per unit of a partition.
  class Marks {
   public:
    bool operator[](size_t i) const { return (words_[i / kWord] >> i % kWord & 1) != 0; }
    bool any(size_t first, size_t count) const {
      bool found = false;
      each(first, count, [&](size_t i, uint64_t mask) { found |= (words_[i] & mask) != 0; });
      return found;
    }
    bool all(size_t first, size_t count) const {
      bool found = true;
      each(first, count, [&](size_t i, uint64_t mask) { found &= (words_[i] & mask) == mask; });
      return found;
    }
    void set(size_t first, size_t count) {
      each(first, count, [&](size_t i, uint64_t mask) { words_[i] |= mask; });
    }
    void clear(size_t first, size_t count) {
      each(first, count, [&](size_t i, uint64_t mask) { words_[i] &= ~mask; });
    }

   private:
    static constexpr size_t kWord = 64;
    // Calls `each(word, its bits)` for what there is of [first, first + count).
    template <typename Each>
    static void each(size_t first, size_t count, Each&& each) {
      for (const size_t end = first + count; first < end;) {
        const size_t bits = std::min(end - first, kWord - first % kWord);
        each(first / kWord, (~uint64_t{0} >> (kWord - bits)) << first % kWord);
        first += bits;
      }
    }
    std::array<uint64_t, kUnits / kWord> words_{};
  };

  Tile& place(Tile tile);
  Tile& place(const contract::isa::Ldweights& o);
  Tile& place(const contract::isa::LdweightsMx& o);
  const Tile* tile_at(uint32_t first_row, uint32_t first_column) const;
  Tile& with_room(uint32_t first_row, uint32_t first_column);
  void product(const Tile& tile, contract::isa::Accumulate mode, const TensorAccess& destination);
  void transpose(const Tile& tile, const TensorAccess& destination, size_t n);
  void open_group(const TensorBox& box, uint32_t lane);
  void accumulate_row(contract::isa::Accumulate mode, const TensorAccess& to, uint32_t lane,
                      float* sums);
  void accumulate_each(contract::isa::Accumulate mode, const TensorAccess& to, uint32_t lane,
                       const float* sums);

  std::vector<Tile> tiles_;  // none overlap
  // Elements that products have written since the last START on their bank, by partition.
  std::vector<Marks> written_;
  std::vector<float> moving_;
  std::vector<float> sums_;
};

}  // namespace hw
