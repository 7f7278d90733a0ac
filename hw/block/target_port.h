// Calls a target socket of somebody else's block (or of a host that owns the machine): a thread of
// the kernel performs the machine's accesses one after the other, each at its time and with delay
// 0, so that a target that ignores delays is right as well, and one that waits may do so. A delay
// that comes back is waited for. A host gets no answer where the target has none within 10 ms.
// Exact: order, data. Approximate: accesses do not overlap.
#pragma once

#include <tlm>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <systemc>

#include "base/error.h"
#include "hw/mem/outward.h"
#include "hw/stats.h"
#include "hw/time/activity.h"
#include "hw/time/kernel_queue.h"

namespace hw {

// What ports share with their machine.
struct PortContext {
  KernelQueue& queue;
  Activity& activity;
  AccessLog& log;
  // An exception has left somebody's code.
  std::function<void(base::Error)> failed;
  // From outside of the simulation: runs it until `done` holds; false if that does not come.
  std::function<bool(base::Ps at_most, const std::function<bool()>& done)> run_until;
};

class TargetPort final : public sc_core::sc_module,
                         public tlm::tlm_bw_transport_if<>,
                         public Outward {
 public:
  SC_HAS_PROCESS(TargetPort);
  // `label`: what logs and reports call it.
  TargetPort(const sc_core::sc_module_name& name, std::string label, const PortContext& context);

  // Bound to the target socket before the simulation starts.
  sc_core::sc_port<tlm::tlm_fw_transport_if<>> out;

  const std::string& outward_name() const override { return label_; }
  void submit(std::shared_ptr<OutwardAccess> access) override;
  bool perform(uint64_t offset, uint8_t* data, size_t size, bool write) override;
  bool look(uint64_t offset, uint8_t* data, size_t size, bool write) override;
  std::string waits() const override;

  // A pointer to [offset, offset + length) if the target grants one for reading and writing.
  uint8_t* direct(uint64_t offset, uint64_t length);

 private:
  struct Granted {
    uint64_t begin = 0;
    uint64_t end = 0;  // inclusive; less than begin: none
    uint8_t* data = nullptr;
  };

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase&,
                                     sc_core::sc_time&) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64 begin, sc_dt::uint64 end) override;
  void serve();
  void serve(OutwardAccess& access);
  bool wait_for(const std::shared_ptr<OutwardAccess>& access);
  bool run_for(const std::shared_ptr<OutwardAccess>& access);
  bool transact(uint64_t offset, uint8_t* data, size_t size, bool write);

  PortContext context_;
  std::string label_;
  std::deque<std::shared_ptr<OutwardAccess>> waiting_;
  sc_core::sc_event work_;
  std::string at_work_;  // the access that the target has not answered yet
  Granted granted_{1, 0, nullptr};
  uint64_t asked_ = ~uint64_t{0};  // a page for which no pointer was granted
};

}  // namespace hw
