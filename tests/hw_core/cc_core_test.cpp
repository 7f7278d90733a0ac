#include "hw/cc/cc_core.h"

#include <sys/mman.h>

#include "arch/contract/cc_program.h"
#include "arch/contract/descriptor.h"
#include "contract/regs/cc.h"
#include "contract/regs/nq.h"
#include "contract/regs/sem.h"
#include "tests/hw_core/core_bench.h"

namespace {

namespace cc = contract::cc;
namespace sem = contract::sem;
using contract::CcError;
using contract::CcStatus;
using contract::cc_program::Op;
using contract::cc_program::Record;
using hw_test::write32;

Record rec(Op op, uint32_t imm = 0, uint64_t address = 0, uint8_t flags = 0) {
  Record r;
  r.op = static_cast<uint8_t>(op);
  r.flags = flags;
  r.imm = imm;
  r.address = address;
  return r;
}

class CcCores : public ::testing::Test {
 protected:
  CcCores()
      : group_(6, [this](uint32_t t) {
          return std::make_unique<hw::CcCore>(
              hw::CcCore::Params{0, 1, t, 100 + t},
              hw::CcCore::Context{bench_.queue, bench_.fabric, nq_, hub_, bench_.counters,
                                  bench_.log, bench_.timing});
        }) {
    for (uint32_t t = 0; t < 6; ++t) {
      const contract::Window window = bench_.map().topsp(t);
      EXPECT_TRUE(bench_.fabric.map(window.device, window.size, group_,
                                    t * contract::topsp::kWindow, "cc"));
    }
  }
  uint64_t at(uint32_t t, uint64_t offset) { return bench_.map().topsp(t).device + offset; }
  void load(uint32_t t, const std::vector<Record>& records, uint32_t op = 0) {
    std::vector<uint8_t> bytes(records.size() * 16);
    std::memcpy(bytes.data(), records.data(), bytes.size());
    ASSERT_TRUE(bench_.fabric.write(at(t, contract::topsp::kProgram) + 16 * 8 * op, bytes));
    ASSERT_TRUE(bench_.fabric.write32(at(t, cc::kOp) + op * cc::kOpStride, 8 * op));
  }
  void write(uint32_t t, uint64_t offset, uint32_t value) {
    ASSERT_TRUE(bench_.fabric.write32(at(t, offset), value));
  }
  uint32_t read(uint32_t t, uint64_t offset) {
    uint32_t value = ~0u;
    EXPECT_TRUE(bench_.fabric.read32(at(t, offset), value));
    return value;
  }
  CcStatus status(uint32_t t) { return static_cast<CcStatus>(read(t, cc::kStatus)); }
  uint64_t inc(uint32_t t, uint32_t s) { return at(t, sem::kInc + 4 * s); }

  hw_test::CoreBench bench_;
  hw::NqBlock nq_{{50, base::ns(50)}, bench_.queue, bench_.fabric, &bench_.counters};
  hw::BarrierHub hub_;
  hw::CcCoreGroup group_;
};

TEST_F(CcCores, ResetValuesAndUntouchedCores) {
  EXPECT_EQ(group_.touched(3), nullptr);
  EXPECT_EQ(status(3), CcStatus::kReset);
  EXPECT_EQ(read(3, cc::kContractVersion), 0x10003u);
  EXPECT_EQ(read(3, cc::kChip), 0u);
  EXPECT_NE(group_.touched(3), nullptr);
  EXPECT_EQ(group_.touched(2), nullptr);
}

TEST_F(CcCores, MemoriesTakeAnyAccessUpToTheirEnds) {
  const uint64_t table = at(0, cc::kOp);
  const uint64_t program = at(0, contract::topsp::kProgram);
  for (const uint64_t last : {table + cc::kOpCount * cc::kOpStride - 8,
                              program + contract::topsp::kProgramBytes - 8, table, program}) {
    const std::vector<uint8_t> bytes = {1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_TRUE(bench_.fabric.write(last, bytes));
    std::vector<uint8_t> back(bytes.size());
    EXPECT_TRUE(bench_.fabric.read(last, back));
    EXPECT_EQ(back, bytes) << last - at(0, 0);
  }
  EXPECT_TRUE(bench_.log.entries().empty());
}

TEST_F(CcCores, AWaitMayTakeWhatItWaitedFor) {
  load(0, {rec(Op::kSemWait, 3, 4, contract::cc_program::flag::kSubtract), rec(Op::kDone)});
  write(0, sem::kSet + 4 * 4, 5);
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kIdle);
  EXPECT_EQ(read(0, sem::kRead + 4 * 4), 2u);
}

TEST_F(CcCores, TheLastOperationWaitsForItsSemaphoreOnly) {
  constexpr uint32_t kLast = cc::kOpCount - 1;
  load(0, {rec(Op::kSemWait, 1, 4), rec(Op::kDone)});
  write(0, cc::kOp + kLast * cc::kOpStride, 0);
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, kLast);
  bench_.queue.run_all();
  for (uint32_t s = 0; s < 256; ++s) {
    if (s != 4) write(0, sem::kSet + 4 * s, 1);
  }
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kWaiting);
  EXPECT_EQ(read(0, cc::kCurrentOp), kLast);
  write(0, sem::kSet + 4 * 4, 1);
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kIdle);
}

TEST_F(CcCores, RunsAnOperationInItsTime) {
  load(0, {rec(Op::kSemWait, 1, 4), rec(Op::kSemAdd, 2, inc(1, 9)), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kIdle);
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kWaiting);
  EXPECT_EQ(group_.core(0).stuck(),
            "waits for semaphore 4 >= 1, which is 0, in operation 0 at record 0");
  const base::Ps before = bench_.queue.now();
  write(0, sem::kInc + 4 * 4, 1);
  bench_.queue.run_all();
  // 1 ps to react, 220 ns for the wait, 20 ns for the add, 20 ns for DONE.
  EXPECT_EQ(bench_.queue.now() - before, base::ns(260) + 1);
  EXPECT_EQ(read(1, sem::kRead + 4 * 9), 2u);
  EXPECT_EQ(status(0), CcStatus::kIdle);
}

// When each register of a window was written.
class Times final : public hw::BusTarget {
 public:
  explicit Times(hw::EventQueue& queue) : queue_(queue) {}
  bool access(uint64_t, uint8_t*, size_t, bool write, bool) override {
    if (write) of_writes.push_back(queue_.now());
    return true;
  }
  std::vector<base::Ps> of_writes;

 private:
  hw::EventQueue& queue_;
};

// Chip 1, so far away; seen from there everything is here.
class FarChip final : public hw::ChipPort {
 public:
  explicit FarChip(hw::Fabric& fabric) : fabric_(fabric) {}
  hw::Fabric* peer(uint32_t, uint32_t chip) override { return chip == 1 ? &fabric_ : nullptr; }
  base::Ps latency(uint32_t, uint32_t) override { return base::ns(700); }

 private:
  hw::Fabric& fabric_;
};

TEST_F(CcCores, StoresToAnotherChipArriveLaterAndNobodyWaits) {
  const contract::Window window = bench_.map().topsp(5);
  hw::Fabric far({"d1", bench_.map(), 1}, bench_.timing, bench_.log);
  Times times(bench_.queue);
  ASSERT_TRUE(far.map(window.device, window.size, times, 0, "far"));
  FarChip port(far);
  bench_.fabric.set_port(&port);
  const uint64_t there = bench_.map().peer_address(1, inc(5, 3));
  load(0, {rec(Op::kSemAdd, 1, there), rec(Op::kWrite, 1, there), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  bench_.queue.run_all();
  const base::Ps before = bench_.queue.now();
  write(0, cc::kTrigger, 0);
  bench_.queue.run_until(before + base::ns(400));
  EXPECT_EQ(status(0), CcStatus::kIdle) << "the stores are on their way";
  EXPECT_TRUE(times.of_writes.empty());
  bench_.queue.run_all();
  // 1 ps to react, 100 ns for the trigger, 20 ns for each record.
  const base::Ps first = before + 1 + base::ns(100) + base::ns(20) + base::ns(700);
  EXPECT_EQ(times.of_writes, (std::vector<base::Ps>{first, first + base::ns(20)}));
}

// Descriptors of blocks that move something: tests/firmware/cc_block_test.cpp and the machine's
// own.
TEST_F(CcCores, ABlockReadsItsWordsWhenItRuns) {
  contract::cc_program::Block block;
  const uint64_t memory = bench_.map().hbm_base(0);
  block.count = memory + 0x1000;
  block.completion = inc(0, 7);
  block.target_elements = block.source_elements = 10;
  block.piece_bytes = 64;
  block.dtype = static_cast<uint8_t>(contract::DType::kInt32);
  std::vector<uint8_t> image(sizeof block);
  std::memcpy(image.data(), &block, sizeof block);
  ASSERT_TRUE(bench_.fabric.write(memory, image));
  load(0, {rec(Op::kBlock, 32, memory), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  bench_.queue.run_all();
  const auto run = [&](uint32_t count) {
    EXPECT_TRUE(bench_.fabric.write32(block.count, count));
    const base::Ps before = bench_.queue.now();
    write(0, cc::kTrigger, 0);
    bench_.queue.run_all();
    return bench_.queue.now() - before;
  };
  // 1 ps to react, 100 ns for the trigger, 600 ns for the block, 20 ns for DONE.
  EXPECT_EQ(run(0), base::ns(720) + 1);
  EXPECT_EQ(read(0, sem::kRead + 4 * 7), 32u);
  // Out of bounds: no bytes, and 50 ns of a notification from the end of the block on.
  EXPECT_EQ(run(11), base::ns(750) + 1);
  EXPECT_EQ(read(0, sem::kRead + 4 * 7), 64u);
  EXPECT_EQ(status(0), CcStatus::kIdle);
  // Bytes that timing-only left out decide: the report says so.
  EXPECT_EQ(bench_.counters.elided_reads, 0u);
  uint64_t offset = 0;
  bench_.fabric.plain(block.count, &offset)->elided().add(offset, 4);
  run(0);
  EXPECT_EQ(bench_.counters.elided_reads, 1u);
  // Words are aligned, as those that are written.
  block.count += 2;
  ASSERT_TRUE(bench_.fabric.write(memory + offsetof(decltype(block), count),
                                  {reinterpret_cast<const uint8_t*>(&block.count), 8}));
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kError);
  EXPECT_EQ(read(0, cc::kErrorCode), static_cast<uint32_t>(CcError::kBusError));
}

TEST_F(CcCores, BarrierOpensOnlyWhenReleased) {
  const uint64_t cell = at(0, cc::kBarrier + 5 * cc::kBarrierStride);
  for (uint32_t t = 0; t < 2; ++t) {
    load(t, {rec(Op::kBarrier, 2, t == 0 ? cell : bench_.map().peer_address(0, cell)),
             rec(Op::kSemAdd, 1, inc(2, t)), rec(Op::kDone)});
    write(t, cc::kControl, 1);
  }
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_FALSE(hub_.release_ready());
  EXPECT_EQ(read(0, cc::kBarrier + 5 * cc::kBarrierStride), 1u);
  EXPECT_EQ(
      group_.core(0).stuck(),
      "waits for barrier cell 5 of d0.cc0, where 1 of 2 have arrived, in operation 0 at record 0");
  write(1, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_EQ(read(2, sem::kRead), 0u);
  EXPECT_TRUE(hub_.release_ready());
  bench_.queue.run_all();
  EXPECT_EQ(read(2, sem::kRead), 1u);
  EXPECT_EQ(read(2, sem::kRead + 4), 1u);
  EXPECT_EQ(read(0, cc::kBarrier + 5 * cc::kBarrierStride), 0u);
  EXPECT_EQ(read(0, cc::kBarrier + 5 * cc::kBarrierStride + 4), 1u);
  EXPECT_FALSE(hub_.release_ready());
}

// Behind one barrier comes the next, in the same cell.
TEST_F(CcCores, BarriersFollowEachOther) {
  const uint64_t cell = at(0, cc::kBarrier);
  load(0, {rec(Op::kBarrier, 1, cell), rec(Op::kBarrier, 1, cell), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, 0);
  for (int i = 0; i < 2; ++i) {
    bench_.queue.run_all();
    EXPECT_EQ(status(0), CcStatus::kWaiting) << i;
    EXPECT_TRUE(hub_.release_ready()) << i;
  }
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kIdle);
}

// A job that was given up stands at a barrier in the memory of a core that the next job resets.
TEST_F(CcCores, ResetOfTheCellForgetsWhoWaits) {
  const uint64_t cell = at(2, cc::kBarrier);
  for (uint32_t t = 0; t < 3; ++t) {
    load(t, {rec(Op::kBarrier, 2, cell), rec(Op::kSemAdd, 1, inc(3, t)), rec(Op::kDone)});
    write(t, cc::kControl, 1);
  }
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  group_.core(2).reset();
  EXPECT_EQ(read(2, cc::kBarrier), 0u);
  write(2, cc::kControl, 1);
  write(1, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_FALSE(hub_.release_ready());
  write(2, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_TRUE(hub_.release_ready());
  bench_.queue.run_all();
  EXPECT_EQ(read(3, sem::kRead), 0u);
  EXPECT_EQ(read(3, sem::kRead + 4), 1u);
  EXPECT_EQ(read(3, sem::kRead + 8), 1u);
  group_.core(0).reset();
  EXPECT_EQ(status(0), CcStatus::kReset);
}

TEST_F(CcCores, BarrierMembersMustAgree) {
  const uint64_t cell = at(3, cc::kBarrier);
  for (uint32_t t = 0; t < 2; ++t) {
    load(t, {rec(Op::kBarrier, 2 + t, cell), rec(Op::kDone)});
    write(t, cc::kControl, 1);
    write(t, cc::kTrigger, 0);
  }
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kError);
  EXPECT_EQ(status(1), CcStatus::kError);
  EXPECT_EQ(read(0, cc::kErrorCode), static_cast<uint32_t>(CcError::kBadInstruction));
}

TEST_F(CcCores, BarrierOfNobodyIsABusError) {
  load(0, {rec(Op::kBarrier, 2, at(0, cc::kBarrier) + 4), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_EQ(read(0, cc::kErrorCode), static_cast<uint32_t>(CcError::kBusError));
}

TEST_F(CcCores, ErrorsStopOneCoreOnly) {
  write32(nq_, contract::nq::kSet + contract::nq::kSetBaseHi,
          static_cast<uint32_t>(bench_.host_address(0) >> 32));
  write32(nq_, contract::nq::kSet + contract::nq::kSetSize, 64);
  load(0, {rec(Op::kWrite, 1, 0x0FFF'0000'0000), rec(Op::kDone)});
  load(1, {rec(Op::kWrite, 1, inc(1, 0)), rec(Op::kDone)});
  for (uint32_t t = 0; t < 2; ++t) {
    write(t, cc::kControl, 1);
    write(t, cc::kTrigger, 0);
  }
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kError);
  EXPECT_EQ(read(0, cc::kErrorCode), static_cast<uint32_t>(CcError::kBusError));
  EXPECT_EQ(status(1), CcStatus::kIdle);
  const auto entry = base::load<contract::NqEntry>(bench_.host.bytes.data());
  EXPECT_EQ(entry.type(), contract::NqType::kError);
  EXPECT_EQ(entry.payload, static_cast<uint32_t>(CcError::kBusError));
  write(0, cc::kControl, 4);
  EXPECT_EQ(status(0), CcStatus::kReset);
}

TEST_F(CcCores, HaltedCoreIgnoresItsSemaphoreUntilRun) {
  load(0, {rec(Op::kSemWait, 1, 4), rec(Op::kSemAdd, 1, inc(1, 0)), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  write(0, cc::kControl, 2);
  EXPECT_EQ(status(0), CcStatus::kHalted);
  EXPECT_EQ(group_.core(0).stuck(),
            "is halted, in operation 0 at record 0, 0 triggers in its queue");
  write(0, sem::kInc + 4 * 4, 1);
  bench_.queue.run_all();
  EXPECT_EQ(read(1, sem::kRead), 0u);
  write(0, cc::kControl, 1);
  bench_.queue.run_all();
  EXPECT_EQ(read(1, sem::kRead), 1u);
}

TEST_F(CcCores, HaltAtBarrierArrivesOnce) {
  const uint64_t cell = at(0, cc::kBarrier);
  load(0, {rec(Op::kBarrier, 1, cell), rec(Op::kSemAdd, 1, inc(0, 0)), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  write(0, cc::kControl, 2);
  write(0, cc::kControl, 1);
  bench_.queue.run_all();
  EXPECT_EQ(read(0, cc::kBarrier), 1u);
  EXPECT_TRUE(hub_.release_ready());
  bench_.queue.run_all();
  EXPECT_EQ(read(0, sem::kRead), 1u);
}

TEST_F(CcCores, ResetLeavesBarrierAndKeepsProgram) {
  const uint64_t cell = at(0, cc::kBarrier);
  load(0, {rec(Op::kBarrier, 1, cell), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  write(0, sem::kSet, 5);
  group_.core(0).reset();
  EXPECT_EQ(read(0, cc::kBarrier), 0u);
  EXPECT_FALSE(hub_.release_ready());
  EXPECT_EQ(read(0, sem::kRead), 0u);
  EXPECT_EQ(read(0, contract::topsp::kProgram) & 0xFF, static_cast<uint32_t>(Op::kBarrier));
  bench_.queue.run_all();
  EXPECT_EQ(status(0), CcStatus::kReset);
}

TEST_F(CcCores, MappedWindowShowsStatus) {
  const auto fd = group_.core(0).pages().share("cc0");
  ASSERT_TRUE(fd.ok());
  void* page = ::mmap(nullptr, 0x3000, PROT_READ, MAP_SHARED, *fd, 0);
  ASSERT_NE(page, MAP_FAILED);
  const auto* words = static_cast<const uint32_t*>(page);
  load(0, {rec(Op::kSemWait, 1, 4), rec(Op::kDone)});
  write(0, cc::kControl, 1);
  write(0, cc::kTrigger, 0);
  bench_.queue.run_all();
  EXPECT_EQ(words[cc::kStatus / 4], static_cast<uint32_t>(CcStatus::kWaiting));
  write(0, sem::kInc + 4 * 4, 1);
  bench_.queue.run_all();
  EXPECT_EQ(words[cc::kStatus / 4], static_cast<uint32_t>(CcStatus::kIdle));
  EXPECT_EQ(words[(sem::kRead + 16) / 4], 1u);
  write(0, cc::kControl, 2);
  write(0, cc::kTrigger, 0);
  EXPECT_EQ(words[cc::kStatus / 4], static_cast<uint32_t>(CcStatus::kHalted));
  EXPECT_EQ(words[cc::kFifoLevel / 4], 1u);
  group_.core(0).reset();
  EXPECT_EQ(words[cc::kStatus / 4], static_cast<uint32_t>(CcStatus::kReset));
  EXPECT_EQ(words[cc::kFifoLevel / 4], 0u);
  ::munmap(page, 0x3000);
}

TEST_F(CcCores, FifoOverflowAndLevel) {
  for (int i = 0; i < 256; ++i) write(0, cc::kTrigger, 0);
  EXPECT_EQ(read(0, cc::kFifoLevel), 256u);
  write(0, cc::kTrigger, 0);
  EXPECT_EQ(read(0, cc::kErrorCode), static_cast<uint32_t>(CcError::kFifoOverflow));
}

}  // namespace
