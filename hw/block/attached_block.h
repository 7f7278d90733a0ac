// A block that others wrote, inside a chip: made from its library's type, its sockets found by name
// and bound to the chip's fabric. Source: docs/blocks.md, sdk/soma/block.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <systemc>
#include <vector>

#include "hw/block/given_parameters.h"
#include "hw/block/initiator_port.h"
#include "hw/block/params.h"
#include "hw/block/target_port.h"
#include "hw/mem/fabric.h"
#include "soma/block.h"

namespace hw {

class AttachedBlock final : public sc_core::sc_module, public soma::Host {
 public:
  struct Context {
    PortContext port;
    Fabric& fabric;
    Counters& counters;
    bool timing_only = false;
    uint32_t component = 0;  // of its first initiator; the others follow
    // Adds 1 to a semaphore of a core.
    std::function<void(uint32_t core, uint32_t semaphore)> raise;
  };
  // Throws std::invalid_argument where the block and its description do not fit.
  AttachedBlock(const sc_core::sc_module_name& name, const BlockParams& params,
                const Context& context);
  ~AttachedBlock() override;

  // The chip is reset: direct pointers are invalid.
  void chip_reset();
  void look_again();
  void who_waits(std::vector<std::string>& lines) const;
  std::vector<BandwidthResource*> resources();

  const soma::Parameters& parameters() const override;
  uint32_t chip() const override { return context_.fabric.chip(); }
  uint64_t window(const char* socket) const override;
  uint64_t semaphore(uint32_t core, uint32_t semaphore) const override;
  void begin_work() override;
  void end_work() override;

 private:
  class Line;

  template <typename Socket>
  Socket& find(const std::string& child, const char* kind) const;
  std::string label(const std::string& socket) const;  // "d0.sum.registers"
  void attach_window(const BlockWindow& window);
  void attach_initiator(const BlockInitiator& initiator);
  void attach_line(const BlockLine& line);

  const BlockParams& params_;
  Context context_;
  GivenParameters parameters_;
  std::unique_ptr<sc_core::sc_module> block_;
  std::map<std::string, std::unique_ptr<TargetPort>> targets_;  // by socket
  std::vector<std::unique_ptr<InitiatorPort>> initiators_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace hw
