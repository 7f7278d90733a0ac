// What an initiator socket of somebody else's block reaches: every address that a DMA engine of the
// chip reaches, through the same resources. A transaction is cut into packets, which start when the
// one before has ended; each reserves its path, and the port's own rate, as a packet of a DMA
// engine does, in the one order of the event queue.
//
// A read finds what is there when its last byte has passed, and returns after the latency of its
// path; a write is there then (at another chip: one way later) and returns when it is acknowledged.
// A block that is reset has to invalidate nothing: what its threads have asked for is dropped with
// them. Direct pointers (DMI) lead to the memories of the own chip and pay for nothing.
#pragma once

#include <tlm_utils/simple_target_socket.h>
#include <tlm>

#include <cstdint>
#include <map>
#include <string>
#include <systemc>
#include <vector>

#include "hw/block/target_port.h"
#include "hw/mem/fabric.h"
#include "hw/time/bandwidth.h"
#include "hw/time/event_queue.h"

namespace hw {

class InitiatorPort final : public sc_core::sc_module, private EventSink {
 public:
  struct Params {
    std::string label;  // in reports
    base::Rate rate;
    uint32_t packet_bytes = 4096;
    uint32_t domain = Fabric::kNoDomain;
    uint32_t component = 0;
    bool background = false;
    bool timing_only = false;
  };
  InitiatorPort(const sc_core::sc_module_name& name, const Params& params,
                const PortContext& context, Fabric& fabric, Counters& counters);

  tlm_utils::simple_target_socket<InitiatorPort> in;

  BandwidthResource& resource() { return resource_; }
  // Every pointer that was granted is invalid from now on.
  void invalidate();
  // Tries again what has had no answer.
  void look_again();
  std::string waits() const;

 private:
  enum Tag : uint32_t { kTagStart, kTagEffect };
  // One packet; it lies on the stack of the thread that waits for it.
  struct Packet {
    uint64_t address = 0;
    uint8_t* data = nullptr;
    size_t bytes = 0;
    bool write = false;
    bool ok = false;
    bool outward = false;  // left to the thread
    base::Ps end = 0;
    sc_core::sc_event over;
  };
  class Registered;

  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay);
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi);
  unsigned transport_dbg(tlm::tlm_generic_payload& trans);
  bool transfer(uint64_t address, uint8_t* data, size_t size, bool write);
  bool perform(Packet& packet);
  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;
  void start(const EventKey& key, uint64_t id, Packet& packet);
  void effect(Packet& packet);
  bool access(Packet& packet);
  void track_elision(const Packet& packet);

  Params params_;
  PortContext context_;
  Fabric& fabric_;
  Counters& counters_;
  BandwidthResource resource_;
  Charges charges_;
  std::map<uint64_t, Packet*> packets_;  // by number: those that events belong to
  uint64_t next_ = 0;
  sc_core::sc_event answered_;  // a way may be there again
  uint64_t unanswered_ = 0;
};

}  // namespace hw
