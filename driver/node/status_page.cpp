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
  StatusLayout* page = layout();
  page->sequence.fetch_add(1, std::memory_order_acq_rel);
  page->busy_since_ns.store(monotonic_ns(), std::memory_order_release);
  page->sequence.fetch_add(1, std::memory_order_release);
}

void StatusPage::machine_progress(base::Ps elapsed) {
  publish(elapsed - std::min(elapsed, shown_early_), true);
  shown_early_ = 0;
  if (executor_ != nullptr) shown_until_ = executor_->now();
}

void StatusPage::machine_idle(base::Ps elapsed) {
  publish(elapsed - std::min(elapsed, shown_early_), false);
  shown_early_ = 0;
}

void StatusPage::show_progress() {
  if (executor_ == nullptr || !busy()) return;
  const base::Ps now = executor_->now();
  const base::Ps more = now - shown_until_;
  shown_until_ = now;
  shown_early_ += more;
  publish(more, true);
}

void StatusPage::publish(base::Ps elapsed, bool still_busy) {
  StatusLayout* page = layout();
  simulated_ps_ += elapsed;
  const uint64_t now = monotonic_ns();
  const uint64_t since = page->busy_since_ns.load(std::memory_order_relaxed);
  page->sequence.fetch_add(1, std::memory_order_acq_rel);
  if (since != 0) page->busy_wall_ns.fetch_add(now - since, std::memory_order_release);
  page->simulated_ns.store(simulated_ps_ / base::kPsPerNs, std::memory_order_release);
  page->busy_since_ns.store(still_busy && since != 0 ? now : 0, std::memory_order_release);
  page->sequence.fetch_add(1, std::memory_order_release);
  page->generation.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &page->generation, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace driver
