#include "runtime/load/dma_lowering.h"

#include <gtest/gtest.h>

#include "base/span.h"
#include "runtime/nrt/status.h"

namespace {

using contract::Descriptor;
namespace desc = contract::desc;

constexpr uint64_t kSource = 0x1000'0000;
constexpr uint64_t kTarget = 0x2000'0000;
constexpr uint64_t kOne = 0x300;
constexpr uint64_t kIncrement = 0x7000'1800;

neff::AccessPattern flat(int64_t bytes) {
  neff::AccessPattern p;
  p.sizes[0] = bytes;
  return p;
}
neff::AccessPattern rows(int64_t bytes, int64_t count, int64_t step) {
  neff::AccessPattern p = flat(bytes);
  p.dims = 2;
  p.sizes[1] = count;
  p.steps[1] = step;
  return p;
}

neff::DmaOperand operand(uint32_t variable, const neff::AccessPattern& pattern,
                         neff::DataType dtype = neff::DataType::kUint8) {
  neff::DmaOperand o;
  o.variable = variable;
  o.pattern = pattern;
  o.dtype = dtype;
  return o;
}

// Variables: 0 source, 1 target, 2 an input that is bound later.
nrt::DmaContext context() {
  nrt::DmaContext c;
  c.variables = {{kSource, false}, {kTarget, false}, {0, true}};
  c.one_word = kOne;
  c.semaphore_increment = kIncrement;
  return c;
}

neff::DmaElement copy_element(const neff::AccessPattern& from, const neff::AccessPattern& to) {
  neff::DmaElement element;
  element.semaphore = 10;
  neff::DmaTransfer t;
  t.sources.push_back(operand(0, from));
  t.destination = operand(1, to);
  element.transfers.push_back(t);
  return element;
}

uint64_t bytes_of(const nrt::DescriptorList& list, size_t from, size_t to) {
  uint64_t sum = 0;
  for (size_t i = from; i < to; ++i) sum += desc::length(list.descriptors[i].w0);
  return sum;
}

TEST(DmaLowering, EveryQueueGetsAnEqualShareAndSignalsOnce) {
  const neff::DmaElement e = copy_element(rows(256, 128, 256), rows(256, 128, 0x40000));
  std::vector<nrt::QueueImage> queues(16);
  auto counts = nrt::lower_block(context(), {&e}, &queues);
  ASSERT_TRUE(counts.ok());
  for (size_t q = 0; q < 16; ++q) {
    const auto& m2s = queues[q].m2s.descriptors;
    const auto& s2m = queues[q].s2m.descriptors;
    ASSERT_EQ(m2s.size(), 9u);  // eight rows and the signal
    ASSERT_EQ(s2m.size(), 9u);
    EXPECT_EQ((*counts)[q].m2s, 9u);
    EXPECT_EQ(m2s[0].address, kSource + q * 8 * 256);
    EXPECT_EQ(s2m[0].address, kTarget + q * 8 * 0x40000);
    EXPECT_NE(m2s[0].w0 & desc::kFirst, 0u);
    EXPECT_EQ(m2s[0].w0 & desc::kLast, 0u);
    EXPECT_EQ(m2s[7].w0 & desc::kFirst, 0u);
    EXPECT_NE(m2s[7].w0 & desc::kLast, 0u);
    EXPECT_NE(m2s[7].w1 & desc::kWriteBarrier, 0u);
    EXPECT_EQ(m2s[8].address, kOne);
    EXPECT_EQ(s2m[8].address, kIncrement + 4 * 10);
    EXPECT_EQ(desc::length(s2m[8].w0), 4u);
  }
}

TEST(DmaLowering, OneSmallRunGoesToTheFirstQueueAndAllSignal) {
  const neff::DmaElement e = copy_element(flat(3), flat(3));
  std::vector<nrt::QueueImage> queues(16);
  auto counts = nrt::lower_block(context(), {&e}, &queues);
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ((*counts)[0].m2s, 2u);
  for (size_t q = 1; q < 16; ++q) EXPECT_EQ((*counts)[q].m2s, 1u);
}

TEST(DmaLowering, PacketsEndAtTheirSize) {
  for (const int64_t bytes : {4095, 4096, 4097, 65536, 70001}) {
    const neff::DmaElement e = copy_element(flat(bytes), flat(bytes));
    std::vector<nrt::QueueImage> queues(1);
    ASSERT_TRUE(nrt::lower_block(context(), {&e}, &queues).ok());
    const nrt::DescriptorList& m2s = queues[0].m2s;
    EXPECT_EQ(m2s.descriptors.size(), static_cast<size_t>((bytes + 4095) / 4096 + 1));
    EXPECT_EQ(bytes_of(m2s, 0, m2s.descriptors.size() - 1), static_cast<uint64_t>(bytes));
    for (const Descriptor& d : m2s.descriptors) {
      EXPECT_EQ(d.w0 & (desc::kFirst | desc::kLast), desc::kFirst | desc::kLast);
    }
  }
}

TEST(DmaLowering, PacketsHoldAtMost64Pieces) {
  const neff::DmaElement e = copy_element(rows(1, 130, 2), flat(130));
  std::vector<nrt::QueueImage> queues(1);
  ASSERT_TRUE(nrt::lower_block(context(), {&e}, &queues).ok());
  uint32_t in_packet = 0;
  uint32_t most = 0;
  for (const Descriptor& d : queues[0].m2s.descriptors) {
    in_packet = (d.w0 & desc::kFirst) != 0 ? 1 : in_packet + 1;
    most = std::max(most, in_packet);
  }
  EXPECT_EQ(most, 64u);
}

TEST(DmaLowering, ReferencesToInputsAreListed) {
  neff::DmaElement e = copy_element(flat(8192), flat(8192));
  e.transfers[0].sources[0].variable = 2;
  std::vector<nrt::QueueImage> queues(2);
  ASSERT_TRUE(nrt::lower_block(context(), {&e}, &queues).ok());
  for (size_t q = 0; q < 2; ++q) {
    ASSERT_EQ(queues[q].m2s.io.size(), 1u);
    EXPECT_EQ(queues[q].m2s.io[0].variable, 2u);
    EXPECT_EQ(queues[q].m2s.io[0].offset, q * 4096);
    EXPECT_EQ(queues[q].m2s.io[0].descriptor, 0u);
    EXPECT_TRUE(queues[q].s2m.io.empty());
  }
}

TEST(DmaLowering, FmaCarriesOneScalePerRunOfEqualScales) {
  neff::DmaElement e = copy_element(flat(64), flat(64));
  neff::DmaTransfer& t = e.transfers[0];
  t.op = neff::DmaOp::kFma;
  t.destination.dtype = neff::DataType::kFloat32;
  t.sources.assign(3, operand(0, flat(32), neff::DataType::kBfloat16));
  t.sources[0].scale = t.sources[1].scale = 0.5;
  t.sources[2].scale = 2.0;
  std::vector<nrt::QueueImage> queues(1);
  ASSERT_TRUE(nrt::lower_block(context(), {&e}, &queues).ok());
  const auto& m2s = queues[0].m2s.descriptors;
  ASSERT_EQ(m2s.size(), 6u);  // meta, two sources, meta, source, signal
  EXPECT_NE(m2s[0].w0 & desc::kMeta, 0u);
  EXPECT_NE(m2s[0].w0 & desc::kFirst, 0u);
  EXPECT_NE(m2s[3].w0 & desc::kMeta, 0u);
  EXPECT_EQ(m2s[3].w0 & desc::kFirst, 0u);
  EXPECT_NE(m2s[4].w0 & desc::kLast, 0u);
  const contract::DmaCompute first = contract::DmaCompute::unpack(m2s[0]);
  EXPECT_EQ(first.op, contract::ReduceOp::kFma);
  EXPECT_EQ(first.sources, 3);
  EXPECT_EQ(first.src, contract::DType::kBf16);
  EXPECT_EQ(first.dst, contract::DType::kFp32);
  const float half = 0.5f;
  EXPECT_EQ(first.constant_bits, base::load<uint32_t>(&half));
  EXPECT_EQ(desc::length(queues[0].s2m.descriptors[0].w0), 64u);
}

TEST(DmaLowering, ConstantsKeepTheirType) {
  struct Case {
    neff::DataType type;
    double value;
    uint32_t kind;
    uint32_t bits;
  };
  for (const Case& c : {Case{neff::DataType::kFloat32, -1.5, 0, 0xBFC0'0000},
                        Case{neff::DataType::kInt32, -2, 1, 0xFFFF'FFFE},
                        Case{neff::DataType::kUint32, 4294967295.0, 2, 0xFFFF'FFFF}}) {
    neff::DmaElement e = copy_element(flat(64), flat(64));
    neff::DmaTransfer& t = e.transfers[0];
    t.op = neff::DmaOp::kMax;
    t.destination.dtype = c.type;
    t.sources.assign(2, operand(0, flat(64), c.type));
    t.constant = c.value;
    t.constant_dtype = c.type;
    std::vector<nrt::QueueImage> queues(1);
    ASSERT_TRUE(nrt::lower_block(context(), {&e}, &queues).ok());
    const auto op = contract::DmaCompute::unpack(queues[0].m2s.descriptors[0]);
    EXPECT_EQ(op.op, contract::ReduceOp::kMax);
    EXPECT_TRUE(op.has_constant);
    EXPECT_EQ(op.constant_kind, c.kind);
    EXPECT_EQ(op.constant_bits, c.bits);
  }
}

// The example of spec/neff.md 3.4.1: a b c / d e f becomes a d b e c f.
TEST(DmaLowering, TransposesAreBlocksOfRows) {
  neff::DmaElement element = copy_element(rows(6, 2, 64), flat(12));
  neff::DmaTransfer& t = element.transfers[0];
  t.op = neff::DmaOp::kTranspose;
  t.transpose_shape = {1, 1, 2, 3};
  t.transpose_element_size = 2;
  std::vector<nrt::QueueImage> queues(1);
  ASSERT_TRUE(nrt::lower_block(context(), {&element}, &queues).ok());
  const auto& m2s = queues[0].m2s.descriptors;
  const auto& s2m = queues[0].s2m.descriptors;
  ASSERT_EQ(m2s.size(), 4u);  // metadata, two rows, the completion
  EXPECT_EQ(contract::DmaTranspose::unpack(m2s[0]).rows, 2u);
  EXPECT_EQ(contract::DmaTranspose::unpack(m2s[0]).element_bytes, 2u);
  for (uint32_t row = 0; row < 2; ++row) {
    EXPECT_EQ(m2s[1 + row].address, kSource + 64 * row);
    EXPECT_EQ(desc::length(m2s[1 + row].w0), 6u);
  }
  EXPECT_NE(m2s[2].w0 & desc::kLast, 0u);
  ASSERT_EQ(s2m.size(), 4u);
  for (uint32_t column = 0; column < 3; ++column) {
    EXPECT_EQ(s2m[column].address, kTarget + 4 * column);
    EXPECT_EQ(desc::length(s2m[column].w0), 4u);
  }
}

// Refused before its blocks, which would not fit in memory, are made.
TEST(DmaLowering, TransposesBeyondTheRingsAreCountedOnly) {
  constexpr int64_t kSide = 1 << 17;
  neff::DmaElement e = copy_element(flat(kSide * kSide * 2), flat(kSide * kSide * 2));
  e.transfers[0].op = neff::DmaOp::kTranspose;
  e.transfers[0].transpose_element_size = 2;
  e.transfers[0].transpose_shape = {kSide, 1, 1, kSide};
  e.transfers[0].transpose_perm = {3, 1, 2, 0};
  std::vector<nrt::QueueImage> queues(16);
  const auto counts = nrt::lower_block(context(), {&e}, &queues);
  ASSERT_FALSE(counts.ok());
  EXPECT_NE(counts.error().what.find("takes 1073741824 descriptors or more"), std::string::npos);
}

// Where rows are cut to pieces there is one row in a packet.
TEST(DmaLowering, TransposesOfPiecesFitInPackets) {
  neff::DmaElement element = copy_element(rows(2, 16 * 8, 4), flat(2 * 16 * 8));
  neff::DmaTransfer& t = element.transfers[0];
  t.op = neff::DmaOp::kTranspose;
  t.transpose_shape = {16, 1, 1, 8};
  t.transpose_element_size = 2;
  std::vector<nrt::QueueImage> queues(1);
  ASSERT_TRUE(nrt::lower_block(context(), {&element}, &queues).ok());
  const auto& m2s = queues[0].m2s.descriptors;
  ASSERT_EQ(m2s.size(), 16u * 9 + 1);
  EXPECT_EQ(m2s[9 * 3 + 1].address, kSource + 4 * 8 * 3);
  EXPECT_EQ(queues[0].s2m.descriptors[8 * 3 + 2].address, kTarget + 2 * (2 * 16 + 3));
}

TEST(DmaLowering, WhatIsMissingIsTyped) {
  std::vector<nrt::QueueImage> queues(2);
  neff::DmaElement transpose = copy_element(flat(4), flat(4));
  transpose.transfers[0].op = neff::DmaOp::kTranspose;
  neff::DmaElement event = copy_element(flat(4), flat(4));
  event.event = 3;
  for (const neff::DmaElement* e : {&transpose, &event}) {
    auto counts = nrt::lower_block(context(), {e}, &queues);
    ASSERT_FALSE(counts.ok());
    EXPECT_EQ(counts.error().fault, base::Fault::kUnsupported);
  }
}

}  // namespace
