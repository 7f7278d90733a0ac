#include "driver/node/status_page.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#include "arch/pcie/pcie.h"

namespace driver {
namespace {

// How long clients that poll may have to wait for a wake-up while requests come in.
constexpr uint64_t kLongestDelayNs = 10'000'000;

uint64_t monotonic_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

base::Result<StatusPage> StatusPage::create(const pcie::HostExecutor* executor) {
  StatusPage page;
  page.executor_ = executor;
  auto fd = base::make_memfd("neuron-status", sizeof(StatusLayout));
  if (!fd) return fd.error();
  page.fd_ = std::move(*fd);
  auto mapping = base::Mapping::map_shared(page.fd_.get(), 0, sizeof(StatusLayout), true);
  if (!mapping) return mapping.error();
  page.mapping_ = std::move(*mapping);
  auto* layout = new (page.mapping_.data()) StatusLayout{};
  layout->magic = kStatusMagic;
  layout->version = kStatusVersion;
  const std::string path = "/proc/self/fd/" + std::to_string(page.fd_.get());
  page.read_only_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!page.read_only_.valid()) return base::errno_error("status page", "open read-only");
  return page;
}

void StatusPage::machine_busy() {
  if (busy()) return;
  if (executor_ != nullptr) shown_until_ = executor_->now();
  ClockState state = clock();
  state.busy_since_ns = monotonic_ns();
  write_clock(*layout(), state);
}

void StatusPage::machine_progress(base::Ps elapsed) {
  publish(elapsed - std::min(elapsed, shown_early_), true);
  shown_early_ = 0;
  if (executor_ != nullptr) shown_until_ = executor_->now();
  wake_pollers();
}

void StatusPage::machine_idle(base::Ps elapsed, bool more) {
  publish(elapsed - std::min(elapsed, shown_early_), false);
  shown_early_ = 0;
  // The next request comes at once and many clients may poll: none misses anything but a moment.
  if (!more || monotonic_ns() - woken_ns_ > kLongestDelayNs) wake_pollers();
}

void StatusPage::show_progress() {
  if (executor_ == nullptr || !busy()) return;
  const base::Ps now = executor_->now();
  const base::Ps more = now - shown_until_;
  if (more == 0) return;
  shown_until_ = now;
  shown_early_ += more;
  publish(more, true);
}

void StatusPage::publish(base::Ps elapsed, bool still_busy) {
  simulated_ps_ += elapsed;
  news_ = news_ || elapsed > 0;
  ClockState state = clock();
  const uint64_t now = monotonic_ns();
  const uint64_t since = state.busy_since_ns;
  if (since != 0) state.busy_wall_ns += now - since;
  state.simulated_ns = simulated_ps_ / base::kPsPerNs;
  state.busy_since_ns = still_busy && since != 0 ? now : 0;
  write_clock(*layout(), state);
}

void StatusPage::wake_pollers() {
  if (!news_) return;
  news_ = false;
  woken_ns_ = monotonic_ns();
  StatusLayout* page = layout();
  page->generation.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &page->generation, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace driver
