// Operands of instructions: from views to patterns, scalars and what they touch.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "arch/contract/isa_checks.h"
#include "base/num/types.h"
#include "compiler/kernel/program.h"
#include "neff_loader/dtype.h"

namespace kernel {
namespace {

constexpr int64_t kMostElements = 65536;  // spec/engine-isa.md 3 rule 5
constexpr int64_t kMostInPsum = 4096;
constexpr size_t kMostDims = 4;  // spec/engine-isa.md 3 rule 3

// Without dimensions of one element; neighbours that continue each other are one. Outermost first.
std::vector<Dim> merged(const Dim* from, const Dim* to) {
  std::vector<Dim> out;
  for (const Dim* d = from; d != to; ++d) {
    if (d->count == 1) continue;
    if (!out.empty() && out.back().step == d->step * d->count) {
      out.back() = {d->step, out.back().count * d->count};
    } else {
      out.push_back(*d);
    }
  }
  return out;
}

const char* space_name(Space space) {
  switch (space) {
    case Space::kHbm:
      return "HBM";
    case Space::kSbuf:
      return "SBUF";
    case Space::kPsum:
      return "PSUM";
    case Space::kNone:
      break;
  }
  return "nothing";
}

}  // namespace

std::string Program::describe(const View& view) const {
  const std::string& name = view.space_ == Space::kHbm
                                ? tensors[view.buffer_].name
                                : arena(view.space_).piece(view.buffer_).name;
  return std::string(space_name(view.space_)) + " '" + name + "'";
}

bool Program::check(const Call& call, const std::vector<Operand>& operands) {
  if (!ok()) return false;
  const std::string what = std::string(call.name) + ": ";
  if (closed) {
    fail(base::Fault::kUsage, call.at, what + "the kernel is finished");
    return false;
  }
  for (const Operand& o : operands) {
    const View& v = *o.view;
    if (!v) {
      fail(base::Fault::kUsage, call.at, what + o.name + " is an empty view");
    } else if (v.program_.get() != this) {
      fail(base::Fault::kUsage, call.at, what + o.name + " belongs to another kernel");
    } else if (!alive(v)) {
      fail(base::Fault::kUsage, call.at, what + o.name + " is a view of a tile that was released");
    } else if (std::any_of(v.moves_.begin(), v.moves_.end(),
                           [&](const View::Move& m) { return find_scope(m.loop) == nullptr; })) {
      fail(base::Fault::kUsage, call.at, what + o.name + " moves with a loop that has ended");
    } else if (o.write && v.space_ == Space::kHbm &&
               (tensors[v.buffer_].usage == Usage::kInput ||
                tensors[v.buffer_].usage == Usage::kConstant)) {
      fail(base::Fault::kUsage, call.at, what + describe(v) + " is read only");
    }
  }
  return ok();
}

isa::TensorOperand Program::tensor(const Call& call, const Operand& operand, size_t kept,
                                   size_t* folded) {
  isa::TensorOperand out{};
  if (!ok()) return out;
  const View& v = *operand.view;
  const std::string what = std::string(call.name) + ": " + operand.name + " (" + describe(v) + ") ";
  if (!v.on_chip()) {
    fail(base::Fault::kUsage, call.at, what + "is not on the chip; load it into a tile");
    return out;
  }
  const auto partitions = static_cast<unsigned>(v.dims_[0].count);
  if (!isa::legal_partitions(static_cast<unsigned>(v.start_partition_), partitions)) {
    fail(base::Fault::kUsage, call.at,
         what + "has " + std::to_string(partitions) + " partitions from " +
             std::to_string(v.start_partition_) +
             " on; 65 to 128 start at 0, 33 to 64 at 0 or 64, up to 32 at a multiple of 32");
    return out;
  }
  return pattern(call, operand, kept, folded);
}

isa::TensorOperand Program::scales(const Call& call, const Operand& operand, const View& data) {
  isa::TensorOperand out{};
  if (!ok()) return out;
  const int64_t rows = data.size(0);
  const auto used = static_cast<int64_t>(isa::scale_rows_of(static_cast<unsigned>(rows)));
  const View& v = *operand.view;
  if (rows % isa::kQuadrant == 0 && v.space_ == Space::kSbuf &&
      (v.size(0) == rows || v.size(0) == used)) {
    const View scales = v.slice(0, 0, used, 1, call.at);
    out = pattern(call, {operand.name, &scales, operand.write}, 0, nullptr);
    isa::TensorOperand all{};
    all.start_partition = static_cast<uint8_t>(data.start_partition_);
    all.dims[0].count = static_cast<uint16_t>(data.elements() / rows);
    if (isa::legal_scales(out, static_cast<unsigned>(used), all, static_cast<unsigned>(rows))) {
      return out;
    }
  }
  fail(base::Fault::kUsage, call.at,
       std::string(call.name) + ": " + operand.name + " (" + describe(v) +
           ") are no scales of data with " + std::to_string(rows) + " partitions from " +
           std::to_string(data.start_partition_) +
           " on: one byte for each element and 8 partitions, in as many partitions or 28 fewer, "
           "from 0, 4, 8 or 12 in the same quadrant on; data have a multiple of 32 partitions");
  return out;
}

// Of its free dimensions.
isa::TensorOperand Program::pattern(const Call& call, const Operand& operand, size_t kept,
                                    size_t* folded) {
  isa::TensorOperand out{};
  if (!ok()) return out;
  const View& v = *operand.view;
  const std::string what = std::string(call.name) + ": " + operand.name + " (" + describe(v) + ") ";
  const Dim* first = v.dims_.data() + 1;
  const Dim* middle = first + kept;
  const Dim* last = v.dims_.data() + v.dims_.size();
  std::vector<Dim> dims = merged(first, middle);
  const std::vector<Dim> inner = merged(middle, last);
  dims.insert(dims.end(), inner.begin(), inner.end());
  if (folded != nullptr) *folded = std::max<size_t>(inner.size(), 1);
  if (dims.empty() || (folded != nullptr && inner.empty())) dims.push_back({1, 1});
  int64_t elements = 1;
  for (const Dim& d : dims) elements *= d.count;
  const bool psum = v.space_ == Space::kPsum;
  const int64_t most = !psum             ? kMostElements
                       : operand.product ? contract::tpb::kPsumPartitionBytes / bytes_of(v.dtype_)
                                         : kMostInPsum;
  if (dims.size() > kMostDims || elements > most) {
    fail(base::Fault::kUsage, call.at,
         what + "has " + std::to_string(dims.size()) + " dimensions that are not contiguous and " +
             std::to_string(elements) + " elements in a partition; up to 4 and " +
             std::to_string(most) + " are possible");
    return out;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim& d = dims[dims.size() - 1 - i];
    if (d.step > INT16_MAX || d.count > UINT16_MAX) {
      fail(base::Fault::kUsage, call.at,
           what + "has a dimension of " + std::to_string(d.count) + " elements that are " +
               std::to_string(d.step) + " apart; the limits are 65535 and 32767");
      return out;
    }
    out.dims[i] = {static_cast<int16_t>(d.step), static_cast<uint16_t>(d.count)};
  }
  if (v.index_) {
    // A mark, in a dimension that is absent, until the instruction is added.
    if (!ok() || dims.size() != 1) {
      fail(base::Fault::kUsage, call.at, what + "goes by indices and has more than one dimension");
      return out;
    }
    indirections_.push_back(v);
    out.dims[3].step = static_cast<int16_t>(indirections_.size());
  }
  out.memory = v.space_ == Space::kPsum ? isa::Memory::kPsum : isa::Memory::kSbuf;
  out.dtype = data_type(v.dtype_);
  out.start_partition = static_cast<uint8_t>(v.start_partition_);
  out.offset_register = isa::kNoRegister;
  if (moving(v)) {  // a mark, until the instruction is added
    out.offset_register = static_cast<uint8_t>(displaced_.size());
    displaced_.push_back(v);
  }
  out.byte_offset = static_cast<uint32_t>(v.offset_);
  return out;
}

isa::ScalarOperand Program::scalar(const Call& call, const char* name, const Scalar& scalar, Op op,
                                   int64_t lanes) {
  isa::ScalarOperand out{};
  if (!ok()) return out;
  if (scalar.kind_ == Scalar::kRegister) {
    if (!is_register(call, static_cast<int>(scalar.bits_))) return out;
    out.kind = isa::ScalarOperand::kRegister;
    out.bits = scalar.bits_;
    return out;
  }
  if (scalar.kind_ == Scalar::kTile) {
    const Operand operand{name, &scalar.tile_, false};
    if (!check(call, {operand})) return out;
    out.kind = isa::ScalarOperand::kTile;
    out.tile = tensor(call, operand);
    if (!ok()) return out;
    if (isa::on_bits(static_cast<isa::TensorOp>(op)) && !is_integer(scalar.tile_.dtype_)) {
      fail(base::Fault::kUsage, call.at,
           std::string(call.name) + ": " + name + " (" + describe(scalar.tile_) +
               ") of an operator on bits is no integer");
    }
    if (scalar.tile_.dims_[0].count != lanes || isa::element_count(out.tile) != 1) {
      fail(base::Fault::kUsage, call.at,
           std::string(call.name) + ": " + name + " (" + describe(scalar.tile_) +
               ") is not one element in each of " + std::to_string(lanes) + " partitions");
    }
    return out;
  }
  const bool bits = isa::on_bits(static_cast<isa::TensorOp>(op));
  if (bits && !scalar.integer_) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": " + name + " of an operator on bits is no integer");
  }
  const auto value = static_cast<float>(scalar.value_);
  out.bits = scalar.bits_;
  if (!bits) std::memcpy(&out.bits, &value, sizeof value);
  return out;
}

uint32_t Program::bits_of(const Call& call, double value, DType dtype) {
  const auto type = static_cast<base::num::Type>(dtype);
  uint8_t bytes[8] = {};
  if (!isa::has_dtype(data_type(dtype)) && dtype != DType::kFloat8e4fn) {
    if (value == 0) return 0;
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": types of MX are set to nothing but 0");
  } else if (base::num::size_of(type) > sizeof(uint32_t)) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": elements of 8 bytes cannot be set");
  } else if (base::num::is_integer(type)) {
    const auto bits = static_cast<int>(8 * base::num::size_of(type));
    const bool sign = base::num::is_signed(type);
    const double least = sign ? -std::ldexp(1.0, bits - 1) : 0;
    const double end = std::ldexp(1.0, sign ? bits - 1 : bits);
    if (!(value >= least && value < end) || value != std::floor(value)) {
      fail(base::Fault::kUsage, call.at,
           std::string(call.name) + ": " + std::to_string(value) + " is no " +
               neff::to_string(data_type(dtype)));
      return 0;
    }
    const auto integer = static_cast<int64_t>(value);
    base::num::convert(base::num::Type::kInt64, &integer, type, bytes, 1);
  } else {
    base::num::store_float(type, static_cast<float>(value), bytes);
  }
  uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

Footprint Program::footprint(const View& view) const {
  const bool hbm = view.space_ == Space::kHbm;
  const uint64_t memory = hbm                           ? tensors[view.buffer_].memory
                          : view.space_ == Space::kPsum ? kPsumMemory
                                                        : kSbufMemory;
  const auto bytes = static_cast<int64_t>(bytes_of(view.dtype_));
  FootprintBuilder builder(memory, view.offset_, bytes);
  if (!hbm) builder.partitions(view.start_partition_, view.dims_[0].count);
  for (size_t i = hbm ? 0 : 1; i < view.dims_.size(); ++i) {
    builder.dim(view.dims_[i].step * bytes, view.dims_[i].count);
  }
  for (const View::Move& m : view.moves_) builder.dim(m.bytes, m.turns);
  builder.dim(view.displacement_.bytes, view.displacement_.positions);
  return builder.build();
}

}  // namespace kernel
