// Server side of the shared status page: the generation word that polling clients sleep on, and the
// virtual clock. Written by one thread, the machine's kernel thread.
#pragma once

#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "driver/node/virtual_clock.h"

namespace pcie {
class HostExecutor;
}

namespace driver {

class StatusPage {
 public:
  // `executor`, when given, tells simulated time for show_progress.
  static base::Result<StatusPage> create(const pcie::HostExecutor* executor = nullptr);

  // The machine starts to run; no effect when it runs already.
  void machine_busy();
  // The machine still runs; `elapsed` of simulated time passed since machine_busy or the last call.
  // Lets a client's clock move during a long activity, and wakes polling clients.
  void machine_progress(base::Ps elapsed);
  // A request is about to be answered: its client must not read a clock that has not seen the time
  // that it took. What is shown here is taken off the next `elapsed`.
  void show_progress();
  // The machine is quiescent; `elapsed` as above. `more`: only until the next request, which is
  // here.
  void machine_idle(base::Ps elapsed, bool more = false);
  // A client's request may have changed what others can see.
  void changed() { layout()->changes.fetch_add(1, std::memory_order_release); }
  bool busy() const { return shows_busy(*layout()); }

  uint32_t generation() const { return layout()->generation.load(std::memory_order_relaxed); }
  ClockState clock() const { return read_clock(*layout()); }
  int read_only_fd() const { return read_only_.get(); }

 private:
  StatusPage() = default;
  StatusLayout* layout() const { return reinterpret_cast<StatusLayout*>(mapping_.data()); }
  void publish(base::Ps elapsed, bool still_busy);
  void wake_pollers();

  base::UniqueFd fd_;
  base::UniqueFd read_only_;
  base::Mapping mapping_;
  base::Ps simulated_ps_ = 0;
  const pcie::HostExecutor* executor_ = nullptr;
  base::Ps shown_until_ = 0;  // simulated time
  base::Ps shown_early_ = 0;  // by show_progress since the last `elapsed`
  bool news_ = false;         // simulated time has passed since the last wake-up
  uint64_t woken_ns_ = 0;
};

}  // namespace driver
