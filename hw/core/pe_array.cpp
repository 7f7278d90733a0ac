#include "hw/core/pe_array.h"

#include <algorithm>
#include <cstring>

#include "base/num/matmul.h"
#include "base/num/operators.h"
#include "base/num/types.h"
#include "hw/core/compute.h"
#include "hw/core/mx_operand.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;

namespace {

// To 10 bits of mantissa, to nearest even; infinities and NaN stay.
void round_to_tf32(float* values, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &values[i], sizeof(bits));
    if ((bits & 0x7F80'0000u) == 0x7F80'0000u) continue;
    bits = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFFu;
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
}

// Rows of the product, one behind the other: slice by slice, in each slice partition by partition.
void read_rows(const TensorAccess& from, uint32_t rows, uint32_t slices, std::vector<float>* to) {
  const size_t n = from.elements();
  to->resize(rows * n);
  if (slices == 1) {
    for (uint32_t k = 0; k < rows; ++k) {
      from.expect(k + kLanesAhead);
      from.read(k, to->data() + k * n);
    }
  } else {
    const size_t row = n / slices;
    float* x = room<float>(kFirst, n);
    for (uint32_t k = 0; k < rows; ++k) {
      from.read(k, x);
      for (uint32_t j = 0; j < slices; ++j) {
        std::copy_n(x + j * row, row, to->data() + (j * rows + k) * row);
      }
    }
  }
  if (from.type() == isa::DataType::kFloat32r) round_to_tf32(to->data(), to->size());
}

bool is_wide(isa::DataType t) {
  return t == isa::DataType::kFloat32 || t == isa::DataType::kFloat32r;
}
bool is_e4m3(isa::DataType t) {
  return t == isa::DataType::kFloat8e4 || t == isa::DataType::kFloat8e4fn;
}

}  // namespace

// An empty place for weights, in the stead of those that lie there.
PeArray::Tile& PeArray::place(Tile tile) {
  tiles_.erase(std::remove_if(tiles_.begin(), tiles_.end(),
                              [&](const Tile& each) { return each.overlaps(tile); }),
               tiles_.end());
  tiles_.push_back(std::move(tile));
  return tiles_.back();
}

PeArray::Tile& PeArray::place(const isa::Ldweights& o) {
  Tile tile;
  tile.first_row = o.src.start_partition;
  tile.rows = o.rows;
  tile.slices = o.double_row != 0 ? 2 : 1;
  tile.first_column = o.column;
  tile.columns = static_cast<uint32_t>(isa::element_count(o.src)) / tile.slices;
  tile.type = o.src.dtype;
  return place(std::move(tile));
}

PeArray::Tile& PeArray::place(const isa::LdweightsMx& o) {
  Tile tile;
  tile.first_row = o.src.start_partition;
  tile.rows = o.rows;
  tile.slices = num::kMxNumbers;
  tile.mx = true;
  tile.columns = static_cast<uint32_t>(isa::element_count(o.src));
  tile.type = o.src.dtype;
  return place(std::move(tile));
}

void PeArray::load(const isa::Ldweights& o, const TensorAccess& source) {
  Tile& tile = place(o);
  tile.make_room();
  read_rows(source, tile.rows, tile.slices, &tile.weights);
  const size_t row = tile.bytes.size() / tile.rows;
  for (uint32_t k = 0; k < tile.rows; ++k) source.read(k, tile.bytes.data() + k * row);
}

void PeArray::load(const isa::LdweightsMx& o, const TensorAccess& source,
                   const TensorAccess& scale) {
  Tile& tile = place(o);
  tile.make_room();
  read_mx_rows(source, scale, tile.rows, &tile.weights);
}

const PeArray::Tile* PeArray::tile_at(uint32_t first_row, uint32_t first_column) const {
  for (const Tile& tile : tiles_) {
    if (tile.first_row == first_row && tile.first_column == first_column) return &tile;
  }
  return nullptr;
}

PeArray::Tile& PeArray::with_room(uint32_t first_row, uint32_t first_column) {
  Tile& tile = tiles_[static_cast<size_t>(tile_at(first_row, first_column) - tiles_.data())];
  tile.make_room();
  return tile;
}

// Types mix, but for float32 and float32r, each of which goes with itself only
// (spec/engine-isa.md 10.4), and for the two e4m3 (5.1). What is transposed goes with any moving
// matrix.
bool PeArray::fits(const isa::Matmul& o) const {
  const Tile* tile = tile_at(o.moving.start_partition, o.dst.start_partition);
  if (tile == nullptr || tile->mx || o.rows != tile->rows || o.columns != tile->columns ||
      (o.double_row != 0 ? 2u : 1u) != tile->slices) {
    return false;
  }
  if (o.transpose != 0) {
    const uint32_t bytes = isa::data_type_bytes(tile->type);
    return isa::data_type_bytes(o.dst.dtype) == std::max(bytes, 2u) &&
           (bytes == 1 || num_type(o.dst.dtype) == num_type(tile->type) || is_wide(tile->type));
  }
  return o.moving.dtype == tile->type || (!is_wide(o.moving.dtype) && !is_wide(tile->type) &&
                                          !(is_e4m3(o.moving.dtype) && is_e4m3(tile->type)));
}

bool PeArray::fits(const isa::MatmulMx& o) const {
  const Tile* tile = tile_at(o.moving.start_partition, o.dst.start_partition);
  return tile != nullptr && tile->mx && o.rows == tile->rows && o.columns == tile->columns;
}

void PeArray::multiply(const isa::Matmul& o, const TensorAccess& moving,
                       const TensorAccess& destination) {
  const Tile& tile = with_room(o.moving.start_partition, o.dst.start_partition);
  read_rows(moving, tile.rows, tile.slices, &moving_);
  if (o.transpose == 0) return product(tile, o.accumulate, destination);
  if (written_.empty()) written_.resize(isa::kPartitions);
  transpose(tile, destination, destination.elements());
}

void PeArray::multiply(const isa::MatmulMx& o, const TensorAccess& moving,
                       const TensorAccess& scale, const TensorAccess& destination) {
  const Tile& tile = *tile_at(o.moving.start_partition, o.dst.start_partition);
  read_mx_rows(moving, scale, tile.rows, &moving_);
  product(tile, o.accumulate, destination);
}

// Of the weights and moving_.
void PeArray::product(const Tile& tile, isa::Accumulate mode, const TensorAccess& destination) {
  const size_t n = destination.elements();
  if (written_.empty()) written_.resize(isa::kPartitions);
  sums_.resize(tile.columns * n);
  num::multiply(tile.weights.data(), moving_.data(), sums_.data(), size_t{tile.slices} * tile.rows,
                tile.columns, n);
  for (uint32_t m = 0; m < tile.columns; ++m) {
    if (mode == isa::Accumulate::kStart) open_group(destination.box(), m);
    float* sums = &sums_[m * n];
    destination.expect(m + kLanesAhead);
    if (destination.pattern().contiguous()) {
      accumulate_row(mode, destination, m, sums);
    } else {
      accumulate_each(mode, destination, m, sums);
    }
  }
}

// The moving matrix says which row of the weights goes to which column of the result.
void PeArray::transpose(const Tile& tile, const TensorAccess& destination, size_t n) {
  const size_t bytes = isa::data_type_bytes(tile.type);
  const size_t wide = isa::data_type_bytes(destination.type());
  std::vector<const uint8_t*> rows(n, nullptr);
  for (size_t i = 0; i < n; ++i) {
    for (uint32_t k = 0; k < tile.rows && rows[i] == nullptr; ++k) {
      if (moving_[k * n + i] != 0) rows[i] = &tile.bytes[k * tile.columns * bytes];
    }
  }
  uint8_t* y = room<uint8_t>(kFirst, n * wide);
  for (uint32_t m = 0; m < tile.columns; ++m) {
    std::memset(y, 0, n * wide);
    for (size_t i = 0; i < n; ++i) {
      if (rows[i] != nullptr) std::memcpy(y + i * wide, rows[i] + m * bytes, bytes);
    }
    destination.write(m, y);
    Marks& written = written_[destination.box().first_partition + m];
    destination.each_element(
        m, [&](uint8_t* /*element*/, uint64_t byte) { written.set(byte / kUnit, wide / kUnit); });
  }
}

void PeArray::open_group(const TensorBox& box, uint32_t lane) {
  const size_t first = box.begin / contract::tpb::kPsumBankBytes;
  const size_t end = (box.end - 1) / contract::tpb::kPsumBankBytes + 1;
  written_[box.first_partition + lane].clear(first * kUnitsPerBank, (end - first) * kUnitsPerBank);
}

// Neighbouring elements, all of which or none have been written, at once.
void PeArray::accumulate_row(isa::Accumulate mode, const TensorAccess& to, uint32_t lane,
                             float* sums) {
  Marks& written = written_[to.box().first_partition + lane];
  const size_t begin = to.box().begin / kUnit;
  const size_t units = (to.box().end - to.box().begin) / kUnit;
  const bool first_write = mode == isa::Accumulate::kFirstWrite || mode == isa::Accumulate::kStart;
  const bool before = first_write && written.any(begin, units);
  if (before && !written.all(begin, units)) return accumulate_each(mode, to, lane, sums);
  if (mode == isa::Accumulate::kAdd || before) {
    to.add(lane, sums);
  } else {
    to.write(lane, sums);
  }
  written.set(begin, units);
}

// One by one: an element may come twice.
void PeArray::accumulate_each(isa::Accumulate mode, const TensorAccess& to, uint32_t lane,
                              const float* sums) {
  Marks& written = written_[to.box().first_partition + lane];
  const num::Type type = num_type(to.type());
  const size_t units = num::size_of(type) / kUnit;
  to.each_element(lane, [&](uint8_t* element, uint64_t byte) {
    const uint64_t unit = byte / kUnit;
    const bool adds =
        mode == isa::Accumulate::kAdd || (mode != isa::Accumulate::kOverwrite && written[unit]);
    float value = *sums++;
    if (adds) {
      const float old = num::load_float(type, element);
      num::apply(num::Operator::kAdd, &value, &old, &value, 1);
    }
    to.convert(lane, &value, 1, element);
    written.set(unit, units);
  });
}

}  // namespace hw
