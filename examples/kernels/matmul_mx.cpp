// c[M, N] = at[K, M] transposed times b[K, N], inputs in bfloat16, c in float32, by products of
// 8-bit numbers that share scales in groups of 32 along K, for any K, M, N, on NeuronCore v4.
//
// Both inputs are quantized on their way: a chunk of 512 rows lies in 128 partitions by 4, so that
// rows p, 128 + p, 256 + p and 384 + p of the chunk meet in one element. Rows that are missing in
// the last chunk are zeros. Blocks as in matmul.cpp: those of c stay in SBUF.
//
//   matmul_mx M K N FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using kernel::DType;
using kernel::View;

constexpr int64_t kTile = 128;   // of the array
constexpr int64_t kNumbers = 4;  // in an element
constexpr int64_t kChunk = kTile * kNumbers;
constexpr int64_t kBank = 512;    // float32 of a bank of PSUM: N
constexpr int64_t kBlock = 1024;  // of M and N
constexpr int64_t kBlockK = 4 * kChunk;

// One of the inputs: rows as they come, and a block of them quantized.
class Operand {
 public:
  Operand(kernel::Kernel& k, const std::string& name)
      : k_(k),
        rows_(k.ring(3, {kTile, kNumbers, kBlock}, DType::kBfloat16, name)),
        elements_(k.ring(2, {kTile, kBlockK / kChunk, kBlock}, DType::kFloat8e4fnx4, name + "_mx")),
        scales_(k.ring(2, {kTile, kBlockK / kChunk, kBlock}, DType::kFloat8e8, name + "_scale")) {}

  // Up to kBlockK rows and kBlock columns; an even number of columns is quantized.
  void load(const View& from) {
    block_ = elements_.next();
    scale_ = scales_.next();
    const int64_t columns = from.size(1);
    const int64_t even = columns + columns % 2;
    for (int64_t first = 0; first < from.size(0); first += kChunk) {
      const int64_t count = std::min(kChunk, from.size(0) - first);
      const View rows = rows_.next().slice(2, 0, even);
      if (count < kChunk || columns < even) k_.memset(rows, 0);
      const int64_t whole = count / kTile;
      if (whole > 0) {
        const View part = from.slice(0, first, whole * kTile).reshape({whole, kTile, columns});
        k_.load(rows.slice(1, 0, whole).slice(2, 0, columns), part.permute({1, 0, 2}));
      }
      if (count % kTile > 0) {
        k_.load(rows.index(1, whole).slice(0, 0, count % kTile).slice(1, 0, columns),
                from.slice(0, first + whole * kTile, count % kTile));
      }
      k_.quantize_mx(elements(first).slice(1, 0, even), scale(first).slice(1, 0, even),
                     rows.permute({0, 2, 1}));
    }
  }
  // Of the chunk that begins with this row of the block.
  View elements(int64_t row) const { return block_.index(1, row / kChunk); }
  View scale(int64_t row) const { return scale_.index(1, row / kChunk); }

 private:
  kernel::Kernel& k_;
  kernel::Ring rows_, elements_, scales_;
  View block_, scale_;
};

class Product {
 public:
  explicit Product(kernel::Kernel& k)
      : k_(k),
        stationary_(k, "at"),
        moving_(k, "b"),
        sums_(k.sbuf({kTile, kBlock / kTile, kBlock}, DType::kFloat32, "sum")),
        products_(k.ring(8, {kTile, kBank}, DType::kFloat32, "product", kernel::Space::kPsum)) {}

  void block(const View& at, const View& b, const View& c) {
    for (int64_t first = 0; first < at.size(0); first += kBlockK) {
      const int64_t rows = std::min(kBlockK, at.size(0) - first);
      stationary_.load(at.slice(0, first, rows));
      moving_.load(b.slice(0, first, rows));
      for (int64_t m = 0; m < c.size(0); m += kTile) {
        const int64_t ms = std::min(kTile, c.size(0) - m);
        for (int64_t n = 0; n < c.size(1); n += kBank) {
          const int64_t ns = std::min(kBank, c.size(1) - n);
          const View product = multiply(m, ms, n, ns, rows).slice(0, 0, ms);
          const View sum = sums_.index(1, m / kTile).slice(0, 0, ms).slice(1, n, ns);
          if (first == 0) {
            k_.tensor_copy(sum, product);
          } else {
            k_.tensor_tensor(sum, sum, product, kernel::Op::kAdd);
          }
        }
        if (first + rows < at.size(0)) continue;
        k_.store(c.slice(0, m, ms),
                 sums_.index(1, m / kTile).slice(0, 0, ms).slice(1, 0, c.size(1)));
      }
    }
  }

 private:
  // With a row more where their number is odd.
  View multiply(int64_t m, int64_t ms, int64_t n, int64_t ns, int64_t rows) {
    const int64_t even = ms + ms % 2;
    const View product = products_.next().slice(0, 0, even).slice(1, 0, ns);
    for (int64_t row = 0; row < rows; row += kChunk) {
      k_.matmul_mx(product, stationary_.elements(row).slice(1, m, even),
                   stationary_.scale(row).slice(1, m, even), moving_.elements(row).slice(1, n, ns),
                   moving_.scale(row).slice(1, n, ns),
                   row == 0 ? kernel::Accumulate::kOverwrite : kernel::Accumulate::kAdd);
    }
    return product;
  }

  kernel::Kernel& k_;
  Operand stationary_, moving_;
  kernel::Tile sums_;
  kernel::Ring products_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s M K N FILE.neff\n", argv[0]);
    return 2;
  }
  const int64_t m_size = std::atoll(argv[1]);
  const int64_t k_size = std::atoll(argv[2]);
  const int64_t n_size = std::atoll(argv[3]);
  kernel::Kernel k({"matmul_mx", kernel::Generation::kV4});
  const View at = k.input("at", DType::kBfloat16, {k_size, m_size});
  const View b = k.input("b", DType::kBfloat16, {k_size, n_size});
  const View c = k.output("c", DType::kFloat32, {m_size, n_size});
  Product product(k);
  for (int64_t m = 0; m < m_size; m += kBlock) {
    const int64_t ms = std::min(kBlock, m_size - m);
    for (int64_t n = 0; n < n_size; n += kBlock) {
      const int64_t ns = std::min(kBlock, n_size - n);
      product.block(at.slice(1, m, ms), b.slice(1, n, ns), c.slice(0, m, ms).slice(1, n, ns));
    }
  }
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
