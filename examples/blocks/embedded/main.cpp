// The machine inside another virtual platform: a small CPU model finds the PCIe function, programs
// its base address registers, and has a DMA engine copy from host memory to device memory and back.
// The host's memory is a plain TLM target without direct pointers, 5 ns for each access.
//
// Exit status: 0 if the bytes have come back.
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <systemc>
#include <tlm>
#include <vector>

#include "soma/machine.h"

namespace {

class Memory : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Memory> port{"port"};
  std::vector<uint8_t> bytes = std::vector<uint8_t>(1 << 20);

  explicit Memory(const sc_core::sc_module_name& name) : sc_module(name) {
    port.register_b_transport(this, &Memory::b_transport);
    port.register_transport_dbg(this, &Memory::transport_dbg);
  }

 private:
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
    transport_dbg(trans);
    delay += sc_core::sc_time(5, sc_core::SC_NS);
  }
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) {
    const uint64_t at = trans.get_address();
    const unsigned n = trans.get_data_length();
    if (at > bytes.size() || n > bytes.size() - at) {
      trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return 0;
    }
    if (trans.is_write()) {
      std::memcpy(&bytes[at], trans.get_data_ptr(), n);
    } else {
      std::memcpy(trans.get_data_ptr(), &bytes[at], n);
    }
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return n;
  }
};

// Addresses and descriptors: docs/hardware-contract.md 1 and 6, docs/spec.
constexpr uint64_t kHostWindow = uint64_t{1} << 44;
constexpr uint64_t kRegisterBar = 0x1'0000'0000;  // where this host maps them
constexpr uint64_t kHbmBar = 0x10'0000'0000;
constexpr uint64_t kEngine = 0x3000'0000;  // DMA engine 0 in BAR 0
constexpr uint32_t kTx = 0x1000;           // its first queue, M2S
constexpr uint32_t kRx = 0x2'1000;         // and S2M

struct Descriptor {
  uint32_t w0, w1;
  uint64_t address;
};

class Cpu : public sc_core::sc_module {
 public:
  SC_HAS_PROCESS(Cpu);
  tlm_utils::simple_initiator_socket<Cpu> config{"config"};
  tlm_utils::simple_initiator_socket<Cpu> memory{"memory"};
  bool equal = false;

  Cpu(const sc_core::sc_module_name& name, std::vector<uint8_t>& dram)
      : sc_module(name), dram_(dram) {
    SC_THREAD(run);
  }

 private:
  template <typename Socket, typename Value>
  void access(Socket& socket, uint64_t address, Value& value, bool write) {
    tlm::tlm_generic_payload trans;
    trans.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    trans.set_address(address);
    trans.set_data_ptr(reinterpret_cast<uint8_t*>(&value));
    trans.set_data_length(sizeof value);
    trans.set_streaming_width(sizeof value);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->b_transport(trans, delay);
    wait(delay);
    if (trans.is_response_error()) SC_REPORT_ERROR("cpu", trans.get_response_string().c_str());
  }
  void configure(uint32_t offset, uint32_t value) { access(config, offset, value, true); }
  uint32_t configuration(uint32_t offset) {
    uint32_t value = 0;
    access(config, offset, value, false);
    return value;
  }
  void put(uint64_t offset, uint32_t value) { access(memory, kRegisterBar + offset, value, true); }
  uint32_t get(uint64_t offset) {
    uint32_t value = 0;
    access(memory, kRegisterBar + offset, value, false);
    return value;
  }

  // One packet over queue 0 of engine 0; rings of 64 descriptors at 0x1000 and 0x2000 of the host.
  void copy(uint64_t to, uint64_t from, uint32_t bytes) {
    const uint32_t index = copies_++;
    const Descriptor tx{bytes | 1u << 26 | 1u << 27 | 1u << 24, 0x0108'0003, from};
    const Descriptor rx{bytes | 1u << 24, 0, to};
    std::memcpy(&dram_[0x1000 + index * sizeof tx], &tx, sizeof tx);
    std::memcpy(&dram_[0x2000 + index * sizeof rx], &rx, sizeof rx);
    for (const uint32_t half : {kRx, kTx}) put(kEngine + half + 0x38, 1);  // doorbells
    while ((get(kEngine + kRx + 0x40) & 0xFFFFFF) != copies_) wait(100, sc_core::SC_NS);
  }

  void run() {
    std::printf("vendor and device: %08x\n", configuration(0));
    configure(0x10, static_cast<uint32_t>(kRegisterBar));
    configure(0x14, static_cast<uint32_t>(kRegisterBar >> 32));
    configure(0x20, static_cast<uint32_t>(kHbmBar));
    configure(0x24, static_cast<uint32_t>(kHbmBar >> 32));
    configure(0x04, 6);  // memory space, bus mastering
    for (const uint32_t half : {kRx, kTx}) {
      put(kEngine + half + 0x28, half == kTx ? 0x1000 : 0x2000);
      put(kEngine + half + 0x2C, static_cast<uint32_t>(kHostWindow >> 32));
      put(kEngine + half + 0x30, 64);
      put(kEngine + half + 0x20, 0x0303'0000);
    }
    constexpr uint32_t kBytes = 32768;
    for (uint32_t i = 0; i < kBytes; ++i)
      dram_[0x10000 + i] = static_cast<uint8_t>(i * 7 + i / 256);
    const sc_core::sc_time begin = sc_core::sc_time_stamp();
    copy(0x40'0000, kHostWindow + 0x10000, kBytes);
    copy(kHostWindow + 0x20000, 0x40'0000, kBytes);
    uint32_t word = 0;
    access(memory, kHbmBar + 0x40'0000, word, false);  // the same through BAR 4
    equal = std::memcmp(&dram_[0x10000], &dram_[0x20000], kBytes) == 0 &&
            std::memcmp(&word, &dram_[0x10000], sizeof word) == 0;
    std::printf("%u bytes there and back: %s, %.3f us\n", kBytes, equal ? "equal" : "WRONG",
                (sc_core::sc_time_stamp() - begin).to_seconds() * 1e6);
    sc_core::sc_stop();
  }

  std::vector<uint8_t>& dram_;
  uint32_t copies_ = 0;
};

}  // namespace

int sc_main(int, char**) {
  soma::Machine::Params params;
  params.platform = "trn1.2xlarge";
  soma::Machine machine("machine", params);
  Memory dram("dram");
  Cpu cpu("cpu", dram.bytes);
  cpu.config.bind(machine.config[0]);
  cpu.memory.bind(machine.memory[0]);
  machine.host[0].bind(dram.port);
  sc_core::sc_start(1, sc_core::SC_MS);
  if (!machine.error().empty()) std::fprintf(stderr, "%s\n", machine.error().c_str());
  for (const std::string& line : machine.waiting()) std::fprintf(stderr, "%s\n", line.c_str());
  return cpu.equal ? 0 : 1;
}
