#include "hw/nq/nq_block.h"

#include "contract/regs/nq.h"
#include "hw/nq/nq_group.h"
#include "tests/hw_core/core_bench.h"

namespace {

namespace nq = contract::nq;
using contract::NqEntry;
using contract::NqType;
using hw_test::read32;
using hw_test::write32;

// Blocks are made when they are touched, and behind the last there is nothing.
TEST(NqGroup, BlocksOfAWindow) {
  hw_test::CoreBench bench;
  hw::NqGroup group(2, [&](uint32_t k) {
    return std::make_unique<hw::NqBlock>(hw::NqBlock::Params{k, base::ns(50)}, bench.queue,
                                         bench.fabric, &bench.counters);
  });
  uint8_t bytes[4] = {};
  EXPECT_TRUE(group.access(hw::NqBlock::kBytes + nq::kSet, bytes, 4, false, false));
  EXPECT_EQ(group.touched(0), nullptr);
  EXPECT_NE(group.touched(1), nullptr);
  EXPECT_FALSE(group.access(2 * hw::NqBlock::kBytes, bytes, 4, false, false));
}

class NqBlockTest : public ::testing::Test {
 protected:
  void ring(uint32_t set, uint64_t address, uint32_t size) {
    const uint32_t at = nq::kSet + set * nq::kSetStride;
    write32(block_, at + nq::kSetBaseHi, static_cast<uint32_t>(address >> 32));
    write32(block_, at + nq::kSetBaseLo, static_cast<uint32_t>(address));
    write32(block_, at + nq::kSetSize, size);
  }
  void post(uint32_t set, uint32_t payload) {
    NqEntry entry;
    entry.header = NqEntry::make_header(NqType::kNotify, set, false);
    entry.payload = payload;
    entry.timestamp = bench_.queue.now();
    block_.post(set, entry);
  }
  NqEntry entry(uint64_t phys) { return base::load<NqEntry>(bench_.host.bytes.data() + phys); }
  // Phase of the next entry of a ring of one entry at host address 0.
  bool post_phase(uint32_t set) {
    post(set, 0);
    bench_.queue.run_all();
    return entry(0).phase();
  }
  uint32_t head(uint32_t set) {
    return read32(block_, nq::kSet + set * nq::kSetStride + nq::kSetHead);
  }

  hw_test::CoreBench bench_;
  hw::NqBlock block_{{7, base::ns(50), "nq"}, bench_.queue, bench_.fabric, &bench_.counters};
};

TEST_F(NqBlockTest, WritesEntryAfterItsTime) {
  ring(3, bench_.host_address(0x1000), 128);
  post(3, 0xABCD);
  EXPECT_EQ(entry(0x1000).header, 0u);
  EXPECT_EQ(bench_.queue.run_all(), base::ns(50));
  EXPECT_EQ(entry(0x1000).type(), NqType::kNotify);
  EXPECT_EQ(entry(0x1000).source(), 3u);
  EXPECT_TRUE(entry(0x1000).phase());
  EXPECT_EQ(entry(0x1000).payload, 0xABCDu);
  EXPECT_EQ(head(3), 32u);
  EXPECT_EQ(bench_.counters.notifications, 1u);
}

TEST_F(NqBlockTest, PhaseFlipsAtWrap) {
  ring(0, bench_.host_address(0x40), 64);
  for (uint32_t i = 0; i < 3; ++i) post(0, i);
  bench_.queue.run_all();
  EXPECT_EQ(entry(0x40).payload, 2u);  // overwritten
  EXPECT_FALSE(entry(0x40).phase());
  EXPECT_EQ(entry(0x60).payload, 1u);
  EXPECT_TRUE(entry(0x60).phase());
  EXPECT_EQ(head(0), 32u);
}

TEST_F(NqBlockTest, WritesToHbmToo) {
  ring(95, 0x100'0000, 32);
  post(95, 5);
  bench_.queue.run_all();
  EXPECT_EQ(base::load<NqEntry>(bench_.fabric.direct(0x100'0000, 32)).payload, 5u);
}

TEST_F(NqBlockTest, IllegalRingsDrop) {
  for (const uint32_t size : {0u, 16u, 48u, 96u}) {
    ring(1, bench_.host_address(0), size);
    post(1, 1);
  }
  ring(2, bench_.host_address(0x1'0000), 64);  // not host memory
  post(2, 1);
  bench_.queue.run_all();
  EXPECT_EQ(block_.dropped(), 5u);
  EXPECT_EQ(bench_.counters.notifications, 0u);
  EXPECT_EQ(head(2), 0u);
}

TEST_F(NqBlockTest, SizeStartsTheRingAnew) {
  ring(4, bench_.host_address(0), 32);
  post(4, 1);
  bench_.queue.run_all();
  EXPECT_FALSE(post_phase(4));
  ring(4, bench_.host_address(0), 32);
  EXPECT_TRUE(post_phase(4));
}

TEST_F(NqBlockTest, ResetDropsRingsAndPosts) {
  ring(4, bench_.host_address(0), 64);
  post(4, 1);
  block_.reset();
  ring(4, bench_.host_address(0), 64);
  bench_.queue.run_all();
  EXPECT_EQ(entry(0).header, 0u);
  block_.reset();
  EXPECT_EQ(read32(block_, nq::kSet + 4 * nq::kSetStride + nq::kSetSize), 0u);
}

TEST_F(NqBlockTest, RegisterAccess) {
  EXPECT_EQ(read32(block_, 0), 0u);
  EXPECT_EQ(read32(block_, nq::kSet + 0x10), 0u);  // unspecified words of a set
  write32(block_, nq::kSet + nq::kSetHead, 64);    // read only
  EXPECT_EQ(head(0), 0u);
  uint8_t bytes[2] = {1, 1};
  EXPECT_TRUE(block_.access(nq::kSet, bytes, 2, true, false));
  EXPECT_EQ(read32(block_, nq::kSet), 0u);
  using Kind = hw::AccessLog::Kind;
  EXPECT_EQ(bench_.log.total(Kind::kPartial), 1u);
  EXPECT_EQ(bench_.log.total(Kind::kDenied), 1u);
  EXPECT_EQ(bench_.log.total(Kind::kUnknown), 2u);
}

TEST_F(NqBlockTest, NinetySixSetsAreIndependent) {
  for (uint32_t set = 0; set < nq::kSetCount; ++set) {
    ring(set, bench_.host_address(0x1000 + set * 128), 128);
  }
  for (uint32_t set = 0; set < nq::kSetCount; ++set) {
    for (uint32_t k = 0; k <= set % 3; ++k) post(set, set);
  }
  bench_.queue.run_all();
  for (uint32_t set = 0; set < nq::kSetCount; ++set) {
    EXPECT_EQ(head(set), 32 * (set % 3 + 1)) << set;
    EXPECT_EQ(entry(0x1000 + set * 128).payload, set);
    EXPECT_EQ(read32(block_, nq::kSet + set * nq::kSetStride + nq::kSetSize), 128u);
  }
}

// spec/hw-registers.md 5.3: the base is rewritten while the old ring is enabled. Between the three
// writes no entry may go to an address made of both bases, or past the end of the smaller new ring.
TEST_F(NqBlockTest, ANewRingOverTheOldOneTakesEffectWithItsSize) {
  ring(0, bench_.host_address(0x1000), 256);
  for (uint32_t i = 0; i < 3; ++i) post(0, i);
  bench_.queue.run_all();
  const uint64_t fresh = 0x100'4000;  // in HBM
  write32(block_, nq::kSet + nq::kSetBaseHi, static_cast<uint32_t>(fresh >> 32));
  post(0, 3);
  bench_.queue.run_all();
  write32(block_, nq::kSet + nq::kSetBaseLo, static_cast<uint32_t>(fresh));
  EXPECT_EQ(read32(block_, nq::kSet + nq::kSetBaseLo), fresh);
  post(0, 4);
  bench_.queue.run_all();
  EXPECT_EQ(entry(0x1060).payload, 3u);
  EXPECT_EQ(entry(0x1080).payload, 4u);
  EXPECT_EQ(head(0), 160u);
  write32(block_, nq::kSet + nq::kSetSize, 64);
  EXPECT_EQ(head(0), 0u);
  post(0, 5);
  bench_.queue.run_all();
  EXPECT_EQ(base::load<NqEntry>(bench_.fabric.direct(fresh, 32)).payload, 5u);
  EXPECT_TRUE(base::load<NqEntry>(bench_.fabric.direct(fresh, 32)).phase());
  EXPECT_EQ(entry(0x10A0).header, 0u);
}

TEST_F(NqBlockTest, DestroyedRingsReceiveNothing) {
  ring(0, bench_.host_address(0x1000), 64);
  post(0, 1);  // still on its way when the driver destroys the queue
  write32(block_, nq::kSet + nq::kSetBaseHi, 0);
  write32(block_, nq::kSet + nq::kSetBaseLo, 0);
  write32(block_, nq::kSet + nq::kSetSize, 0);
  bench_.queue.run_all();
  EXPECT_EQ(entry(0x1000).header, 0u);
  EXPECT_EQ(block_.dropped(), 1u);
}

}  // namespace
