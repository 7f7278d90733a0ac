#include "hw/block/attached_block.h"

#include <stdexcept>
#include <utility>

#include "contract/regs/sem.h"

namespace hw {

namespace {

template <unsigned... Widths>
struct BusWidths {};
using Widths = BusWidths<32, 64, 128, 256, 512, 1024, 16, 8>;

// The ends of sockets of any width, without the width: what there is to bind.
struct TargetEnd {
  tlm::tlm_fw_transport_if<>* forward = nullptr;
  sc_core::sc_port_b<tlm::tlm_bw_transport_if<>>* backward = nullptr;
};
struct InitiatorEnd {
  sc_core::sc_port_b<tlm::tlm_fw_transport_if<>>* forward = nullptr;
  tlm::tlm_bw_transport_if<>* backward = nullptr;
};

template <unsigned Width>
void look_at(sc_core::sc_object& object, TargetEnd& end) {
  using Socket = tlm::tlm_base_target_socket_b<Width>;
  if (auto* socket = dynamic_cast<Socket*>(&object)) {
    end = {&socket->get_base_interface(), &socket->get_base_port()};
  }
}
template <unsigned Width>
void look_at(sc_core::sc_object& object, InitiatorEnd& end) {
  using Socket = tlm::tlm_base_initiator_socket_b<Width>;
  if (auto* socket = dynamic_cast<Socket*>(&object)) {
    end = {&socket->get_base_port(), &socket->get_base_interface()};
  }
}
template <typename End, unsigned... Width>
End end_of(sc_core::sc_object& object, BusWidths<Width...>) {
  End end;
  (look_at<Width>(object, end), ...);
  return end;
}

}  // namespace

// A port whose rising edges increment a semaphore.
class AttachedBlock::Line final : public sc_core::sc_module, private EventSink {
 public:
  SC_HAS_PROCESS(Line);
  Line(const sc_core::sc_module_name& name, const BlockLine& params, const Context& context,
       bool background)
      : sc_module(name), params_(params), context_(context), background_(background) {
    SC_METHOD(rise);
    sensitive << signal.posedge_event();
    dont_initialize();
  }

  sc_core::sc_signal<bool> signal{"signal"};

 private:
  void rise() {
    context_.port.queue.schedule(
        {context_.port.queue.now() + 1, context_.component, Phase::kEffect}, *this, 0, 0,
        background_ ? EventQueue::Kind::kBackground : EventQueue::Kind::kWork);
  }
  void on_event(const EventKey&, uint32_t, uint64_t) override {
    context_.raise(params_.core, params_.semaphore);
  }

  BlockLine params_;
  const Context& context_;
  bool background_;
};

AttachedBlock::AttachedBlock(const sc_core::sc_module_name& name, const BlockParams& params,
                             const Context& context)
    : sc_module(name), params_(params), context_(context), parameters_(params.parameters) {
  block_.reset(params.type->create("block", *this));
  parameters_.check_all_asked();
  for (const BlockWindow& window : params.windows) attach_window(window);
  for (const BlockInitiator& initiator : params.initiators) attach_initiator(initiator);
  for (const BlockLine& line : params.lines) attach_line(line);
}

AttachedBlock::~AttachedBlock() = default;

// `child`: a name below the block, such as "registers" or "core.registers".
template <typename Wanted>
Wanted& AttachedBlock::find(const std::string& child, const char* kind) const {
  const std::string full = std::string(block_->name()) + "." + child;
  sc_core::sc_object* object = sc_core::sc_find_object(full.c_str());
  auto* found = dynamic_cast<Wanted*>(object);
  if (found != nullptr) return *found;
  std::string there;
  for (const sc_core::sc_object* each : block_->get_child_objects()) {
    there += std::string(there.empty() ? "" : ", ") + each->basename();
  }
  throw std::invalid_argument("has no " + std::string(kind) + " '" + child + "'; it has " +
                              (there.empty() ? "nothing" : there));
}

std::string AttachedBlock::label(const std::string& socket) const {
  return context_.fabric.name() + "." + params_.name + "." + socket;
}

void AttachedBlock::attach_window(const BlockWindow& window) {
  auto& target = targets_[window.socket];
  if (target != nullptr) {
    throw std::invalid_argument("socket '" + window.socket + "' has two windows");
  }
  auto& object = find<sc_core::sc_object>(window.socket, "target socket");
  const auto end = end_of<TargetEnd>(object, Widths{});
  if (end.forward == nullptr) {
    throw std::invalid_argument("'" + window.socket + "' is no target socket (" + object.kind() +
                                ")");
  }
  const std::string name = window.socket + "_port";
  target = std::make_unique<TargetPort>(name.c_str(), label(window.socket), context_.port);
  target->out(*end.forward);
  (*end.backward)(*target);
  if (!context_.fabric.map(window.device, window.size, *target)) {
    throw std::invalid_argument("the window of socket '" + window.socket + "' overlaps another");
  }
}

void AttachedBlock::attach_initiator(const BlockInitiator& initiator) {
  auto& object = find<sc_core::sc_object>(initiator.socket, "initiator socket");
  const auto end = end_of<InitiatorEnd>(object, Widths{});
  if (end.forward == nullptr) {
    throw std::invalid_argument("'" + initiator.socket + "' is no initiator socket (" +
                                object.kind() + ")");
  }
  InitiatorPort::Params params;
  params.label = label(initiator.socket);
  params.rate = initiator.rate;
  params.packet_bytes = initiator.packet_bytes;
  params.background = params_.background;
  params.timing_only = context_.timing_only;
  params.component = context_.component + static_cast<uint32_t>(initiators_.size());
  const contract::AddressMap& map = context_.fabric.address_map();
  if (initiator.core != ~0u) {
    if (initiator.core >= map.ncs()) {
      throw std::invalid_argument("the chip has no core " + std::to_string(initiator.core));
    }
    params.domain = map.hbm_of_nc(initiator.core);
  }
  const std::string name = initiator.socket + "_port";
  initiators_.push_back(std::make_unique<InitiatorPort>(name.c_str(), params, context_.port,
                                                        context_.fabric, context_.counters));
  auto& in = initiators_.back()->in;
  (*end.forward)(in.get_base_interface());
  in.get_base_port()(*end.backward);
}

void AttachedBlock::attach_line(const BlockLine& line) {
  auto& port = find<sc_core::sc_out<bool>>(line.port, "sc_out<bool>");
  const contract::AddressMap& map = context_.fabric.address_map();
  if (line.core >= map.ncs() || line.semaphore >= contract::sem::kIncCount) {
    throw std::invalid_argument("port '" + line.port + "': the chip has no semaphore " +
                                std::to_string(line.semaphore) + " of core " +
                                std::to_string(line.core));
  }
  const std::string name = line.port + "_line";
  lines_.push_back(std::make_unique<Line>(name.c_str(), line, context_, params_.background));
  port(lines_.back()->signal);
}

const soma::Parameters& AttachedBlock::parameters() const {
  return parameters_;
}

uint64_t AttachedBlock::window(const char* socket) const {
  for (const BlockWindow& each : params_.windows) {
    if (each.socket == socket) return each.device;
  }
  return 0;
}

uint64_t AttachedBlock::semaphore(uint32_t core, uint32_t semaphore) const {
  return context_.fabric.address_map().nc_semaphores(core) + contract::sem::kInc +
         semaphore * contract::sem::kIncStride;
}

void AttachedBlock::begin_work() {
  if (!params_.background) context_.port.activity.begin();
}
void AttachedBlock::end_work() {
  if (!params_.background) context_.port.activity.end();
}

void AttachedBlock::chip_reset() {
  for (auto& port : initiators_) port->invalidate();
}

void AttachedBlock::look_again() {
  for (auto& port : initiators_) port->look_again();
}

void AttachedBlock::who_waits(std::vector<std::string>& lines) const {
  const auto add = [&](const std::string& who, const std::string& what) {
    if (!what.empty()) lines.push_back(who + " " + what);
  };
  for (const auto& [socket, port] : targets_) add(port->outward_name(), port->waits());
  for (const auto& port : initiators_) add(port->resource().name(), port->waits());
}

std::vector<BandwidthResource*> AttachedBlock::resources() {
  std::vector<BandwidthResource*> all;
  for (auto& port : initiators_) all.push_back(&port->resource());
  return all;
}

}  // namespace hw
