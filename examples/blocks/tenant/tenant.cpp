// Another tenant of a chip: reads device memory at a steady rate, whatever else goes on.
//
// A platform file gives it `gbps` (GB/s), `bytes` of each read, and the `address` from which it
// reads 1 MiB over and over. `depth` reads are on their way at once, so that the rate holds while
// others make it wait. Put into the platform with "background": true it never keeps the machine
// from rest.
#define SC_INCLUDE_DYNAMIC_PROCESSES  // sc_spawn
#include <tlm_utils/simple_initiator_socket.h>

#include <cstdint>
#include <stdexcept>
#include <systemc>
#include <tlm>
#include <vector>

#include "soma/block.h"

namespace {

class Tenant : public sc_core::sc_module {
 public:
  SC_HAS_PROCESS(Tenant);
  tlm_utils::simple_initiator_socket<Tenant> memory{"memory"};

  Tenant(const sc_core::sc_module_name& name, soma::Host& host) : sc_module(name) {
    const soma::Parameters& p = host.parameters();
    bytes_ = static_cast<unsigned>(p.integer("bytes", 4096));
    base_ = p.integer("address", 0);
    const double gbps = p.number("gbps", 1.0);
    const uint64_t depth = p.integer("depth", 256);
    if (gbps <= 0 || bytes_ == 0 || depth == 0) throw std::invalid_argument("needs traffic");
    period_ = sc_core::sc_time(bytes_ / gbps, sc_core::SC_NS);
    for (uint64_t i = 0; i < depth; ++i) {
      sc_core::sc_spawn([this, i, depth] { read(i, depth); });
    }
  }

 private:
  static constexpr uint64_t kRange = 1 << 20;

  // Every depth-th read.
  void read(uint64_t first, uint64_t step) {
    std::vector<uint8_t> data(bytes_);
    sc_core::sc_time next = period_ * static_cast<double>(first);
    for (uint64_t n = first;; n += step, next += period_ * static_cast<double>(step)) {
      const sc_core::sc_time now = sc_core::sc_time_stamp();
      if (next > now) wait(next - now);
      tlm::tlm_generic_payload trans;
      trans.set_command(tlm::TLM_READ_COMMAND);
      trans.set_address(base_ + n * bytes_ % kRange);
      trans.set_data_ptr(data.data());
      trans.set_data_length(bytes_);
      trans.set_streaming_width(bytes_);
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      memory->b_transport(trans, delay);
      if (trans.is_response_error()) SC_REPORT_ERROR("tenant", "nothing to read at its address");
    }
  }

  unsigned bytes_ = 0;
  uint64_t base_ = 0;
  sc_core::sc_time period_;
};

}  // namespace

SOMA_BLOCK(tenant, Tenant)
