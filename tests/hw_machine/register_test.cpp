// Every register of NeuronCores, CC-cores and notification blocks on every generation, through BAR
// 0, and what stands between them (spec/hw-registers.md 0.2 rules 2 and 12).
#include <algorithm>
#include <string>
#include <vector>

#include "arch/contract/descriptor.h"
#include "contract/regs/engine.h"
#include "contract/regs/nq.h"
#include "tests/hw_dma/register_walk.h"
#include "tests/hw_machine/machine_bench.h"

namespace {

using contract::Gen;
using hw::AccessLog;
using hw_test::MachineBench;
using hw_test::RegisterWalk;
namespace tpb = contract::tpb;

class MachineRegisters : public ::testing::TestWithParam<Gen> {
 protected:
  RegisterWalk walk(uint64_t bar0) {
    RegisterWalk w;
    w.gen = static_cast<uint8_t>(GetParam());
    w.read = [this, bar0](uint64_t at) { return b.get(bar0 + at); };
    w.write = [this, bar0](uint64_t at, uint32_t value) { b.put(bar0 + at, value); };
    return w;
  }
  template <size_t N>
  static void mark(std::vector<bool>& known, const contract::RegInfo (&regs)[N]) {
    for (const contract::RegInfo& r : regs) {
      for (uint32_t k = 0; k < r.count; ++k) {
        const uint64_t word = (r.offset + uint64_t{k} * r.stride) / 4;
        if (word < known.size()) known[word] = true;
      }
    }
  }
  // Words of a block that its table does not name: read 0, ignore writes, are counted.
  template <size_t N>
  void sweep(uint64_t bar0, uint64_t size, const contract::RegInfo (&regs)[N], uint64_t after = 0) {
    std::vector<bool> known(size / 4);
    mark(known, regs);
    uint64_t unknown = 0;
    const uint64_t before = log().total(AccessLog::Kind::kUnknown);
    for (uint64_t at = after; at < size; at += 4) {
      if (known[at / 4]) continue;
      b.put(bar0 + at, 0xFFFF'FFFF);
      if (b.get(bar0 + at) != 0) ADD_FAILURE() << std::hex << bar0 + at;
      unknown += 2;
    }
    EXPECT_EQ(log().total(AccessLog::Kind::kUnknown) - before, unknown);
  }
  const AccessLog& log() { return b.machine.access_log(); }

  MachineBench b{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Generations, MachineRegisters,
                         ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4), [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

TEST_P(MachineRegisters, SemaphoreBlocks) {
  const uint32_t n = b.map().ncs() - 1;
  const uint32_t t = b.map().topsps() - 1;
  for (const uint64_t bar0 : {b.map().nc(n).bar0 + tpb::kSemaphores, b.map().topsp(t).bar0}) {
    RegisterWalk w = walk(bar0);
    w.acting = {"event_value"};  // 0 or 1
    w.walk(contract::sem::kRegs);
    for (const uint32_t value : {5u, 0u, 1u}) {
      w.write(4 * 255, value);
      EXPECT_EQ(w.read(4 * 255), value != 0 ? 1u : 0u);
    }
    // The walk ended with 0 through the set alias and increments and decrements that cancel out.
    EXPECT_EQ(w.read(contract::sem::kRead + 4 * 7), 0u);
    sweep(bar0, contract::kSemaphoreBlock, contract::sem::kRegs);
  }
}

TEST_P(MachineRegisters, EngineBlocks) {
  for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
    const uint64_t bar0 = b.map().nc(0).bar0 + tpb::kEngine + e * tpb::kEngineStride;
    RegisterWalk w = walk(bar0);
    w.acting = {"control"};
    w.walk(contract::engine::kRegs);
    if (e == 0) sweep(bar0, tpb::kEngineBlock, contract::engine::kRegs);
  }
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
}

TEST_P(MachineRegisters, CcCoreWindows) {
  const uint64_t bar0 = b.map().topsp(b.map().topsps() - 1).bar0;
  RegisterWalk w = walk(bar0);
  w.acting = {"trigger", "control"};
  w.walk(contract::cc::kRegs);
  sweep(bar0, contract::cc::kOp, contract::cc::kRegs, contract::topsp::kControl);
  w.write(contract::topsp::kProgram, 0x1234'5678);  // memory
  EXPECT_EQ(w.read(contract::topsp::kProgram), 0x1234'5678u);
  w.write(contract::topsp::kProgram + contract::topsp::kProgramBytes, 1);
  EXPECT_EQ(w.read(contract::topsp::kProgram + contract::topsp::kProgramBytes), 0u);
}

TEST_P(MachineRegisters, NotificationBlocks) {
  const uint32_t n = b.map().ncs() - 1;
  const uint32_t t = b.map().topsps() - 1;
  for (const uint64_t bar0 : {b.map().nc_nq(n).bar0, b.map().topsp_nq(t).bar0}) {
    walk(bar0).walk(contract::nq::kRegs);
    sweep(bar0, contract::kNqBlock, contract::nq::kRegs);
  }
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
}

// spec/hw-registers.md 3.6, "DMA writes as signals": every alias of a semaphore block by a 4-byte
// copy.
TEST_P(MachineRegisters, SemaphoresAndEventsByDma) {
  namespace sem = contract::sem;
  namespace udma = contract::udma;
  namespace desc = contract::desc;
  const uint64_t cores[2] = {b.map().nc_semaphores(b.map().ncs() - 1),
                             b.map().topsp_semaphores(b.map().topsps() - 1)};
  const uint64_t unit = b.map().udma(b.map().compute_engines() - 1).bar0;
  constexpr uint64_t kRings[2] = {0x1000, 0x2000};  // in host memory
  constexpr uint64_t kValues = 0x3000;
  constexpr uint64_t kBack = 0x4000;
  uint32_t n = 0;
  const auto copy = [&](uint64_t from, uint64_t to, uint32_t bytes) {
    const contract::Descriptor rows[2] = {desc::tx_copy(from, bytes, 1), desc::rx(to, bytes, 1)};
    for (uint32_t h = 0; h < 2; ++h) base::store(&b.host.bytes[kRings[h] + 16 * n], rows[h]);
    ++n;
  };
  for (uint32_t k = 0; k < 2; ++k) {
    const auto store = [&](uint64_t offset, uint32_t value) {
      const uint64_t at = kValues + 4 * n;
      base::store(&b.host.bytes[at], value);
      copy(b.host_address(at), cores[k] + offset, 4);
    };
    store(sem::kSet + 4 * 200, 40);
    store(sem::kInc + 4 * 200, 5);
    store(sem::kDec + 4 * 200, 3);
    store(sem::kRead + 4 * 200, 99);  // ignored
    store(sem::kDec + 4 * 201, 1);    // wraps
    store(sem::kEvent + 4 * 255, 1);
    store(sem::kEvent + 4 * 254, 1);
    store(sem::kEvent + 4 * 254, 0);
    copy(cores[k] + sem::kRead + 4 * 200, b.host_address(kBack + 8 * k), 8);
  }
  for (uint32_t h = 0; h < 2; ++h) {
    const uint64_t queue = unit + h * contract::kS2mOffset + udma::kM2sQ;
    const uint64_t ring = b.host_address(kRings[h]);
    b.put(queue + udma::kM2sQRingBaseLo, static_cast<uint32_t>(ring));
    b.put(queue + udma::kM2sQRingBaseHi, static_cast<uint32_t>(ring >> 32));
    b.put(queue + udma::kM2sQRingLength, 64);
    b.put(queue + udma::kM2sQCfg, 0x0303'0000);
  }
  for (const uint64_t half : {contract::kS2mOffset, uint64_t{0}}) {
    b.put(unit + half + udma::kM2sQ + udma::kM2sQTailInc, n);
  }
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
  const uint64_t seen[2] = {b.map().nc(b.map().ncs() - 1).bar0 + tpb::kSemaphores,
                            b.map().topsp(b.map().topsps() - 1).bar0};
  for (uint32_t k = 0; k < 2; ++k) {
    EXPECT_EQ(b.get(seen[k] + sem::kRead + 4 * 200), 42u) << k;
    EXPECT_EQ(b.get(seen[k] + sem::kRead + 4 * 201), 0xFFFF'FFFFu) << k;
    EXPECT_EQ(b.get(seen[k] + sem::kEvent + 4 * 255), 1u) << k;
    EXPECT_EQ(b.get(seen[k] + sem::kEvent + 4 * 254), 0u) << k;
  }
  EXPECT_EQ(b.get(unit + udma::kM2sState), 0u);
  EXPECT_EQ(log().total(AccessLog::Kind::kDenied), 2u);
}

// Wherever it reads, software gets an answer, which is never the one that means "not ready".
TEST_P(MachineRegisters, AScanOfTheWholeBar) {
  constexpr uint64_t kStep = 0x8004;
  for (uint64_t at = 0; at < b.map().bar0_size(); at += kStep) {
    if (b.get(at) == 0xDEAD'BEEF) ADD_FAILURE() << std::hex << at;
  }
  EXPECT_EQ(b.get(b.map().bar0_size() - 4), 0u);
  EXPECT_LE(log().entries().size(), 4 * (AccessLog::kDistinct + 2));
}

TEST_P(MachineRegisters, OddAccessesAreDefinedAndNamed) {
  pcie::Device& device = b.machine.device(0);
  const uint64_t queue = b.map().udma(5).bar0 + contract::udma::kM2sQ;
  const uint64_t base = queue + contract::udma::kM2sQRingBaseLo;
  const uint8_t eight[8] = {0xC0, 1, 2, 3, 4, 5, 6, 7};
  device.bar_write(0, base, {eight, 8});  // two words
  EXPECT_EQ(b.get(base), 0x0302'01C0u);
  EXPECT_EQ(b.get(base + 4), 0x0706'0504u);
  device.bar_write(0, base, {eight + 4, 2});  // less than a word, or not at one
  device.bar_write(0, base + 1, {eight + 4, 4});
  EXPECT_EQ(b.get(base), 0x0302'01C0u);
  uint8_t back[2] = {9, 9};
  device.bar_read(0, base + 2, {back, 2});
  EXPECT_EQ(back[0] | back[1], 0);
  b.put(queue + 4, 1);
  const auto& entries = log().entries();
  EXPECT_EQ(entries.count({"d0.dma5", AccessLog::Kind::kPartial, "0x01028", true}), 1u);
  EXPECT_EQ(entries.count({"d0.dma5", AccessLog::Kind::kPartial, "0x0102a", false}), 1u);
  EXPECT_EQ(entries.count({"d0.dma5", AccessLog::Kind::kUnknown, "0x01004", true}), 1u);
}

class InertWindows : public MachineRegisters {};
INSTANTIATE_TEST_SUITE_P(Generations, InertWindows, ::testing::Values(Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

TEST_P(InertWindows, TakeDmaAndAreCounted) {
  hw::Fabric& fabric = b.machine.chip(0).fabric();
  uint8_t bytes[64];
  std::fill(std::begin(bytes), std::end(bytes), uint8_t{7});
  for (uint32_t p = 0; p < b.map().preprocs(); ++p) {
    const contract::Window window = b.map().preproc(p);
    EXPECT_TRUE(fabric.write(window.device + window.size - 64, {bytes, 64}));
    EXPECT_FALSE(fabric.write(window.device + window.size, {bytes, 4}));
    EXPECT_TRUE(fabric.read(window.device, {bytes, 64}));
    EXPECT_EQ(*std::max_element(std::begin(bytes), std::end(bytes)), 0);
  }
  for (uint32_t s = 0; s < b.map().spare_topsps(); ++s) {
    const contract::Window window = b.map().spare_topsp(s);
    EXPECT_EQ(b.map().device_of_bar0(window.bar0), window.device);
    b.put(window.bar0, 1);
    EXPECT_EQ(b.get(window.bar0), 0u);
  }
  const uint64_t behind = b.map().spare_topsp(b.map().spare_topsps()).device;
  EXPECT_FALSE(fabric.write(behind, {bytes, 4}));
  EXPECT_EQ(log().total(AccessLog::Kind::kUnsupported), 4u * 2 + 4 * 2);
  EXPECT_EQ(log().total(AccessLog::Kind::kUnknown), 0u);
}

}  // namespace
