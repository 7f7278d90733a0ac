#define SC_INCLUDE_DYNAMIC_PROCESSES
#include "hw/block/initiator_port.h"

#include <algorithm>

namespace hw {

namespace {

constexpr size_t kWord = 4;

// Counts as work of the machine for as long as it lives, unless it belongs to the background.
class Working {
 public:
  Working(Activity& activity, bool background) : activity_(background ? nullptr : &activity) {
    if (activity_ != nullptr) activity_->begin();
  }
  ~Working() {
    if (activity_ != nullptr) activity_->end();
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  Activity* activity_;
};

// Does not count for as long as it lives.
class Resting {
 public:
  Resting(Activity& activity, bool background) : activity_(background ? nullptr : &activity) {
    if (activity_ != nullptr) activity_->end();
  }
  ~Resting() {
    if (activity_ != nullptr) activity_->begin();
  }
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;

 private:
  Activity* activity_;
};

// What is wrong with a transaction before anyone looks where it leads.
tlm::tlm_response_status form_of(const tlm::tlm_generic_payload& trans) {
  if (trans.get_byte_enable_ptr() != nullptr) return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  if (trans.get_data_length() == 0 || trans.get_streaming_width() < trans.get_data_length()) {
    return tlm::TLM_BURST_ERROR_RESPONSE;
  }
  if (trans.get_command() == tlm::TLM_IGNORE_COMMAND) return tlm::TLM_COMMAND_ERROR_RESPONSE;
  return tlm::TLM_OK_RESPONSE;
}

}  // namespace

// Events find the packet only as long as its thread waits for it.
class InitiatorPort::Registered {
 public:
  Registered(InitiatorPort& port, Packet& packet) : port_(port), id_(port.next_++) {
    port_.packets_.emplace(id_, &packet);
  }
  ~Registered() { port_.packets_.erase(id_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  uint64_t id() const { return id_; }

 private:
  InitiatorPort& port_;
  uint64_t id_;
};

InitiatorPort::InitiatorPort(const sc_core::sc_module_name& name, const Params& params,
                             const PortContext& context, Fabric& fabric, Counters& counters)
    : sc_module(name),
      in("in"),
      params_(params),
      context_(context),
      fabric_(fabric),
      counters_(counters),
      resource_(params.label, params.rate) {
  in.register_b_transport(this, &InitiatorPort::b_transport);
  in.register_get_direct_mem_ptr(this, &InitiatorPort::get_direct_mem_ptr);
  in.register_transport_dbg(this, &InitiatorPort::transport_dbg);
}

void InitiatorPort::b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
  trans.set_dmi_allowed(false);
  const tlm::tlm_response_status form = form_of(trans);
  if (form != tlm::TLM_OK_RESPONSE) return trans.set_response_status(form);
  const Working working(context_.activity, params_.background);
  if (delay != sc_core::SC_ZERO_TIME) {
    wait(delay);
    delay = sc_core::SC_ZERO_TIME;
  }
  const bool ok = transfer(trans.get_address(), trans.get_data_ptr(), trans.get_data_length(),
                           trans.is_write());
  trans.set_response_status(ok ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
  Location at = fabric_.locate(trans.get_address());
  trans.set_dmi_allowed(
      !params_.timing_only &&
      (at.space == Space::kHbm || at.space == Space::kSbuf || at.space == Space::kPsum));
}

bool InitiatorPort::transfer(uint64_t address, uint8_t* data, size_t size, bool write) {
  for (size_t done = 0; done < size;) {
    Packet packet;
    packet.address = address + done;
    packet.data = data + done;
    packet.bytes = std::min<size_t>(size - done, params_.packet_bytes);
    // One place a packet: a range may go on where another memory begins.
    const Location at = fabric_.locate(packet.address);
    if (at.space != Space::kPeer) packet.bytes = std::min<uint64_t>(packet.bytes, at.length);
    packet.write = write;
    if (packet.bytes == 0 || !perform(packet)) return false;
    done += packet.bytes;
  }
  return true;
}

// In the thread of the caller.
bool InitiatorPort::perform(Packet& packet) {
  for (;;) {
    const Space space = fabric_.reach(packet.address, packet.bytes);
    if (space == Space::kNone) return false;
    if (space != Space::kNoLink) break;
    // Never answered, until a link is up again; nothing happens meanwhile.
    const Resting resting(context_.activity, params_.background);
    ++unanswered_;
    wait(answered_);
    --unanswered_;
  }
  const Registered registered(*this, packet);
  context_.queue.schedule(
      {context_.queue.now() + 1, params_.component, Phase::kStart}, *this, kTagStart,
      registered.id(),
      params_.background ? EventQueue::Kind::kBackground : EventQueue::Kind::kWork);
  wait(packet.over);
  if (!packet.outward) return packet.ok;
  uint64_t offset = 0;
  Outward* outward = fabric_.outward(packet.address, &offset);
  return outward != nullptr && outward->perform(offset, packet.data, packet.bytes, packet.write);
}

void InitiatorPort::on_event(const EventKey& key, uint32_t tag, uint64_t argument) {
  const auto found = packets_.find(argument);
  if (found == packets_.end()) return;  // its thread has been ended
  if (tag == kTagStart) return start(key, argument, *found->second);
  effect(*found->second);
}

void InitiatorPort::start(const EventKey& key, uint64_t id, Packet& packet) {
  charges_.clear();
  fabric_.path(params_.domain, packet.address, packet.write, packet.bytes, charges_);
  charges_.add(resource_, packet.bytes);
  packet.end = key.time + 1;
  for (const Charge& c : charges_) {
    packet.end = std::max(packet.end, c.resource->reserve(key, c.bytes, c.extra));
  }
  const base::Ps there = packet.end + (packet.write ? fabric_.one_way_latency(packet.address) : 0);
  context_.queue.schedule(
      {there, params_.component, Phase::kEffect}, *this, kTagEffect, id,
      params_.background ? EventQueue::Kind::kBackground : EventQueue::Kind::kWork);
}

void InitiatorPort::effect(Packet& packet) {
  uint64_t offset = 0;
  packet.outward = fabric_.outward(packet.address, &offset) != nullptr;
  packet.ok = packet.outward || access(packet);
  const base::Ps latency =
      packet.write ? fabric_.write_latency(packet.address) : fabric_.read_latency(packet.address);
  context_.queue.notify(packet.over, std::max(context_.queue.now(), packet.end + latency));
}

// Registers are accessed word by word.
bool InitiatorPort::access(Packet& packet) {
  track_elision(packet);
  const size_t step = fabric_.is_register(packet.address) ? kWord : packet.bytes;
  bool ok = packet.bytes % step == 0;
  for (size_t at = 0; ok && at < packet.bytes; at += step) {
    ok = packet.write ? fabric_.write(packet.address + at, {packet.data + at, step})
                      : fabric_.read(packet.address + at, {packet.data + at, step});
  }
  return ok;
}

void InitiatorPort::track_elision(const Packet& packet) {
  if (!params_.timing_only) return;
  uint64_t offset = 0;
  Memory* memory = fabric_.plain(packet.address, &offset);
  if (memory == nullptr) return;
  if (packet.write) {
    memory->elided().remove(offset, packet.bytes);
  } else if (memory->elided().overlaps(offset, packet.bytes)) {
    ++counters_.elided_reads;
  }
}

bool InitiatorPort::get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) {
  const uint64_t address = trans.get_address();
  const Location at = fabric_.locate(address);
  const bool memory =
      at.space == Space::kHbm || at.space == Space::kSbuf || at.space == Space::kPsum;
  dmi.set_start_address(address);
  dmi.set_end_address(address);
  // Payload that a timing-only machine has not computed must not be read unnoticed.
  if (!memory || params_.timing_only) return false;
  uint8_t* data = fabric_.direct(address, at.length);
  if (data == nullptr) return false;
  dmi.set_end_address(address + at.length - 1);
  dmi.set_dmi_ptr(data);
  dmi.set_granted_access(tlm::tlm_dmi::DMI_ACCESS_READ_WRITE);
  const base::Ps word = params_.rate.time_for(kWord);
  dmi.set_read_latency(sc_core::sc_time::from_value(word + fabric_.read_latency(address)));
  dmi.set_write_latency(sc_core::sc_time::from_value(word));
  return true;
}

unsigned InitiatorPort::transport_dbg(tlm::tlm_generic_payload& trans) {
  if (form_of(trans) != tlm::TLM_OK_RESPONSE) return 0;
  const size_t size = trans.get_data_length();
  const uint64_t address = trans.get_address();
  const bool ok = trans.is_write() ? fabric_.write(address, {trans.get_data_ptr(), size}, true)
                                   : fabric_.read(address, {trans.get_data_ptr(), size}, true);
  trans.set_response_status(ok ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
  return ok ? trans.get_data_length() : 0;
}

void InitiatorPort::invalidate() {
  in->invalidate_direct_mem_ptr(0, ~sc_dt::uint64{0});
}

void InitiatorPort::look_again() {
  context_.queue.notify(answered_, context_.queue.now());
}

std::string InitiatorPort::waits() const {
  return unanswered_ == 0 ? "" : "waits for a chip that does not answer";
}

}  // namespace hw
