// PCIe endpoint of one chip: configuration space, register BAR, HBM BAR. Source of truth:
// spec/hw-registers.md 0.2, 1 and 2; arch/pcie/pcie.h. Exact: what software reads back. An access
// takes no simulated time, but for those to blocks that others wrote. Without memory decode all BAR
// accesses are ignored (a driver writes registers after it has disabled the device,
// spec/hw-registers.md 10.7); without bus mastering an access to host memory is a bus error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/pcie/pcie.h"
#include "hw/mem/fabric.h"
#include "hw/pcie/config_space.h"
#include "hw/stats.h"

namespace hw {

// The chip behind the endpoint.
class EndpointOwner {
 public:
  // Register windows with plain memory behind them.
  virtual base::Result<pcie::BarMapping> map_registers(uint64_t device, uint64_t length) = 0;
  // Everything but the configuration space becomes as after power on.
  virtual void power_on() = 0;

 protected:
  ~EndpointOwner() = default;
};

class Endpoint final : public pcie::Device {
 public:
  static constexpr uint8_t kQemuRevision = 0xFF;  // spec/hw-registers.md 1.2

  struct Params {
    std::string name = "d0";
    uint16_t device_id = 0x7164;
    uint8_t revision = 0;
    pcie::BarLayout bars = pcie::BarLayout::kFull;
  };
  // Throws std::invalid_argument when the BARs of the generation do not fit the layout.
  Endpoint(const Params& params, Fabric& fabric, EndpointOwner& owner, AccessLog& log);

  const pcie::Identity& identity() const override { return identity_; }
  uint32_t config_read(uint32_t offset, unsigned size) override;
  void config_write(uint32_t offset, unsigned size, uint32_t value) override;
  void bar_read(int bar, uint64_t offset, base::ByteSpan to) override;
  void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) override;
  void reset() override;
  base::Result<pcie::BarMapping> bar_map(int bar, uint64_t offset, uint64_t length) override;
  std::vector<pcie::BarArea> bar_areas(int bar) const override;

  // 0, or 2 where a driver expects it there (v2 with the QEMU revision). With that revision v3 and
  // v4 have both, for drivers differ (spec/hw-registers.md 1.2).
  int register_bar() const { return register_bar_; }
  // Between the stacks in BAR4.
  static uint64_t hbm_stride(uint8_t revision, const contract::AddressMap& map);
  uint64_t accesses() const { return accesses_; }

 private:
  static constexpr int kHbmBar = 4;
  static constexpr int kOtherRegisterBar = 2;
  struct Target {
    bool claimed = false;
    uint64_t device = 0;
    uint64_t length = 0;  // contiguous bytes from there
    Location location;
  };
  bool has_registers(int bar) const {
    return bar == register_bar_ || (bar == kOtherRegisterBar && identity_.bar_size[bar] != 0);
  }
  Target decode(int bar, uint64_t offset) const;
  void access(int bar, uint64_t offset, uint8_t* data, size_t size, bool write);
  size_t access_once(int bar, uint64_t offset, uint8_t* data, size_t size, bool write);
  void count(AccessLog::Kind kind, int bar, uint64_t offset, bool write);

  Params params_;
  Fabric& fabric_;
  EndpointOwner& owner_;
  AccessLog& log_;
  int register_bar_;
  uint64_t hbm_stride_;  // between the stacks in BAR4
  pcie::Identity identity_;
  ConfigSpace config_;
  uint64_t accesses_ = 0;
};

}  // namespace hw
