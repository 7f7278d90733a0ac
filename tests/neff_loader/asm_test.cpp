#include "neff_loader/asm.h"

#include <gtest/gtest.h>

#include <random>

#include "arch/contract/isa_file.h"

namespace neff {
namespace {

namespace isa = contract::isa;
using Bytes = std::vector<uint8_t>;

const char kVectorAdd[] = R"(.engine dve
.arch v2
.self_cleaning
0  REGISTER_MOVE dst=r0 src=0
1  TENSOR_TENSOR $S[10]>=r5 $S[20]++@complete op=ADD dst=fp32@512+r0[1][64] )"
                          R"(src0=fp32@0+r0[1][64] src1=bf16@psum:256[1,-8][8,8] partitions=0..31 )"
                          R"(src1_partition=96
3  REGISTER_ALU op=ADD dst=r0 a=r0 b=256
4  COMPARE_BRANCH cond=LTU a=r0 b=4096 target=-3
5  REGISTER_ALU op=XOR dst=r63 a=r1 b=r62
6  NOTIFY type=NOTIFY payload=4294967295 @trace debug=0x1000200000003
7  EVENT_SEMAPHORE $E[3]==1 $S[1]-=7@read $E[4]=0@complete
8  EVENT_SEMAPHORE $E[255]==0 $S[1]=9@read $S[2]--@complete
9  EVENT_SEMAPHORE $S[0]!=4 $S[1]+=1@read $E[0]=1@complete
10  EVENT_SEMAPHORE_RANGE_CLEAR kind=SEMAPHORE first=0 last=255
11  DRAIN $S[1]<3
12  HALT
)";

std::string dis(const Bytes& file) {
  const auto text = disassemble(file);
  EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message());
  return text.ok() ? *text : "";
}

Bytes as(std::string_view text) {
  const auto file = assemble(text);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return file.ok() ? *file : Bytes();
}

TEST(Assembler, CanonicalTextRoundTrips) {
  EXPECT_EQ(dis(as(kVectorAdd)), kVectorAdd);
}

TEST(Assembler, PublicCollectiveSyntax) {
  const std::string text =
      ".engine pool\n.arch v3\n"
      "0  PSEUDO_TRIGGER_COLLECTIVE_2 $S[15]>=1 $S[15]++@complete ctype=ALL_REDUCE op=ADD "
      "dtype=bfloat16 cc_dim=0 "
      "src0_var_id=1353 src0_var_offset=0 src0_shape_reg=0 src0_pattern=[1,1][8192,1]\n"
      "1  PSEUDO_EXTENSION group_id=0 channel_id=0 stream_id=0 "
      "dst_var_id=1354 dst_var_offset=0 dst_shape_reg=0 dst_pattern=[1,1][8192,1]\n"
      "2  WRITE data=0x1,0x1 size=4,4 dst=0xffff1009038,0xffff1029038\n"
      "3  WRITE data=0x1122334455667788 size=8 dst=0x1000\n"
      "4  PSEUDO_DMA_TRIGGER qSyncPIOParam0 block_id=1\n"
      "5  PSEUDO_DMA_TRIGGER \"a b\\\"=\\x01\" block_id=1 instance=other\n"
      "6  BRANCH target=+1\n"
      "7  HALT\n";
  EXPECT_EQ(dis(as(text)), text);
}

TEST(Assembler, TensorsOfTables) {
  const std::string text =
      ".engine sp\n.arch v2\n"
      "0  TENSOR_LOAD dst=r3 src=uint64@t32767:8+r5*4096[8][1]\n"
      "2  TENSOR_STORE $S[1]>=1 dst=int8@arg32766:0[1][1] src=r63 bounds=SKIP\n"
      "4  CALL name=f args_table_var_id=9\n"
      "5  HALT\n"
      ".function f\n6  RETURN\n.endfunction\n";
  EXPECT_EQ(dis(as(text)), text);
  const auto refused = [](const std::string& line) {
    EXPECT_FALSE(assemble(".engine sp\n.arch v2\n" + line + "\nHALT\n").ok()) << line;
  };
  refused("TENSOR_LOAD dst=r3 src=uint32@sbuf:0[4][1]");  // REGISTER_LOAD
  refused("TENSOR_LOAD dst=r3 src=uint32@t0:0[4][2]");
  refused("TENSOR_LOAD dst=r63 src=uint64@t0:0[8][1]");  // no register for the high half
  refused("TENSOR_LOAD dst=r3 src=uint32@t32768:0[4][1]");
  refused("TENSOR_STORE dst=uint32@arg32767:0[4][1] src=r3");
  refused("BRANCH_LINK target=+1 entries=2");  // of which table
}

// spec/engine-isa.md 3, 5, 7, 8 and 10: each line is legal, and is not with the second text in the
// place of the first.
TEST(Assembler, OperandsThatTheInstructionSetRulesOut) {
  const auto expect = [](const char* engine, const std::string& line, const std::string& legal,
                         const std::string& illegal) {
    const std::string head = std::string(".engine ") + engine + "\n.arch v4\n";
    const auto good = assemble(head + line + "\nHALT\n");
    EXPECT_TRUE(good.ok()) << line << ": " << (good.ok() ? "" : good.error().message());
    const size_t at = line.find(legal);
    ASSERT_NE(at, std::string::npos) << line << ": " << legal;
    const std::string other = std::string(line).replace(at, legal.size(), illegal);
    EXPECT_FALSE(assemble(head + other + "\nHALT\n").ok()) << other;
  };
  // Numbers for each lane.
  const std::string scalar =
      "TENSOR_SCALAR op0=ADD op1=MULTIPLY dst=bf16@64[1][4] src=bf16@0[1][4] "
      "operand0=fp32@32[1][1] operand1=fp32@36[1][1] partitions=0..3";
  expect("dve", scalar, "operand0=fp32", "operand0=bf16");
  expect("dve", scalar, "operand1=fp32", "operand1=int32");
  const std::string ignored =
      "TENSOR_SCALAR op0=ABS dst=fp32@64[1][4] src=fp32@0[1][4] operand0=bf16@32[1][1] "
      "operand1=0 reverse=2 partitions=0..3";
  expect("dve", ignored, "op0=ABS", "op0=ADD");
  expect("dve", ignored, "reverse=2", "reverse=1");
  const std::string bits =
      "TENSOR_SCALAR op0=AND op1=XOR dst=int32@64[1][4] src=int32@0[1][4] "
      "operand0=int32@32[1][1] operand1=uint8@36[1][1] partitions=0..3";
  expect("dve", bits, "operand0=int32", "operand0=fp32");
  expect("dve", bits, "operand1=uint8", "operand1=fp32");
  expect("act",
         "ACTIVATE function=EXP dst=bf16@64[1][4] src=bf16@0[1][4] scale=fp32@32[1][1] "
         "bias=bf16@36[1][1] partitions=0..3",
         "scale=fp32", "scale=bf16");
  const std::string range =
      "RANGE_SELECT op0=GREATER op1=LESS dst=fp32@64[1][4] src=fp32@0[1][4] "
      "bound0=fp32@32[1][1] bound1=fp32@36[1][1] fill=0 partitions=0..3";
  expect("dve", range, "bound0=fp32", "bound0=fp16");
  expect("dve", range, "bound1=fp32", "bound1=uint32");
  expect("dve",
         "DROPOUT dst=int8@64[1][4] src=int8@0[1][4] probability=fp32@32[1][1] partitions=0..3",
         "probability=fp32", "probability=bf16");
  // Types.
  expect("dve",
         "COPY_PREDICATED dst=fp32@64[1][4] src=fp32@0[1][4] predicate=uint8@32[1][4] "
         "partitions=0..3",
         "predicate=uint8", "predicate=int8");
  const std::string select =
      "SELECT_REDUCE dst=fp32@64[1][4] predicate=int8@32[1][4] on_true=fp32@0[1][4] on_false=0 "
      "partitions=0..3";
  expect("dve", select, "on_true=fp32", "on_true=int32");
  expect("dve", select, "on_true=fp32", "on_true=uint32");
  expect("dve", select, "on_true=fp32", "on_true=fp32r");
  const std::string sums =
      "TENSOR_SCALAR_CUMULATIVE op0=BYPASS op1=ADD reduce_cmd=RESET_REDUCE dst=fp32@64[1][4] "
      "src=int16@0[1][4] operand=0 partitions=0..3";
  expect("dve", sums, "src=int16", "src=int32");
  expect("dve", sums, "dst=fp32", "dst=uint32");
  // Shapes.
  expect("dve", "MAX8 dst=fp32@64[1][8] src=fp32@0[1,1,1][2,2,2] partitions=0..3", "[1,1,1][2,2,2]",
         "[1,1,1,1][2,2,2,2]");
  expect("pe", "LDWEIGHTS src=bf16@0[1][64] rows=0..31 column=64", "column=64", "column=32");
  // Conversions and sums of transfers.
  const std::string gives =
      "DMA_MEMCPY q mode=SWDGE dst=fp32@t0:0[4][16] src=bf16@sbuf:0[2][16] semaphore=3";
  expect("pool", gives, "bf16", "fp4e2fnx4");
  expect("pool", gives, "dst=fp32", "dst=fp8e5x4");
  const std::string adds =
      "DMA_MEMCPY q mode=SWDGE dst=fp8e5@t0:0[1][16] src=fp8e5@sbuf:0[1][16] semaphore=3 op=ADD";
  expect("pool", adds, "dst=fp8e5@t0:0[1][16] src=fp8e5@", "dst=fp8e4fn@t0:0[1][16] src=fp8e4fn@");
  EXPECT_TRUE(assemble(".engine pool\n.arch v4\nDMA_MEMCPY q mode=SWDGE dst=fp8e4fn@t0:0[1][16] "
                       "src=fp8e4fn@sbuf:0[1][16] semaphore=3\nHALT\n")
                  .ok());  // moved as it is
}

// As engines count them in their errors.
TEST(Assembler, NamesOfTensors) {
  const auto names = [](const char* engine, const std::string& line) {
    const Bytes file = as(std::string(".engine ") + engine + "\n.arch v4\n" + line + "\nHALT\n");
    isa::EngineFileHeader header;
    EXPECT_EQ(isa::parse(file.data(), file.size(), &header), isa::FileError::kNone);
    std::vector<std::string> list;
    const base::ConstByteSpan records(file.data() + header.records_offset,
                                      header.record_count * isa::kRecordBytes);
    for (uint32_t i = 0; !tensor_name(records, i).empty(); ++i) {
      list.push_back(tensor_name(records, i));
    }
    return list;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("dve",
                  "TENSOR_SCALAR op0=ADD op1=MULTIPLY dst=fp32@64[1][4] src=fp32@0[1][4] "
                  "operand0=2 operand1=fp32@36[1][1] partitions=0..3"),
            (Names{"dst", "src", "operand1"}));
  EXPECT_EQ(names("pe", "LDWEIGHTS src=bf16@0[1][64] rows=0..31"), Names{"src"});
  EXPECT_EQ(names("sp", "TENSOR_LOAD dst=r1 src=uint32@t0:0[4][1]"), Names{"src"});
  EXPECT_EQ(names("pool",
                  "DMA_MEMCPY q mode=SWDGE dst=fp32@t0:0[4][16] src=fp32@sbuf:0[4][16] "
                  "semaphore=3"),
            (Names{"dst", "src"}));
  EXPECT_EQ(names("sp", "NOP"), Names{});
}

TEST(Assembler, LabelsLinesAndComments) {
  const Bytes a =
      as(".engine sp\n.arch trn1\n  # nothing\nstart: inner:\nNOP ; text\n 17 BRANCH\n  "
         "target=start\nHALT\n");
  const Bytes b = as(".engine sp\n.arch inf2\nNOP\nBRANCH target=-1\nHALT");
  EXPECT_EQ(a, b);
  const Bytes forward =
      as(".engine dve\n.arch v4\nBRANCH target=end\n"
         "TENSOR_COPY dst=uint8@0[1][4] src=int8@4[0][4] partitions=64..127\nend: HALT\n");
  EXPECT_NE(dis(forward).find("BRANCH target=+3"), std::string::npos);
}

TEST(Assembler, FunctionsAndSymbolTable) {
  const std::string text =
      ".engine sp\n.arch v2\n0  PSEUDO_DMA_TRIGGER q0 block_id=0\n1  HALT\n"
      ".function f args_table_var_id=7\n2  PSEUDO_DMA_TRIGGER q1 block_id=1\n.endfunction\n"
      ".function \"g h\"\n3  NOP\n4  NOP\n.endfunction\n5  HALT\n";
  const Bytes file = as(text);
  EXPECT_EQ(dis(file), text);
  // Another order of symbols is kept.
  const std::string ordered = ".symbol unused\n" + text;
  const Bytes other = as(ordered);
  EXPECT_NE(file, other);
  EXPECT_NE(dis(other).find(".symbol unused\n"), std::string::npos);
  EXPECT_EQ(as(dis(other)), other);
}

TEST(Assembler, OptionsStandInForDirectives) {
  AsmOptions options;
  options.engine = isa::Engine::kSp;
  options.core_version = 2;
  ASSERT_TRUE(assemble("HALT", options).ok());
  EXPECT_EQ(*assemble("HALT", options), as(".engine sp\n.arch v2\nHALT"));
  EXPECT_FALSE(assemble(".engine pe\nHALT", options).ok());
  EXPECT_FALSE(assemble(".arch trn2\nHALT", options).ok());
}

TEST(Assembler, ErrorsNameTheirLine) {
  const auto expect = [](const std::string& line, const char* needle) {
    const auto file = assemble(".engine dve\n.arch v2\n" + line + "\nHALT\n");
    ASSERT_FALSE(file.ok()) << line;
    EXPECT_EQ(file.error().where.rfind("line ", 0), 0u) << file.error().message();
    EXPECT_NE(file.error().message().find(needle), std::string::npos) << file.error().message();
  };
  expect("FROB", "line 3: unknown instruction 'FROB'");
  expect("DMA_DIRECT2D", "known but not supported");
  expect("NOP $S[256]>=1", "$S[256]>=1");
  expect("NOP $S[1]>=1 $S[2]>=1", "$S[2]>=1");
  expect("NOP $S[1]++@complete $S[2]++@complete", "$S[2]++@complete");
  expect("NOP $S[1]++", "$S[1]++");
  expect("NOP $S[1]>=r64", "$S[1]>=r64");
  expect("NOP $S[1]++@later", "@later");
  expect("NOP payload=1", "unknown operand 'payload'");
  expect("NOP stray", "unexpected 'stray'");
  expect("NOTIFY type=NOTIFY", "'payload' is missing");
  expect("NOTIFY type=NOTIFY payload=4294967296", "bad value for 'payload'");
  expect("NOTIFY type=NOTIFY payload=1 payload=2", "payload=2");
  expect("NOTIFY type=LOUD payload=1", "bad value for 'type'");
  expect("REGISTER_MOVE dst=r64 src=1", "bad value for 'dst'");
  expect("REGISTER_MOVE dst=r1 src=-2147483649", "bad value for 'src'");
  expect("BRANCH target=nowhere", "bad value for 'target'");
  expect("a: a: NOP", "defined twice");
  expect("WRITE data=1 size=4,4 dst=0,4", "differ in length");
  expect("WRITE data=0x100000000 size=4 dst=0", "does not fit");
  expect("WRITE data=1 size=4 dst=2", "out of range");
  expect("WRITE data=1,1 size=8,4 dst=0,8", "8-byte");
  expect("PSEUDO_EXTENSION group_id=1", "without an instruction");
  expect("PSEUDO_DMA_TRIGGER block_id=1", "'queue' is missing");
  expect("PSEUDO_DMA_TRIGGER \"q block_id=1", "does not end");
  expect("EVENT_SEMAPHORE_RANGE_CLEAR kind=EVENT first=3 last=2", "out of range");
  expect("TENSOR_COPY dst=fp32@0[1][4] src=fp32@4[1][5] partitions=0..127", "out of range");
  expect("TENSOR_COPY dst=fp99@0[1][4] src=fp32@4[1][4] partitions=0..127", "bad value for 'dst'");
  expect("TENSOR_COPY dst=fp32@0[1,2][4] src=fp32@4[1][4] partitions=0..127",
         "bad value for 'dst'");
  expect("TENSOR_COPY dst=fp32@0[1][4] src=fp32@4[1][4] partitions=1..128",
         "bad value for 'partitions'");
  expect(".function f", ".function without");
  expect(".frob", "directive");
  const auto engine = assemble(
      ".engine sp\n.arch v2\nTENSOR_COPY dst=fp32@0[1][4] src=fp32@4[1][4] partitions=0..127");
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().what.find("does not run on engine sp"), std::string::npos);
  EXPECT_FALSE(assemble("HALT").ok());
}

// Random records that decode give text that gives the same records.
TEST(Assembler, RandomProgramsRoundTrip) {
  std::mt19937 random(99);
  size_t instructions = 0;
  for (int round = 0; round < 10000; ++round) {
    const isa::OpInfo& op = isa::kOpTable[random() % isa::kOpCount];
    const char* engine = op.runs_on(isa::Engine::kDve) ? "dve" : "act";
    Bytes file = as(std::string(".engine ") + engine +
                    "\n.arch v2\n.symbol q1\n.symbol q2\nNOP\nNOP\nNOP\n");
    uint8_t* r = file.data() + isa::kFileHeaderBytes;
    r[0] = op.opcode;
    r[2] = op.extensions;
    r[3] = static_cast<uint8_t>(random() % 9);
    if (r[3] != 0) r[4] = static_cast<uint8_t>(random());
    r[7] = static_cast<uint8_t>(random() % 8);
    if (r[7] != 0) r[8] = static_cast<uint8_t>(random());
    for (uint8_t i = 1; i <= op.extensions; ++i) {
      r[i * 64] = static_cast<uint8_t>(isa::Opcode::kPseudoExtension);
      r[i * 64 + 1] = i;
    }
    for (unsigned record = 0; record <= op.extensions; ++record) {
      const uint64_t used = isa::used_bytes(static_cast<isa::Opcode>(op.opcode), record);
      for (unsigned i = record == 0 ? 32 : 4; i < 64; ++i) {
        if (((used >> i) & 1) != 0) r[record * 64 + i] = static_cast<uint8_t>(random() % 3);
      }
    }
    const auto text = disassemble(file);
    if (!text.ok()) continue;
    ++instructions;
    ASSERT_EQ(as(*text), file) << *text;
  }
  EXPECT_GT(instructions, 500u);
}

TEST(Disassembler, AnyBytesGiveSomeText) {
  const Bytes zero(64);
  EXPECT_EQ(disassemble_instruction(zero), "opcode 0 (unknown opcode)");
  EXPECT_NE(disassemble_instruction({zero.data(), 10}).find("truncated"), std::string::npos);
  const Bytes file = as(".engine sp\n.arch v2\nPSEUDO_DMA_TRIGGER q block_id=4");
  const base::ConstByteSpan record(file.data() + isa::kFileHeaderBytes, 64);
  EXPECT_EQ(disassemble_instruction(record), "PSEUDO_DMA_TRIGGER symbol-1 block_id=4");
  const std::vector<std::string> symbols = {"", "q"};
  EXPECT_EQ(disassemble_instruction(record, &symbols), "PSEUDO_DMA_TRIGGER q block_id=4");
}

// Whatever disassembles, assembles.
TEST(Disassembler, RefusesInstructionsOfOtherEngines) {
  Bytes file =
      as(".engine dve\n.arch v4\nTENSOR_COPY dst=fp32@0[1][4] src=fp32@64[1][4] "
         "partitions=0..3\nHALT\n");
  constexpr size_t kEngine = 12;  // of the header
  file[kEngine] = static_cast<uint8_t>(isa::Engine::kAct);
  EXPECT_TRUE(disassemble(file).ok());
  file[kEngine] = static_cast<uint8_t>(isa::Engine::kSp);
  const auto text = disassemble(file);
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.error().message().find("TENSOR_COPY does not run on engine sp"), std::string::npos)
      << text.error().message();
}

}  // namespace
}  // namespace neff
