#include "runtime/load/collective_program.h"

#include <gtest/gtest.h>

#include "contract/regs/sem.h"
#include "neff_loader/flow.h"
#include "runtime/nrt/status.h"

namespace {

using nrt::CollectiveProgram;

constexpr uint32_t kRanks = 4;

// Subgraphs as the loader would give them: engines' programs of collectives only.
class Source {
 public:
  explicit Source(size_t parts = 1) : subgraphs_(parts) {
    for (neff::Subgraph& subgraph : subgraphs_) {
      subgraph.cc.groups = {{{{0, 1, 2, 3}}, {}}, {{{2, 0}, {1, 3}}, {}}};
    }
  }

  // An all-reduce in its engine's next record; `done`: semaphore that its completion increments.
  neff::CollectiveOp& add(neff::Engine engine, uint8_t done = 1, size_t part = 0) {
    neff::Subgraph& subgraph = subgraphs_[part];
    auto program = std::find_if(subgraph.programs.begin(), subgraph.programs.end(),
                                [&](const auto& p) { return p.engine == engine; });
    if (program == subgraph.programs.end()) {
      program = subgraph.programs.insert(program, neff::EngineProgram());
      program->engine = engine;
      program->records = {records_.data(), records_.size()};
    }
    neff::ProgramStep step{static_cast<uint32_t>(program->steps.size()), {}};
    step.instruction.opcode = contract::isa::Opcode::kPseudoTriggerCollective2;
    step.instruction.complete_update = {contract::isa::UpdateOp::kInc, done, 0};
    program->steps.push_back(step);
    neff::CollectiveOp op;
    op.engine = engine;
    op.pc = step.pc;
    op.reduce = neff::ReduceOp::kAdd;
    op.source_bytes = op.destination_bytes = 4096;
    subgraph.collectives.push_back(op);
    return subgraph.collectives.back();
  }
  neff::Subgraph& part(size_t index) { return subgraphs_[index]; }
  neff::EngineProgram& program(size_t index) { return subgraphs_[0].programs[index]; }

  base::Result<CollectiveProgram> read(contract::Gen gen = contract::Gen::kV3, uint32_t streams = 4,
                                       uint32_t rank = 2) {
    for (neff::Subgraph& subgraph : subgraphs_) {
      for (neff::EngineProgram& program : subgraph.programs) {
        program.flow = *neff::find_flow(program, {});
      }
    }
    return CollectiveProgram::read(subgraphs_,
                                   {contract::AddressMap{gen}, 1, streams, rank, kRanks});
  }

 private:
  std::vector<neff::Subgraph> subgraphs_;
  std::vector<uint8_t> records_ = std::vector<uint8_t>(32 * contract::isa::kRecordBytes);
};

TEST(CollectiveProgram, EqualOperationsAreOne) {
  Source source;
  source.add(neff::Engine::kSp);
  source.add(neff::Engine::kSp).destination_offset = 64;
  source.add(neff::Engine::kSp);
  source.add(neff::Engine::kSp, 9);  // completes elsewhere
  const auto program = source.read();
  ASSERT_TRUE(program) << program.error().message();
  EXPECT_EQ(program->operations.size(), 3u);
  const std::vector<uint32_t> order{0, 1, 0, 2};
  ASSERT_EQ(program->sources.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(program->sources[i].operation, order[i]);
  EXPECT_EQ(program->streams[0].sequence, order);
  EXPECT_EQ(program->streams.size(), 4u);
  EXPECT_EQ(program->streams_used, 1u);
  const uint64_t block = contract::AddressMap{contract::Gen::kV3}.nc_semaphores(1);
  EXPECT_EQ(program->operations[0].completion.address, block + contract::sem::kInc + 4);
  EXPECT_EQ(program->operations[2].completion.address, block + contract::sem::kInc + 36);
}

TEST(CollectiveProgram, GroupsAreOfTheOwnRank) {
  Source source;
  source.add(neff::Engine::kSp);
  source.add(neff::Engine::kSp).group_id = 1;
  auto program = source.read();
  ASSERT_TRUE(program) << program.error().message();
  ASSERT_EQ(program->groups.size(), 2u);
  EXPECT_EQ(program->groups[0].own, 2u);
  EXPECT_EQ(program->groups[1].ranks, (neff::RankList{2, 0}));
  EXPECT_EQ(program->groups[1].own, 0u);
  EXPECT_EQ(program->operations[1].group, 1u);
  EXPECT_FALSE(source.read(contract::Gen::kV3, 4, kRanks));
}

TEST(CollectiveProgram, LanesTakeQueuesFromAbove) {
  Source source;
  EXPECT_EQ(source.read()->last_free_queue, 13u);
  source.add(neff::Engine::kSp);
  EXPECT_EQ(source.read()->stream_queues[0].queue, 15u);
  EXPECT_EQ(source.read()->last_free_queue, 13u);
  source.add(neff::Engine::kSp).stream_id = 2;
  source.add(neff::Engine::kSp).stream_id = 1;
  auto& variable = source.add(neff::Engine::kSp);
  variable.stream_id = 1;
  variable.type = neff::CollectiveType::kAllGatherV;
  variable.metadata = 3;
  variable.destination_bytes = kRanks * 4096;
  const auto program = source.read();
  ASSERT_TRUE(program) << program.error().message();
  ASSERT_EQ(program->stream_queues.size(), 3u);
  EXPECT_EQ(program->stream_queues[1].queue, 13u);
  EXPECT_EQ(program->stream_queues[2].queue, 12u);
  EXPECT_FALSE(program->stream_queues[2].block_queue);
  EXPECT_EQ(program->stream_queues[1].block_queue, 11u);
  EXPECT_EQ(program->last_free_queue, 10u);
  EXPECT_EQ(program->operations[1].stream_queue, 2u);
  EXPECT_EQ(program->operations[2].stream_queue, 1u);
  EXPECT_EQ(program->streams_used, 3u);
}

TEST(CollectiveProgram, PrioritiesAreLanesOfV4) {
  Source source;
  for (uint32_t i = 0; i < 8; ++i) {
    auto& op = source.add(neff::Engine::kSp);
    op.stream_id = i % 2;
    op.priority = i / 2;
  }
  EXPECT_EQ(source.read().error().fault, base::Fault::kUnsupported);
  const auto program = source.read(contract::Gen::kV4);
  ASSERT_TRUE(program) << program.error().message();
  EXPECT_EQ(program->stream_queues.size(), 8u);
  EXPECT_EQ(program->last_free_queue, 6u);
  source.add(neff::Engine::kSp).metadata = 1;  // needs a queue for its blocks
  EXPECT_EQ(source.read(contract::Gen::kV4).error().code, NRT_RESOURCE);
}

TEST(CollectiveProgram, OrderOfAStreamIsFixedAtLoad) {
  Source source;
  source.add(neff::Engine::kAct);
  source.add(neff::Engine::kPool);
  EXPECT_TRUE(source.read());  // the same operation, whoever comes first
  source.add(neff::Engine::kPool).destination_offset = 64;
  EXPECT_EQ(source.read().error().fault, base::Fault::kUnsupported);

  Source loop;
  loop.add(neff::Engine::kSp);
  loop.add(neff::Engine::kSp);
  EXPECT_TRUE(loop.read()->streams[0].counted);
  neff::ProgramStep back{2, {}};
  back.instruction.opcode = contract::isa::Opcode::kBranch;
  back.instruction.operands.branch.target = -2;
  loop.program(0).steps.push_back(back);
  EXPECT_FALSE(loop.read()->streams[0].counted);
  loop.add(neff::Engine::kSp).destination_offset = 64;
  EXPECT_EQ(loop.read().error().fault, base::Fault::kUnsupported);
}

TEST(CollectiveProgram, EitherPhysicalCoreHasCollectives) {
  Source source(2);
  source.add(neff::Engine::kSp, 3, 1);
  source.add(neff::Engine::kSp, 3, 1).destination_offset = 64;
  auto program = source.read();
  ASSERT_TRUE(program) << program.error().message();
  ASSERT_EQ(program->operations.size(), 2u);
  EXPECT_EQ(program->operations[0].part, 1u);
  const uint64_t second = contract::AddressMap{contract::Gen::kV3}.nc_semaphores(2);
  EXPECT_EQ(program->operations[0].completion.address, second + contract::sem::kInc + 12);
  EXPECT_EQ(program->streams[0].sequence, (std::vector<uint32_t>{0, 1}));

  // Of both on one stream nobody knows which comes first.
  source.add(neff::Engine::kSp, 3, 0).stream_id = 1;
  EXPECT_TRUE(source.read());
  source.add(neff::Engine::kSp, 3, 0);
  EXPECT_EQ(source.read().error().fault, base::Fault::kUnsupported);

  Source other(2);
  other.add(neff::Engine::kSp, 3, 0);
  other.add(neff::Engine::kSp, 3, 1).stream_id = 1;
  EXPECT_TRUE(other.read());
  other.part(1).cc.groups.pop_back();
  EXPECT_FALSE(other.read());
}

TEST(CollectiveProgram, StreamsThatTheCoreLacks) {
  Source source;
  source.add(neff::Engine::kSp).stream_id = 2;
  EXPECT_TRUE(source.read(contract::Gen::kV3, 3));
  EXPECT_EQ(source.read(contract::Gen::kV3, 2).error().fault, base::Fault::kUnsupported);
}

}  // namespace
