// Host memory behind a TLM socket, where the machine is part of somebody else's simulation. Payload
// goes by transactions, or by a direct pointer where the host grants one. What the machine reads
// for itself at an instant (descriptors, instructions) it reads by the pointer, else by the debug
// interface, which takes no time; what it writes so (notifications) is posted.
#pragma once

#include "arch/pcie/pcie.h"
#include "hw/block/target_port.h"

namespace hw {

class HostPort final : public pcie::HostMemory {
 public:
  HostPort(const sc_core::sc_module_name& name, std::string label, const PortContext& context)
      : port_(name, std::move(label), context) {}

  TargetPort& port() { return port_; }

  uint8_t* direct(uint64_t phys, uint64_t length) override { return port_.direct(phys, length); }
  bool read(uint64_t phys, base::ByteSpan to) override {
    if (const uint8_t* at = direct(phys, to.size())) {
      std::memcpy(to.data(), at, to.size());
      return true;
    }
    return port_.look(phys, to.data(), to.size(), false);
  }
  bool write(uint64_t phys, base::ConstByteSpan from) override {
    port_.post(phys, from);
    return true;
  }

 private:
  TargetPort port_;
};

}  // namespace hw
