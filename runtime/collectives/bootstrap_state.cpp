#include "runtime/collectives/bootstrap_state.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/collectives/types.h"

namespace ccl {
BootstrapState::BootstrapState(const BootstrapOptions& options, base::UniqueFd wake)
    : options_(options), wake_(std::move(wake)), left_(options.world, false) {}

base::Status BootstrapState::wait_ready() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [&] { return ready_ || failure_; });
  --waiting_;
  if (failure_) return *failure_;
  return {};
}

base::Result<uint32_t> BootstrapState::post(Blob blob) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) return *failure_;
  if (blob.size() > wire::kMaxPayload) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "bootstrap",
                       "a contribution of " + std::to_string(blob.size()) + " bytes; at most " +
                           std::to_string(wire::kMaxPayload)};
  }
  const uint32_t ticket = next_ticket_++;
  if (options_.world == 1) {
    results_.emplace(ticket, Gathered({std::move(blob)}));
    ++next_result_;
    return ticket;
  }
  posted_.emplace_back(ticket, std::move(blob));
  wake();
  return ticket;
}

base::Result<Gathered> BootstrapState::collect(uint32_t ticket) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (ticket >= next_ticket_) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "bootstrap", "unknown ticket"};
  }
  ++waiting_;
  changed_.wait(lock,
                [&] { return ticket < next_result_ || failure_ || ticket >= first_hopeless_; });
  --waiting_;
  const auto it = results_.find(ticket);
  if (it != results_.end()) {
    Gathered result = it->second;
    results_.erase(it);
    return result;
  }
  if (ticket < next_result_) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "bootstrap", "ticket collected before"};
  }
  if (failure_) return *failure_;
  return base::Error{base::Fault::kIo, kNrtFailure, "bootstrap", "a peer left before it took part"};
}

base::Status BootstrapState::health() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) return *failure_;
  const auto left = std::find(left_.begin(), left_.end(), true);
  if (left == left_.end()) return {};
  return base::Error{base::Fault::kIo, kNrtFailure, "bootstrap",
                     "rank " + std::to_string(left - left_.begin()) + " has left"};
}

std::string BootstrapState::missing() {
  constexpr std::chrono::seconds kPatience(2);
  if (options_.world == 1) return "";
  std::unique_lock<std::mutex> lock(mutex_);
  question_ = true;
  answer_.reset();
  wake();
  changed_.wait_for(lock, kPatience, [&] { return answer_ || failure_; });
  if (answer_) return *answer_;
  return failure_ ? failure_->what : "rank 0, which knows the others, does not answer";
}

bool BootstrapState::take_question() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(question_, false);
}

void BootstrapState::answer(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  answer_ = text;
  changed_.notify_all();
}

bool BootstrapState::waited_for() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_ != 0;
}

void BootstrapState::wake() {
  const uint64_t one = 1;
  // The counter cannot overflow in practice, and a full one wakes all the same.
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void BootstrapState::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stop_ = true;
  wake();
}

bool BootstrapState::stopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stop_;
}

void BootstrapState::drain_wake() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
}

void BootstrapState::set_ready(std::shared_ptr<const wire::Table> table) {
  const std::lock_guard<std::mutex> lock(mutex_);
  table_ = std::move(table);
  ready_ = true;
  changed_.notify_all();
}

void BootstrapState::fail(const base::Error& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_) failure_ = error;
  failed_ = true;
  changed_.notify_all();
  wake();
}

void BootstrapState::leave(uint32_t rank, uint32_t contributions) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_[rank] = true;
  deserted_ = true;
  first_hopeless_ = std::min(first_hopeless_, contributions);
  changed_.notify_all();
}

uint32_t BootstrapState::contributions() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return next_ticket_;
}

std::optional<uint32_t> BootstrapState::awaited() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (next_result_ == next_ticket_) return std::nullopt;
  return next_result_;
}

bool BootstrapState::has_left(uint32_t rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return left_[rank];
}

std::deque<std::pair<uint32_t, Blob>> BootstrapState::take_posted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!ready_) return {};
  return std::exchange(posted_, {});
}

bool BootstrapState::deliver(uint32_t tag, Gathered gathered) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (tag != next_result_ || tag >= next_ticket_) return false;
  ++next_result_;
  results_.emplace(tag, std::move(gathered));
  changed_.notify_all();
  return true;
}

void BootstrapState::log(const std::string& text) const {
  if (options_.log) options_.log(text);
}

void BootstrapState::alarm(const std::string& text) const {
  if (options_.alarm) options_.alarm(text);
}

}  // namespace ccl
