// Checks that the hardware does not have, on one NeuronCore: each kind, and what is no finding.
#include "hw/check/checker.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "contract/regs/engine.h"
#include "contract/regs/sem.h"
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::kDve;
using contract::kPe;
using contract::kPool;
using hw::check::Access;
using hw::check::Area;
using hw::check::Clock;
using hw::check::Conflict;
using hw::check::Finding;
using hw::check::Kind;
using hw::check::Shadow;
using hw::check::View;
using hw_test::isa::Accumulate;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::Opcode;
using hw_test::isa::UpdateOp;
using hw_test::isa::WaitCond;
namespace isa = hw_test::isa;
using namespace hw_test;  // NOLINT(google-build-using-namespace): the small assembler

isa::TensorOperand at(uint32_t byte, uint16_t n = 8, int16_t step = 1) {
  return tensor(DataType::kFloat32, byte, n, Memory::kSbuf, step);
}
isa::TensorOperand in_psum(uint32_t byte, uint16_t n = 8) {
  return tensor(DataType::kFloat32, byte, n, Memory::kPsum);
}
isa::Instruction fill(const isa::TensorOperand& dst, uint8_t partitions = 128) {
  isa::Instruction i = op(Opcode::kMemset);
  i.operands.memset = {dst, 0, partitions};
  return i;
}
isa::Instruction signal(isa::Instruction i, uint8_t id) {
  return then(i, UpdateOp::kInc, id);
}
isa::Instruction after(isa::Instruction i, uint8_t id, uint32_t value = 1) {
  return on(i, WaitCond::kGe, id, value);
}
isa::Instruction weights(const isa::TensorOperand& from) {
  isa::Instruction i = op(Opcode::kLdweights);
  i.operands.ldweights = {from, 128, 0, 0, 0};
  return i;
}
isa::Instruction product(Accumulate how, const isa::TensorOperand& to) {
  isa::Instruction i = op(Opcode::kMatmul);
  i.operands.matmul = {how, to, at(0x100), 128, 8, 0, 0, 0};
  return i;
}

class Checks : public ::testing::Test {
 protected:
  using Programs = std::map<contract::Engine, std::vector<isa::Instruction>>;
  // What is expected: kind, first and second instruction.
  using Found = std::vector<std::tuple<Kind, std::string, std::string>>;

  Checks() {
    checker_.add_memory(bench_.fabric.sbuf(0), contract::tpb::kPartitionStride);
    checker_.add_memory(bench_.fabric.psum(0), contract::tpb::kPsumStride);
  }
  // So late that other engines have done a few instructions.
  static std::vector<isa::Instruction> late(std::vector<isa::Instruction> program) {
    program.insert(program.begin(), 400, op(Opcode::kNop));
    return program;
  }
  void load(Programs programs) {
    for (auto& [engine, program] : programs) {
      program.push_back(op(Opcode::kHalt));
      bench_.load(engine, program);
    }
  }
  void start(const Programs& programs) {
    for (const auto& each : programs) {
      bench_.put(each.first, contract::engine::kPc, 0);
      bench_.start(each.first);
    }
    bench_.queue.run_all();
    for (const auto& each : programs) {
      EXPECT_EQ(bench_.status(each.first), ends_);
    }
  }
  // Semaphores that stay are the affair of one test.
  Found run(const Programs& programs, bool semaphores = false) {
    load(programs);
    start(programs);
    return found(semaphores);
  }
  Found found(bool semaphores = false) {
    uint64_t more = 0;
    all_.clear();
    Found out;
    for (const Finding& f : checker_.take(&more)) {
      if (f.kind == Kind::kSemaphore && !semaphores) continue;
      out.emplace_back(f.kind, f.first.operation, f.second.operation);
      all_.push_back(f);
    }
    EXPECT_EQ(more, 0u);
    return out;
  }

  hw::check::Checker checker_;
  NcBench bench_{contract::Gen::kV2, false, nullptr, &checker_};
  std::vector<Finding> all_;
  contract::EngineStatus ends_ = contract::EngineStatus::kHalted;
};

TEST_F(Checks, OrderedProgramsAreSilent) {
  EXPECT_EQ(run({{kDve, {signal(fill(at(0)), 1), after(copy(at(0), at(0x200), 128), 2)}},
                 {kPool, {signal(after(copy(at(0x200), at(0), 128), 1), 2)}}}),
            Found{});
}

TEST_F(Checks, ReadsOfWhatWasNeverWritten) {
  EXPECT_EQ(run({{kDve, {fill(at(0), 64), copy(at(0x200), at(0), 128)}}}),
            (Found{{Kind::kReadUnwritten, "TENSOR_COPY", ""}}));
  EXPECT_EQ(all_[0].where, "d0.nc0.sbuf");
  EXPECT_EQ(all_[0].area.first, 64u);
  EXPECT_EQ(all_[0].area.end, 128u);
  EXPECT_EQ(all_[0].area.begin, 0u);
  EXPECT_EQ(all_[0].area.until, 32u);
  EXPECT_EQ(all_[0].first.pc, 1u);
}

TEST_F(Checks, WhatAnEarlierExecutionLeftMayBeReadUntilTheNextLoad) {
  const Programs reads = {{kDve, {copy(at(0x200), at(0), 128)}}};
  EXPECT_EQ(run({{kDve, {fill(at(0))}}}), Found{});
  // The same program space without a load: as an execution that follows.
  const Programs both = {{kDve, {fill(at(0)), copy(at(0x200), at(0), 128)}}};
  EXPECT_EQ(run(both), Found{});
  start(both);
  EXPECT_EQ(found(), Found{});
  EXPECT_EQ(run(reads), (Found{{Kind::kReadUnwritten, "TENSOR_COPY", ""}}));
}

TEST_F(Checks, ReadNotBehindAWrite) {
  EXPECT_EQ(run({{kDve, {fill(at(0))}}, {kPool, late({copy(at(0x200), at(0), 128)})}}),
            (Found{{Kind::kReadAfterWrite, "MEMSET", "TENSOR_COPY"}}));
  EXPECT_NE(all_[0].first.who.find("dve"), std::string::npos);
  EXPECT_EQ(all_[0].first.pc, 0u);
  EXPECT_NE(all_[0].second.who.find("pool"), std::string::npos);
  EXPECT_EQ(all_[0].second.pc, 400u);
  EXPECT_EQ(all_[0].count, 1u);
}

TEST_F(Checks, WriteNotBehindARead) {
  std::vector<isa::Instruction> writes = late({fill(at(0))});
  writes.insert(writes.begin(), signal(fill(at(0)), 1));
  EXPECT_EQ(run({{kDve, writes}, {kPool, {after(copy(at(0x200), at(0), 128), 1)}}}),
            (Found{{Kind::kWriteAfterRead, "TENSOR_COPY", "MEMSET"}}));
}

TEST_F(Checks, WriteNotBehindAWrite) {
  EXPECT_EQ(run({{kDve, {fill(at(0))}}, {kPool, late({fill(at(28))})}}),
            (Found{{Kind::kWriteAfterWrite, "MEMSET", "MEMSET"}}));
  EXPECT_EQ(all_[0].area.begin, 28u);
  EXPECT_EQ(all_[0].area.until, 32u);
}

// The semaphore is 2 when the wait begins, but 1 is all that it asks for.
TEST_F(Checks, WaitForTooLittle) {
  const std::vector<isa::Instruction> writes = {signal(fill(at(0)), 1), signal(fill(at(0x100)), 1)};
  EXPECT_EQ(run({{kDve, writes}, {kPool, late({after(copy(at(0x200), at(0x100), 128), 1, 1)})}}),
            (Found{{Kind::kReadAfterWrite, "MEMSET", "TENSOR_COPY"}}));
  bench_.group.core(0).semaphores().set(1, 0);
  EXPECT_EQ(run({{kDve, writes}, {kPool, late({after(copy(at(0x200), at(0x100), 128), 1, 2)})}}),
            Found{});
}

// @read says that the inputs may go, not that the result is there.
TEST_F(Checks, ReadUpdatesReleaseInputs) {
  const auto run_with = [&](const isa::Instruction& next) {
    bench_.group.core(0).semaphores().set(1, 0);
    return run({{kDve, {fill(at(0)), before(copy(at(0x200), at(0), 128), UpdateOp::kInc, 1)}},
                {kPool, late({after(next, 1)})}});
  };
  EXPECT_EQ(run_with(copy(at(0x300), at(0x200), 128)),
            (Found{{Kind::kReadAfterWrite, "TENSOR_COPY", "TENSOR_COPY"}}));
  EXPECT_EQ(run_with(copy(at(0x300), at(0), 128)), Found{});
}

TEST_F(Checks, StoresDoNotWaitForResultsButForDrain) {
  const uint64_t increment =
      bench_.map().nc_semaphores(0) + contract::sem::kInc + 4 * 7 * uint64_t{1};
  const auto run_with = [&](std::vector<isa::Instruction> first) {
    bench_.group.core(0).semaphores().set(7, 0);
    return run({{kDve, std::move(first)}, {kPool, {after(copy(at(0x200), at(0), 128), 7)}}});
  };
  EXPECT_EQ(run_with({fill(at(0)), write_to(increment, 1)}),
            (Found{{Kind::kReadAfterWrite, "MEMSET", "TENSOR_COPY"}}));
  EXPECT_EQ(run_with({fill(at(0)), op(Opcode::kDrain), write_to(increment, 1)}), Found{});
}

TEST_F(Checks, NeighboursAreNoConflict) {
  EXPECT_EQ(run({{kDve, {fill(at(0, 8, 2))}}, {kPool, late({fill(at(4, 8, 2))})}}), Found{});
  isa::TensorOperand lower = at(0x400);
  lower.start_partition = 64;
  EXPECT_EQ(run({{kDve, {fill(at(0x400), 64)}}, {kPool, late({fill(lower, 64)})}}), Found{});
}

TEST_F(Checks, ResultsOfTheTensorEngine) {
  const std::vector<isa::Instruction> inputs = {fill(at(0)), signal(fill(at(0x100)), 1)};
  const auto run_with = [&](std::vector<isa::Instruction> pe, std::vector<isa::Instruction> dve) {
    bench_.group.core(0).semaphores().set(1, 0);
    bench_.group.core(0).semaphores().set(2, 0);
    pe.insert(pe.begin(), after(weights(at(0)), 1));
    return run({{kPool, inputs}, {kPe, std::move(pe)}, {kDve, std::move(dve)}});
  };
  EXPECT_EQ(run_with({product(Accumulate::kStart, in_psum(0))}, {}),
            (Found{{Kind::kGroup, "MATMUL", ""}}));
  EXPECT_EQ(all_[0].where, "d0.nc0.psum");
  const isa::Instruction reader = after(copy(at(0x200), in_psum(0), 8), 2);
  EXPECT_EQ(run_with({product(Accumulate::kStart, in_psum(0)),
                      signal(product(Accumulate::kAdd, in_psum(0)), 2)},
                     {reader}),
            Found{});
  // A product behind the reader's back opens the group again.
  EXPECT_EQ(run_with({signal(product(Accumulate::kStart, in_psum(0)), 2),
                      on(product(Accumulate::kAdd, in_psum(0)), WaitCond::kGe, 3, 1)},
                     {signal(reader, 3)}),
            (Found{{Kind::kGroup, "MATMUL", ""}}));
  EXPECT_EQ(run_with({signal(product(Accumulate::kAdd, in_psum(0)), 2)}, {reader}),
            (Found{{Kind::kReadUnwritten, "MATMUL", ""}}));
}

TEST_F(Checks, SemaphoresLeftNonZero) {
  const auto run_cleaning = [&](const Programs& programs, uint32_t cleans_up = 1) {
    load(programs);
    bench_.put(kDve, contract::engine::kProgramFlags, cleans_up);
    start(programs);
    return found(true);
  };
  const Programs leaves = {{kDve, {signal(op(Opcode::kNop), 9)}}};
  EXPECT_EQ(run_cleaning(leaves), (Found{{Kind::kSemaphore, "NOP", ""}}));
  EXPECT_EQ(all_[0].where, "nc0.semaphores 9");
  bench_.group.core(0).semaphores().set(9, 0);
  EXPECT_EQ(run_cleaning(leaves, 0), Found{});  // who starts it clears them
  bench_.group.core(0).semaphores().set(9, 0);
  isa::Instruction clear = op(Opcode::kEventSemaphoreRangeClear);
  clear.operands.event_semaphore_range_clear = {isa::ClearKind::kSemaphore, 9, 9};
  EXPECT_EQ(run_cleaning({{kDve, {signal(op(Opcode::kNop), 9)}}, {kPool, {after(clear, 9)}}}),
            Found{});
  // What the host has set is the host's.
  bench_.group.core(0).semaphores().set(10, 5);
  EXPECT_EQ(run_cleaning({{kDve, {op(Opcode::kNop)}}}), Found{});
}

TEST_F(Checks, AddressesFromRegisters) {
  isa::TensorOperand far = at(0);
  far.offset_register = 5;
  ends_ = contract::EngineStatus::kError;
  EXPECT_EQ(run({{kDve, {move(5, 0x100000), copy(far, at(0), 128)}}}),
            (Found{{Kind::kOutOfBounds, "REGISTER_MOVE", "TENSOR_COPY"}}));
  EXPECT_EQ(bench_.status(kDve), contract::EngineStatus::kError);
  EXPECT_EQ(all_[0].second.pc, 1u);
}

TEST_F(Checks, LoadsOfRegisters) {
  isa::Instruction read = op(Opcode::kRegisterLoad);
  read.operands.register_load = {3, tensor(DataType::kInt32, 0x800, 1), 1};
  EXPECT_EQ(run({{kDve, {read}}}), (Found{{Kind::kReadUnwritten, "REGISTER_LOAD", ""}}));
}

// Ten times the same is one finding.
TEST_F(Checks, EqualFindingsAreCounted) {
  const Programs reads = {{kDve, {copy(at(0x200), at(0), 128)}}};
  load(reads);
  for (int i = 0; i < 10; ++i) start(reads);
  EXPECT_EQ(found(), (Found{{Kind::kReadUnwritten, "TENSOR_COPY", ""}}));
  EXPECT_EQ(all_[0].count, 10u);
}

// Who knows lines is asked when a finding comes up, for its instructions.
TEST_F(Checks, FindingsNameLines) {
  checker_.set_lines([](const hw::check::Site& site) {
    return site.core + " " + std::to_string(site.engine) + " " + std::to_string(site.program) +
           " " + std::to_string(site.debug_id);
  });
  isa::Instruction named = copy(at(0x200), at(0), 128);
  named.debug_id = 42;
  EXPECT_EQ(run({{kDve, {named}}}).size(), 1u);
  EXPECT_EQ(all_[0].first.line,
            "nc0 3 " + std::to_string(NcBench::kProgram + kDve * 0x10'0000ull) + " 42");
  EXPECT_EQ(all_[0].second.line, "");
}

// A gather touches the elements that its indices name, each group of lanes its own.
TEST(ChecksOfIndices, TouchWhatTheyName) {
  hw::check::Checker checker;
  NcBench bench(contract::Gen::kV4, false, nullptr, &checker);
  checker.add_memory(bench.fabric.sbuf(0), contract::tpb::kPartitionStride);
  checker.add_memory(bench.fabric.psum(0), contract::tpb::kPsumStride);
  constexpr uint32_t kIndex = 0x2000;
  isa::Instruction indices = op(Opcode::kLoadIndex);
  indices.operands.load_index = {1, tensor(DataType::kUint16, kIndex, 2), 32};
  isa::Instruction zeros = op(Opcode::kMemset);
  zeros.operands.memset = {tensor(DataType::kUint16, kIndex, 2), 0, 32};
  const auto found = [&](uint32_t partitions) {
    // Element 0 of so many partitions is there.
    bench.load(kDve, {fill(at(0, 1), static_cast<uint8_t>(partitions)), zeros, indices,
                      copy(at(0x200, 30), at(0, 30), 32), op(Opcode::kHalt)});
    bench.put(kDve, contract::engine::kPc, 0);
    bench.start(kDve);
    bench.queue.run_all();
    EXPECT_EQ(bench.status(kDve), contract::EngineStatus::kHalted);
    uint64_t more = 0;
    return checker.take(&more);
  };
  EXPECT_TRUE(found(32).empty());
  const std::vector<Finding> missing = found(16);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].kind, Kind::kReadUnwritten);
  EXPECT_EQ(missing[0].area.first, 16u);
  EXPECT_EQ(missing[0].area.end, 32u);
  EXPECT_EQ(missing[0].area.begin, 0u);
  EXPECT_EQ(missing[0].area.until, 4u);
}

// Scales lie in the first four partitions of a quadrant, what is beside them is not looked at.
TEST(ChecksOfScales, LieInTheFirstPartitionsOfAQuadrant) {
  hw::check::Checker checker;
  NcBench bench(contract::Gen::kV4, false, nullptr, &checker);
  checker.add_memory(bench.fabric.sbuf(0), contract::tpb::kPartitionStride);
  checker.add_memory(bench.fabric.psum(0), contract::tpb::kPsumStride);
  isa::Instruction quantize = op(Opcode::kQuantizeMx);
  quantize.operands.quantize_mx = {tensor(DataType::kFloat8e5x4, 0x400, 8),
                                   tensor(DataType::kBfloat16, 0, 32),
                                   tensor(DataType::kFloat8e8, 0x800, 8), 64, 36};
  isa::Instruction load = op(Opcode::kLdweightsMx);
  load.operands.ldweights_mx = {tensor(DataType::kFloat8e5x4, 0x400, 8),
                                tensor(DataType::kFloat8e8, 0x800, 8), 64, 36};
  bench.load(
      kDve, {fill(tensor(DataType::kBfloat16, 0, 32), 64), signal(quantize, 1), op(Opcode::kHalt)});
  bench.load(kPe, {after(load, 1), op(Opcode::kHalt)});
  for (const contract::Engine e : {kDve, kPe}) bench.start(e);
  bench.queue.run_all();
  EXPECT_EQ(bench.status(kDve), contract::EngineStatus::kHalted);
  EXPECT_EQ(bench.status(kPe), contract::EngineStatus::kHalted);
  uint64_t more = 0;
  EXPECT_TRUE(checker.take(&more).empty());
}

// Clocks with shared parts know what plain lists of epochs do.
TEST(VectorClocks, KnowWhatListsKnow) {
  constexpr uint32_t kAgents = 300;
  constexpr size_t kClocks = 8;
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
  uint64_t made = 0;
  std::vector<Clock> clocks(kClocks);
  std::vector<std::vector<uint32_t>> lists(kClocks, std::vector<uint32_t>(kAgents));
  for (uint32_t step = 1; step < 20000; ++step) {
    const size_t i = below(kClocks);
    const size_t j = below(kClocks);
    switch (below(8)) {
      case 0:
      case 1:
        clocks[i].join(clocks[j], made);
        for (uint32_t a = 0; a < kAgents; ++a) lists[i][a] = std::max(lists[i][a], lists[j][a]);
        break;
      case 2:
        clocks[i].settle_for_many(made);
        break;
      case 3:
        if (below(200) != 0) break;
        clocks[i] = Clock();
        lists[i].assign(kAgents, 0);
        break;
      case 4:
        if (below(200) != 0) break;
        clocks[i] = Clock(lists[j], made);
        lists[i] = lists[j];
        break;
      default: {
        const uint32_t agent = below(kAgents);
        const uint32_t epoch = step / 2 + below(100);
        clocks[i].raise(agent, epoch);
        clocks[i].limit(made);
        lists[i][agent] = std::max(lists[i][agent], epoch);
      }
    }
    const uint32_t agent = below(kAgents);
    ASSERT_EQ(clocks[i].entry(agent), lists[i][agent]) << step;
    ASSERT_TRUE(clocks[i].reaches(agent, lists[i][agent])) << step;
    ASSERT_FALSE(clocks[i].reaches(agent, lists[i][agent] + 1)) << step;
    if (step % 500 != 0) continue;
    for (size_t c = 0; c < kClocks; ++c) {
      for (uint32_t a = 0; a < kAgents; ++a) ASSERT_EQ(clocks[c].entry(a), lists[c][a]) << step;
    }
  }
}

TEST(ShadowMemory, SplitsAndJoins) {
  Shadow shadow;
  std::vector<Conflict> conflicts;
  Shadow::Result result{&conflicts, 0, 0};
  uint64_t made = 0;
  const Clock nothing;
  const View clock{&nothing, {1, 0, 0}};
  shadow.write({0, 128, 0, 100}, {1, 1, 10}, clock, result);
  EXPECT_EQ(shadow.size(), 1u);
  shadow.write({32, 64, 40, 60}, {1, 2, 11}, clock, result);
  EXPECT_EQ(shadow.size(), 3u);
  shadow.read({0, 128, 0, 120}, {1, 3, 12}, clock, result);
  ASSERT_EQ(conflicts.size(), 1u);  // bytes 100 to 119
  EXPECT_EQ(conflicts[0].kind, Conflict::Kind::kUnwritten);
  EXPECT_EQ(conflicts[0].area.begin, 100u);
  conflicts.clear();
  // Agent 2 knows nothing of agent 1 behind epoch 1.
  const Clock little({0, 1}, made);
  const View other{&little, {2, 0, 0}};
  shadow.read({0, 128, 0, 100}, {2, 1, 13}, other, result);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].kind, Conflict::Kind::kReadAfterWrite);
  EXPECT_EQ(conflicts[0].area.first, 32u);
  EXPECT_EQ(conflicts[0].area.end, 64u);
  EXPECT_EQ(conflicts[0].area.begin, 40u);
  EXPECT_EQ(conflicts[0].area.until, 60u);
  EXPECT_EQ(conflicts[0].earlier.site, 11u);
  conflicts.clear();
  const Clock more({0, 0, 1}, made);
  shadow.write({0, 128, 0, 100}, {1, 4, 14}, View{&more, {1, 0, 0}}, result);
  EXPECT_TRUE(conflicts.empty());
  EXPECT_EQ(shadow.size(), 1u);
}

TEST(ShadowMemory, SettledAccessesAreOverForEverybody) {
  Shadow shadow;
  std::vector<Conflict> conflicts;
  Shadow::Result result{&conflicts, 0, 0};
  const Clock nothing;
  const View clock{&nothing, {1, 0, 0}};
  for (uint64_t i = 0; i < 4; ++i) {
    shadow.write({0, 1, 8 * i, 8 * i + 8}, {1, static_cast<uint32_t>(i + 1), 10}, clock, result);
  }
  shadow.read({0, 1, 0, 32}, {1, 9, 11}, clock, result);
  EXPECT_EQ(shadow.size(), 4u);
  shadow.settle();
  EXPECT_EQ(shadow.size(), 1u);
  shadow.write({0, 1, 4, 12}, {2, 1, 12}, View{&nothing, {2, 0, 0}}, result);
  shadow.read({0, 1, 0, 32}, {2, 2, 13}, View{&nothing, {2, 0, 0}}, result);
  EXPECT_TRUE(conflicts.empty());
}

}  // namespace
