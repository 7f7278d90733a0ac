// A whole Soma machine as one module of your own simulation: the chips of a platform, their links,
// their PCIe functions as TLM sockets. No kernel driver and no device nodes: your own host, or a
// model of one, drives the functions.
//
//   soma::Machine::Params params;
//   params.platform = "trn1.2xlarge";
//   soma::Machine machine("machine", params);
//   cpu.config.bind(machine.config[0]);
//   cpu.memory.bind(machine.memory[0]);
//   machine.host[0].bind(dram.port);
//
// Time: your sc_start runs the machine. It never gets ahead of the kernel, and barriers between
// ranks open when their last member arrives. Times of accesses to the functions: none, but for
// attached blocks, which take their own; a delay that comes in is waited for first.
// Link with Soma::machine of find_package(Soma). Example: examples/blocks/embedded.
#pragma once

#include <tlm>

#include <memory>
#include <string>
#include <systemc>
#include <vector>

namespace soma {

class __attribute__((visibility("default"))) Machine : public sc_core::sc_module {
 public:
  struct Params {
    std::string platform = "trn1.2xlarge";  // a name of `soma describe`, or the path of a file
    std::string timing;                     // empty: the platform's own
    std::vector<std::string> set;           // "name=value": timing parameters
    bool timing_only = false;               // payload is not moved
  };
  // Throws std::runtime_error for a platform or parameter that does not exist, or does not fit.
  Machine(const sc_core::sc_module_name& name, const Params& params);
  ~Machine() override;

  size_t functions() const;  // one per chip, by its number

  // Configuration space: offsets 0 to 4095; 1, 2 or 4 bytes within a word.
  sc_core::sc_vector<tlm::tlm_target_socket<>> config;
  // Memory space: addresses of the PCI bus, which the function claims by its base address registers
  // as they are programmed, when its memory space is enabled. Nothing else is claimed: an address
  // error.
  sc_core::sc_vector<tlm::tlm_target_socket<>> memory;
  // Memory of the host, by physical address: what the function's DMA engines read and write, when
  // bus mastering is enabled. Direct pointers are used where they are granted.
  sc_core::sc_vector<tlm::tlm_initiator_socket<>> host;

  // Nothing of the machine is at work.
  bool at_rest() const;
  // Who waits on what: a line for each engine, CC-core and DMA queue.
  std::vector<std::string> waiting() const;
  // What went wrong in the machine itself; empty if nothing. It pauses the simulation.
  const std::string& error() const;

 private:
  class Function;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace soma
