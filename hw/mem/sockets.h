// TLM-2.0 at the fabric: the control plane between blocks is b_transport, immediate and without
// delay.
//
//   SocketFabric   a chip's Fabric with its sockets: `in` for initiators, map() for target sockets
//   BlockSocket    a target socket that hands transactions to a BusTarget
//
// Blocks are reached through b_transport; DMI pointers come from Fabric::direct. transport_dbg
// becomes a debug access.
#pragma once

#include <tlm_utils/multi_passthrough_initiator_socket.h>
#include <tlm_utils/multi_passthrough_target_socket.h>
#include <tlm_utils/simple_target_socket.h>
#include <tlm>

#include <memory>
#include <string>
#include <systemc>
#include <vector>

#include "hw/mem/fabric.h"

namespace hw {

// Performs a transaction on a BusTarget-like callable and sets its response.
template <typename Access>
void perform(tlm::tlm_generic_payload& trans, Access&& access) {
  const auto command = trans.get_command();
  if (trans.get_byte_enable_ptr() != nullptr ||
      trans.get_streaming_width() < trans.get_data_length()) {
    trans.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    return;
  }
  if (command == tlm::TLM_IGNORE_COMMAND) {
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return;
  }
  const bool ok = access(trans.get_address(), trans.get_data_ptr(), size_t{trans.get_data_length()},
                         command == tlm::TLM_WRITE_COMMAND);
  trans.set_response_status(ok ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
}

// A target socket in front of a block.
class BlockSocket : public tlm_utils::simple_target_socket<BlockSocket> {
 public:
  BlockSocket(const char* name, BusTarget& target)
      : tlm_utils::simple_target_socket<BlockSocket>(name), target_(target) {
    register_b_transport(this, &BlockSocket::b_transport);
    register_transport_dbg(this, &BlockSocket::transport_dbg);
  }
  BusTarget& target() { return target_; }

 private:
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time&) {
    perform(trans, [this](uint64_t a, uint8_t* data, size_t n, bool write) {
      return target_.access(a, data, n, write, false);
    });
  }
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) {
    perform(trans, [this](uint64_t a, uint8_t* data, size_t n, bool write) {
      return target_.access(a, data, n, write, true);
    });
    return trans.is_response_ok() ? trans.get_data_length() : 0;
  }

  BusTarget& target_;
};

class SocketFabric : public sc_core::sc_module {
 public:
  using TargetSocket = tlm::tlm_base_target_socket<>;

  SocketFabric(const sc_core::sc_module_name& name, const Fabric::Params& params,
               const TimingParams& timing, AccessLog& log);
  ~SocketFabric() override;

  // For initiators that speak TLM; others call fabric() directly.
  tlm_utils::multi_passthrough_target_socket<SocketFabric, 32, tlm::tlm_base_protocol_types, 0,
                                             sc_core::SC_ZERO_OR_MORE_BOUND>
      in;

  Fabric& fabric() { return fabric_; }
  // Puts the block behind `socket` at a device address, before the simulation starts. A socket may
  // appear in several windows. Behind a BlockSocket the block is called as its b_transport would,
  // without a transaction: there are several such accesses per DMA packet.
  [[nodiscard]] bool map(uint64_t device, uint64_t size, TargetSocket& socket, uint64_t base,
                         const std::string& name, Space space = Space::kRegister);

 private:
  class Route;
  void b_transport(int, tlm::tlm_generic_payload& trans, sc_core::sc_time&);
  unsigned transport_dbg(int, tlm::tlm_generic_payload& trans);

  Fabric fabric_;
  tlm_utils::multi_passthrough_initiator_socket<SocketFabric, 32, tlm::tlm_base_protocol_types, 0,
                                                sc_core::SC_ZERO_OR_MORE_BOUND>
      out_;
  std::vector<std::unique_ptr<Route>> routes_;
};

}  // namespace hw
