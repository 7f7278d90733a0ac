// Data that change lanes, or their places in them by indices (spec/engine-isa.md 10.1).
#include "arch/contract/isa_checks.h"
#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

constexpr int64_t kBlock = 32;  // of a transposition by Vector

bool in_group(Program* p, const Call& call, const View& view, const char* name) {
  return require(
      p, call, view.size(0) % isa::kGroup == 0,
      std::string(name) + " has " + std::to_string(view.size(0)) + " partitions; groups have 16");
}

}  // namespace

void Kernel::stream_shuffle(const View& dst, const View& src, const std::vector<uint8_t>& mask,
                            Location at) {
  Program& p = *program_;
  const Call call{at, "stream_shuffle"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kStreamShuffle);
  isa::StreamShuffle& o = in.operands.stream_shuffle;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.partitions = lanes_of(dst);
  bool known = mask.size() == isa::kQuadrant;
  for (const uint8_t lane : mask) known = known && (lane < isa::kQuadrant || lane == isa::kUnmoved);
  if (!require(&p, call, known, "the mask is not 32 numbers from 0 to 31, or 255") ||
      !require(&p, call, dst.size(0) % isa::kQuadrant == 0,
               std::to_string(dst.size(0)) + " partitions; quadrants have 32") ||
      !require(&p, call, dst.dtype() == src.dtype(), "dst has another type than src")) {
    return;
  }
  uint64_t* words[] = {&o.mask0, &o.mask1, &o.mask2, &o.mask3};
  for (size_t i = 0; i < mask.size(); ++i) *words[i / 8] |= uint64_t{mask[i]} << (i % 8 * 8);
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::transpose_blocks(const View& dst, const View& src, Location at) {
  Program& p = *program_;
  const Call call{at, "transpose_blocks"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kTranspose);
  in.operands.transpose = {p.tensor(call, operands[0]), p.tensor(call, operands[1]), lanes_of(src),
                           lanes_of(dst)};
  const int64_t rows = src.size(0);
  const int64_t columns = free_elements(src);
  const bool one =
      rows <= kBlock && columns <= kBlock && dst.size(0) == columns && free_elements(dst) == rows;
  const bool many = rows % kBlock == 0 && columns % kBlock == 0 && dst.size(0) == rows &&
                    free_elements(dst) == columns;
  const auto size = [](const View& v) {
    return std::to_string(v.size(0)) + " x " + std::to_string(free_elements(v));
  };
  if (!require(&p, call, one || many,
               "src is " + size(src) + ", dst " + size(dst) +
                   "; up to 32 x 32 are transposed, or each block of 32 x 32 of equal tiles") ||
      !require(&p, call, dst.dtype() == src.dtype(), "dst has another type than src")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::local_gather(const View& dst, const View& src, const View& index, int width,
                          Location at) {
  Program& p = *program_;
  const Call call{at, "local_gather"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"src", &src, false}, {"index", &index, false}};
  if (!p.check(call, {operands[0], operands[1], operands[2]})) return;
  constexpr int kMostWidth = 32;
  constexpr int64_t kMostIndices = 4096;
  const bool power = width >= 1 && width <= kMostWidth && (width & (width - 1)) == 0;
  const int64_t count = free_elements(dst) / std::max(width, 1);
  isa::Instruction in = make(Opcode::kLocalGather);
  isa::LocalGather& o = in.operands.local_gather;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.index = p.tensor(call, operands[2]);
  o.width = static_cast<uint8_t>(width);
  o.count = static_cast<uint16_t>(count);
  o.partitions = lanes_of(dst);
  if (!require(&p, call, power, "a width is a power of two up to 32") ||
      !require(&p, call, dst.size(0) == src.size(0) && dst.size(0) == index.size(0),
               "dst, src and index differ in their partitions") ||
      !in_group(&p, call, dst, "dst") ||
      !require(&p, call,
               count >= 1 && count <= kMostIndices && count * width == free_elements(dst) &&
                   count <= free_elements(index) * isa::kGroup,
               "dst has " + std::to_string(free_elements(dst)) + " elements, " +
                   std::to_string(width) + " for each index, of which there are " +
                   std::to_string(free_elements(index) * isa::kGroup) + "; up to 4096 are used") ||
      !require(&p, call, index.dtype() == DType::kUint16, "indices are uint16") ||
      !require(&p, call, dst.dtype() == src.dtype(), "dst has another type than src")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

void Kernel::topk(const View& dst, const View& index, const View& src, int64_t n, Location at) {
  Program& p = *program_;
  const Call call{at, "topk"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"index", &index, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1], operands[2]})) return;
  constexpr int64_t kMost = 65535;
  constexpr int64_t kMostResults = 32767;
  isa::Instruction in = make(Opcode::kTopk);
  isa::Topk& o = in.operands.topk;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[2]);
  o.index = p.tensor(call, operands[1]);
  o.n = static_cast<uint16_t>(n);
  o.partitions = lanes_of(dst);
  const int64_t k = free_elements(dst);
  if (!require(&p, call, dst.size(0) == src.size(0) && dst.size(0) == index.size(0),
               "dst, index and src differ in their partitions") ||
      !in_group(&p, call, dst, "dst") ||
      !require(&p, call, n >= 8 && n <= kMost && n <= free_elements(src) * isa::kGroup,
               std::to_string(n) + " values; from 8 to 65535 are possible, and src has " +
                   std::to_string(free_elements(src) * isa::kGroup) + " in a group") ||
      !require(&p, call, k <= n && k <= kMostResults && free_elements(index) == k,
               "dst has " + std::to_string(k) + " elements and index " +
                   std::to_string(free_elements(index)) + "; equally many, up to n") ||
      !require(&p, call,
               dst.dtype() == DType::kBfloat16 && src.dtype() == DType::kBfloat16 &&
                   index.dtype() == DType::kUint32,
               "values are bfloat16, their numbers uint32")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

}  // namespace kernel
