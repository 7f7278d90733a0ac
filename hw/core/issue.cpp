#include "hw/core/issue.h"

#include <algorithm>

namespace hw {

namespace isa = contract::isa;

base::Ps MemoryPorts::reserve(contract::Engine engine, const TensorExtent& extent, base::Ps at,
                              base::Ps interval, bool* psum) {
  const bool vector = engine == contract::kDve;
  const bool v2 = gen_ == contract::Gen::kV2;
  Shared* wanted[1 + kBanks];
  size_t count = 0;
  if (v2 && (vector || engine == contract::kPool)) {
    for (uint32_t i = 0; i < extent.count; ++i) {
      if (extent.box[i].memory != isa::Memory::kSbuf) continue;
      wanted[count++] = &sbuf_;
      break;
    }
  }
  if (vector || engine == contract::kAct) {
    bool banks[kBanks] = {};
    for (uint32_t i = 0; i < extent.count; ++i) {
      const TensorBox& box = extent.box[i];
      if (box.memory != isa::Memory::kPsum) continue;
      const size_t first = v2 ? 0 : box.begin / contract::tpb::kPsumBankBytes;
      const size_t last = v2 ? 0 : (box.end - 1) / contract::tpb::kPsumBankBytes;
      for (size_t bank = first; bank <= last; ++bank) banks[bank] = true;
    }
    for (size_t bank = 0; bank < kBanks; ++bank) {
      if (banks[bank]) wanted[count++] = &psum_[bank];
    }
  }
  const size_t mine = vector ? 0 : 1;
  *psum = false;
  for (size_t i = 0; i < count; ++i) {
    const base::Ps until = (*wanted[i])[1 - mine];
    if (until > at) *psum = wanted[i] != &sbuf_;
    at = std::max(at, until);
  }
  for (size_t i = 0; i < count; ++i) (*wanted[i])[mine] = at + interval;
  return at;
}

PeSchedule::Area PeSchedule::area(const isa::Instruction& instruction) {
  const isa::Operands& o = instruction.operands;
  if (instruction.opcode == isa::Opcode::kMatmul) {
    return {o.matmul.moving.start_partition, o.matmul.rows, o.matmul.dst.start_partition,
            o.matmul.columns};
  }
  if (instruction.opcode == isa::Opcode::kMatmulMx) {
    return {o.matmul_mx.moving.start_partition, o.matmul_mx.rows, 0, o.matmul_mx.columns};
  }
  if (instruction.opcode == isa::Opcode::kLdweightsMx) {
    return {o.ldweights_mx.src.start_partition, o.ldweights_mx.rows, 0,
            static_cast<uint32_t>(isa::element_count(o.ldweights_mx.src))};
  }
  const uint64_t slices = o.ldweights.double_row != 0 ? 2 : 1;
  return {o.ldweights.src.start_partition, o.ldweights.rows, o.ldweights.column,
          static_cast<uint32_t>(isa::element_count(o.ldweights.src) / slices)};
}

template <typename Each>
void PeSchedule::each_cell(const Area& area, Each&& each) {
  const uint32_t last_row = (area.first_row + area.rows - 1) / kSide;
  const uint32_t last_column = (area.first_column + area.columns - 1) / kSide;
  for (uint32_t row = area.first_row / kSide; row <= last_row; ++row) {
    for (uint32_t column = area.first_column / kSide; column <= last_column; ++column) {
      each(row, column);
    }
  }
}

base::Ps PeSchedule::earliest(const isa::Instruction& instruction, base::Ps at) const {
  const bool product = is_product(instruction.opcode);
  each_cell(area(instruction), [&](uint32_t row, uint32_t column) {
    const Cell& cell = cells_[row][column];
    at = std::max(at, cell.load_end);
    if (product) at = std::max(at, cell.product_end);
  });
  return at;
}

base::Ps PeSchedule::allowed(const isa::Instruction& instruction, base::Ps at) const {
  if (!is_product(instruction.opcode)) return at;
  const base::Ps ahead = timing_.params().pe_activity_window;
  if (limited() && paced_ > at + ahead) at = paced_ - ahead;
  return std::max(at, start_.next);
}

// `work`: of the whole array. What is begun in a window counts for it.
void PeSchedule::pace_start(base::Ps at, base::Ps work) {
  const TimingParams& params = timing_.params();
  const base::Ps window = params.pe_start_window;
  if (at >= start_.window + window) {
    const bool busy = start_.worked * params.pe_rearm_den >= window * params.pe_rearm_num;
    const base::Ps passed = (at - start_.window) / window;
    const bool rested = !busy || passed > 1;
    if (rested) start_.climbed = 0;
    start_.window = rested ? at : start_.window + window;
    start_.worked = 0;
  }
  // limit = initial + (1 - initial) climbed / window
  const base::Ps climbed = std::min(start_.climbed, window);
  const base::Ps share =
      params.pe_initial_num * window + (params.pe_initial_den - params.pe_initial_num) * climbed;
  const base::Ps time = work * params.pe_initial_den * window / share;
  start_.next = std::max(start_.next, at) + time;
  start_.worked += work;
  start_.climbed += time;
}

void PeSchedule::pace(const Area& area, base::Ps at, base::Ps interval) {
  const TimingParams& params = timing_.params();
  if (!limited() && !params.pe_start_limit) return;
  const auto side = [](uint32_t first, uint32_t count) {
    return uint64_t{(first + count - 1) / kSide - first / kSide + 1};
  };
  const uint64_t cells = side(area.first_row, area.rows) * side(area.first_column, area.columns);
  if (params.pe_start_limit) pace_start(at, interval * cells / (kCells * kCells));
  if (!limited()) return;
  paced_ = std::max(paced_, at) +
           interval * params.pe_activity_den * cells / (params.pe_activity_num * kCells * kCells);
}

InstructionTime PeSchedule::begin(const isa::Instruction& instruction, base::Ps at) {
  const isa::Operands& o = instruction.operands;
  const Area on = area(instruction);
  const TimingParams& params = timing_.params();
  if (!is_product(instruction.opcode)) {
    const bool mx = instruction.opcode == isa::Opcode::kLdweightsMx;
    const bool wide = !mx && o.ldweights.src.dtype == isa::DataType::kFloat32;
    const bool onezero = !mx && o.ldweights.onezero != 0;
    const uint64_t passes = !wide     ? 1
                            : onezero ? params.pe_fp32_onezero_factor
                                      : params.pe_fp32_factor;
    const InstructionTime time = timing_.load_weights(on.columns, passes);
    each_cell(on, [&](uint32_t row, uint32_t column) {
      Cell& cell = cells_[row][column];
      cell.load_end = at + time.interval;
      cell.columns = on.columns;
      cell.wide = wide;
      cell.onezero = onezero;
      cell.fresh = true;
    });
    return time;
  }
  const Cell& first = cells_[on.first_row / kSide][on.first_column / kSide];
  const bool mx = instruction.opcode == isa::Opcode::kMatmulMx;
  const bool fewer = !mx && (first.onezero || o.matmul.onezero != 0 || o.matmul.transpose != 0);
  const uint64_t passes = !first.wide ? 1
                          : fewer     ? params.pe_fp32_onezero_factor
                                      : params.pe_fp32_factor;
  const InstructionTime time = timing_.multiply(
      isa::element_count(mx ? o.matmul_mx.dst : o.matmul.dst), first.columns, passes, first.fresh);
  each_cell(on, [&](uint32_t row, uint32_t column) {
    Cell& cell = cells_[row][column];
    cell.product_end = at + time.interval;
    cell.fresh = false;
  });
  pace(on, at, time.interval);
  return time;
}

}  // namespace hw
