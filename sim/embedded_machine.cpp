// soma::Machine (sdk/soma/machine.h): the devices of hw/ inside somebody else's simulation.
#include <cstring>
#include <stdexcept>
#include <utility>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "hw/block/host_port.h"
#include "hw/machine/chip.h"
#include "hw/machine/machine.h"
#include "sim/extensions.h"
#include "sim/machine_params.h"
#include "sim/timing_params.h"
#include "soma/machine.h"

namespace soma {

namespace {

template <typename T>
T value_of(base::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}
void check(const base::Status& status) {
  if (!status) throw std::runtime_error(status.error().message());
}

hw::MachineParams params_of(const Machine::Params& params) {
  const config::Platform platform = value_of(config::load_platform(params.platform));
  config::Timing timing =
      value_of(config::Timing::load(params.timing.empty() ? platform.timing : params.timing));
  for (const std::string& assignment : params.set) check(timing.set(assignment));
  check(config::check_timing(platform, timing));
  hw::MachineParams machine = sim::machine_params(platform, timing, {});
  check(sim::add_extensions(platform, machine));
  check(sim::lock_timing(timing));
  machine.timing_only = params.timing_only;
  machine.coalesce = false;  // what a register tells must not lie behind
  machine.free_running = true;
  machine.host_sockets = true;
  return machine;
}

}  // namespace

// The transactions to one PCIe function: to its configuration space, or to its memory space.
class Machine::Function final : public tlm::tlm_fw_transport_if<> {
 public:
  Function(pcie::Device& device, bool config) : device_(device), config_(config) {}

 private:
  static constexpr uint32_t kFirstBar = 0x10;
  static constexpr int kBars = 6;
  static constexpr uint64_t kConfigBytes = 4096;

  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) override {
    if (delay != sc_core::SC_ZERO_TIME) {
      sc_core::wait(delay);
      delay = sc_core::SC_ZERO_TIME;
    }
    trans.set_dmi_allowed(false);
    trans.set_response_status(perform(trans));
  }
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase&,
                                     sc_core::sc_time&) override {
    trans.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);  // blocking transport only
    return tlm::TLM_COMPLETED;
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  // Configuration space only: reads of registers may have effects.
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) override {
    if (!config_) return 0;
    trans.set_response_status(perform(trans));
    return trans.is_response_ok() ? trans.get_data_length() : 0;
  }

  tlm::tlm_response_status perform(tlm::tlm_generic_payload& trans) {
    if (trans.get_byte_enable_ptr() != nullptr) return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
    if (trans.get_streaming_width() < trans.get_data_length()) return tlm::TLM_BURST_ERROR_RESPONSE;
    if (trans.get_command() == tlm::TLM_IGNORE_COMMAND) return tlm::TLM_OK_RESPONSE;
    return config_ ? configure(trans) : access(trans);
  }

  tlm::tlm_response_status configure(tlm::tlm_generic_payload& trans) {
    const uint64_t offset = trans.get_address();
    const unsigned size = trans.get_data_length();
    if (offset >= kConfigBytes) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    if (size == 0 || size > 4 || offset % 4 + size > 4) return tlm::TLM_BURST_ERROR_RESPONSE;
    uint32_t value = 0;
    if (trans.is_write()) {
      std::memcpy(&value, trans.get_data_ptr(), size);
      device_.config_write(static_cast<uint32_t>(offset), size, value);
    } else {
      value = device_.config_read(static_cast<uint32_t>(offset), size);
      std::memcpy(trans.get_data_ptr(), &value, size);
    }
    return tlm::TLM_OK_RESPONSE;
  }

  // The base address registers as programmed; those of 64 bits take two.
  tlm::tlm_response_status access(tlm::tlm_generic_payload& trans) {
    constexpr uint32_t kMemoryEnable = 2;
    constexpr uint32_t kWide = 4;
    if ((device_.config_read(0x04, 2) & kMemoryEnable) == 0) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    const uint64_t address = trans.get_address();
    const size_t size = trans.get_data_length();
    for (int bar = 0; bar < kBars; ++bar) {
      const uint64_t bytes = device_.identity().bar_size[bar];
      if (bytes == 0) continue;
      const uint32_t low = device_.config_read(kFirstBar + 4 * static_cast<uint32_t>(bar), 4);
      const uint32_t high =
          (low & kWide) == 0
              ? 0
              : device_.config_read(kFirstBar + 4 * static_cast<uint32_t>(bar) + 4, 4);
      const uint64_t offset = address - (static_cast<uint64_t>(high) << 32 | (low & ~0xFu));
      if (offset >= bytes || size > bytes - offset) continue;
      if (trans.is_write()) {
        device_.bar_write(bar, offset, {trans.get_data_ptr(), size});
      } else {
        device_.bar_read(bar, offset, {trans.get_data_ptr(), size});
      }
      return tlm::TLM_OK_RESPONSE;
    }
    return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  }

  pcie::Device& device_;
  bool config_;
};

struct Machine::Parts {
  explicit Parts(hw::MachineParams params) : machine(std::move(params)) {}

  hw::Machine machine;
  std::vector<std::unique_ptr<Function>> functions;
  std::string error;
};

Machine::Machine(const sc_core::sc_module_name& name, const Params& params)
    : sc_module(name), config("config"), memory("memory"), host("host") {
  parts_ = std::make_unique<Parts>(params_of(params));
  hw::Machine& machine = parts_->machine;
  const size_t chips = machine.chips();
  config.init(chips);
  memory.init(chips);
  host.init(chips);
  for (uint32_t chip = 0; chip < chips; ++chip) {
    for (const bool is_config : {true, false}) {
      parts_->functions.push_back(std::make_unique<Function>(machine.device(chip), is_config));
      (is_config ? config : memory)[chip].bind(*parts_->functions.back());
    }
    hw::TargetPort& port = machine.host_port(chip);
    port.out(host[chip].get_base_port());
    host[chip].bind(static_cast<tlm::tlm_bw_transport_if<>&>(port));
  }
}

Machine::~Machine() = default;

size_t Machine::functions() const {
  return parts_->machine.chips();
}
bool Machine::at_rest() const {
  return parts_->machine.at_rest();
}
std::vector<std::string> Machine::waiting() const {
  return parts_->machine.who_waits();
}
const std::string& Machine::error() const {
  if (parts_->machine.error()) parts_->error = parts_->machine.error()->message();
  return parts_->error;
}

}  // namespace soma
