// Instructions that choose or move elements (spec/engine-isa.md 10.1, 10.2).
#include "tests/engines/reference.h"

namespace engine_reference {

using isa::ScalarOperand;
using isa::TensorOp;

namespace {

constexpr unsigned kQuadrantLanes = 32;

}  // namespace

// A tile holds one element for each of dst, or one per lane, of dst's type: bits move.
void Reference::run(const isa::CopyPredicated& t) {
  const View dst = view(t.dst);
  const View predicate = view(t.predicate);
  const ScalarView src = view(t.src);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      if ((element(predicate, lane, i) != 0) == (t.reverse != 0)) continue;
      if (t.src.kind == ScalarOperand::kTile) {
        put_bits(dst, lane, i, element(src.tile, lane, src.tile.size() == 1 ? 0 : i));
      } else {
        put(dst, lane, i, number(src, lane));
      }
    }
  }
}

void Reference::run(const isa::SelectReduce& t) {
  const View dst = view(t.dst);
  const View predicate = view(t.predicate);
  const View on_true = view(t.on_true);
  const ScalarView on_false = view(t.on_false);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    std::vector<Range> values;
    for (size_t i = 0; i < dst.size(); ++i) {
      const bool chosen = (element(predicate, lane, i) != 0) != (t.reverse != 0);
      values.push_back(chosen ? number(on_true, lane, i) : number(on_false, lane));
      put(dst, lane, i, values.back());
    }
    fold(TensorOp::kMax, t.reduce_cmd, Range::exactly(0), lane, values);
  }
}

void Reference::run(const isa::RangeSelect& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const ScalarView bound0 = view(t.bound0);
  const ScalarView bound1 = view(t.bound1);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    std::vector<Range> values;
    for (size_t i = 0; i < dst.size(); ++i) {
      const Range column = operate(TensorOp::kAdd, Range::exactly(float_of(t.start)),
                                   Range::exactly(static_cast<float>(i)));
      const bool inside = operate(t.op0, column, number(bound0, lane)).nominal() != 0 &&
                          operate(t.op1, column, number(bound1, lane)).nominal() != 0;
      values.push_back(inside ? number(src, lane, i) : Range::exactly(float_of(t.fill)));
      put(dst, lane, i, values.back());
    }
    fold(TensorOp::kMax, t.reduce_cmd, Range::exactly(0), lane, values);
  }
}

void Reference::run(const isa::StreamShuffle& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const uint64_t words[] = {t.mask0, t.mask1, t.mask2, t.mask3};
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const unsigned i = lane % kQuadrantLanes;
    const auto from = static_cast<uint8_t>(words[i / 8] >> (i % 8 * 8));
    if (from == 255) continue;
    for (size_t k = 0; k < dst.size(); ++k) {
      put_bits(dst, lane, k, element(src, lane - i + from, k));
    }
  }
}

// A small tile becomes its transpose; of larger ones each block does, where it is.
void Reference::run(const isa::Transpose& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const bool small = t.rows <= kQuadrantLanes && src.size() <= kQuadrantLanes;
  for (unsigned lane = 0; lane < t.rows; ++lane) {
    for (size_t i = 0; i < src.size(); ++i) {
      const uint64_t bits = element(src, lane, i);
      const unsigned row = small ? 0 : lane / kQuadrantLanes * kQuadrantLanes;
      const size_t column = small ? 0 : i / kQuadrantLanes * kQuadrantLanes;
      put_bits(dst, static_cast<unsigned>(row + i - column), column + lane - row, bits);
    }
  }
}

}  // namespace engine_reference
