#include <fstream>
#include <iterator>

#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using isa::Engine;

TEST(KernelNeff, TensorsAsTheRuntimeSeesThem) {
  Kernel k({"tensors", kernel::Generation::kV3});
  const float weights[4] = {1, 2, 3, 4};
  const View a = k.input("a", DType::kBfloat16, {2, 4});
  const View c = k.output("c", kF32, {8});
  const View w = k.constant("w", kF32, {4}, weights, sizeof weights);
  const View s = k.scratch("s", kF32, {100});
  const Tile t = k.sbuf({1, 8}, kF32, "t");
  k.load(t, a.reshape({1, 8}));
  k.load(t.slice(1, 0, 4), w);
  k.store(s.slice(0, 0, 8), t);
  k.store(c, t);
  const Built built = build(k);
  EXPECT_EQ(built.graph().arch, neff::Arch::kTrn2);
  ASSERT_EQ(built.neff.tensors.size(), 2u);
  EXPECT_EQ(built.neff.tensors[0].name, "a");
  EXPECT_EQ(built.neff.tensors[0].dtype, isa::DataType::kBfloat16);
  EXPECT_EQ(built.neff.tensors[0].shape, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(built.neff.tensors[1].size, 32u);
  const neff::Variable* constant = built.graph().find_variable("w");
  ASSERT_EQ(constant->content.size(), sizeof weights);
  EXPECT_EQ(std::memcmp(constant->content.data(), weights, sizeof weights), 0);
  EXPECT_EQ(built.graph().find_variable("s")->type, neff::VariableType::kTmpBuf);
}

TEST(KernelNeff, EqualKernelsGiveEqualFiles) {
  const auto make = [] {
    Kernel k({"equal"});
    const Tile t = k.sbuf({128, 8}, kF32, "t");
    k.memset(t, 1);
    k.store(k.output("c", kF32, {128, 8}), t);
    return *k.finish();
  };
  EXPECT_EQ(make(), make());
}

TEST(KernelNeff, AnEmptyKernelIsOne) {
  Kernel k({"empty"});
  EXPECT_EQ(build(k).lines(Engine::kSp).size(), 2u);
}

// Who waits for a transfer waits for all of its queues.
TEST(KernelNeff, TransfersOverFewerEngines) {
  Kernel k({"few", kernel::Generation::kV2, 3});
  const View a = k.input("a", kF32, {128, 8});
  const Tile x = k.sbuf({128, 8}, kF32, "x");
  k.load(x, a);
  k.tensor_tensor(x, x, x, Op::kAdd);
  const Built built = build(k);
  ASSERT_EQ(built.graph().queues.size(), 1u);
  EXPECT_EQ(built.graph().queues[0].num_queues, 3u);
  EXPECT_NE(built.lines(Engine::kDve)[0].find("$S[16]>=3 "), std::string::npos);
}

TEST(KernelNeff, TransfersOverNoOrTooManyEngines) {
  for (const unsigned engines : {0u, 17u}) {
    EXPECT_EQ(Kernel({"none", kernel::Generation::kV2, engines}).status().error().what,
              "transfers over " + std::to_string(engines) + " DMA engines; a core has 16");
  }
}

TEST(KernelNeff, EveryInstructionHasItsLine) {
  Kernel k({"lines"});
  const View a = k.input("a", kF32, {128, 8});
  const Tile x = k.sbuf({128, 8}, kF32, "x");
  const Tile y = k.sbuf({128, 8}, kF32, "y");
  const uint32_t first = __LINE__ + 1;
  k.load(x, a);
  k.memset(y, 1);
  k.tensor_tensor(y, x, y, Op::kAdd);
  const Built built = build(k);
  const neff::Member* member = built.neff.archive->find(neff::kDebugInfoFile);
  ASSERT_NE(member, nullptr);
  const auto info = neff::read_debug_info(member->data);
  ASSERT_TRUE(info.has_value());
  const auto code = built.instructions(Engine::kDve);
  ASSERT_EQ(code[0].opcode, isa::Opcode::kEventSemaphore);  // its wait has the line as well
  for (const size_t i : {0, 1}) {
    const neff::DebugInfo::Source* source = info->find(code[i].debug_id);
    ASSERT_NE(source, nullptr);
    EXPECT_EQ(info->files[source->file], __FILE__);
    EXPECT_EQ(source->line, first + 2);
    EXPECT_EQ(info->calls[source->call], "tensor_tensor");
  }
  const uint64_t trigger = built.instructions(Engine::kSp)[0].debug_id;
  EXPECT_EQ(info->describe(trigger),
            std::string(__FILE__) + ":" + std::to_string(first) + " (load)");
  EXPECT_EQ(info->describe(0), "");
  EXPECT_EQ(info->describe(1000), "");
}

TEST(KernelNeff, ListingsShowTheLines) {
  Kernel k({"listing"});
  const Tile x = k.sbuf({128, 8}, kF32, "x");
  const int line = __LINE__ + 1;
  k.memset(x, 1);
  const Built built = build(k);
  ASSERT_TRUE(built.neff.debug_info.has_value());
  const neff::Member* program = built.neff.archive->find("sg00/pool.bin");
  ASSERT_NE(program, nullptr);
  const auto text = neff::disassemble(program->data, &*built.neff.debug_info);
  ASSERT_TRUE(text.ok());
  const std::string comment = std::string("  # ") + __FILE__ + ":" + std::to_string(line);
  EXPECT_NE(text->find(comment + " (memset)\n"), std::string::npos) << *text;
  const auto again = neff::assemble(*text);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, program->data);
}

TEST(KernelNeff, Saves) {
  const std::string path = ::testing::TempDir() + "saved.neff";
  const auto make = [] {
    Kernel k({"saved"});
    k.memset(k.sbuf({128, 8}, kF32, "x"), 1);
    return k;
  };
  ASSERT_TRUE(make().save(path, {"here", 1}).ok());
  std::ifstream in(path, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(bytes, *make().finish({"here", 1}));
  const base::Status status = make().save("/nowhere/saved.neff");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().fault, base::Fault::kIo);
  EXPECT_EQ(status.error().where, "/nowhere/saved.neff");
}

TEST(KernelNeff, AnyPathOfASource) {
  Kernel k({"path"});
  k.memset(k.sbuf({128, 8}, kF32, "x"), 1, kernel::Engine::kAuto, {"/home/\xe9/\n.cpp", 3});
  EXPECT_EQ(build(k).neff.debug_info->describe(1), "/home/?/?.cpp:3 (memset)");
}

TEST(DebugInfo, ForeignAndDamagedMembersAreNone) {
  const auto read = [](std::string_view text) {
    return neff::read_debug_info({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  const std::string head = R"({"x_format": "emu-kernel-debug", "x_files": ["f"], "x_calls": ["c"])";
  EXPECT_TRUE(read(head + R"(, "x_locations": [[0, 7, 0]]})").has_value());
  EXPECT_FALSE(read(head + R"(, "x_locations": [[1, 7, 0]]})").has_value());
  EXPECT_FALSE(read(head + R"(, "x_locations": [[0, -7, 0]]})").has_value());
  EXPECT_FALSE(read(head + R"(, "x_locations": [[0, 7]]})").has_value());
  EXPECT_FALSE(read(head + "}").has_value());
  EXPECT_FALSE(read(R"({"x_format": "emu-kernel-debug", "x_files": ["f\ng"], "x_calls": ["c"],
                        "x_locations": []})")
                   .has_value());
  EXPECT_FALSE(read("{}").has_value());
  EXPECT_FALSE(read("[").has_value());
  EXPECT_FALSE(read(R"({"x_format": 3})").has_value());
}

}  // namespace
