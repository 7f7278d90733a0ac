// Registers, cells in memory, and views that begin where a register says.
#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using kernel::Alu;
using kernel::Generation;
using kernel::Register;
using Lines = std::vector<std::string>;

class Registers : public ::testing::Test {
 protected:
  Kernel k_{{"registers", Generation::kV3}};
  Tile x_ = k_.sbuf({128, 64}, kF32, "x");
  Tile y_ = k_.sbuf({128, 64}, kF32, "y");
  Tile i_ = k_.sbuf({1, 8}, DType::kInt16, "i");
  View a_ = k_.input("a", kF32, {8, 128, 16});
  View n_ = k_.scratch("n", DType::kUint32, {4});
};

TEST_F(Registers, Arithmetic) {
  k_.set_register(Engine::kVector, 3, 7);
  k_.register_alu(Engine::kVector, Register{4}, Alu::kMultiply, Register{3}, 5);
  k_.register_alu(Engine::kVector, Register{4}, Alu::kMax, Register{4}, Register{3});
  k_.register_alu64(Engine::kVector, Register{6}, Alu::kShiftLeft, Register{4}, 40);
  k_.rank_id(Engine::kVector, Register{9});
  const Lines lines = build(k_).lines(isa::Engine::kDve);
  EXPECT_EQ(lines[1], "REGISTER_ALU op=MUL dst=r4 a=r3 b=5");
  EXPECT_EQ(lines[2], "REGISTER_ALU op=MAX dst=r4 a=r4 b=r3");
  EXPECT_EQ(lines[3], "REGISTER_ALU64 op=SHL dst=r6 a=r4 b=40");
  EXPECT_EQ(lines[4], "GET_GLOBAL_RANK_ID dst=r9");
}

TEST_F(Registers, CellsAreReadWhenTheyAreThere) {
  k_.load(i_, k_.input("j", DType::kInt16, {1, 8}));
  k_.register_load(Engine::kScalar, Register{1}, i_.slice(1, 3, 1));
  k_.register_store(Engine::kScalar, n_.slice(0, 2, 1), Register{1});
  k_.register_load(Engine::kGpSimd, Register{2}, n_.slice(0, 2, 1));
  const Built built = build(k_);
  EXPECT_EQ(built.lines(isa::Engine::kAct)[0].substr(0, 27), "REGISTER_LOAD $S[16]>=16 ds");
  EXPECT_EQ(built.lines(isa::Engine::kAct)[1].substr(0, 32), "TENSOR_STORE $S[1]++@complete ds");
  EXPECT_EQ(built.lines(isa::Engine::kPool)[0].substr(0, 26), "TENSOR_LOAD $S[1]>=1 dst=r");
}

// In elements of the dimension, whose bytes the engine computes.
TEST_F(Registers, SayWhereATileBegins) {
  k_.set_register(Engine::kVector, 5, 1);
  k_.tensor_copy(y_.slice(1, 0, 16), x_.reshape({128, 4, 16}).slice(1, Register{5}, 1));
  const Lines lines = build(k_).lines(isa::Engine::kDve);
  EXPECT_EQ(lines[1], "REGISTER_ALU op=MUL dst=r51 a=r5 b=64");
  EXPECT_NE(lines[2].find("src=fp32@0+r51[1][16]"), std::string::npos) << lines[2];
}

TEST_F(Registers, SayWhereATensorBegins) {
  k_.set_register(Engine::kSync, 5, 1);
  k_.load(x_.slice(1, 0, 16), a_.slice(0, Register{5}, 1).reshape({128, 16}));
  const Lines lines = build(k_).lines(isa::Engine::kSp);
  EXPECT_NE(lines[1].find("src=fp32@t0:0+r5*8192[4][2048]"), std::string::npos) << lines[1];
}

TEST_F(Registers, AddToTheTurnsOfLoops) {
  k_.set_register(Engine::kVector, 5, 1);
  k_.for_loop(4, [&](const kernel::Index& i) {
    k_.tensor_copy(y_.slice(1, 0, 1), x_.slice(1, i * 16, 16).slice(1, Register{5}, 1));
    k_.load(x_.slice(1, 0, 8),
            a_.slice(0, i * 2, 2).slice(0, Register{6}, 1).reshape({128, 16}).slice(1, 0, 8));
  });
  const Built built = build(k_);
  std::string all;
  for (const std::string& line : built.lines(isa::Engine::kDve)) all += line + "\n";
  EXPECT_NE(all.find("REGISTER_ALU op=MUL dst=r32 a=r62 b=64\n"), std::string::npos) << all;
  EXPECT_NE(all.find("REGISTER_ALU op=MUL dst=r51 a=r5 b=4\n"
                     "REGISTER_ALU op=ADD dst=r51 a=r51 b=r32\n"),
            std::string::npos)
      << all;
  all.clear();
  for (const std::string& line : built.lines(isa::Engine::kSp)) all += line + "\n";
  EXPECT_NE(all.find("+r51*1[4,64][8,128]"), std::string::npos) << all;
}

// What lies anywhere in it may be meant.
TEST_F(Registers, AViewTouchesAllThatItMay) {
  k_.set_register(Engine::kVector, 5, 1);
  k_.memset(x_.slice(1, 60, 4), 0, Engine::kGpSimd);
  k_.tensor_copy(y_.slice(1, 0, 4), x_.slice(1, Register{5}, 4));
  k_.tensor_copy(y_.slice(1, 0, 4), x_.slice(1, 0, 32).slice(1, Register{5}, 4));
  const Built built = build(k_);
  const Lines lines = built.lines(isa::Engine::kDve);
  EXPECT_NE(lines[2].find("$S[2]>=1"), std::string::npos) << lines[2];
}

TEST_F(Registers, Mistakes) {
  const auto expect = [](const char* what, auto call) {
    Kernel k({"registers", Generation::kV3});
    const Tile x = k.sbuf({128, 64}, kF32, "x");
    const View a = k.input("a", kF32, {8, 128, 16});
    call(k, x, a);
    EXPECT_EQ(mistake(k), what);
    EXPECT_FALSE(k.finish().ok());
  };
  using V = const View&;
  expect("set_register: register 32; a kernel has 0 to 31",
         [](Kernel& k, V, V) { k.set_register(Engine::kSync, 32, 1); });
  expect("register_alu: of which engine?", [](Kernel& k, V, V) {
    k.register_alu(Engine::kAuto, Register{1}, Alu::kAdd, Register{1}, 1);
  });
  expect("register_alu: b is neither an integer nor a register", [](Kernel& k, V, V) {
    k.register_alu(Engine::kSync, Register{1}, Alu::kAdd, Register{1}, 1.5);
  });
  expect("register_alu64: register 31; a kernel has pairs from 0 to 30", [](Kernel& k, V, V) {
    k.register_alu64(Engine::kSync, Register{31}, Alu::kAdd, Register{1}, 1);
  });
  expect(
      "register_load: the cell (SBUF 'x') is not one element of a tensor, or of up to 4 bytes of a "
      "tile in SBUF",
      [](Kernel& k, V x, V) { k.register_load(Engine::kSync, Register{1}, x); });
  expect("register_store: HBM 'a' is read only", [](Kernel& k, V, V a) {
    k.register_store(Engine::kSync, a.slice(0, 0, 1).slice(1, 0, 1).slice(2, 0, 1), Register{1});
  });
  expect("tensor_scalar: register 40; a kernel has 0 to 31", [](Kernel& k, V x, V) {
    k.tensor_scalar(x, x, {Op::kAdd, kernel::Scalar::reg(40)});
  });
  expect("slice: no register says where partitions begin",
         [](Kernel&, V x, V) { x.slice(0, Register{1}, 32); });
  expect("slice: what goes by indices, or by a register already, goes by no register",
         [](Kernel&, V x, V) { x.slice(1, Register{1}, 32).slice(1, Register{2}, 4); });
  expect("slice: 65 indices from 0 on, 1 apart, leave dimension 1 of (128, 64)",
         [](Kernel&, V x, V) { x.slice(1, Register{1}, 65); });
  expect(
      "dma_compute: src (HBM 'a') moves with a loop or a register; this one is laid out when the "
      "file is loaded",
      [](Kernel& k, V x, V a) {
        k.dma_compute(x.slice(1, 0, 16), {a.slice(0, Register{1}, 1).reshape({128, 16})});
      });
}

}  // namespace
