// Transfers: from views to the patterns of a NEFF (spec/neff.md 3.5), which have four dimensions of
// which the first counts bytes.
#include <algorithm>

#include "compiler/kernel/program.h"

namespace kernel {
namespace {

struct ByteDim {
  int64_t step;
  int64_t count;
};

// Innermost first, bytes first; neighbours that continue each other are one.
std::vector<ByteDim> byte_dims(const std::vector<Dim>& dims, int64_t element, int64_t pitch) {
  std::vector<ByteDim> out{{1, element}};
  for (size_t i = dims.size(); i > 0; --i) {
    const bool partitions = pitch != 0 && i == 1;
    const ByteDim d{partitions ? pitch : dims[i - 1].step * element, dims[i - 1].count};
    if (d.count == 1) continue;
    if (d.step == out.back().step * out.back().count) {
      out.back().count *= d.count;
    } else {
      out.push_back(d);
    }
  }
  return out;
}

}  // namespace

// False: it has more dimensions than a pattern.
bool Program::pattern(const View& v, neff::AccessPattern* p) const {
  const bool on_chip = v.space_ == Space::kSbuf;
  const int64_t pitch = on_chip ? static_cast<int64_t>(neff::kPartitionPitch) : 0;
  const std::vector<ByteDim> dims = byte_dims(v.dims_, bytes_of(v.dtype_), pitch);
  if (dims.size() > neff::AccessPattern::kMaxDims) return false;
  p->offset = v.offset_ + (on_chip ? v.start_partition_ * pitch : 0);
  p->dims = static_cast<unsigned>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    p->sizes[i] = dims[i].count;
    p->steps[i] = dims[i].step;
  }
  return true;
}

// A side that has too many dimensions is cut along the outermost one, if the other side has it too.
bool Program::lower(const Call& call, const View& dst, const View& src, Copy* copy) {
  const std::string what = std::string(call.name) + ": ";
  if (dst.space_ == Space::kPsum || src.space_ == Space::kPsum) {
    fail(base::Fault::kUsage, call.at,
         what + "transfers do not reach PSUM; copy the tile to SBUF first");
    return false;
  }
  if (dst.elements() != src.elements()) {
    fail(base::Fault::kUsage, call.at,
         what + "dst (" + describe(dst) + ") has " + std::to_string(dst.elements()) +
             " elements, src (" + describe(src) + ") has " + std::to_string(src.elements()));
    return false;
  }
  Copy::Part part;
  if (pattern(src, &part.from) && pattern(dst, &part.to)) {
    for (unsigned i = 0; i < part.to.dims; ++i) {
      if (part.to.steps[i] != 0) continue;
      fail(base::Fault::kUsage, call.at, what + "dst is broadcast: its elements have one place");
      return false;
    }
    copy->parts.push_back(part);
    return true;
  }
  const auto outermost = [](const View& v) {
    const auto d =
        std::find_if(v.dims_.begin(), v.dims_.end(), [](const Dim& dim) { return dim.count > 1; });
    return static_cast<size_t>(d - v.dims_.begin());
  };
  const size_t to = outermost(dst);
  const size_t from = outermost(src);
  if (dst.size(to) != src.size(from)) {
    fail(base::Fault::kUsage, call.at,
         what +
             "a side has more than 3 dimensions that are not contiguous, and the sides do not "
             "agree in the outermost one");
    return false;
  }
  for (int64_t i = 0; i < dst.size(to); ++i) {
    const View d = dst.slice(to, i, 1, 1, call.at);
    if (!lower(call, d, src.slice(from, i, 1, 1, call.at), copy)) return false;
  }
  return true;
}

}  // namespace kernel
