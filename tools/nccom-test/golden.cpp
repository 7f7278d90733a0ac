#include "golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace nccom {
namespace {

using contract::DType;

struct FloatFormat {
  int exponent_bits = 0;  // 0: an integer type
  int mantissa_bits = 0;
};

constexpr FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return {8, 23};
    case DType::kBf16:
      return {8, 7};
    case DType::kFp16:
      return {5, 10};
    case DType::kFp8E3:
      return {3, 4};
    case DType::kFp8E4:
      return {4, 3};
    case DType::kFp8E5:
      return {5, 2};
    default:
      return {};
  }
}

bool is_signed(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

// SplitMix64: one draw per (seed, rank, index), so that any part of any input can be made anywhere.
uint64_t draw(uint64_t seed, uint64_t rank, uint64_t index) {
  uint64_t z = seed + 0x9E3779B97F4A7C15ull * (index + 1) + 0xD1B54A32D192ED03ull * (rank + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// A float from random bits, built in place: any sign and mantissa, magnitude 1/16 to 1, so that
// sums of a few ranks stay far from overflow in every type; subnormal where that is below the
// range.
uint64_t draw_float(FloatFormat f, uint64_t bits) {
  const uint64_t bias = (1ull << (f.exponent_bits - 1)) - 1;
  const uint64_t mantissa = bits & ((1ull << f.mantissa_bits) - 1);
  const uint64_t below = 4 - (bits >> 60 & 3);
  const uint64_t exponent = bias < below ? 0 : bias - below;
  const uint64_t sign = bits >> 63;
  return (sign << f.exponent_bits | exponent) << f.mantissa_bits | mantissa;
}

// Tolerances of spec/tools.md 2.9: relative, absolute; those of E3 and E5 in proportion to E4.
struct Tolerance {
  double relative;
  double absolute;
};
Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return {2e-2, 1e-2};
    case DType::kFp16:
      return {2e-3, 1e-3};
    case DType::kFp8E3:
      return {6.25e-2, 5e-2};
    case DType::kFp8E4:
      return {1.25e-1, 1e-1};
    case DType::kFp8E5:
      return {2.5e-1, 2e-1};
    default:
      return {1e-5, 1e-6};
  }
}

uint64_t load_bits(DType dtype, const uint8_t* from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, contract::dtype_size(dtype));
  return bits;
}

std::string text(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

uint64_t index_of(const std::vector<uint32_t>& group, uint32_t rank) {
  return static_cast<uint64_t>(std::find(group.begin(), group.end(), rank) - group.begin());
}

// Who sends to `rank`.
std::optional<uint32_t> source_of(const Options& o, uint32_t rank) {
  for (const auto& [source, target] : o.pairs) {
    if (target == rank) return source;
  }
  return std::nullopt;
}

// Expected value of output element i as exact as the host has it; integers modulo 2^64.
struct Expected {
  double real = 0;
  uint64_t whole = 0;
  bool untouched = false;  // the operation leaves what is there
  double magnitudes = 0;   // of a sum: of all that was added, without signs
};

class Result {
 public:
  // `sources`: of a permute, whose data each part is.
  Result(const Options& o, const std::vector<uint32_t>& group, uint32_t rank, uint64_t size,
         const std::vector<uint32_t>& sources)
      : o_(o),
        group_(group),
        rank_(rank),
        sources_(sources),
        width_(contract::dtype_size(o.dtype.code)),
        size_(size),
        elements_(output_bytes(o, size) / width_) {
    if (!variable_size(o.operation)) return;
    for (const uint32_t member : group) words_.push_back(metadata_words(o, member, size));
  }

  uint64_t elements() const { return elements_; }

  // Expected values of output elements [first, first + count).
  void get(uint64_t first, uint64_t count, std::vector<Expected>* out) {
    out->assign(count, {});
    // The parts of a coalesced operation are operations of their own, one behind the other.
    uint64_t in = 0;
    uint64_t begin = 0;
    size_t number = 0;
    for (const Part& part : parts_of(o_, size_)) {
      const uint64_t end = begin + output_bytes(o_, part.size) / width_;
      const uint64_t from = std::max(first, begin);
      const uint64_t to = std::min(first + count, end);
      if (from < to) {
        get_part(number, in, input_bytes(o_, part.size) / width_, from - begin, to - from,
                 out->data() + (from - first));
      }
      ++number;
      in += input_bytes(o_, part.size) / width_;
      begin = end;
    }
  }

 private:
  // As get() for a part whose input is `elements` at `in`.
  void get_part(size_t number, uint64_t in, uint64_t elements, uint64_t first, uint64_t count,
                Expected* out) {
    const uint64_t own = index_of(group_, rank_);
    const uint64_t chunk =
        o_.operation == Operation::kAllToAll ? elements / group_.size() : elements;
    switch (o_.operation) {
      case Operation::kAllGather:
      case Operation::kAllToAll:
        for (uint64_t i = 0, run = 0; i < count; i += run) {
          const uint64_t at = first + i;
          const uint64_t skip = o_.operation == Operation::kAllToAll ? own * chunk : 0;
          run = std::min(count - i, chunk - at % chunk);
          take(group_[at / chunk], in + skip + at % chunk, run, out + i);
        }
        return;
      case Operation::kPermute:
      case Operation::kSendRecv:
      case Operation::kPermuteImplicit:
        take(sources_[number], in + first, count, out);
        return;
      case Operation::kPermuteReduce:
      case Operation::kPermuteReduceImplicit:
        take(sources_[number], in + first, count, out);
        fold(sources_[number], in + elements / 2 + first, count, out);
        return;
      case Operation::kBroadcast:
        take(group_[o_.root], in + first, count, out);
        return;
      case Operation::kAllReduce:
      case Operation::kReduce:
      case Operation::kReduceScatter: {
        const bool scatter = o_.operation == Operation::kReduceScatter;
        const uint64_t skip = scatter ? own * (elements / group_.size()) : 0;
        take(group_[0], in + skip + first, count, out);
        for (size_t i = 1; i < group_.size(); ++i) fold(group_[i], in + skip + first, count, out);
        return;
      }
      case Operation::kAllGatherV:
      case Operation::kReduceScatterV:
      case Operation::kAllToAllV:
        for (uint64_t i = 0; i < count; ++i) out[i].untouched = true;
        for (uint32_t from = 0; from < group_.size(); ++from) get_block(from, first, count, out);
        return;
      case Operation::kBarrier:
        return;
    }
  }

  // What lies in the output, from element `first` on, of the block of a member of the group.
  void get_block(uint32_t from, uint64_t first, uint64_t count, Expected* out) {
    const auto own = static_cast<uint32_t>(index_of(group_, rank_));
    const BlockPlace place = block_place(o_, words_[from], words_[own], from, own, size_);
    const uint64_t begin = std::max(first, place.to);
    const uint64_t end = std::min(first + count, place.to + place.count);
    if (begin >= end) return;
    const uint64_t source = place.from + begin - place.to;
    if (reduces(o_.operation) && from != 0) {
      fold(group_[from], source, end - begin, out + (begin - first));
    } else {
      take(group_[from], source, end - begin, out + (begin - first));
    }
  }

  // Input elements of a rank.
  void take(uint32_t from, uint64_t first, uint64_t count, Expected* out) {
    make(from, first, count);
    for (uint64_t i = 0; i < count; ++i) out[i] = value(i);
  }

  // Folds input elements of another rank in.
  void fold(uint32_t from, uint64_t first, uint64_t count, Expected* out) {
    make(from, first, count);
    for (uint64_t i = 0; i < count; ++i) out[i] = folded(out[i], value(i));
  }

  void make(uint32_t from, uint64_t first, uint64_t count) {
    scratch_.resize(count * width_);
    make_input(o_, from, first, count, scratch_.data());
  }

  static Expected real(double value) { return {value, 0, false, std::fabs(value)}; }
  Expected value(uint64_t i) const {
    const DType dtype = o_.dtype.code;
    const uint8_t* from = scratch_.data() + i * width_;
    if (format_of(dtype).exponent_bits != 0) return real(decode(dtype, from));
    const uint64_t bits = load_bits(dtype, from);
    const unsigned above = 64 - 8 * static_cast<unsigned>(width_);
    if (!is_signed(dtype)) return {0, bits, false, 0};
    return {0, static_cast<uint64_t>(static_cast<int64_t>(bits << above) >> above), false, 0};
  }

  Expected folded(const Expected& a, const Expected& b) const {
    if (o_.reduction == contract::ReduceOp::kAdd) {
      return {a.real + b.real, a.whole + b.whole, false, a.magnitudes + b.magnitudes};
    }
    const bool is_float = format_of(o_.dtype.code).exponent_bits != 0;
    const bool less = is_float ? a.real < b.real
                      : is_signed(o_.dtype.code)
                          ? static_cast<int64_t>(a.whole) < static_cast<int64_t>(b.whole)
                          : a.whole < b.whole;
    return less == (o_.reduction == contract::ReduceOp::kMin) ? a : b;
  }

  const Options& o_;
  const std::vector<uint32_t>& group_;
  uint32_t rank_;
  const std::vector<uint32_t>& sources_;
  uint64_t width_;
  uint64_t size_;
  uint64_t elements_;
  std::vector<uint8_t> scratch_;
  std::vector<std::vector<uint32_t>> words_;  // metadata of the group, by index
};

// Tells right elements from wrong ones: integers exactly, floats with tolerance.
class Judge {
 public:
  Judge(const Options& o, size_t ranks)
      : dtype_(o.dtype.code),
        is_float_(format_of(dtype_).exponent_bits != 0),
        tolerance_(tolerance_of(dtype_)) {
    // The published form of tolerance, scaled by log2(r). What rounds nothing is exact.
    if (!reduces(o.operation) || o.reduction != contract::ReduceOp::kAdd) return;
    const auto terms = two_sources(o.operation) ? 2.0 : static_cast<double>(ranks);
    scale_ = std::max(1.0, std::log2(terms));
    hops_ = kDeviations * std::ldexp(std::sqrt(terms), -1 - format_of(dtype_).mantissa_bits);
  }

  bool good(const uint8_t* element, const Expected& want) const {
    if (!is_float_) return load_bits(dtype_, element) == (want.whole & mask());
    const double size = std::fabs(want.real);
    return std::fabs(decode(dtype_, element) - want.real) <=
           scale_ * (tolerance_.absolute + tolerance_.relative * size) +
               hops_ * (size + want.magnitudes) / 2;
  }

  void write(const Expected& want, uint8_t* to) const {
    if (is_float_) return encode(dtype_, want.real, to);
    std::memcpy(to, &want.whole, contract::dtype_size(dtype_));
  }

 private:
  uint64_t mask() const { return ~uint64_t{0} >> (64 - 8 * contract::dtype_size(dtype_)); }

  DType dtype_;
  bool is_float_;
  // A ring rounds its partial sum at each hop, by half a unit in the last place at most. That adds
  // up like a random walk; partial sums are as large as this at most: all positive terms, or all
  // negative ones, first. Half a unit is 1.7 standard deviations.
  static constexpr double kDeviations = 2;

  Tolerance tolerance_;
  double scale_ = 0;
  double hops_ = 0;
};

std::vector<uint32_t> ranks_of(const std::vector<Source>& sources) {
  std::vector<uint32_t> out;
  for (const Source& source : sources) out.push_back(source.rank);
  return out;
}

constexpr uint64_t kBlock = 4096;  // elements per step: bounds the host's memory

}  // namespace

double decode(DType dtype, const uint8_t* from) {
  const FloatFormat f = format_of(dtype);
  const uint64_t bits = load_bits(dtype, from);
  if (f.exponent_bits == 0) {
    const unsigned width = contract::dtype_size(dtype) * 8;
    if (is_signed(dtype) && (bits >> (width - 1)) != 0) {
      return static_cast<double>(bits) - std::ldexp(1.0, static_cast<int>(width));
    }
    return static_cast<double>(bits);
  }
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<double>(bits & ((1ull << f.mantissa_bits) - 1));
  const int exponent =
      static_cast<int>((bits >> f.mantissa_bits) & ((1ull << f.exponent_bits) - 1));
  const bool negative = ((bits >> (f.mantissa_bits + f.exponent_bits)) & 1) != 0;
  if (exponent != 0 && exponent != (1 << f.exponent_bits) - 1) {
    // Normal numbers by their bits: the check decodes millions of them.
    constexpr uint64_t kBias = 1023;
    constexpr int kMantissa = 52;
    const uint64_t wide = (bits & ((1ull << f.mantissa_bits) - 1)) << (kMantissa - f.mantissa_bits);
    const uint64_t biased = static_cast<uint64_t>(exponent - bias) + kBias;
    const uint64_t image = (negative ? 1ull << 63 : 0) | biased << kMantissa | wide;
    double normal = 0;
    std::memcpy(&normal, &image, sizeof normal);
    return normal;
  }
  double value = 0;
  if (exponent == (1 << f.exponent_bits) - 1 && dtype != DType::kFp8E4) {
    value = mantissa == 0 ? HUGE_VAL : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - f.mantissa_bits);
  } else {
    value =
        std::ldexp(mantissa + std::ldexp(1.0, f.mantissa_bits), exponent - bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

void encode(DType dtype, double value, uint8_t* to) {
  const FloatFormat f = format_of(dtype);
  uint64_t bits = 0;
  if (f.exponent_bits == 0) {
    bits = static_cast<uint64_t>(static_cast<int64_t>(std::llrint(value)));
  } else {
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    if (value != 0) {
      int exponent = std::max(std::ilogb(value), 1 - bias);
      double units = std::nearbyint(std::ldexp(std::fabs(value), f.mantissa_bits - exponent));
      if (units >= std::ldexp(2.0, f.mantissa_bits)) {
        units /= 2;
        ++exponent;
      }
      const auto whole = static_cast<uint64_t>(units);
      const uint64_t hidden = 1ull << f.mantissa_bits;
      bits = whole < hidden
                 ? whole
                 : (static_cast<uint64_t>(exponent + bias) << f.mantissa_bits | (whole - hidden));
    }
    if (std::signbit(value)) bits |= 1ull << (f.mantissa_bits + f.exponent_bits);
  }
  std::memcpy(to, &bits, contract::dtype_size(dtype));
}

void make_input(const Options& o, uint32_t rank, uint64_t first, uint64_t count, uint8_t* to) {
  const DType dtype = o.dtype.code;
  const uint32_t width = contract::dtype_size(dtype);
  const FloatFormat format = format_of(dtype);
  const bool is_float = format.exponent_bits != 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint8_t* element = to + i * width;
    if (o.check == Check::kAllOnes) {
      encode(dtype, 1, element);
      continue;
    }
    const uint64_t bits = draw(o.seed, rank, first + i);
    const uint64_t value = is_float ? draw_float(format, bits) : bits;
    std::memcpy(element, &value, width);
  }
}

std::vector<uint32_t> group_of(const Options& o, uint32_t rank) {
  for (const std::vector<uint32_t>& group : o.groups) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
  }
  std::vector<uint32_t> all(o.ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool receives(const Options& o, const std::vector<uint32_t>& group, uint32_t rank) {
  if (o.operation == Operation::kReduce) return group[o.root] == rank;
  return o.operation != Operation::kBarrier && (o.pairs.empty() || source_of(o, rank).has_value());
}

std::vector<Source> sources_of(const Options& o, const std::vector<uint32_t>& group, uint32_t rank,
                               uint64_t size, const uint8_t* output) {
  if (const auto source = source_of(o, rank)) return {o.parts.size(), Source{*source, true}};
  if (!ring_permute(o.operation)) return {};
  constexpr uint64_t kSample = 64;  // elements that tell the inputs apart
  const uint32_t width = contract::dtype_size(o.dtype.code);
  const Judge judge(o, group.size());
  const std::vector<Part> parts = parts_of(o, size);
  std::vector<Source> found(parts.size(), {group.front(), false});
  std::vector<uint32_t> fits(parts.size(), 0);
  std::vector<Expected> want;
  for (const uint32_t member : group) {
    const std::vector<uint32_t> sources(parts.size(), member);
    Result result(o, group, rank, size, sources);
    for (size_t p = 0; p < parts.size(); ++p) {
      const uint64_t first = parts[p].offset / width;
      const uint64_t count = std::min(kSample, parts[p].size / width);
      result.get(first, count, &want);
      uint64_t i = 0;
      while (i < count && judge.good(output + (first + i) * width, want[i])) ++i;
      if (i == count && fits[p]++ == 0) found[p].rank = member;
    }
  }
  for (size_t p = 0; p < parts.size(); ++p) found[p].certain = fits[p] == 1;
  return found;
}

std::optional<Mismatch> compare(const Options& o, const std::vector<uint32_t>& group, uint32_t rank,
                                uint64_t size, const uint8_t* output) {
  const DType dtype = o.dtype.code;
  const uint32_t width = contract::dtype_size(dtype);
  const Judge judge(o, group.size());
  const std::vector<uint32_t> sources = ranks_of(sources_of(o, group, rank, size, output));
  Result result(o, group, rank, size, sources);
  std::vector<Expected> want;
  std::optional<Mismatch> mismatch;
  for (uint64_t first = 0; first < result.elements(); first += kBlock) {
    const uint64_t count = std::min(kBlock, result.elements() - first);
    result.get(first, count, &want);
    for (uint64_t i = 0; i < count; ++i) {
      const uint8_t* element = output + (first + i) * width;
      if (want[i].untouched || judge.good(element, want[i])) continue;
      if (!mismatch) {
        uint8_t expected[sizeof(uint64_t)] = {};
        judge.write(want[i], expected);
        mismatch =
            Mismatch{first + i, text(decode(dtype, element)), text(decode(dtype, expected)), 0};
      }
      ++mismatch->wrong;
    }
  }
  return mismatch;
}

std::vector<uint8_t> expected_output(const Options& o, const std::vector<uint32_t>& group,
                                     uint32_t rank, uint64_t size, const uint8_t* output) {
  const uint32_t width = contract::dtype_size(o.dtype.code);
  const Judge judge(o, group.size());
  const std::vector<uint32_t> sources = ranks_of(sources_of(o, group, rank, size, output));
  Result result(o, group, rank, size, sources);
  std::vector<uint8_t> out(result.elements() * width);
  std::vector<Expected> want;
  for (uint64_t first = 0; first < result.elements(); first += kBlock) {
    const uint64_t count = std::min(kBlock, result.elements() - first);
    result.get(first, count, &want);
    for (uint64_t i = 0; i < count; ++i) judge.write(want[i], out.data() + (first + i) * width);
  }
  return out;
}

}  // namespace nccom
