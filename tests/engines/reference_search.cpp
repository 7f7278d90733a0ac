// Searches, gathers, statistics, and folds over partitions (spec/engine-isa.md 10.1, 10.3).
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "tests/engines/reference.h"

namespace engine_reference {

using isa::DataType;
using isa::ScalarOperand;
using isa::TensorOp;

namespace {

constexpr unsigned kSlots = 8;
constexpr unsigned kGroupOfLanes = 16;
constexpr uint64_t kNowhere = ~uint64_t{0};

}  // namespace

std::vector<float> Reference::numbers(const View& v, unsigned lane) {
  std::vector<float> out;
  for (size_t i = 0; i < v.size(); ++i) out.push_back(number(v, lane, i).nominal());
  return out;
}

void Reference::run(const isa::Max8& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    std::vector<float> x = numbers(src, lane);
    std::sort(x.begin(), x.end(), std::greater<>());
    for (unsigned i = 0; i < kSlots; ++i) put(dst, lane, i, Range::exactly(x[i]));
  }
}

// Equal values take successive places.
void Reference::run(const isa::FindIndex8& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const View values = view(t.values);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const std::vector<float> x = numbers(src, lane);
    const std::vector<float> wanted = numbers(values, lane);
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      auto before = std::count(wanted.begin(), wanted.begin() + slot, wanted[slot]);
      uint64_t place = kNowhere;
      for (size_t i = 0; i < x.size() && place == kNowhere; ++i) {
        if (x[i] == wanted[slot] && before-- == 0) place = i;
      }
      put_bits(dst, lane, slot, truncated(t.dst.dtype, place));
    }
  }
}

// From slot 7 to slot 0; a place is replaced once.
void Reference::run(const isa::MatchReplace8& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const View values = view(t.values);
  const ScalarView index = view(t.index);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const std::vector<float> x = numbers(src, lane);
    const std::vector<float> wanted = numbers(values, lane);
    std::vector<bool> replaced(x.size());
    std::vector<uint64_t> places(kSlots, kNowhere);
    for (unsigned slot = kSlots; slot-- > 0;) {
      for (size_t i = 0; i < x.size() && places[slot] == kNowhere; ++i) {
        if (x[i] != wanted[slot] || replaced[i]) continue;
        replaced[i] = true;
        places[slot] = i;
      }
    }
    for (size_t i = 0; i < x.size(); ++i) {
      put(dst, lane, i, Range::exactly(replaced[i] ? float_of(t.fill) : x[i]));
    }
    if (t.index.kind != ScalarOperand::kTile) continue;
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      put_bits(index.tile, lane, slot, truncated(t.index.tile.dtype, places[slot]));
    }
  }
}

void Reference::run(const isa::NGather& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const View index = view(t.index);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      put_bits(dst, lane, i, element(src, lane, word(index, lane, i)));
    }
  }
}

void Reference::run(const isa::LocalGather& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const View index = view(t.index);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const unsigned group = lane / kGroupOfLanes * kGroupOfLanes;
    for (unsigned j = 0; j < t.count; ++j) {
      const uint32_t first = word(index, group + j % kGroupOfLanes, j / kGroupOfLanes);
      for (unsigned k = 0; k < t.width; ++k) {
        put_bits(dst, lane, size_t{j} * t.width + k, element(src, lane, first + k));
      }
    }
  }
}

void Reference::run(const isa::SequenceBounds& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const std::vector<float> ids = numbers(src, 0);
  const size_t n = ids.size();
  for (size_t i = 0; i < n; ++i) {
    size_t begin = i;
    size_t end = i + 1;
    while (begin > 0 && ids[begin - 1] == ids[i]) --begin;
    while (end < n && ids[end] == ids[i]) ++end;
    const bool none = ids[i] == 0;
    put(dst, 0, i, Range::exactly(static_cast<float>(none ? n : begin)));
    put(dst, 0, n + i, Range::exactly(none ? -1.0f : static_cast<float>(end)));
  }
}

// The values are all different: which of two equal ones comes first is not specified.
void Reference::run(const isa::Topk& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const View index = view(t.index);
  for (unsigned group = 0; group < t.partitions; group += kGroupOfLanes) {
    std::vector<std::pair<float, uint64_t>> all;
    for (uint64_t i = 0; i < t.n; ++i) {
      const auto lane = static_cast<unsigned>(group + i % kGroupOfLanes);
      all.emplace_back(number(src, lane, i / kGroupOfLanes).nominal(), i);
    }
    std::sort(all.begin(), all.end());
    for (unsigned lane = group; lane < group + kGroupOfLanes; ++lane) {
      for (size_t i = 0; i < dst.size(); ++i) {
        const auto& [value, place] = all[all.size() - dst.size() + i];
        put(dst, lane, i, Range::exactly(value));
        put_bits(index, lane, i, place);
      }
    }
  }
}

void Reference::run(const isa::NonzeroWithCount& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  for (unsigned lane = 0; lane < t.partitions; lane += kGroupOfLanes) {
    std::vector<uint64_t> places;
    for (size_t i = 0; i < src.size(); ++i) {
      if (number(src, lane, i).nominal() != 0) places.push_back(i + t.offset);
    }
    const size_t count = places.size();
    places.resize(src.size(), t.padding);
    places.push_back(count);
    for (size_t i = 0; i < places.size(); ++i) {
      put_bits(dst, lane, i, truncated(DataType::kInt32, places[i]));
    }
  }
}

void Reference::run(const isa::PartitionReduce& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  for (size_t i = 0; i < dst.size(); ++i) {
    if (t.op == TensorOp::kAnd || t.op == TensorOp::kOr) {
      uint32_t bits = word(src, 0, i);
      for (unsigned lane = 1; lane < t.partitions; ++lane) {
        bits = operate_bits(t.op, bits, word(src, lane, i));
      }
      put_bits(dst, 0, i, truncated(t.dst.dtype, bits));
      continue;
    }
    Range sum = number(src, 0, i);
    for (unsigned lane = 1; lane < t.partitions; ++lane) {
      sum = operate(t.op, sum, number(src, lane, i));
    }
    if (t.average != 0) {
      sum = Range::around(sum.nominal() / static_cast<float>(t.partitions));
    }
    put(dst, 0, i, sum);
  }
}

// Of all elements at once, in double; a machine that sums them up in float32 may differ in the
// last places.
void Reference::run(const isa::BnStats& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const std::vector<float> x = numbers(src, lane);
    for (unsigned half = 0; half < 2; ++half) {
      double count = 0;
      double sum = 0;
      double squares = 0;
      for (size_t i = half; i < x.size(); i += 2) {
        ++count;
        sum += x[i];
        squares += static_cast<double>(x[i]) * x[i];
      }
      const double mean = count == 0 ? 0 : sum / count;
      put(dst, lane, 3 * half, Range::exactly(static_cast<float>(count)));
      put(dst, lane, 3 * half + 1, near(mean));
      put(dst, lane, 3 * half + 2, near(std::max(squares - sum * mean, 0.0)));
    }
  }
}

void Reference::run(const isa::BnAggregate& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const std::vector<float> x = numbers(src, lane);
    double count = 0;
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < x.size(); i += 3) {
      count += x[i];
      sum += static_cast<double>(x[i]) * x[i + 1];
      squares += x[i + 2] + static_cast<double>(x[i]) * x[i + 1] * x[i + 1];
    }
    put(dst, lane, 0, near(sum / count));
    put(dst, lane, 1, near(std::max((squares - sum / count * sum) / count, 0.0)));
  }
}

// Within a millionth, and what the numbers of a few hundred lose when they cancel.
Range Reference::near(double value) {
  const double slack = std::fabs(value) * 1e-6 + 1e-9;
  return Range::from_to(static_cast<float>(value - slack), static_cast<float>(value + slack));
}

}  // namespace engine_reference
