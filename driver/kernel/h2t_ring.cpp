#include "driver/kernel/h2t_ring.h"

#include <algorithm>
#include <cerrno>

#include "arch/contract/descriptor.h"

namespace driver {
namespace {

constexpr uint64_t kRingBytes = H2tRing::kLength * sizeof(contract::Descriptor);
constexpr uint64_t kPollsPerEstimate = 64;

}  // namespace

H2tRing::H2tRing(const Context& context, const Dhal& dhal, DmaEngines& engines, Memory& memory,
                 Id id, uint32_t timeout_factor)
    : context_(context),
      dhal_(dhal),
      engines_(engines),
      memory_(memory),
      id_(id),
      timeout_factor_(timeout_factor) {}

int H2tRing::allocate_memory() {
  free_memory();
  AllocRequest request;
  request.host = true;
  request.nc = id_.nc;
  request.category = uapi::kMemNcdevHost;
  request.lifespan = Lifespan::kDevice;
  request.size = kRingBytes;
  if (memory_.allocate(request, &tx_) != 0) return -ENOMEM;
  if (memory_.allocate(request, &rx_) != 0) {
    free_memory();
    return -ENOMEM;
  }
  request.size = kContexts * 2 * sizeof(uint32_t);
  if (memory_.allocate(request, &words_) != 0) {
    free_memory();
    return -ENOMEM;
  }
  return 0;
}

void H2tRing::free_memory() {
  for (Chunk** chunk : {&tx_, &rx_, &words_}) {
    if (*chunk != nullptr) memory_.release(*chunk);
    *chunk = nullptr;
  }
  ++epoch_;
}

int H2tRing::start() {
  next_ = 0;
  ring_id_ = 1;
  used_ = 0;
  ++epoch_;
  for (Transfer& transfer : contexts_) transfer = {};
  DmaQueue& queue = engines_.queue(id_.engine, id_.queue);
  queue.use = QueueUse::kDriverCopy;
  queue.nc = static_cast<int32_t>(id_.nc);
  return engines_.init_queue(id_.engine, id_.queue, {tx_->pa, kLength}, {rx_->pa, kLength});
}

void H2tRing::end_reset() {
  resetting_ = false;
  context_.executor.wake(this);
}

uint8_t* H2tRing::marker_source(int context) const {
  return memory_.host_bytes(*words_) + context * 8;
}
uint8_t* H2tRing::marker_target(int context) const {
  return marker_source(context) + 4;
}

void H2tRing::put(uint32_t index, uint32_t ring_id, const Piece& piece, bool barrier) {
  namespace desc = contract::desc;
  const uint64_t at = index * sizeof(contract::Descriptor);
  base::store(memory_.host_bytes(*tx_) + at,
              desc::tx_copy(piece.from, piece.bytes, ring_id, desc::kFirst | desc::kLast, barrier));
  base::store(memory_.host_bytes(*rx_) + at, desc::rx(piece.to, piece.bytes, ring_id));
}

// spec/hw-registers.md 10.5: data, marker, then the S2M tail before the M2S tail.
int H2tRing::submit(int context, const Piece* pieces, size_t count) {
  if (!usable()) return -EPERM;
  const auto total = static_cast<uint32_t>(count + 1);
  if (used_ + total > kLength) return -ENOMEM;
  Transfer& transfer = contexts_[static_cast<size_t>(context)];
  base::store(marker_source(context), kCopyMarker);
  base::store(marker_target(context), uint32_t{0});
  const uint64_t word = words_->pa + static_cast<uint64_t>(context) * 8;
  for (size_t i = 0; i <= count; ++i) {
    const Piece piece = i < count ? pieces[i] : Piece{word, word + 4, 4};
    put(next_, ring_id_, piece, i + 1 == count);
    if (++next_ == kLength) {
      next_ = 0;
      ring_id_ = (ring_id_ + 1) % 4;
    }
  }
  used_ += total;
  transfer.in_use = true;
  transfer.descriptors = total;
  transfer.epoch = epoch_;
  engines_.ring_rx(id_.engine, id_.queue, total);
  engines_.ring_tx(id_.engine, id_.queue, total);
  return 0;
}

H2tRing::Outcome H2tRing::await(int context, bool async) {
  const Transfer& transfer = contexts_[static_cast<size_t>(context)];
  const uint64_t epoch = transfer.epoch;
  const uint32_t descriptors = transfer.descriptors;
  const uint64_t estimate = uint64_t{dhal_.copy_estimate_us} * (descriptors - 1);
  const uint64_t first = async ? 1 : estimate - dhal_.copy_first_delay_cut_us;
  const uint64_t budget_us =
      (uint64_t{dhal_.copy_timeout_us} * (descriptors - 1) - first) * kCopyBudgetScale;
  const base::Ps budget = base::us(budget_us) * timeout_factor_;
  const base::Ps period =
      std::max(context_.params.copy_poll_period, base::us(estimate) / kPollsPerEstimate);
  context_.executor.delay(base::us(first));
  for (base::Ps waited = 0; epoch_ == epoch; waited += period) {
    if (base::load<uint32_t>(marker_target(context)) == kCopyMarker) {
      used_ -= descriptors;
      return Outcome::kDone;
    }
    if (waited >= budget) {
      used_ -= descriptors;
      ++context_.counters.copy_timeouts;
      return Outcome::kTimeout;
    }
    context_.executor.delay(period);
  }
  return Outcome::kLost;  // the ring was freed or restarted underneath
}

int H2tRing::run_batch(const Piece* pieces, size_t count) {
  for (;;) {
    if (dhal_.retry_copy_over_reset) {
      while (resetting_) context_.executor.wait(this, pcie::HostExecutor::kForever);
    }
    if (const int error = submit(uapi::kAsyncSync, pieces, count); error != 0) return error;
    const Outcome outcome = await(uapi::kAsyncSync, false);
    const bool over_reset = resetting_ || outcome == Outcome::kLost;
    if (outcome == Outcome::kDone) {
      contexts_[uapi::kAsyncSync].in_use = false;
      return 0;
    }
    if (!dhal_.retry_copy_over_reset) return -EPERM;
    if (!over_reset) {
      // The descriptors of the failed batch must not be taken for new work: start the queue afresh.
      (void)start();
      return -EPERM;
    }
    ++context_.counters.copy_retries;
  }
}

int H2tRing::transfer(const std::vector<Piece>& pieces) {
  TaskLock lock(mutex_, context_.executor);
  for (size_t at = 0; at < pieces.size(); at += kMaxBatch) {
    const size_t count = std::min<size_t>(kMaxBatch, pieces.size() - at);
    if (const int error = run_batch(pieces.data() + at, count); error != 0) return error;
  }
  return 0;
}

int H2tRing::copy(uint64_t from, uint64_t to, uint64_t bytes) {
  std::vector<Piece> pieces;
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const auto piece = static_cast<uint32_t>(std::min(kPiece, bytes - at));
    pieces.push_back({from + at, to + at, piece});
  }
  return transfer(pieces);
}

// spec/driver-ioctl.md 3.4.4: the first block from the host, the rest copies of that block.
int H2tRing::fill(uint64_t pattern, uint64_t to, uint64_t bytes) {
  const uint64_t head = std::min(kPiece, bytes);
  if (const int error = copy(pattern, to, head); error != 0) return error;
  std::vector<Piece> pieces;
  for (uint64_t at = head; at < bytes; at += kPiece) {
    const auto piece = static_cast<uint32_t>(std::min(kPiece, bytes - at));
    pieces.push_back({to, to + at, piece});
  }
  return transfer(pieces);
}

int H2tRing::start_async(int context, uint64_t from, uint64_t to, uint64_t bytes) {
  std::vector<Piece> pieces;
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const auto piece = static_cast<uint32_t>(std::min(kPiece, bytes - at));
    pieces.push_back({from + at, to + at, piece});
  }
  if (pieces.size() > kMaxBatch) return -EINVAL;
  // Left behind by a client that never collected it: contexts have no owner
  // (spec/driver-ioctl.md 3.4.2).
  if (async_in_use(context)) (void)wait_async(context);
  TaskLock lock(mutex_, context_.executor);
  Transfer& transfer = contexts_[static_cast<size_t>(context)];
  if (pieces.empty()) {  // nothing to move: complete at once
    transfer = {true, 0, epoch_};
    return 0;
  }
  return submit(context, pieces.data(), pieces.size());
}

int H2tRing::wait_async(int context) {
  Transfer& transfer = contexts_[static_cast<size_t>(context)];
  if (!transfer.in_use) return -EINVAL;
  const Outcome outcome = transfer.descriptors == 0 ? Outcome::kDone : await(context, true);
  transfer.in_use = false;
  return outcome == Outcome::kDone ? 0 : -EPERM;
}

}  // namespace driver
