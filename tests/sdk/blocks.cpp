// Blocks and policies that misbehave, each in the way that its platform file names: what the
// machine must say about code of others, and survive.
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

#include "soma/block.h"
#include "soma/policy.h"

namespace {

// "how": "constructor", "transport", "thread" (they throw), "fatal" (a report of that severity),
// "silent" (never answers); well-behaved without.
class Faulty : public sc_core::sc_module {
 public:
  SC_HAS_PROCESS(Faulty);
  tlm_utils::simple_target_socket<Faulty> registers{"registers"};
  tlm_utils::simple_initiator_socket<Faulty> memory{"memory"};
  sc_core::sc_out<bool> done{"done"};

  Faulty(const sc_core::sc_module_name& name, soma::Host& host) : sc_module(name), host_(host) {
    how_ = host.parameters().text("how", "");
    after_ = sc_core::sc_time(static_cast<double>(host.parameters().integer("after_us", 100)),
                              sc_core::SC_US);
    if (how_ == "constructor") throw std::runtime_error("has no mood for construction");
    registers.register_b_transport(this, &Faulty::b_transport);
    SC_THREAD(run);
  }

 private:
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time&) {
    if (how_ == "transport") throw std::runtime_error("has no mood for access");
    if (how_ == "silent") wait(never_);
    if (trans.is_read()) std::memset(trans.get_data_ptr(), 0x5A, trans.get_data_length());
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
  }

  void run() {
    const soma::Work work(host_);
    wait(after_);
    if (how_ == "thread") throw std::runtime_error("has no mood for work");
    if (how_ == "fatal") SC_REPORT_FATAL("faulty", "has no mood for anything");
  }

  soma::Host& host_;
  std::string how_;
  sc_core::sc_time after_;
  sc_core::sc_event never_;
};

// Every chip is next to every other, it says.
class Astray : public soma::Routing {
 public:
  std::vector<uint32_t> route(uint32_t from, uint32_t to) override { return {from, to}; }
};

class Idle : public soma::QueueArbiter {
 public:
  uint32_t next(uint32_t waiting, uint32_t, const uint8_t*) override {
    uint32_t queue = 0;
    while ((waiting >> queue & 1) != 0) ++queue;
    return queue;
  }
};

class Backwards : public soma::LinkArbiter {
 public:
  uint64_t serve(uint64_t now, uint64_t, uint32_t) override { return now - 1; }
};

}  // namespace

SOMA_BLOCK(faulty, Faulty)
SOMA_ROUTING(astray, Astray)
SOMA_QUEUE_ARBITER(idle, Idle)
SOMA_LINK_ARBITER(backwards, Backwards)
