// A checksum engine for a Soma chip: CRC-32 (IEEE 802.3, as zlib's crc32) of a range of device
// memory.
//
// Software writes source, destination, length and start (a NEFF does so with WRITE), the engine's
// own thread reads the source, writes 4 bytes of result, and raises its line, which the platform
// file connects to a semaphore. Time: reads and the write pay for the ways that they take; the
// arithmetic takes a clock cycle of `ghz` per 8 bytes. With "dmi": true it reads through a direct
// pointer instead, which only takes the latency that the pointer was granted with.
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <systemc>
#include <tlm>
#include <vector>

#include "soma/block.h"

namespace {

class Checksum : public sc_core::sc_module {
 public:
  SC_HAS_PROCESS(Checksum);
  tlm_utils::simple_target_socket<Checksum> registers{"registers"};
  tlm_utils::simple_initiator_socket<Checksum> memory{"memory"};
  sc_core::sc_out<bool> done{"done"};

  Checksum(const sc_core::sc_module_name& name, soma::Host& host)
      : sc_module(name),
        host_(host),
        dmi_allowed_(host.parameters().flag("dmi", false)),
        cycle_(1.0 / host.parameters().number("ghz", 1.0), sc_core::SC_NS) {
    registers.register_b_transport(this, &Checksum::b_transport);
    registers.register_transport_dbg(this, &Checksum::transport_dbg);
    memory.register_invalidate_direct_mem_ptr(this, &Checksum::invalidate);
    SC_THREAD(run);
  }

 private:
  // Offsets of the registers; the first two take 8 bytes, the others 4.
  struct Registers {
    uint64_t source = 0;
    uint64_t destination = 0;
    uint32_t length = 0;
    uint32_t start = 0;   // any write starts; reads 1 while at work
    uint32_t result = 0;  // of the last run
    uint32_t errors = 0;  // runs that met an address error
  };
  static constexpr size_t kChunk = 4096;

  unsigned transport_dbg(tlm::tlm_generic_payload& trans) {
    const uint64_t at = trans.get_address();
    const unsigned n = trans.get_data_length();
    if (at + n > sizeof state_) {
      trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return 0;
    }
    auto* there = reinterpret_cast<uint8_t*>(&state_) + at;
    if (trans.is_write()) {
      std::memcpy(there, trans.get_data_ptr(), n);
    } else {
      std::memcpy(trans.get_data_ptr(), there, n);
    }
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return n;
  }

  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
    constexpr uint64_t kStart = offsetof(Registers, start);
    const uint64_t at = trans.get_address();
    if (transport_dbg(trans) == 0) return;
    delay += cycle_;
    const bool starts = at <= kStart && kStart < at + trans.get_data_length();
    if (!trans.is_write() || !starts) return;
    state_.start = 1;
    host_.begin_work();  // until the result is there
    start_.notify(delay);
  }

  void run() {
    for (;;) {
      wait(start_);
      const bool ok = checksum();
      if (!ok) ++state_.errors;
      state_.start = 0;
      done.write(true);
      wait(cycle_);
      done.write(false);
      wait(cycle_);
      host_.end_work();
    }
  }

  bool checksum() {
    uint32_t crc = ~0u;
    std::vector<uint8_t> chunk(kChunk);
    for (uint64_t at = 0; at < state_.length; at += kChunk) {
      const auto n = static_cast<unsigned>(std::min<uint64_t>(kChunk, state_.length - at));
      if (!read(state_.source + at, chunk.data(), n)) return false;
      wait(cycle_ * ((n + 7) / 8));
      for (unsigned i = 0; i < n; ++i) crc = crc >> 8 ^ kTable[(crc ^ chunk[i]) & 0xFF];
    }
    state_.result = ~crc;
    return transport(tlm::TLM_WRITE_COMMAND, state_.destination,
                     reinterpret_cast<uint8_t*>(&state_.result), sizeof state_.result);
  }

  bool read(uint64_t address, uint8_t* to, unsigned n) {
    if (dmi_allowed_ && direct(address, n)) {
      std::memcpy(to, pointer_.get_dmi_ptr() + (address - pointer_.get_start_address()), n);
      wait(pointer_.get_read_latency());
      return true;
    }
    return transport(tlm::TLM_READ_COMMAND, address, to, n);
  }

  bool direct(uint64_t address, unsigned n) {
    const auto holds = [&] {
      return valid_ && pointer_.get_start_address() <= address &&
             address + n - 1 <= pointer_.get_end_address();
    };
    if (holds()) return true;
    tlm::tlm_generic_payload trans;
    trans.set_command(tlm::TLM_READ_COMMAND);
    trans.set_address(address);
    valid_ = memory->get_direct_mem_ptr(trans, pointer_) && pointer_.is_read_allowed();
    return holds();
  }
  void invalidate(sc_dt::uint64, sc_dt::uint64) { valid_ = false; }

  bool transport(tlm::tlm_command command, uint64_t address, uint8_t* data, unsigned n) {
    tlm::tlm_generic_payload trans;
    trans.set_command(command);
    trans.set_address(address);
    trans.set_data_ptr(data);
    trans.set_data_length(n);
    trans.set_streaming_width(n);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    memory->b_transport(trans, delay);
    wait(delay);
    return trans.is_response_ok();
  }

  static std::array<uint32_t, 256> make_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < table.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0xEDB8'8320u : 0u);
      table[i] = value;
    }
    return table;
  }
  const std::array<uint32_t, 256> kTable = make_table();

  soma::Host& host_;
  bool dmi_allowed_;
  sc_core::sc_time cycle_;
  sc_core::sc_event start_;
  Registers state_;
  tlm::tlm_dmi pointer_;
  bool valid_ = false;
};

}  // namespace

SOMA_BLOCK(checksum, Checksum)
