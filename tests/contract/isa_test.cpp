#include "arch/contract/isa.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "arch/contract/isa_file.h"
#include "arch/contract/isa_rules.h"

namespace contract::isa {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes encoded(const Instruction& in) {
  Bytes bytes(kRecordBytes * (1 + kMaxExtensions));
  const uint32_t n = encode(in, bytes.data(), bytes.size());
  bytes.resize(n * kRecordBytes);
  return bytes;
}

DecodeError decoded(const Bytes& bytes, Instruction* out) {
  return decode(bytes.data(), bytes.size(), out);
}

Instruction vector_add() {
  Instruction in{};
  in.opcode = Opcode::kTensorTensor;
  in.wait = {WaitCond::kGe, false, 10, 32};
  in.complete_update = {UpdateOp::kInc, 20, 0};
  in.debug_id = 0x0001000200000003ull;
  TensorTensor& t = in.operands.tensor_tensor;
  t.op = TensorOp::kAdd;
  t.partitions = 128;
  t.dst = {Memory::kSbuf, DataType::kFloat32, 0, kNoRegister, 512, {{1, 64}, {}, {}, {}}};
  t.src0 = {Memory::kSbuf, DataType::kFloat32, 0, 3, 0, {{-1, 8}, {8, 8}, {}, {}}};
  t.src1 = {Memory::kPsum, DataType::kBfloat16, 0, kNoRegister, 256, {{1, 64}, {}, {}, {}}};
  return in;
}

// The layout is an ABI: these bytes may not change.
TEST(Isa, RecordLayout) {
  Bytes b = encoded(vector_add());
  ASSERT_EQ(b.size(), 2 * kRecordBytes);
  EXPECT_EQ(b[0], 64);
  EXPECT_EQ(b[2], 1);  // one extension
  EXPECT_EQ(b[3], 1);  // >=
  EXPECT_EQ(b[4], 10);
  EXPECT_EQ(b[7], 1);  // inc at completion
  EXPECT_EQ(b[8], 20);
  EXPECT_EQ(b[12], 32);
  EXPECT_EQ(load64(&b[24]), 0x0001000200000003ull);
  EXPECT_EQ(b[33], 128);
  EXPECT_EQ(load32(&b[40]), 512u);
  EXPECT_EQ(b[44], 10);  // float32
  EXPECT_EQ(b[46], kNoRegister);
  EXPECT_EQ(load16(&b[50]), 64);
  EXPECT_EQ(b[64], 194);  // extension
  EXPECT_EQ(b[65], 1);
  EXPECT_EQ(b[64 + 14], 3);  // offset register of src0
  EXPECT_EQ(static_cast<int16_t>(load16(&b[64 + 16])), -1);
}

TEST(Isa, DecodeGivesBackWhatWasEncoded) {
  const Bytes b = encoded(vector_add());
  Instruction out;
  ASSERT_EQ(decoded(b, &out), DecodeError::kNone);
  EXPECT_EQ(out.opcode, Opcode::kTensorTensor);
  EXPECT_EQ(out.records(), 2u);
  EXPECT_EQ(out.wait.cond, WaitCond::kGe);
  EXPECT_EQ(out.wait.value, 32u);
  EXPECT_EQ(out.complete_update.op, UpdateOp::kInc);
  EXPECT_EQ(out.operands.tensor_tensor.src0.offset_register, 3);
  EXPECT_EQ(out.operands.tensor_tensor.src1.memory, Memory::kPsum);
  EXPECT_EQ(element_count(out.operands.tensor_tensor.src0), 64u);
  EXPECT_EQ(encoded(out), b);
}

TEST(Isa, ErrorsOfRecords) {
  const Bytes good = encoded(vector_add());
  Instruction out;
  const auto changed = [&](size_t at, uint8_t value) {
    Bytes b = good;
    b[at] = value;
    return decoded(b, &out);
  };
  EXPECT_EQ(decode(good.data(), 63, &out), DecodeError::kTruncated);
  EXPECT_EQ(decode(good.data(), 127, &out), DecodeError::kTruncated);
  EXPECT_EQ(changed(0, 0), DecodeError::kUnknownOpcode);
  EXPECT_EQ(changed(0, 250), DecodeError::kUnknownOpcode);
  EXPECT_EQ(static_cast<uint8_t>(out.opcode), 250);
  EXPECT_EQ(changed(0, 132), DecodeError::kUnsupported);  // DMA_DIRECT2D
  EXPECT_EQ(decode(good.data() + 64, 64, &out), DecodeError::kStrayExtension);
  EXPECT_EQ(changed(1, 2), DecodeError::kBadHeader);
  EXPECT_EQ(changed(2, 0), DecodeError::kBadExtension);
  EXPECT_EQ(changed(2, 2), DecodeError::kBadExtension);
  EXPECT_EQ(changed(3, 9), DecodeError::kBadHeader);
  EXPECT_EQ(changed(5, 8), DecodeError::kBadHeader);
  EXPECT_EQ(changed(9, 1), DecodeError::kReservedNotZero);
  EXPECT_EQ(changed(16, 1), DecodeError::kBadHeader);  // value without update
  EXPECT_EQ(changed(32, 24), DecodeError::kFieldRange);
  EXPECT_EQ(changed(33, 0), DecodeError::kFieldRange);
  EXPECT_EQ(changed(33, 129), DecodeError::kFieldRange);
  EXPECT_EQ(changed(34, 1), DecodeError::kReservedNotZero);
  EXPECT_EQ(changed(44, 0), DecodeError::kFieldRange);
  EXPECT_EQ(changed(47, 32), DecodeError::kFieldRange);  // 128 partitions start at 0 only
  EXPECT_EQ(changed(50, 63), DecodeError::kFieldRange);  // element counts differ
  EXPECT_EQ(changed(64, 1), DecodeError::kBadExtension);
  EXPECT_EQ(changed(65, 2), DecodeError::kBadExtension);
  EXPECT_EQ(changed(64 + 57, 1), DecodeError::kReservedNotZero);
  EXPECT_EQ(changed(64 + 13, 1), DecodeError::kFieldRange);  // both inputs in PSUM
}

TEST(Isa, RegisterWaitsAndRegisterRange) {
  Instruction in{};
  in.opcode = Opcode::kNop;
  in.wait = {WaitCond::kLt, true, 255, 63};
  const Bytes b = encoded(in);
  ASSERT_EQ(b.size(), kRecordBytes);
  EXPECT_EQ(b[3], 0x85);
  in.wait.value = 64;
  EXPECT_TRUE(encoded(in).empty());
  in.wait = {WaitCond::kEventSet, false, 3, 1};
  EXPECT_TRUE(encoded(in).empty());
}

TEST(Isa, WriteSizesAndAlignment) {
  Instruction in{};
  in.opcode = Opcode::kWrite;
  in.operands.write = {0xffff1009038ull, 0xffff1029038ull, 1, 1, 4, 4};
  EXPECT_EQ(encoded(in).size(), kRecordBytes);
  in.operands.write = {0x1000, 0, 0x55667788, 0x11223344, 8, 0};
  EXPECT_EQ(encoded(in).size(), kRecordBytes);
  in.operands.write.size1 = 4;
  EXPECT_TRUE(encoded(in).empty());
  in.operands.write = {0x1002, 0, 1, 0, 4, 0};
  EXPECT_TRUE(encoded(in).empty());
  in.operands.write = {0x1000, 0, 1, 1, 4, 0};  // unused data must be zero
  EXPECT_TRUE(encoded(in).empty());
  in.operands.write = {0x1000, 0, 1, 0, 2, 0};
  EXPECT_TRUE(encoded(in).empty());
}

TEST(Isa, CollectiveOperands) {
  Instruction in{};
  in.opcode = Opcode::kPseudoTriggerCollective2;
  PseudoTriggerCollective2& c = in.operands.pseudo_trigger_collective_2;
  c.ctype = CollectiveType::kAllReduce;
  c.op = ReduceOp::kAdd;
  c.dtype = DataType::kFloat32;
  c.src0_var_id = 3;
  c.src0_pattern = {{1, 0}, {1024, 0}};
  c.dst_var_id = 4;
  c.dst_var_offset = 0x123456789Aull;
  c.dst_pattern = {{1, -2}, {512, 2}};
  c.stream_id = 2;
  Bytes b = encoded(in);
  ASSERT_EQ(b.size(), 2 * kRecordBytes);
  Instruction out;
  ASSERT_EQ(decoded(b, &out), DecodeError::kNone);
  EXPECT_EQ(out.operands.pseudo_trigger_collective_2.dst_var_offset, 0x123456789Aull);
  EXPECT_EQ(out.operands.pseudo_trigger_collective_2.dst_pattern.step[1], -2);
  b[33] = 1;  // fma is for the loader to refuse
  EXPECT_EQ(decoded(b, &out), DecodeError::kNone);
  b[33] = 4;
  EXPECT_EQ(decoded(b, &out), DecodeError::kFieldRange);
  b[33] = 0;
  b[2] = 3;  // coalesced: known, not supported
  EXPECT_EQ(decoded(b, &out), DecodeError::kUnsupported);
}

TEST(Isa, TableIsOrderedAndNamed) {
  for (size_t i = 1; i < kOpCount; ++i) EXPECT_LT(kOpTable[i - 1].opcode, kOpTable[i].opcode);
  EXPECT_STREQ(find_op(Opcode::kHalt)->name, "HALT");
  EXPECT_TRUE(find_op(Opcode::kTensorTensor)->runs_on(Engine::kDve));
  EXPECT_FALSE(find_op(Opcode::kTensorTensor)->runs_on(Engine::kSp));
  EXPECT_TRUE(find_op(Opcode::kPseudoDmaTrigger)->pseudo);
  EXPECT_FALSE(find_op(Opcode::kDmaDirect2d)->supported);
  EXPECT_EQ(find_op(uint8_t{0}), nullptr);
}

// Whatever bytes decode, encode to the same bytes: no field is lost and no byte is ignored.
TEST(Isa, RandomBytesRoundTrip) {
  std::mt19937 random(20240501);
  size_t accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    const OpInfo& op = kOpTable[random() % kOpCount];
    Instruction seed{};
    seed.opcode = static_cast<Opcode>(op.opcode);
    Bytes b(2 * kRecordBytes);
    b[0] = op.opcode;
    b[2] = op.extensions;
    b[3] = static_cast<uint8_t>(random() % 9);
    b[5] = static_cast<uint8_t>(random() % 8);
    for (size_t i : {12, 16, 20, 24, 31}) b[i] = static_cast<uint8_t>(random() % 2);
    b[64] = 194;
    b[65] = 1;
    for (size_t i = 32; i < b.size(); ++i) {
      if (i < 64 || i >= 68) b[i] = static_cast<uint8_t>(random() % 3);
    }
    for (size_t record = 0; record < 2; ++record) {
      for (size_t i = 0; i < 64; ++i) {
        if (((used_bytes(seed.opcode, static_cast<unsigned>(record)) >> i) & 1) == 0) {
          b[record * 64 + i] = 0;
        }
      }
    }
    Instruction out;
    if (decoded(b, &out) != DecodeError::kNone) continue;
    ++accepted;
    b.resize(out.records() * kRecordBytes);
    ASSERT_EQ(encoded(out), b);
  }
  EXPECT_GT(accepted, 1000u);
}

TEST(EngineFile, RoundTripAndBounds) {
  EngineFileHeader h;
  h.engine = 3;
  h.record_count = 2;
  h.strings_offset = 256;
  h.strings_bytes = 1;
  Bytes file(257);
  store(h, file.data());
  EngineFileHeader out;
  EXPECT_EQ(parse(file.data(), file.size(), &out), FileError::kNone);
  EXPECT_EQ(out.engine, 3);
  EXPECT_EQ(parse(file.data(), 256, &out), FileError::kOutOfBounds);
  EXPECT_EQ(parse(file.data(), 127, &out), FileError::kTruncated);
  const auto changed = [&](size_t at, uint8_t value) {
    Bytes b = file;
    b[at] = value;
    return parse(b.data(), b.size(), &out);
  };
  EXPECT_EQ(changed(0, 'e'), FileError::kBadMagic);
  EXPECT_EQ(changed(8, 2), FileError::kBadVersion);
  EXPECT_EQ(changed(12, 5), FileError::kBadEngine);
  EXPECT_EQ(changed(13, 1), FileError::kBadArch);
  EXPECT_EQ(changed(14, 2), FileError::kReservedNotZero);
  EXPECT_EQ(changed(16, 32), FileError::kBadRecordSize);
  EXPECT_EQ(changed(23, 0xFF), FileError::kOutOfBounds);  // 4 billion records
  EXPECT_EQ(changed(31, 0xFF), FileError::kOutOfBounds);  // offset near 2^64
  EXPECT_EQ(changed(24, 0), FileError::kOutOfBounds);     // records inside the header
  EXPECT_EQ(changed(72, 1), FileError::kRelocations);
  EXPECT_EQ(changed(127, 1), FileError::kReservedNotZero);
}

// Operands share their room: what a rule reads of one instruction is not there in another.
TEST(IsaRules, VersionFourExecutesItsOwnWhateverTheOperands) {
  Instruction in{};
  in.opcode = Opcode::kExponential;
  in.operands.exponential.partitions = 100;
  in.operands.exponential.src.memory = Memory::kPsum;
  EXPECT_TRUE(executes(in, Engine::kDve, Gen::kV4));
  EXPECT_FALSE(executes(in, Engine::kDve, Gen::kV3));
  in = {};
  in.opcode = Opcode::kActivate2;
  in.operands.activate2.src.memory = Memory::kPsum;
  EXPECT_TRUE(executes(in, Engine::kAct, Gen::kV4));
  in = {};
  in.opcode = Opcode::kRand2;
  in.operands.rand2.minimum.bits = 0x3DCCCCCD;
  EXPECT_TRUE(executes(in, Engine::kDve, Gen::kV4));
  in = {};
  in.opcode = Opcode::kLoadIndex;
  in.operands.load_index.partitions = 16;
  EXPECT_TRUE(executes(in, Engine::kDve, Gen::kV4));
  EXPECT_FALSE(executes(in, Engine::kPe, Gen::kV4));
}

}  // namespace
}  // namespace contract::isa
