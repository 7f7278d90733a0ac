// The same engines inside a SystemC simulation: sockets, b_transport, the kernel's event queue.
// Each test runs in its own process (one elaboration per process).
#include <systemc>

#include "hw/dma/dma_module.h"
#include "hw/time/kernel_queue.h"
#include "tests/hw_dma/bench.h"
#include "tlm_utils/simple_initiator_socket.h"

namespace hw {
namespace {

struct Cpu : sc_core::sc_module {
  explicit Cpu(const sc_core::sc_module_name& name) : sc_module(name), out("out") {}
  tlm_utils::simple_initiator_socket<Cpu> out;

  tlm::tlm_response_status access(uint64_t address, uint32_t& value, bool write) {
    tlm::tlm_generic_payload trans;
    trans.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    trans.set_address(address);
    trans.set_data_ptr(reinterpret_cast<uint8_t*>(&value));
    trans.set_data_length(4);
    trans.set_streaming_width(4);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    out->b_transport(trans, delay);
    EXPECT_EQ(delay, sc_core::SC_ZERO_TIME);
    return trans.get_response_status();
  }
};

struct Chip {
  Chip()
      : queue("events"),
        fabric("fabric", {"d0", {}, 0}, timing, log),
        dma("dma", fabric.fabric(), queue, timing, counters, log, {}),
        cpu("cpu") {
    EXPECT_TRUE(dma.connect(fabric));
    cpu.out.bind(fabric.in);
  }
  TimingParams timing;
  AccessLog log;
  Counters counters;
  KernelQueue queue;
  SocketFabric fabric;
  DmaModule dma;
  Cpu cpu;
};

TEST(Sockets, RegistersMemoryAndErrors) {
  Chip chip;
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  const AddressMap& map = chip.fabric.fabric().address_map();
  uint32_t value = 0;
  EXPECT_EQ(chip.cpu.access(map.udma(33).device + udma::kM2sVersion, value, false),
            tlm::TLM_OK_RESPONSE);
  EXPECT_EQ(value, 4u);
  value = 0x1234;
  EXPECT_EQ(chip.cpu.access(map.hbm_base(1) + 0x1000, value, true), tlm::TLM_OK_RESPONSE);
  uint32_t back = 0;
  EXPECT_TRUE(chip.fabric.fabric().read32(map.hbm_base(1) + 0x1000, back));
  EXPECT_EQ(back, 0x1234u);
  EXPECT_EQ(chip.cpu.access(0x7'0000'0000, value, false), tlm::TLM_ADDRESS_ERROR_RESPONSE);
  EXPECT_FALSE(chip.fabric.map(map.udma(0).device, 4, chip.dma.registers, 0, "twice"));
}

TEST(Sockets, CopyInKernelTime) {
  Chip chip;
  Fabric& fabric = chip.fabric.fabric();
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  EXPECT_FALSE(sc_core::sc_pending_activity());  // an idle machine schedules nothing
  const uint64_t unit = fabric.address_map().udma(0).device;
  const Descriptor tx = desc::tx_copy(0x10'0000, 1700, 1);
  const Descriptor rx = desc::rx(0x20'0000, 1700, 1);
  std::memcpy(fabric.direct(0x30'0000, 16), &tx, 16);
  std::memcpy(fabric.direct(0x31'0000, 16), &rx, 16);
  std::memset(fabric.direct(0x10'0000, 1700), 0x77, 1700);
  for (const Half h : {kS2m, kM2s}) {
    uint32_t base = h == kM2s ? 0x30'0000 : 0x31'0000;
    uint32_t length = 64;
    uint32_t cfg = 0x0303'0000;
    uint32_t one = 1;
    const auto at = [&](uint32_t r) { return unit + (h == kM2s ? 0x1000u : 0x2'1000u) + r; };
    chip.cpu.access(at(udma::kM2sQRingBaseLo), base, true);
    chip.cpu.access(at(udma::kM2sQRingLength), length, true);
    chip.cpu.access(at(udma::kM2sQCfg), cfg, true);
    chip.cpu.access(at(udma::kM2sQTailInc), one, true);
  }
  // 770 ns to fetch, 1700 B at 17 B/ns, 1 ns for the buffer; sc_start stops short of its end time.
  sc_core::sc_start(sc_core::sc_time(871, sc_core::SC_NS));
  EXPECT_EQ(*fabric.direct(0x20'0000, 1), 0);
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_PS));
  EXPECT_EQ(std::memcmp(fabric.direct(0x10'0000, 1700), fabric.direct(0x20'0000, 1700), 1700), 0);
  EXPECT_FALSE(sc_core::sc_pending_activity());
  EXPECT_EQ(chip.queue.now(), 871'001u);
}

}  // namespace
}  // namespace hw

// Referred to by the SystemC library, hence visible.
__attribute__((visibility("default"))) int sc_main(int, char**) {
  return 0;  // the tests drive the kernel
}
