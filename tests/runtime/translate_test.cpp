#include "runtime/load/translate.h"

#include <gtest/gtest.h>

#include "arch/contract/address_map.h"
#include "arch/contract/isa_file.h"
#include "neff_loader/asm.h"

namespace {

using contract::isa::Instruction;
using contract::isa::Opcode;

// A program from text, as the loader would give it.
class Source {
 public:
  explicit Source(const std::string& text) {
    neff::AsmOptions options;
    options.engine = contract::isa::Engine::kSp;
    options.core_version = 2;
    auto bytes = neff::assemble(text, options);
    EXPECT_TRUE(bytes.ok()) << (bytes.ok() ? "" : bytes.error().message());
    file_ = std::move(*bytes);
    contract::isa::EngineFileHeader header;
    contract::isa::parse(file_.data(), file_.size(), &header);
    program.records = {file_.data() + header.records_offset,
                       header.record_count * contract::isa::kRecordBytes};
    for (uint32_t pc = 0; pc < header.record_count;) {
      neff::ProgramStep step{pc, {}};
      contract::isa::decode(program.records.data() + pc * contract::isa::kRecordBytes,
                            program.records.size() - pc * contract::isa::kRecordBytes,
                            &step.instruction);
      program.steps.push_back(step);
      pc += step.instruction.records();
    }
  }
  neff::EngineProgram program;

 private:
  std::vector<uint8_t> file_;
};

std::vector<Instruction> decoded(const nrt::Translated& t) {
  std::vector<Instruction> list;
  for (size_t pc = 0; pc < t.records.size();) {
    Instruction in;
    EXPECT_EQ(contract::isa::decode(t.records[pc].bytes,
                                    (t.records.size() - pc) * contract::isa::kRecordBytes, &in),
              contract::isa::DecodeError::kNone);
    list.push_back(in);
    pc += in.records();
  }
  return list;
}

nrt::StorePair pair_of(uint64_t a, uint64_t b) {
  nrt::StorePair pair;
  pair.address[0] = a;
  pair.address[1] = b;
  pair.value[0] = pair.value[1] = 1;
  pair.count = 2;
  return pair;
}
Instruction stores(uint64_t a, uint64_t b) {
  return nrt::to_instruction(pair_of(a, b));
}

TEST(Translate, TriggerBecomesWritesThatKeepWaitAndUpdate) {
  const Source source("PSEUDO_DMA_TRIGGER $S[20]>=1 $S[21]++@complete q block_id=1\nHALT\n");
  auto t = nrt::translate(source.program,
                          {{0, {stores(0x100, 0x200), stores(0x300, 0x400)}, false}}, {});
  ASSERT_TRUE(t.ok());
  const auto list = decoded(*t);
  ASSERT_EQ(list.size(), 6u);  // NOTIFY, WRITE, WRITE, DRAIN, NOTIFY, HALT
  EXPECT_EQ(list[0].opcode, Opcode::kNotify);
  EXPECT_EQ(list[0].operands.notify.payload, nrt::kNotifyStart);
  EXPECT_EQ(list[1].wait.id, 20);
  EXPECT_EQ(list[1].complete_update.op, contract::isa::UpdateOp::kNone);
  EXPECT_EQ(list[1].operands.write.dst1, 0x200u);
  EXPECT_EQ(list[2].wait.cond, contract::isa::WaitCond::kNone);
  EXPECT_EQ(list[2].complete_update.id, 21);
  EXPECT_EQ(list[4].operands.notify.payload, nrt::kNotifyEnd);
  EXPECT_EQ(t->start_pc, 0u);
  EXPECT_EQ(t->end_pcs, std::vector<uint32_t>{4});
}

TEST(Translate, CompletionOfCollectivesIsLeftToTheCcCore) {
  const Source source("EVENT_SEMAPHORE $S[3]++@read $S[4]++@complete\nHALT\n");
  auto t = nrt::translate(source.program, {{0, {stores(0x10, 0x20)}, true}}, {});
  ASSERT_TRUE(t.ok());
  const auto list = decoded(*t);
  EXPECT_EQ(list[1].opcode, Opcode::kWrite);
  EXPECT_EQ(list[1].read_update.id, 3);
  EXPECT_EQ(list[1].complete_update.op, contract::isa::UpdateOp::kNone);
}

TEST(Translate, ProgramCountersMapBothWays) {
  const Source source("NOP\nPSEUDO_DMA_TRIGGER q block_id=1\nNOP\n");
  auto t =
      nrt::translate(source.program, {{1, {stores(0x10, 0x20), stores(0x30, 0x40)}, false}}, {});
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->pc_map, (std::vector<uint32_t>{1, 2, 4, 5}));
  EXPECT_EQ(t->source_pc(0), -1);
  EXPECT_EQ(t->source_pc(1), 0);
  EXPECT_EQ(t->source_pc(2), 1);
  EXPECT_EQ(t->source_pc(3), 1);
  EXPECT_EQ(t->source_pc(4), 2);
  // No HALT in the file: one is added behind the end NOTIFY.
  EXPECT_EQ(decoded(*t).back().opcode, Opcode::kHalt);
}

// A record of an error is found again behind any number of instructions of several records.
TEST(Translate, RecordsOfLongInstructionsBelongToTheirFirst) {
  std::string text;
  constexpr uint32_t kCopies = 9;
  for (uint32_t i = 0; i < kCopies; ++i) {
    text += "TENSOR_LOAD dst=r1 src=uint32@t0:0[4][1]\nNOP\n";
  }
  const Source source(text + "HALT\n");
  auto t = nrt::translate(source.program, {}, {});
  ASSERT_TRUE(t.ok()) << t.error().message();
  for (uint32_t i = 0; i < kCopies; ++i) {
    EXPECT_EQ(t->source_pc(1 + 3 * i), 3 * i);
    EXPECT_EQ(t->source_pc(2 + 3 * i), 3 * i);
    EXPECT_EQ(t->source_pc(3 + 3 * i), 3 * i + 2);
  }
  EXPECT_EQ(t->source_pc(1 + 3 * kCopies), 3 * kCopies);  // the DRAIN in front of HALT
}

TEST(Translate, BranchesFollowTheirTargets) {
  const Source source(
      "top:\nNOP\nPSEUDO_DMA_TRIGGER q block_id=1\nCOMPARE_BRANCH cond=LTU a=r1 b=8 target=top\n"
      "BRANCH target=end\nNOP\nend:\nHALT\n");
  auto t =
      nrt::translate(source.program, {{1, {stores(0x10, 0x20), stores(0x30, 0x40)}, false}}, {});
  ASSERT_TRUE(t.ok());
  const auto list = decoded(*t);
  EXPECT_EQ(list[4].opcode, Opcode::kCompareBranch);  // at record 4, top is record 1
  EXPECT_EQ(list[4].operands.compare_branch.target, -3);
  EXPECT_EQ(list[5].operands.branch.target, 2);  // to the DRAIN in front of HALT
}

TEST(Translate, BarrierComesFirstAndOnlyTheLeaderTriggersIt) {
  const Source source("HALT\n");
  nrt::Prologue prologue;
  prologue.barrier = true;
  prologue.semaphore = 255;
  prologue.trigger = pair_of(0x70, 0);
  prologue.trigger.count = 1;
  auto follower = nrt::translate(source.program, {}, prologue);
  prologue.leader = true;
  auto leader = nrt::translate(source.program, {}, prologue);
  ASSERT_TRUE(leader.ok() && follower.ok());
  EXPECT_EQ(decoded(*leader)[0].opcode, Opcode::kWrite);
  EXPECT_EQ(decoded(*leader)[0].operands.write.dst0, 0x70u);
  EXPECT_EQ(decoded(*leader)[0].operands.write.size1, 0);
  EXPECT_EQ(decoded(*leader)[1].wait.id, 255);
  EXPECT_EQ(leader->start_pc, 2u);
  EXPECT_EQ(decoded(*follower)[0].wait.id, 255);
  EXPECT_EQ(follower->start_pc, 1u);
}

TEST(Translate, PseudoInstructionWithoutReplacementIsRefusedInThePublicWords) {
  const Source source("PSEUDO_DMA_TRIGGER q block_id=1\nHALT\n");
  auto t = nrt::translate(source.program, {}, {});
  ASSERT_FALSE(t.ok());
  EXPECT_EQ(t.error().what, "Unsupported hardware operator code 192 found in neff.");
}

TEST(Translate, CallsFollowTheirFunction) {
  Source source(
      "CALL $S[3]>=1 $S[4]++@complete name=f\nPSEUDO_DMA_TRIGGER q block_id=1\nHALT\n"
      ".function f\nNOP\nRETURN\n.endfunction\n");
  source.program.symbols = {"", "f", "q"};
  source.program.functions = {{"f", 3, 2, 0}};
  auto t =
      nrt::translate(source.program, {{1, {stores(0x10, 0x20), stores(0x30, 0x40)}, false}}, {});
  ASSERT_TRUE(t.ok()) << t.error().message();
  const auto list = decoded(*t);  // NOTIFY, BRANCH_LINK, WRITE, WRITE, DRAIN, NOTIFY, HALT, NOP
  EXPECT_EQ(list[1].opcode, Opcode::kBranchLink);
  EXPECT_EQ(list[1].operands.branch_link.target, 6);
  EXPECT_EQ(list[1].wait.id, 3);
  EXPECT_EQ(list[1].complete_update.id, 4);
  ASSERT_EQ(list.size(), 9u);
  EXPECT_EQ(list[8].opcode, Opcode::kReturn);
}

TEST(Translate, CallsTakeTheTableOfTheirArguments) {
  Source source(
      "CALL name=f args_table_var_id=9\nCALL name=f\nHALT\n.function f args_table_var_id=7\n"
      "RETURN\n.endfunction\n");
  source.program.symbols = {"", "f"};
  source.program.functions = {{"f", 3, 1, 7}};
  const nrt::TensorTables tables{{7, {0x7000, 1}}, {9, {0x9000, 3}}};
  auto t = nrt::translate(source.program, {}, {}, tables);
  ASSERT_TRUE(t.ok()) << t.error().message();
  const auto list = decoded(*t);  // NOTIFY, BRANCH_LINK, BRANCH_LINK, ...
  EXPECT_EQ(list[1].operands.branch_link.table, 0x9000u);
  EXPECT_EQ(list[1].operands.branch_link.entries, 3u);
  EXPECT_EQ(list[2].operands.branch_link.table, 0x7000u);
  EXPECT_EQ(list[2].operands.branch_link.entries, 1u);
  EXPECT_FALSE(nrt::translate(source.program, {}, {}).ok());
}

TEST(Translate, WaitsAndUpdatesSurroundThoseOfWhatStandsThere) {
  const Source source(
      "PSEUDO_DMA_TRIGGER $S[20]>=1 $S[22]++@read $S[21]++@complete q block_id=1\n"
      "HALT\n");
  Instruction own{};
  own.opcode = Opcode::kEventSemaphore;
  own.wait = {contract::isa::WaitCond::kGe, false, 7, 2};
  own.complete_update = {contract::isa::UpdateOp::kInc, 8, 0};
  auto t = nrt::translate(source.program, {{0, {own}, false}}, {});
  ASSERT_TRUE(t.ok());
  const auto list = decoded(*t);
  ASSERT_EQ(list.size(), 7u);
  EXPECT_EQ(list[1].wait.id, 20);
  EXPECT_EQ(list[1].read_update.id, 22);
  EXPECT_EQ(list[2].wait.id, 7);
  EXPECT_EQ(list[2].complete_update.id, 8);
  EXPECT_EQ(list[3].complete_update.id, 21);
}

TEST(Doorbells, BroadcastNeedsAllEnginesAndEqualCounts) {
  std::vector<uint64_t> units;
  const contract::AddressMap map{contract::Gen::kV2};
  for (uint32_t e = 0; e < 16; ++e) units.push_back(map.udma(e).device);
  std::vector<nrt::DoorbellCounts> counts(16, {9, 9});
  auto one = nrt::doorbells(counts, units, map.broadcast(0).device, 8);
  ASSERT_EQ(one.size(), 1u);
  // The published example of a trigger at run time (spec/hw-registers.md 3.6).
  EXPECT_EQ(one[0].address[0], 0x0FFFF1009038u);
  EXPECT_EQ(one[0].address[1], 0x0FFFF1029038u);
  EXPECT_EQ(one[0].value[0], 9u);
  counts[3].s2m = 8;
  EXPECT_EQ(nrt::doorbells(counts, units, map.broadcast(0).device, 8).size(), 16u);
  counts.resize(2);
  counts[1] = {0, 0};
  EXPECT_EQ(nrt::doorbells(counts, units, map.broadcast(0).device, 8).size(), 1u);
}

}  // namespace
