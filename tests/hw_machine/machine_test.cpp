#include "hw/machine/machine.h"

#include "arch/contract/cc_program.h"
#include "arch/contract/descriptor.h"
#include "arch/contract/isa.h"
#include "contract/regs/engine.h"
#include "tests/hw_machine/machine_bench.h"

namespace {

using contract::Gen;
using hw::RunOutcome;
using hw_test::MachineBench;
namespace cc = contract::cc;
namespace misc = contract::misc;
namespace sem = contract::sem;
namespace udma = contract::udma;

// spec/hw-registers.md 8.2: acknowledge polled every 100 ms.
bool reset_device(MachineBench& b, uint32_t request, uint32_t map_word = 0) {
  bool done = false;
  const RunOutcome outcome = b.run_task(
      [&] {
        b.put(b.misc(misc::kResetMap), map_word);
        b.put(b.misc(misc::kResetRequest), request);
        b.put(b.misc(misc::kTrigger), 1);
        EXPECT_EQ(b.get(b.misc(misc::kStatus)) & 8, 8u);
        for (int k = 0; k < 10 && b.get(b.misc(misc::kResetRequest)) != 0; ++k) {
          b.machine.executor().delay(100 * base::kPsPerMs);
        }
        done = b.get(b.misc(misc::kResetRequest)) == 0 && (b.get(b.misc(misc::kStatus)) & 8) == 0;
      },
      base::kPsPerS);
  EXPECT_EQ(outcome, RunOutcome::kQuiescent);
  return done;
}

TEST(Machine, ProbeAndDeviceReset) {
  MachineBench b;
  EXPECT_EQ(b.machine.device(0).identity().vendor, 0x1D0F);
  EXPECT_EQ(b.get(b.misc(misc::kRoutingId)), 0u);
  EXPECT_NE(b.get(b.misc(misc::kSerialLo)), 0u);
  b.put(b.misc(misc::kElectionStatus), 0x1234);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.now(), 0u);
  EXPECT_TRUE(reset_device(b, 1));
  EXPECT_EQ(b.get(b.misc(misc::kElectionStatus)), 0x1234u);
  EXPECT_EQ(b.machine.now(), 100 * base::kPsPerMs);
}

// spec/hw-registers.md 10.5 on the engine and queue of 3.12, without the engine's configuration:
// the reset values of the model are usable.
void set_up_queue(MachineBench& b, uint64_t half, uint64_t ring, uint32_t length) {
  const uint64_t unit = b.map().udma(b.map().h2t_engine(0)).bar0;
  b.put(unit + udma::kM2sPktLenCfg, 0x10F'FFFF);  // length 0 is 64 KiB
  const uint64_t q = unit + half + udma::kM2sQ;
  b.put(q + udma::kM2sQRingBaseLo, static_cast<uint32_t>(ring));
  b.put(q + udma::kM2sQRingBaseHi, static_cast<uint32_t>(ring >> 32));
  b.put(q + udma::kM2sQRingLength, length);
  b.put(q + udma::kM2sQCfg, 0x303'0000);  // both enables
}

void put_descriptor(MachineBench& b, uint64_t phys, const contract::Descriptor& d) {
  std::memcpy(&b.host.bytes[phys], &d, sizeof d);
}

class HostCopy : public ::testing::TestWithParam<Gen> {};

TEST_P(HostCopy, ThroughBarRegisters) {
  MachineBench b(GetParam());
  b.host.bytes.resize(0x40000);
  ASSERT_TRUE(reset_device(b, 1));
  constexpr uint64_t kTx = 0x1000;
  constexpr uint64_t kRx = 0x2000;
  constexpr uint64_t kMarker = 0x3000;
  constexpr uint64_t kData = 0x10000;
  for (uint32_t i = 0; i < 0x10000; ++i) b.host.bytes[kData + i] = static_cast<uint8_t>(i * 7 + 1);
  base::store<uint32_t>(&b.host.bytes[kMarker], 0xABCD'EF01);
  using namespace contract::desc;  // NOLINT(google-build-using-namespace)
  const uint64_t hbm = b.map().hbm_base(0) + contract::kFirmwareReserved;
  put_descriptor(b, kTx, tx_copy(b.host_address(kData), kMaxLength, 1, kFirst | kLast, true));
  put_descriptor(b, kTx + 16, tx_copy(b.host_address(kMarker), 4, 1));
  put_descriptor(b, kRx, rx(hbm, kMaxLength, 1));
  put_descriptor(b, kRx + 16, rx(b.host_address(kMarker + 4), 4, 1));
  set_up_queue(b, 0, b.host_address(kTx), 64);
  set_up_queue(b, contract::kS2mOffset, b.host_address(kRx), 64);
  const uint64_t doorbell =
      b.map().udma(b.map().h2t_engine(0)).bar0 + udma::kM2sQ + udma::kM2sQTailInc;
  b.put(doorbell + contract::kS2mOffset, 2);
  b.put(doorbell, 2);
  const base::Ps before = b.machine.now();
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_GT(b.machine.now(), before);
  EXPECT_EQ(base::load<uint32_t>(&b.host.bytes[kMarker + 4]), 0xABCD'EF01u);
  std::vector<uint8_t> read(0x10000);
  b.machine.device(0).bar_read(4, contract::kFirmwareReserved, read);
  EXPECT_EQ(std::memcmp(read.data(), &b.host.bytes[kData], read.size()), 0);
  EXPECT_FALSE(b.machine.error().has_value());
}

INSTANTIATE_TEST_SUITE_P(Generations, HostCopy, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

contract::cc_program::Record rec(contract::cc_program::Op op, uint32_t imm = 0,
                                 uint64_t address = 0) {
  contract::cc_program::Record r;
  r.op = static_cast<uint8_t>(op);
  r.imm = imm;
  r.address = address;
  return r;
}

void load_cc(MachineBench& b, uint32_t t,
             const std::vector<contract::cc_program::Record>& program) {
  const contract::Window w = b.map().topsp(t);
  std::vector<uint8_t> bytes(program.size() * 16);
  std::memcpy(bytes.data(), program.data(), bytes.size());
  b.machine.device(0).bar_write(0, w.bar0 + contract::topsp::kProgram, bytes);
  b.put(w.bar0 + cc::kControl, 1);
  b.put(w.bar0 + cc::kTrigger, 0);
}

TEST(Machine, BarriersOpenWhenTheMachineRests) {
  using contract::cc_program::Op;
  MachineBench b;
  const uint64_t cell = b.map().topsp(2).device + cc::kBarrier;
  const uint64_t count = b.map().topsp(2).device + sem::kInc;
  load_cc(b, 0, {rec(Op::kBarrier, 2, cell), rec(Op::kSemAdd, 1, count), rec(Op::kDone)});
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  const std::vector<std::string> waits = b.machine.who_waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0],
            "d0.cc0 waits for barrier cell 0 of d0.cc2, where 1 of 2 have arrived, in operation 0 "
            "at record 0");
  base::Ps task_end = 0;
  base::Ps planned = 0;
  b.machine.after_release(base::ns(50), [&] { planned = b.machine.now(); });
  load_cc(b, 3, {rec(Op::kBarrier, 2, cell), rec(Op::kSemAdd, 1, count), rec(Op::kDone)});
  // Something else is still going on: the barrier waits for it.
  EXPECT_EQ(b.run_task([&] {
    b.machine.executor().delay(base::us(50));
    EXPECT_EQ(b.get(b.map().topsp(2).bar0 + sem::kRead), 0u);
    task_end = b.machine.now();
  }),
            RunOutcome::kQuiescent);
  EXPECT_EQ(b.get(b.map().topsp(2).bar0 + sem::kRead), 2u);
  EXPECT_EQ(b.machine.barrier_releases(), 1u);
  // 100 ns to open, 20 for the record, 20 for the add, 20 for DONE.
  EXPECT_EQ(b.machine.now() - task_end, base::ns(160));
  EXPECT_EQ(planned - task_end, base::ns(50));
  EXPECT_TRUE(b.machine.who_waits().empty());
}

TEST(Machine, HangReportNamesEngineAndSemaphore) {
  MachineBench b;
  namespace isa = contract::isa;
  isa::Instruction i{};
  i.opcode = isa::Opcode::kNop;
  i.wait = {isa::WaitCond::kGe, false, 17, 3};
  uint8_t record[64];
  ASSERT_EQ(isa::encode(i, record, sizeof record), 1u);
  b.machine.device(0).bar_write(4, 0x200'0000, {record, 64});
  const uint64_t engine =
      b.map().nc(1).bar0 + contract::tpb::kEngine + contract::kDve * contract::tpb::kEngineStride;
  b.put(engine + contract::engine::kProgramLo, 0x200'0000);
  b.put(engine + contract::engine::kProgramCount, 1);
  b.put(engine + contract::engine::kControl, 1);
  b.put(b.map().nc(1).bar0 + contract::tpb::kSemaphores + sem::kInc + 4 * 17, 2);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(
      b.machine.who_waits(),
      std::vector<std::string>{"d0.nc1.dve waits for semaphore 17 >= 3, which is 2, at pc 0"});
}

TEST(Machine, HangReportNamesDmaQueues) {
  MachineBench b;
  b.host.bytes.resize(0x10000);
  const contract::Descriptor d = contract::desc::tx_copy(b.host_address(0), 64, 1);
  put_descriptor(b, 0x1000, d);
  set_up_queue(b, 0, b.host_address(0x1000), 64);
  set_up_queue(b, contract::kS2mOffset, b.host_address(0x2000), 64);
  b.put(b.map().udma(b.map().h2t_engine(0)).bar0 + udma::kM2sQ + udma::kM2sQTailInc, 1);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.who_waits(),
            std::vector<std::string>{"d0.dma32.q0 waits with 1 send and 0 receive descriptors"});
  // A descriptor of another lap aborts the engine.
  put_descriptor(b, 0x2000, contract::desc::rx(b.host_address(0), 64, 2));
  b.put(b.map().udma(b.map().h2t_engine(0)).bar0 + contract::kS2mOffset + udma::kM2sQ +
            udma::kM2sQTailInc,
        1);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  ASSERT_FALSE(b.machine.who_waits().empty());
  EXPECT_EQ(b.machine.who_waits()[0], "d0.dma32 has aborted, M2S cause 0x0, S2M cause 0x800");
}

TEST(Machine, SliceExpiresOnAnEndlessLoop) {
  using contract::cc_program::Op;
  MachineBench b;
  load_cc(b, 0, {rec(Op::kBranch, 0)});
  EXPECT_EQ(b.machine.run_to_quiescence(base::us(10)), RunOutcome::kSliceExpired);
  EXPECT_LE(b.machine.now(), base::us(10));
  EXPECT_EQ(b.machine.run_to_quiescence(base::us(10)), RunOutcome::kSliceExpired);
  b.put(b.map().topsp(0).bar0 + cc::kControl, 4);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
}

// spec/hw-registers.md 6.3: programs reach a CC-core by DMA.
TEST(Machine, DmaLoadsCcPrograms) {
  MachineBench b;
  b.host.bytes.resize(0x10000);
  for (uint32_t i = 0; i < 256; ++i) b.host.bytes[0x4000 + i] = static_cast<uint8_t>(i + 1);
  const uint64_t program = b.map().topsp(1).device + contract::topsp::kProgram;
  put_descriptor(b, 0x1000, contract::desc::tx_copy(b.host_address(0x4000), 256, 1));
  put_descriptor(b, 0x2000, contract::desc::rx(program + 32, 256, 1));
  set_up_queue(b, 0, b.host_address(0x1000), 64);
  set_up_queue(b, contract::kS2mOffset, b.host_address(0x2000), 64);
  const uint64_t doorbell =
      b.map().udma(b.map().h2t_engine(0)).bar0 + udma::kM2sQ + udma::kM2sQTailInc;
  b.put(doorbell + contract::kS2mOffset, 1);
  b.put(doorbell, 1);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_TRUE(b.machine.who_waits().empty());
  EXPECT_EQ(b.get(b.map().topsp(1).bar0 + contract::topsp::kProgram + 32), 0x0403'0201u);
  EXPECT_EQ(b.get(b.map().topsp(1).bar0 + contract::topsp::kProgram + 32 + 252), 0x00FF'FEFDu);
}

TEST(Machine, SlicesReachAFarEvent) {
  MachineBench b;
  bool done = false;
  b.machine.executor().spawn("far", [&] {
    b.machine.executor().delay(base::us(35));
    done = true;
  });
  for (base::Ps t = 10; t <= 30; t += 10) {
    EXPECT_EQ(b.machine.run_to_quiescence(base::us(10)), RunOutcome::kSliceExpired);
    EXPECT_EQ(b.machine.now(), base::us(t));
  }
  EXPECT_FALSE(done);
  EXPECT_EQ(b.machine.run_to_quiescence(base::us(10)), RunOutcome::kQuiescent);
  EXPECT_TRUE(done);
  EXPECT_EQ(b.machine.now(), base::us(35));
}

TEST(Machine, CoreResetStopsItsBlocksOnly) {
  using contract::cc_program::Op;
  MachineBench b;
  const uint64_t nowhere = b.map().topsp(2).device + cc::kBarrier;
  load_cc(b, 1, {rec(Op::kBarrier, 5, nowhere), rec(Op::kDone)});
  load_cc(b, 4, {rec(Op::kBarrier, 5, nowhere), rec(Op::kDone)});
  b.put(b.map().nc(0).bar0 + contract::tpb::kSemaphores + sem::kSet, 5);
  b.put(b.map().nc(1).bar0 + contract::tpb::kSemaphores + sem::kSet, 6);
  b.run();
  ASSERT_TRUE(reset_device(b, 2, 0x0701));
  EXPECT_EQ(b.get(b.map().nc(0).bar0 + contract::tpb::kSemaphores + sem::kRead), 0u);
  EXPECT_EQ(b.get(b.map().nc(1).bar0 + contract::tpb::kSemaphores + sem::kRead), 6u);
  EXPECT_EQ(b.get(b.map().topsp(1).bar0 + cc::kStatus),
            static_cast<uint32_t>(contract::CcStatus::kReset));
  EXPECT_EQ(b.get(b.map().topsp(4).bar0 + cc::kStatus),
            static_cast<uint32_t>(contract::CcStatus::kWaiting));
  EXPECT_EQ(b.get(b.map().topsp(2).bar0 + cc::kBarrier), 1u);
}

TEST(Machine, QemuRevisionMovesTheRegisterBar) {
  MachineBench b(Gen::kV2, 1, [](hw::MachineParams& p) { p.revision = 0xFF; });
  pcie::Device& device = b.machine.device(0);
  EXPECT_EQ(device.identity().bar_size[0], 0u);
  EXPECT_EQ(device.identity().bar_size[2], 1ull << 30);
  const uint64_t reset = b.map().qemu_reset().bar0;
  EXPECT_EQ(device.read32(2, reset), 0u);
  device.write32(2, reset, 1);
  EXPECT_EQ(device.read32(2, reset), 1u);
  b.run();
  EXPECT_EQ(device.read32(2, reset), 0u);
}

TEST(Machine, MappedSemaphorePageIsLive) {
  MachineBench b;
  const uint64_t block = b.map().nc(1).bar0 + contract::tpb::kSemaphores;
  const auto mapping = b.machine.device(0).bar_map(0, block, 0x2000);
  ASSERT_TRUE(mapping.ok());
  EXPECT_FALSE(mapping->writable);
  auto view = base::Mapping::map_shared(mapping->fd, mapping->fd_offset, 0x2000, true);
  ASSERT_TRUE(view.ok());
  b.put(block + sem::kSet + 4 * 3, 77);
  EXPECT_EQ(base::load<uint32_t>(view->data() + sem::kRead + 4 * 3), 77u);
  const auto window = b.machine.device(0).bar_map(0, b.map().topsp(0).bar0, 0x40'0000);
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(window->length, 0x40'0000u);
  EXPECT_FALSE(b.machine.device(0).bar_map(0, b.misc(0), 0x1000).ok());
}

TEST(Machine, PowerUserCanReadPeCountersAndUnknownSpace) {
  MachineBench b;
  EXPECT_EQ(b.get(b.map().pe_counters(0).bar0 + 0x100), 0u);
  EXPECT_EQ(b.machine.access_log().total(hw::AccessLog::Kind::kUnknown), 0u);
  EXPECT_EQ(b.get(0x3FFF'0000), 0u);
  b.put(0x3FFF'0000, 1);
  EXPECT_EQ(b.machine.access_log().total(hw::AccessLog::Kind::kUnknown), 2u);
}

}  // namespace

namespace {

struct Spans final : hw::Tracer {
  uint32_t track(const std::string& name) override {
    names.push_back(name);
    return static_cast<uint32_t>(names.size() - 1);
  }
  void span(uint32_t track, base::Ps begin, base::Ps end, const char* name, uint64_t,
            uint64_t) override {
    EXPECT_LT(begin, end);
    spans.push_back(names[track] + " " + name + " " + std::to_string(end - begin));
  }
  std::vector<std::string> names;
  std::vector<std::string> spans;
};

TEST(Machine, TracesEnginesAndCcCores) {
  using contract::cc_program::Op;
  Spans spans;
  MachineBench b(Gen::kV2, 1, [&](hw::MachineParams& p) { p.tracer = &spans; });
  load_cc(b, 5, {rec(Op::kSemWait, 1, 0), rec(Op::kDone)});
  b.run();
  const base::Ps waited = b.machine.now() - base::ns(100);
  b.run_task([&] {
    b.machine.executor().delay(base::ns(500));
    b.put(b.map().topsp(5).bar0 + sem::kInc, 1);
  });
  EXPECT_EQ(spans.names, std::vector<std::string>{"d0.cc5"});
  EXPECT_EQ(waited, 1u);
  EXPECT_EQ(spans.spans,
            (std::vector<std::string>{"d0.cc5 trigger 100000", "d0.cc5 semaphore wait 500001",
                                      "d0.cc5 semaphore wait 220000", "d0.cc5 done 20000"}));
}

}  // namespace
