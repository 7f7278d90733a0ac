// One chip: fabric with its memories, NeuronCores, CC-cores, DMA engines, notification blocks,
// management, PCIe endpoint, all at the addresses of the contract. Cores, queues and memories come
// into being on first touch.
#pragma once

#include <memory>
#include <string>
#include <systemc>
#include <vector>

#include "hw/block/attached_block.h"
#include "hw/cc/cc_core.h"
#include "hw/core/neuron_core.h"
#include "hw/core/pe_counters.h"
#include "hw/dma/dma.h"
#include "hw/machine/management.h"
#include "hw/machine/named.h"
#include "hw/machine/params.h"
#include "hw/mem/inert_window.h"
#include "hw/nq/nq_group.h"
#include "hw/pcie/endpoint.h"

namespace hw {

// What the chips of a machine share.
struct ChipContext {
  EventQueue& queue;
  BarrierHub& barriers;
  Counters& counters;
  AccessLog& log;
  const MachineParams& params;
  PortContext ports;
  check::Checker* checker = nullptr;
};

class Chip final : public sc_core::sc_module, private EndpointOwner {
 public:
  Chip(const sc_core::sc_module_name& name, uint32_t number, const ChipContext& context);

  uint32_t number() const { return number_; }
  const contract::AddressMap& address_map() const { return fabric_.address_map(); }
  Fabric& fabric() { return fabric_; }
  Dma& dma() { return dma_; }
  pcie::Device& device() { return endpoint_; }
  Endpoint& endpoint() { return endpoint_; }
  NeuronCoreGroup& cores() { return cores_; }
  CcCoreGroup& cc_cores() { return cc_cores_; }
  NqGroup& notifications() { return notifications_; }
  Management& management() { return management_; }
  const std::vector<std::unique_ptr<AttachedBlock>>& blocks() { return blocks_; }

  // Makes every part that comes into being on first touch, for its name in the hierarchy.
  void touch_all();
  const char* kind() const override { return "soma_chip"; }

  // A link is up again: what has had no answer is tried once more.
  void look_again();

  // "d0.nc1.dve waits for semaphore 3 >= 2, ...", one line per waiting engine and CC-core.
  void who_waits(std::vector<std::string>& lines);

 private:
  std::unique_ptr<NeuronCore> make_core(uint32_t n);
  std::unique_ptr<CcCore> make_cc_core(uint32_t t);
  std::unique_ptr<NqBlock> make_notifications(uint32_t k);
  Management::Params management_params() const;
  Management::Hooks management_hooks();
  uint32_t dies() const;
  uint32_t utilisation(uint32_t die, uint64_t sample);
  void throttled(uint32_t nc, uint32_t duty);
  void watch_memories();
  void connect();
  void attach();
  void reset(const firmware::mgmt::ResetScope& scope);
  base::Result<pcie::BarMapping> map_registers(uint64_t device, uint64_t length) override;
  void power_on() override;
  const ChipParams& params() const { return context_.params.chips[number_]; }

  uint32_t number_;
  std::string label_;
  std::vector<std::unique_ptr<NamedGroup>> core_names_;  // by number
  std::vector<std::unique_ptr<Named>> names_;
  ChipContext context_;
  Fabric fabric_;
  Dma dma_;
  NeuronCoreGroup cores_;
  CcCoreGroup cc_cores_;
  NqGroup notifications_;
  PeCounters pe_counters_;
  Management management_;
  InertWindows inert_;
  Endpoint endpoint_;
  std::vector<std::unique_ptr<AttachedBlock>> blocks_;
};

}  // namespace hw
