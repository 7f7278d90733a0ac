#include "hw/core/compute.h"

#include <algorithm>
#include <cstring>

#include "arch/contract/isa_rules.h"
#include "hw/core/operators.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;
using isa::TensorOp;

namespace {

void take(const uint8_t* from, size_t n, size_t i, uint8_t* to, size_t bytes) {
  if (i < n) {
    std::memcpy(to, from + i * bytes, bytes);
  } else {
    std::memset(to, 0, bytes);
  }
}

}  // namespace

// Whole tiles are read before anything is written: lanes mix.
void compute(const isa::Transpose& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  constexpr size_t kBlock = 32;
  const size_t n = from.elements();
  const size_t width = to.elements();
  const size_t bytes = isa::data_type_bytes(to.type());
  uint8_t* x = room<uint8_t>(kFirst, o.rows * n * bytes);
  uint8_t* y = room<uint8_t>(kSecond, o.columns * width * bytes);
  lanes.read(from, 0, o.rows, x, n * bytes);
  for (size_t row = 0; row < o.rows; ++row) {
    for (size_t i = 0; i < n; ++i) {
      // Within its block, which stays where it is.
      const size_t lane = row / kBlock * kBlock + i % kBlock;
      const size_t at = i / kBlock * kBlock + row % kBlock;
      std::memcpy(y + (lane * width + at) * bytes, x + (row * n + i) * bytes, bytes);
    }
  }
  lanes.write(to, 0, o.columns, y, width * bytes);
}

void compute(const isa::StreamShuffle& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t row = to.elements() * isa::data_type_bytes(to.type());
  uint8_t* x = room<uint8_t>(kFirst, o.partitions * row);
  lanes.read(from, 0, o.partitions, x, row);
  for (uint32_t lane = 0; lane < o.partitions; ++lane) {
    const uint8_t source = isa::shuffle_mask(o, lane % isa::kQuadrant);
    if (source == isa::kUnmoved) continue;
    to.write(lane, x + (lane / isa::kQuadrant * isa::kQuadrant + source) * row);
  }
}

// spec/engine-isa.md 3 rule 9: in snake order, fastest along partitions.
void compute(const isa::LoadIndex& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const size_t columns = from.elements();
  Indices& to = state.indices[o.operand];
  to.start_partition = o.src.start_partition;
  to.lanes = isa::index_lanes(static_cast<isa::Engine>(state.engine));
  to.count = columns * to.lanes;
  to.values.resize(columns * o.partitions);
  uint32_t* row = room<uint32_t>(kThird, columns);
  for (uint32_t lane = 0; lane < o.partitions; ++lane) {
    from.read(lane, row);
    for (size_t i = 0; i < columns; ++i) {
      to.values[lane / to.lanes * to.count + i * to.lanes + lane % to.lanes] = row[i];
    }
  }
}

// What an index outside of the data names reads as zero; hardware does not say.
void compute(const isa::LocalGather& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& index = lanes[o.index];
  const TensorAccess& to = lanes[o.dst];
  const size_t bytes = isa::data_type_bytes(to.type());
  const size_t n = from.elements();
  const size_t columns = index.elements();
  for (uint32_t group = 0; group < o.partitions; group += isa::kGroup) {
    uint32_t* indices = room<uint32_t>(kThird, isa::kGroup * columns);
    lanes.read(index, group, isa::kGroup, indices);
    for (uint32_t lane = group; lane < group + isa::kGroup; ++lane) {
      uint8_t* x = room<uint8_t>(kFirst, n * bytes);
      uint8_t* y = room<uint8_t>(kSecond, to.elements() * bytes);
      from.read(lane, x);
      for (size_t j = 0; j < o.count; ++j) {
        const size_t first = indices[j % isa::kGroup * columns + j / isa::kGroup];
        for (size_t t = 0; t < o.width; ++t) {
          take(x, n, first + t, y + (j * o.width + t) * bytes, bytes);
        }
      }
      to.write(lane, y);
    }
  }
}

void compute(const isa::NGather& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t bytes = isa::data_type_bytes(to.type());
  const size_t n = from.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    uint8_t* x = room<uint8_t>(kFirst, n * bytes);
    uint8_t* y = room<uint8_t>(kSecond, to.elements() * bytes);
    uint32_t* indices = room<uint32_t>(kThird, to.elements());
    from.read(lane, x);
    lanes[o.index].read(lane, indices);
    for (size_t i = 0; i < to.elements(); ++i) take(x, n, indices[i], y + i * bytes, bytes);
    to.write(lane, y);
  }
}

}  // namespace hw
