#include "hw/mem/sockets.h"

#include <algorithm>

namespace hw {

// A window's way from the plain fabric to the block's socket.
class SocketFabric::Route : public BusTarget {
 public:
  Route(SocketFabric& owner, TargetSocket& socket, int port)
      : owner_(owner), socket_(socket), port_(port) {}

  const TargetSocket* socket() const { return &socket_; }

  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override {
    tlm::tlm_generic_payload trans;
    trans.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    trans.set_address(offset);
    trans.set_data_ptr(data);
    trans.set_data_length(static_cast<unsigned>(size));
    trans.set_streaming_width(static_cast<unsigned>(size));
    trans.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    if (debug) {
      owner_.out_[port_]->transport_dbg(trans);
    } else {
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      owner_.out_[port_]->b_transport(trans, delay);
    }
    return trans.is_response_ok();
  }

 private:
  SocketFabric& owner_;
  TargetSocket& socket_;
  int port_;
};

SocketFabric::SocketFabric(const sc_core::sc_module_name& name, const Fabric::Params& params,
                           const TimingParams& timing, AccessLog& log)
    : sc_module(name), in("in"), fabric_(params, timing, log), out_("out") {
  in.register_b_transport(this, &SocketFabric::b_transport);
  in.register_transport_dbg(this, &SocketFabric::transport_dbg);
}

SocketFabric::~SocketFabric() = default;

bool SocketFabric::map(uint64_t device, uint64_t size, TargetSocket& socket, uint64_t base,
                       const std::string& name, Space space) {
  auto route = std::find_if(routes_.begin(), routes_.end(),
                            [&](const auto& r) { return r->socket() == &socket; });
  if (route == routes_.end()) {
    out_.bind(socket);
    routes_.push_back(std::make_unique<Route>(*this, socket, static_cast<int>(routes_.size())));
    route = std::prev(routes_.end());
  }
  auto* block = dynamic_cast<BlockSocket*>(&socket);
  BusTarget& target = block != nullptr ? block->target() : **route;
  return fabric_.map(device, size, target, base, name, space);
}

void SocketFabric::b_transport(int, tlm::tlm_generic_payload& trans, sc_core::sc_time&) {
  perform(trans, [this](uint64_t a, uint8_t* data, size_t n, bool write) {
    return write ? fabric_.write(a, {data, n}) : fabric_.read(a, {data, n});
  });
}

unsigned SocketFabric::transport_dbg(int, tlm::tlm_generic_payload& trans) {
  perform(trans, [this](uint64_t a, uint8_t* data, size_t n, bool write) {
    return write ? fabric_.write(a, {data, n}, true) : fabric_.read(a, {data, n}, true);
  });
  return trans.is_response_ok() ? trans.get_data_length() : 0;
}

}  // namespace hw
