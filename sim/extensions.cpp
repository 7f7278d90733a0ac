#include "sim/extensions.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arch/config/platform.h"
#include "hw/block/given_parameters.h"
#include "soma/block.h"
#include "soma/policy.h"

namespace sim {
namespace {

constexpr uint64_t kWindowAlignment = 4096;

base::Error invalid(const std::string& where, std::string what) {
  return {base::Fault::kConfig, 0, where, std::move(what)};
}

// What a library registers under a name; the registered struct begins with the number of the ABI.
base::Result<const void*> registered(const std::string& where, const std::string& library,
                                     const std::string& kind, const std::string& type) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return invalid(where, std::string("cannot load its library: ") + ::dlerror());
  const std::string symbol = "soma_" + kind + "_" + type;
  const void* found = ::dlsym(handle, symbol.c_str());
  if (found == nullptr) {
    return invalid(where, library + " registers no " + kind + " of type '" + type +
                              "' (it exports no symbol " + symbol +
                              "; see SOMA_BLOCK and others in soma/*.h)");
  }
  uint32_t abi = 0;
  std::memcpy(&abi, found, sizeof abi);
  if (abi != soma::kAbi) {
    return invalid(where, library + " was compiled against version " + std::to_string(abi) +
                              " of the headers soma/*.h; this is version " +
                              std::to_string(soma::kAbi));
  }
  return found;
}

// Puts windows without an address behind those before them, from the begin of the region.
base::Status place_windows(const config::Block& block, const contract::Window& region,
                           uint64_t& next, hw::BlockParams& params) {
  const std::string where = "block " + block.name;
  for (const config::Block::Window& window : block.windows) {
    const uint64_t address = window.address.value_or(next);
    const bool inside = address >= region.device && window.size <= region.size &&
                        address - region.device <= region.size - window.size;
    if (!inside || address % 4 != 0) {
      char text[96];
      std::snprintf(text, sizeof text, "0x%llx to 0x%llx",
                    static_cast<unsigned long long>(region.device),
                    static_cast<unsigned long long>(region.device + region.size - 1));
      return invalid(where, "the window of socket '" + window.socket +
                                "' does not lie in the region for blocks of this generation, " +
                                text);
    }
    params.windows.push_back({window.socket, address, window.size});
    next = (address + window.size + kWindowAlignment - 1) / kWindowAlignment * kWindowAlignment;
  }
  return {};
}

base::Result<hw::BlockParams> block_params(const config::Block& block,
                                           const hw::MachineParams& machine, uint64_t& next) {
  const std::string where = "block " + block.name;
  const auto type = registered(where, block.library, "block", block.type);
  if (!type) return type.error();
  hw::BlockParams params;
  params.type = static_cast<const soma::BlockType*>(*type);
  if (std::strcmp(params.type->systemc, SC_VERSION) != 0) {
    return invalid(where, block.library + " was compiled against SystemC " + params.type->systemc +
                              "; this is " + SC_VERSION);
  }
  params.name = block.name;
  params.chips = block.chips;
  params.parameters = block.parameters;
  params.background = block.background;
  const contract::AddressMap map{machine.chips.front().gen};
  base::Status placed = place_windows(block, map.extension(), next, params);
  if (!placed) return placed.error();
  for (const config::Block::Initiator& each : block.initiators) {
    hw::BlockInitiator initiator;
    initiator.socket = each.socket;
    initiator.packet_bytes = each.packet_bytes;
    initiator.core = each.core.value_or(~0u);
    initiator.rate =
        each.gbps ? base::Rate{each.gbps->num, 1000 * each.gbps->den} : machine.timing.dma_engine;
    if (initiator.rate.bytes == 0) return invalid(where, "'" + each.socket + "' has a rate of 0");
    params.initiators.push_back(std::move(initiator));
  }
  for (const config::Block::Line& each : block.semaphores) {
    params.lines.push_back({each.port, each.core, each.semaphore});
  }
  return params;
}

// The chips that use a link take turns, and what one does not use of its own is lost.
class TimeDivision final : public soma::LinkArbiter {
 public:
  TimeDivision(const soma::LinkRate& rate, const soma::Parameters& parameters)
      : rate_{rate.bytes, rate.picoseconds} {
    const uint64_t turns = parameters.integer("turns", 2);
    if (turns == 0 || turns > kMostTurns) throw std::invalid_argument("turns: 1 to 1024");
    ends_.resize(turns);
  }
  uint64_t serve(uint64_t now, uint64_t bytes, uint32_t chip) override {
    uint64_t& end = ends_[chip % ends_.size()];
    end = std::max(end, now) + rate_.time_for(bytes * ends_.size());
    return end;
  }

 private:
  static constexpr uint64_t kMostTurns = 1024;
  base::Rate rate_;
  std::vector<uint64_t> ends_;
};

// Makes the policies that others wrote, as often as the machine needs one.
template <typename Policy>
class Maker {
 public:
  Maker(std::string where, const soma::PolicyType* type, config::ParameterTexts parameters)
      : where_(std::move(where)), type_(type), parameters_(std::move(parameters)) {}

  std::unique_ptr<Policy> operator()(const soma::Topology* topology, soma::LinkRate rate) const {
    const hw::GivenParameters given(parameters_);
    try {
      std::unique_ptr<Policy> made(static_cast<Policy*>(type_->create({given, topology, rate})));
      given.check_all_asked();
      return made;
    } catch (const std::exception& e) {
      throw std::invalid_argument(where_ + " " + e.what());
    }
  }

 private:
  std::string where_;
  const soma::PolicyType* type_;
  config::ParameterTexts parameters_;
};

template <typename Policy>
base::Result<Maker<Policy>> maker(const char* which, const char* kind,
                                  const config::Policy& policy) {
  const std::string where = std::string("policy ") + which;
  const auto found = registered(where, policy.library, "policy", policy.name);
  if (!found) return found.error();
  const auto* type = static_cast<const soma::PolicyType*>(*found);
  if (std::strcmp(type->kind, kind) == 0) return Maker<Policy>(where, type, policy.parameters);
  return invalid(where, "'" + policy.name + "' of " + policy.library + " is a " + type->kind +
                            ", not a " + kind);
}

// Most objects of a policy are made when they are needed first, which is too late to find out that
// its parameters are wrong: one that nobody needs is made at once.
template <typename Policy>
base::Status check_parameters(const Maker<Policy>& make, soma::LinkRate rate) {
  try {
    (void)make(nullptr, rate);
    return {};
  } catch (const std::invalid_argument& e) {
    return base::Error{base::Fault::kConfig, 0, "", e.what()};
  }
}

base::Error unknown(const char* which, const config::Policy& policy, const char* valid) {
  return invalid(std::string("policy ") + which, "there is no built-in policy '" + policy.name +
                                                     "'; there are " + valid +
                                                     ", or give a library");
}
base::Status no_parameters(const char* which, const config::Policy& policy) {
  if (policy.parameters.empty()) return {};
  return invalid(std::string("policy ") + which, "'" + policy.name + "' has no parameters");
}

base::Status add_queue_policy(const config::Policy& policy, hw::QueuePolicy& to) {
  constexpr const char* kWhich = "dma_queues";
  if (!policy.library.empty()) {
    auto made = maker<soma::QueueArbiter>(kWhich, "queue_arbiter", policy);
    if (!made) return made.error();
    to.arbiter = [make = *made] { return make(nullptr, {}); };
    return check_parameters(*made, {});
  }
  using Rule = hw::QueuePolicy::Rule;
  if (policy.name == "round_robin") {
    to.rule = Rule::kRoundRobin;
  } else if (policy.name == "strict_priority") {
    to.rule = Rule::kStrictPriority;
  } else {
    return unknown(kWhich, policy, "round_robin and strict_priority");
  }
  return no_parameters(kWhich, policy);
}

base::Status add_link_policy(const config::Policy& policy, hw::LinkPolicy& to) {
  constexpr const char* kWhich = "links";
  if (!policy.library.empty()) {
    auto made = maker<soma::LinkArbiter>(kWhich, "link_arbiter", policy);
    if (!made) return made.error();
    to = [make = *made](base::Rate rate) { return make(nullptr, {rate.bytes, rate.ps}); };
    return check_parameters(*made, {});
  }
  if (policy.name == "time_division") {
    static constexpr soma::PolicyType kType = {
        soma::kPolicyAbi, "link_arbiter", &soma::create_policy<soma::LinkArbiter, TimeDivision>};
    const Maker<soma::LinkArbiter> make("policy links", &kType, policy.parameters);
    to = [make](base::Rate rate) { return make(nullptr, {rate.bytes, rate.ps}); };
    return check_parameters(make, {});
  }
  if (policy.name != "fifo") return unknown(kWhich, policy, "fifo and time_division");
  return no_parameters(kWhich, policy);
}

base::Status add_routing(const config::Policy& policy, hw::RouteParams& to) {
  constexpr const char* kWhich = "routing";
  using Rule = hw::RouteParams::Rule;
  if (!policy.library.empty()) {
    auto made = maker<soma::Routing>(kWhich, "routing", policy);
    if (!made) return made.error();
    to.routing = [make = *made](const soma::Topology& t) { return make(&t, {}); };
    return {};
  }
  if (policy.name == "shortest") {
    to.rule = Rule::kShortest;
  } else if (policy.name == "switched") {
    to.rule = Rule::kSwitched;
  } else if (policy.name == "torus") {
    if (to.coords.empty()) {
      return invalid("policy routing", "torus: the chips of this topology have no places in one");
    }
    to.rule = Rule::kTorus;
  } else {
    return unknown(kWhich, policy, "shortest, torus and switched");
  }
  return no_parameters(kWhich, policy);
}

base::Status add_switch_port(const config::Policy& policy, hw::RouteParams& to) {
  constexpr const char* kWhich = "switch_port";
  if (!policy.library.empty()) {
    auto made = maker<soma::SwitchChoice>(kWhich, "switch_choice", policy);
    if (!made) return made.error();
    to.switch_choice = [make = *made](const soma::Topology& t) { return make(&t, {}); };
    return {};
  }
  if (policy.name == "spread") {
    to.switch_port = hw::RouteParams::Switch::kSpread;
  } else if (policy.name != "first") {
    return unknown(kWhich, policy, "first and spread");
  }
  return no_parameters(kWhich, policy);
}

base::Status add_policies(const config::Policies& policies, hw::MachineParams& params) {
  base::Status status;
  if (policies.dma_queues.given())
    status = add_queue_policy(policies.dma_queues, params.queue_policy);
  if (!status) return status;
  if (policies.links.given()) status = add_link_policy(policies.links, params.link_policy);
  if (!status) return status;
  if (policies.routing.given()) status = add_routing(policies.routing, params.routes);
  if (!status) return status;
  if (policies.switch_port.given()) status = add_switch_port(policies.switch_port, params.routes);
  if (!status) return status;
  const bool joined = !params.links.empty() || !params.switches.empty();
  for (const auto& [which, policy] :
       {std::pair{"links", &policies.links}, std::pair{"routing", &policies.routing},
        std::pair{"switch_port", &policies.switch_port}}) {
    if (!policy->given() || joined) continue;
    return invalid(std::string("policy ") + which, "the platform has no links between its chips");
  }
  return {};
}

}  // namespace

base::Status add_extensions(const config::Platform& platform, hw::MachineParams& params) {
  uint64_t next = 0;
  for (const config::Block& block : platform.blocks) {
    if (next == 0) next = contract::AddressMap{params.chips.front().gen}.extension().device;
    auto added = block_params(block, params, next);
    if (!added) return added.error();
    params.blocks.push_back(std::move(*added));
  }
  return add_policies(platform.policies, params);
}

}  // namespace sim
