#include "runtime/load/dma_transpose.h"

#include <algorithm>
#include <array>
#include <string>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"
#include "arch/contract/dge.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr size_t kMostSources = contract::desc::kMaxPacketDescriptors - 1;
constexpr uint64_t kRows = contract::dge::kTransposeRows;
constexpr uint64_t kColumns = contract::dge::kTransposeColumns;

// Places of the bytes that a pattern enumerates.
class Stream {
 public:
  explicit Stream(const neff::AccessPattern& pattern) {
    neff::RunCursor cursor(pattern);
    neff::Run run{0, 0};
    for (uint64_t at = 0; cursor.next(&run); at += run.bytes) {
      runs_.push_back(run);
      begin_.push_back(at);
    }
  }

  void places(uint64_t at, uint64_t bytes, std::vector<neff::Run>* out) const {
    auto i = static_cast<size_t>(std::upper_bound(begin_.begin(), begin_.end(), at) -
                                 begin_.begin() - 1);
    while (bytes != 0) {
      const uint64_t skip = at - begin_[i];
      const uint64_t n = std::min(bytes, runs_[i].bytes - skip);
      out->push_back({runs_[i].offset + skip, n});
      at += n;
      bytes -= n;
      ++i;
    }
  }

 private:
  std::vector<neff::Run> runs_;
  std::vector<uint64_t> begin_;
};

class Blocks {
 public:
  explicit Blocks(const neff::DmaTransfer& t)
      : shape_(t.transpose_shape),
        size_(t.transpose_element_size),
        from_(t.sources[0].pattern),
        to_(t.destination.pattern) {
    uint64_t in = 1;
    uint64_t out = 1;
    for (size_t k = 4; k-- > 0;) {
      in_step_[k] = in;
      in *= shape_[k];
      out_step_[t.transpose_perm[k]] = out;
      out *= shape_[t.transpose_perm[k]];
    }
    // Rows are the axis that varies fastest in the result, columns that of the source.
    for (size_t k = 0; k < 4; ++k) {
      if (shape_[t.transpose_perm[k]] > 1) rows_ = t.transpose_perm[k];
      if (shape_[k] > 1) columns_ = k;
    }
    for (size_t axis = 0; axis < 4; ++axis) {
      if (axis != rows_ && axis != columns_) others_.push_back(axis);
    }
  }

  std::vector<TransposeBlock> all() {
    const uint64_t rows = turns() ? shape_[rows_] : 1;
    for (uint64_t column = 0; column < shape_[columns_]; column += kColumns) {
      for_each_other(0, 0, 0, [&](uint64_t in, uint64_t out) {
        for (uint64_t row = 0; row < rows; row += kRows) {
          add(in, out, row, std::min(kRows, rows - row), column);
        }
      });
    }
    return std::move(blocks_);
  }

 private:
  bool turns() const { return rows_ != columns_; }

  template <typename Each>
  void for_each_other(size_t i, uint64_t in, uint64_t out, const Each& each) {
    if (i == others_.size()) return each(in, out);
    for (uint64_t at = 0; at < shape_[others_[i]]; ++at) {
      for_each_other(i + 1, in + at * in_step_[others_[i]], out + at * out_step_[others_[i]], each);
    }
  }

  // Row by row where a pattern leaves too many pieces for one packet.
  void add(uint64_t in, uint64_t out, uint64_t row, uint64_t rows, uint64_t column) {
    const uint64_t columns = std::min(kColumns, shape_[columns_] - column);
    TransposeBlock block;
    block.rows = static_cast<uint32_t>(rows);
    for (uint64_t r = row; r < row + rows; ++r) {
      const uint64_t at = in + (turns() ? r * in_step_[rows_] : 0) + column;
      from_.places(at * size_, columns * size_, &block.from);
    }
    if (block.from.size() > kMostSources && rows > 1) {
      for (uint64_t r = row; r < row + rows; ++r) add(in, out, r, 1, column);
      return;
    }
    for (uint64_t c = column; c < column + columns; ++c) {
      const uint64_t at = out + c * out_step_[columns_] + (turns() ? row : 0);
      to_.places(at * size_, rows * size_, &block.to);
    }
    blocks_.push_back(std::move(block));
  }

  std::array<uint64_t, 4> shape_;
  uint64_t size_;
  Stream from_;
  Stream to_;
  std::array<uint64_t, 4> in_step_{};   // elements
  std::array<uint64_t, 4> out_step_{};  // of the source's axes in the result
  size_t rows_ = 0;
  size_t columns_ = 0;
  std::vector<size_t> others_;
  std::vector<TransposeBlock> blocks_;
};

}  // namespace

base::Result<std::vector<TransposeBlock>> transpose_blocks(const neff::DmaTransfer& transfer) {
  const unsigned size = transfer.transpose_element_size;
  if (size != 2 && size != 4) {
    return unsupported(NRT_INVALID, "A DMA transpose of elements of " + std::to_string(size) +
                                        " bytes; there are 2 and 4");
  }
  // Each descriptor writes up to kRows elements: rings that have no room are not built first.
  uint64_t elements = 1;
  for (const uint64_t n : transfer.transpose_shape) elements *= n;
  constexpr uint64_t kMost = uint64_t{contract::ring::kMost} * contract::kDmaPerNc;
  if (elements / kRows > kMost) {
    return error(NRT_RESOURCE, "A DMA transpose takes " + std::to_string(elements / kRows) +
                                   " descriptors or more; the rings of a queue set hold " +
                                   std::to_string(kMost));
  }
  return Blocks(transfer).all();
}

}  // namespace nrt
