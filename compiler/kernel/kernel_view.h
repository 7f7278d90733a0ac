// Views, tiles and rings of the kernel builder. Part of the installed header soma/kernel.h.
//
// A View is a pattern over a tensor in HBM or a tile on the chip: it owns nothing and costs
// nothing. Its dimensions are numbered from the outermost. Dimension 0 of what lies on the chip are
// its partitions: they cannot be strided, moved or merged with others, but sliced. A mistake (an
// index outside, a reshape that needs a copy) becomes the kernel's error and the result an empty
// view.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernel_types.h"

namespace kernel {

enum class Space : uint8_t { kNone, kHbm, kSbuf, kPsum };

class Program;  // of the kernel that the view belongs to

// The number of a loop's turn, from 0, times a factor (Kernel::for_loop).
class Index {
 public:
  Index operator*(int64_t factor) const {
    Index out = *this;
    if (__builtin_mul_overflow(factor_, factor, &out.factor_)) out.factor_ = INT64_MAX;
    return out;
  }

 private:
  friend class Kernel;
  friend class View;
  Index(uint32_t loop, int64_t most) : loop_(loop), most_(most) {}

  uint32_t loop_;  // its scope
  int64_t most_;   // turns
  int64_t factor_ = 1;
};

struct Dim {
  int64_t step;  // elements
  int64_t count;
};

class __attribute__((visibility("default"))) View {
 public:
  using Sizes = std::vector<int64_t>;

  View() = default;

  explicit operator bool() const { return program_ != nullptr; }
  Space space() const { return space_; }
  DType dtype() const { return dtype_; }
  Sizes shape() const;
  int64_t size(size_t dim) const { return dim < dims_.size() ? dims_[dim].count : 0; }
  size_t rank() const { return dims_.size(); }
  int64_t elements() const;  // of all partitions

  // `count` indices from `first` on, `step` apart.
  View slice(size_t dim, int64_t first, int64_t count, int64_t step = 1,
             Location at = Location::here()) const;
  // The same in the body of a loop, from another first index in each turn: inside in all of them.
  // Not of partitions. Slices by the indices of several loops add up.
  View slice(size_t dim, const Index& first, int64_t count, Location at = Location::here()) const;
  // From the index on that a register of the engine holds when it executes the instruction or makes
  // the transfer: `count` of them inside, which only the hardware can tell. Not of partitions, and
  // once in a view.
  View slice(size_t dim, Register first, int64_t count, Location at = Location::here()) const;
  // One index; the dimension goes away, except partitions, of which one is left.
  View index(size_t dim, int64_t i, Location at = Location::here()) const;
  // The same elements in the same order in other dimensions. Partitions stay.
  View reshape(Sizes shape, Location at = Location::here()) const;
  // Dimension i of the result is dimension order[i]. Partitions stay.
  View permute(std::vector<size_t> order, Location at = Location::here()) const;
  // A dimension of size 1 becomes one of size `count` that repeats its element.
  View broadcast(size_t dim, int64_t count, Location at = Location::here()) const;
  // A new dimension of size 1 before `dim`.
  View unsqueeze(size_t dim, Location at = Location::here()) const;
  // `dim` becomes two: positions of a window of `size` that moves by `stride`, and places in it.
  View windows(size_t dim, int64_t size, int64_t stride, Location at = Location::here()) const;
  // Elements of the whole tensor, or in these partitions of the whole tile, by steps (from 0 on)
  // and counts, outermost first; `offset` counts from its first one. They may be met more than
  // once.
  View pattern(const std::vector<Dim>& dims, int64_t offset, Location at = Location::here()) const;
  // The same bits as another type. The innermost dimension must be contiguous if sizes differ.
  View as(DType dtype, Location at = Location::here()) const;
  // NeuronCore v4: element i of the result is element index[i] of this tile, (partitions, size), as
  // an operand of one instruction (docs/kernels.md says which). Each group of 16 partitions, on the
  // Tensor engine 32, has indices of its own: number i is in partition i mod 16 of the group,
  // column i / 16. The result has `count` elements, or as many as there are indices for 16
  // partitions.
  View indirect(const View& index, int64_t count = 0, Location at = Location::here()) const;

 private:
  friend class Program;
  friend class Kernel;
  friend class Tile;

  bool on_chip() const { return space_ == Space::kSbuf || space_ == Space::kPsum; }
  View fail(const char* call, const std::string& what, Location at) const;
  bool free_dim(const char* call, size_t dim, Location at) const;

  std::shared_ptr<Program> program_;
  Space space_ = Space::kNone;
  DType dtype_ = DType::kFloat32;
  uint32_t buffer_ = 0;          // tensor or allocation
  int64_t start_partition_ = 0;  // on the chip
  int64_t offset_ = 0;           // bytes: in the tensor, in each partition
  std::vector<Dim> dims_;
  std::shared_ptr<const View> index_;  // what it goes by, or null
  int64_t extent_ = 0;                 // elements that there are to choose from
  // It begins so many bytes further on in each turn of a loop.
  struct Move {
    uint32_t loop;
    int64_t bytes;
    int64_t turns;
  };
  std::vector<Move> moves_;
  // And, if `positions` is not 0, by a register times `bytes`, from 0 to `positions` - 1 of them.
  struct Displacement {
    Register by;
    int64_t bytes = 0;
    int64_t positions = 0;
  };
  Displacement displacement_;
};

// Memory on the chip, from its allocation until it is destroyed or released. What comes after it in
// the same place waits for what still uses it: that is the kernel's affair.
class __attribute__((visibility("default"))) Tile : public View {
 public:
  Tile() = default;
  Tile(Tile&& other) noexcept;
  Tile& operator=(Tile&& other) noexcept;
  Tile(const Tile&) = delete;
  Tile& operator=(const Tile&) = delete;
  ~Tile() { release(); }

  void release(Location at = Location::here());

 private:
  friend class Kernel;
  explicit Tile(View view) : View(std::move(view)) {}
};

// Equal tiles that are used in turn, so that one is filled while another is worked on.
class Ring {
 public:
  explicit Ring(std::vector<Tile> tiles) : tiles_(std::move(tiles)) {}

  View next() { return tiles_[at_++ % tiles_.size()]; }
  View operator[](size_t i) const { return tiles_[i % tiles_.size()]; }
  size_t size() const { return tiles_.size(); }

 private:
  std::vector<Tile> tiles_;
  size_t at_ = 0;
};

// A number for each lane: the same for all of them, a register of the engine that executes the
// instruction, or a view with one element in each partition.
class Scalar {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) : value_(static_cast<double>(value)) {
    if constexpr (std::is_integral_v<T>) bits_ = static_cast<uint32_t>(value);
    integer_ = std::is_integral_v<T>;
  }
  Scalar(View tile) : kind_(kTile), tile_(std::move(tile)) {}
  Scalar(const Tile& tile) : kind_(kTile), tile_(tile) {}
  Scalar(Register number) : Scalar(reg(number.number)) {}
  // NOLINTEND(google-explicit-constructor)
  static Scalar reg(uint8_t number) {
    Scalar s(0);
    s.kind_ = kRegister;
    s.bits_ = number;
    return s;
  }

 private:
  friend class Program;
  enum Kind : uint8_t { kImmediate, kRegister, kTile };

  Kind kind_ = kImmediate;
  double value_ = 0;
  uint32_t bits_ = 0;  // for operators on bits; the register's number
  bool integer_ = false;
  View tile_;
};

}  // namespace kernel
