#include <algorithm>
#include <numeric>

#include "compiler/kernel/program.h"

namespace kernel {
namespace {

std::string join(const View::Sizes& sizes) {
  std::string out;
  for (const int64_t n : sizes) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "(" + out + ")";
}

int64_t product(const View::Sizes& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) {
    if (__builtin_mul_overflow(n, s, &n)) return INT64_MAX;
  }
  return n;
}

}  // namespace

View::Sizes View::shape() const {
  Sizes out;
  for (const Dim& d : dims_) out.push_back(d.count);
  return out;
}

int64_t View::elements() const {
  return product(shape());
}

View View::fail(const char* call, const std::string& what, Location at) const {
  if (program_) program_->fail(base::Fault::kUsage, at, std::string(call) + ": " + what);
  return {};
}

bool View::free_dim(const char* call, size_t dim, Location at) const {
  if (!program_) return false;
  if (dim >= dims_.size()) {
    fail(call, "there is no dimension " + std::to_string(dim) + " in " + join(shape()), at);
    return false;
  }
  if (on_chip() && dim == 0) {
    fail(call, "dimension 0 are partitions: they can only be sliced", at);
    return false;
  }
  return true;
}

View View::slice(size_t dim, int64_t first, int64_t count, int64_t step, Location at) const {
  if (!program_) return {};
  if (dim >= dims_.size()) {
    return fail("slice", "there is no dimension " + std::to_string(dim) + " in " + join(shape()),
                at);
  }
  const int64_t size = dims_[dim].count;
  const bool inside = first >= 0 && first < size && count >= 1 && step >= 1 &&
                      count - 1 <= (size - first - 1) / step;
  if (!inside) {
    return fail("slice",
                std::to_string(count) + " indices from " + std::to_string(first) + " on, " +
                    std::to_string(step) + " apart, leave dimension " + std::to_string(dim) +
                    " of " + join(shape()),
                at);
  }
  View out = *this;
  out.dims_[dim].count = count;
  if (on_chip() && dim == 0) {
    if (step != 1) return fail("slice", "partitions have no stride", at);
    out.start_partition_ += first;
    return out;
  }
  out.offset_ += first * dims_[dim].step * bytes_of(dtype_);
  out.dims_[dim].step *= step;
  return out;
}

View View::slice(size_t dim, const Index& first, int64_t count, Location at) const {
  if (!program_) return {};
  const bool partitions = on_chip() && dim == 0;
  if (partitions || index_) {
    return fail(
        "slice",
        partitions ? "partitions do not move in a loop" : "what goes by indices does not move", at);
  }
  int64_t last = 0;
  if (first.factor_ < 0 || __builtin_mul_overflow(first.most_ - 1, first.factor_, &last)) last = -1;
  if (!slice(dim, last, count, 1, at)) return {};
  View out = slice(dim, 0, count, 1, at);
  const int64_t bytes = first.factor_ * dims_[dim].step * bytes_of(dtype_);
  if (last == 0 || bytes == 0) return out;
  const auto known = std::find_if(out.moves_.begin(), out.moves_.end(),
                                  [&](const Move& m) { return m.loop == first.loop_; });
  if (known != out.moves_.end()) {
    known->bytes += bytes;
  } else {
    out.moves_.push_back({first.loop_, bytes, first.most_});
  }
  return out;
}

View View::slice(size_t dim, Register first, int64_t count, Location at) const {
  if (!program_) return {};
  const bool partitions = on_chip() && dim == 0;
  if (partitions || index_ || displacement_.positions != 0) {
    return fail("slice",
                partitions ? "no register says where partitions begin"
                           : "what goes by indices, or by a register already, goes by no register",
                at);
  }
  if (!program_->is_register({at, "slice"}, first.number)) return {};
  View out = slice(dim, 0, count, 1, at);
  if (!out) return {};
  const int64_t bytes = dims_[dim].step * bytes_of(dtype_);
  if (bytes < 1 || bytes > int64_t{UINT32_MAX}) {
    return fail("slice",
                "indices of dimension " + std::to_string(dim) + " of " + join(shape()) + " are " +
                    std::to_string(bytes) + " bytes apart; a register counts in 1 to 4294967295",
                at);
  }
  out.displacement_ = {first, bytes, dims_[dim].count - count + 1};
  return out;
}

View View::index(size_t dim, int64_t i, Location at) const {
  View out = slice(dim, i, 1, 1, at);
  if (!out || (out.on_chip() && dim == 0)) return out;
  out.dims_.erase(out.dims_.begin() + static_cast<ptrdiff_t>(dim));
  return out;
}

// Dimensions that continue each other become one, from which the new ones are cut, innermost first.
View View::reshape(Sizes shape, Location at) const {
  if (!program_) return {};
  const std::string text = join(this->shape()) + " as " + join(shape);
  const bool positive = std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n >= 1; });
  if (!positive || product(shape) != elements()) {
    return fail("reshape", text + ": different numbers of elements", at);
  }
  const size_t first = on_chip() ? 1 : 0;
  if (first == 1 && (shape.empty() || shape[0] != dims_[0].count)) {
    return fail("reshape", text + ": dimension 0 are partitions, they stay", at);
  }
  std::vector<Dim> left;  // innermost first
  for (size_t i = dims_.size(); i > first; --i) {
    const Dim& d = dims_[i - 1];
    if (d.count == 1) continue;
    if (!left.empty() && d.step == left.back().step * left.back().count) {
      left.back().count *= d.count;
    } else {
      left.push_back(d);
    }
  }
  std::vector<Dim> cut;
  size_t from = 0;
  for (size_t i = shape.size(); i > first; --i) {
    const int64_t n = shape[i - 1];
    if (n == 1) {
      cut.push_back({1, 1});
      continue;
    }
    if (left[from].count % n != 0) {
      return fail("reshape", text + ": the elements are not apart evenly; copy them first", at);
    }
    cut.push_back({left[from].step, n});
    left[from] = {left[from].step * n, left[from].count / n};
    if (left[from].count == 1) ++from;
  }
  View out = *this;
  out.dims_.resize(first);
  out.dims_.insert(out.dims_.end(), cut.rbegin(), cut.rend());
  return out;
}

View View::permute(std::vector<size_t> order, Location at) const {
  if (!program_) return {};
  std::vector<size_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<size_t> all(dims_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  if (sorted != all) {
    return fail("permute", "the order does not name each dimension of " + join(shape()) + " once",
                at);
  }
  if (on_chip() && order[0] != 0) {
    return fail("permute", "dimension 0 are partitions, they stay; see Kernel::transpose", at);
  }
  View out = *this;
  for (size_t i = 0; i < order.size(); ++i) out.dims_[i] = dims_[order[i]];
  return out;
}

View View::broadcast(size_t dim, int64_t count, Location at) const {
  if (!free_dim("broadcast", dim, at)) return {};
  if (dims_[dim].count != 1 || count < 1) {
    return fail("broadcast",
                "dimension " + std::to_string(dim) + " of " + join(shape()) +
                    " is not of size 1, or " + std::to_string(count) + " is no count",
                at);
  }
  View out = *this;
  out.dims_[dim] = {0, count};
  return out;
}

View View::unsqueeze(size_t dim, Location at) const {
  if (!program_) return {};
  if (dim > dims_.size() || (on_chip() && dim == 0)) {
    return fail("unsqueeze", "no dimension can be put at " + std::to_string(dim), at);
  }
  View out = *this;
  out.dims_.insert(out.dims_.begin() + static_cast<ptrdiff_t>(dim), Dim{1, 1});
  return out;
}

View View::windows(size_t dim, int64_t size, int64_t stride, Location at) const {
  if (!free_dim("windows", dim, at)) return {};
  const Dim d = dims_[dim];
  if (size < 1 || stride < 1 || size > d.count) {
    return fail("windows",
                "a window of " + std::to_string(size) + " that moves by " + std::to_string(stride) +
                    " does not fit dimension " + std::to_string(dim) + " of " + join(shape()),
                at);
  }
  View out = *this;
  out.dims_[dim] = {d.step * stride, (d.count - size) / stride + 1};
  out.dims_.insert(out.dims_.begin() + static_cast<ptrdiff_t>(dim) + 1, Dim{d.step, size});
  return out;
}

View View::pattern(const std::vector<Dim>& dims, int64_t offset, Location at) const {
  if (!program_) return {};
  if (index_ || !moves_.empty() || displacement_.positions != 0) {
    return fail("pattern", "what moves, or goes by indices, has no other pattern", at);
  }
  const Program& p = *program_;
  if (!p.alive(*this)) return fail("pattern", "the tile was released", at);
  const int64_t first = on_chip() ? p.arena(space_).piece(buffer_).offset : 0;
  const int64_t size = on_chip() ? p.arena(space_).piece(buffer_).bytes : p.tensors[buffer_].bytes;
  const int64_t bytes = bytes_of(dtype_);
  int64_t last = offset;
  bool inside = offset >= 0;
  for (const Dim& d : dims) {
    int64_t reach = 0;
    inside = inside && d.count >= 1 && d.step >= 0 &&
             !__builtin_mul_overflow(d.count - 1, d.step, &reach) &&
             !__builtin_add_overflow(last, reach, &last);
  }
  if (!inside || last >= size / bytes) {
    return fail("pattern",
                "steps and counts from element " + std::to_string(offset) + " on leave the " +
                    std::to_string(size / bytes) + " elements of " +
                    (on_chip() ? "a partition of the tile" : "the tensor"),
                at);
  }
  View out = *this;
  out.dims_.resize(on_chip() ? 1 : 0);
  out.dims_.insert(out.dims_.end(), dims.begin(), dims.end());
  out.offset_ = first + offset * bytes;
  return out;
}

View View::as(DType dtype, Location at) const {
  if (!program_) return {};
  if (index_) return fail("as", "what goes by indices keeps its type", at);
  const auto from = static_cast<int64_t>(bytes_of(dtype_));
  const auto to = static_cast<int64_t>(bytes_of(dtype));
  View out = *this;
  out.dtype_ = dtype;
  if (from == to) return out;
  const size_t first = on_chip() ? 1 : 0;
  bool fits = dims_.size() > first && dims_.back().step == 1;
  for (size_t i = first; i < dims_.size() && fits; ++i) {
    Dim& d = out.dims_[i];
    const bool innermost = i + 1 == dims_.size();
    int64_t& scaled = innermost ? d.count : d.step;
    fits = scaled * from % to == 0;
    scaled = scaled * from / to;
  }
  if (!fits) {
    return fail("as",
                join(shape()) + " elements of " + std::to_string(from) +
                    " bytes are no whole, contiguous ones of " + std::to_string(to),
                at);
  }
  return out;
}

Tile::Tile(Tile&& other) noexcept : View(std::move(other)) {
  static_cast<View&>(other) = View();
}

Tile& Tile::operator=(Tile&& other) noexcept {
  if (this == &other) return *this;
  release();
  static_cast<View&>(*this) = std::move(static_cast<View&>(other));
  static_cast<View&>(other) = View();
  return *this;
}

void Tile::release(Location at) {
  if (program_) program_->release(*this, at);
  static_cast<View&>(*this) = View();
}

}  // namespace kernel
