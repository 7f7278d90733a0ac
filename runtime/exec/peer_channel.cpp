#include "runtime/exec/peer_channel.h"

#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/collectives/sockets.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

using ccl::wire::start_connect;

constexpr uint32_t kMagic = 0x7074726E;  // "nrtp"
constexpr std::chrono::milliseconds kRetry{50};
constexpr size_t kPiece = 1u << 20;    // one read or write of device memory
constexpr size_t kPiecesPerCall = 16;  // a caller that polls gets its turn

enum Kind : uint32_t { kHello = 1, kWelcome, kRoom, kData, kRefusal };

bool would_block(int code) {
  return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

base::Error gone() {
  return error(NRT_FAILURE, "The connection was closed by the remote peer", base::Fault::kIo);
}

}  // namespace

PeerChannel::PeerChannel(std::string host, uint32_t peer, uint32_t own, const PeerLimits& limits,
                         std::shared_ptr<PeerChannel> before)
    : sender_(true),
      host_(std::move(host)),
      peer_(peer),
      own_(own),
      limits_(limits),
      before_(std::move(before)) {}

PeerChannel::PeerChannel(const PeerLimits& limits) : sender_(false), limits_(limits) {}

void PeerChannel::attach(base::UniqueFd connection) {
  const Lock lock(mutex_);
  if (state_ != State::kWaiting) return;
  socket_ = std::move(connection);
  Frame hello;
  if (!take_frame(&hello)) return;  // peek_sender() has seen it
  put_frame(kWelcome, 0);
  if (state_ == State::kWaiting) state_ = State::kReady;
}

bool PeerChannel::attached() {
  const Lock lock(mutex_);
  return state_ != State::kWaiting;
}

base::Result<bool> PeerChannel::connected() {
  const Lock lock(mutex_);
  connect();
  if (state_ == State::kFailed) return failure_.error();
  return state_ == State::kReady;
}

bool PeerChannel::idle() {
  const Lock lock(mutex_);
  progress();
  return state_ == State::kReady && pending_.empty() && out_.empty();
}

// ---- Setting up ----

void PeerChannel::connect() {
  if (sender_ && state_ == State::kWaiting) {
    // Channels wait for older ones only, so locks nest in one direction.
    if (before_) {
      const auto ready = before_->connected();
      if (!ready || *ready) before_.reset();
    }
    if (!before_ && Clock::now() >= next_try_) try_connect();
  }
  if (state_ == State::kConnecting) {
    const int code = ccl::wire::connected(socket_.get());
    if (code != 0 || write_out() != 0) {
      try_again();  // nobody listens yet
    } else if (out_.empty()) {
      state_ = State::kGreeting;
    }
  }
  Frame frame;
  if (state_ == State::kGreeting && take_frame(&frame)) {
    if (frame.kind == kWelcome) {
      state_ = State::kReady;
    } else {
      try_again();  // the kernel has connected the socket with itself
    }
  }
  const bool pending = state_ != State::kReady && state_ != State::kFailed;
  if (pending && Clock::now() - begun_ >= limits_.connect) {
    fail(error(NRT_TIMEOUT,
               "No connection to the peer after " + std::to_string(limits_.connect.count()) + " ms",
               base::Fault::kIo));
  }
}

void PeerChannel::try_again() {
  socket_.reset();
  next_try_ = Clock::now() + kRetry;
  state_ = State::kWaiting;
}

void PeerChannel::try_connect() {
  next_try_ = Clock::now() + kRetry;
  const auto port = static_cast<uint16_t>(limits_.port + peer_);
  auto made = start_connect({host_, port});
  if (!made) return;  // refused for now, or a name that cannot be resolved yet
  socket_ = std::move(*made);
  state_ = State::kConnecting;
  out_.clear();
  frame_.clear();
  put_frame(kHello, own_);
}

// ---- Transfers ----

base::Result<std::shared_ptr<Transfer>> PeerChannel::start(std::unique_ptr<TransferMemory> memory,
                                                           uint64_t length) {
  const Lock lock(mutex_);
  if (state_ == State::kFailed) return failure_.error();
  if (state_ != State::kReady) return error(NRT_FAILURE, "The communicator is not connected");
  if (pending_.size() >= kMaxPending) {
    return error(NRT_RESOURCE,
                 std::to_string(kMaxPending) + " requests of the communicator are unfinished");
  }
  auto transfer = std::make_shared<Transfer>();
  transfer->memory = std::move(memory);
  transfer->length = length;
  transfer->progress = Clock::now();
  pending_.push_back(transfer);
  if (!sender_) put_frame(kRoom, length);
  progress();
  return transfer;
}

bool PeerChannel::advance(const Transfer& transfer) {
  const Lock lock(mutex_);
  progress();
  if (transfer.done || pending_.empty()) return transfer.done;
  // Those behind the first wait for it.
  if (Clock::now() - pending_.front()->progress >= limits_.stall) {
    fail(error(
        NRT_TIMEOUT,
        "The transfer has made no progress for " + std::to_string(limits_.stall.count()) + " ms",
        base::Fault::kIo));
  }
  return transfer.done;
}

void PeerChannel::progress() {
  if (state_ != State::kReady || !flush()) return;  // what is under way goes first
  for (size_t pieces = 0; pieces < kPiecesPerCall && state_ == State::kReady; ++pieces) {
    if (pending_.empty() || !out_.empty()) return;
    const std::shared_ptr<Transfer> first = pending_.front();
    const uint64_t before = first->moved;
    const bool begun = first->begun;
    serve(first.get());
    if (first->done || first->moved != before || first->begun != begun) {
      first->progress = Clock::now();
      if (!pending_.empty()) pending_.front()->progress = first->progress;
      continue;
    }
    return;
  }
}

void PeerChannel::serve(Transfer* transfer) {
  if (transfer->begun) return sender_ ? send_some(transfer) : receive_some(transfer);
  Frame frame;
  if (!take_frame(&frame)) return;
  if (sender_ && frame.kind == kRoom) {
    if (frame.value < transfer->length) {
      put_frame(kRefusal, transfer->length);
      return finish(transfer,
                    error(NRT_FAILURE, "The peer receives " + std::to_string(frame.value) + " of " +
                                           std::to_string(transfer->length) + " bytes"));
    }
    transfer->begun = true;
    put_frame(kData, transfer->length);
  } else if (!sender_ && frame.kind == kData && frame.value <= transfer->length) {
    transfer->begun = true;
    transfer->length = frame.value;
    if (transfer->length == 0) finish(transfer, {});
  } else if (!sender_ && frame.kind == kRefusal) {
    finish(transfer, error(NRT_FAILURE, "The peer sends " + std::to_string(frame.value) +
                                            " bytes, more than are received"));
  } else {
    fail(error(NRT_FAILURE, "The peer sent a message out of order", base::Fault::kIo));
  }
}

// Done when the kernel has all of it.
void PeerChannel::send_some(Transfer* transfer) {
  const uint64_t n = std::min<uint64_t>(kPiece, transfer->length - transfer->moved);
  if (n != 0) {
    out_.resize(n);
    if (base::Status s = transfer->memory->read(transfer->moved, {out_.data(), n}); !s.ok()) {
      return fail(s.error());  // the peer waits for these bytes
    }
    transfer->moved += n;
  }
  if (flush() && transfer->moved == transfer->length) finish(transfer, {});
}

void PeerChannel::receive_some(Transfer* transfer) {
  std::vector<uint8_t> piece(std::min<uint64_t>(kPiece, transfer->length - transfer->moved));
  const size_t n = get(piece.data(), piece.size());
  if (n == 0) return;
  if (base::Status s = transfer->memory->write(transfer->moved, {piece.data(), n}); !s.ok()) {
    return fail(s.error());
  }
  transfer->moved += n;
  if (transfer->moved == transfer->length) finish(transfer, {});
}

void PeerChannel::finish(Transfer* transfer, base::Status status) {
  if (transfer->done) return;
  transfer->status = std::move(status);
  transfer->memory.reset();
  transfer->done = true;
  if (!pending_.empty() && pending_.front().get() == transfer) pending_.pop_front();
}

void PeerChannel::fail(base::Error why) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  failure_ = why;
  socket_.reset();
  out_.clear();
  while (!pending_.empty()) {
    const std::shared_ptr<Transfer> transfer = pending_.front();
    finish(transfer.get(), why);
  }
}

// ---- Bytes ----

void PeerChannel::put_frame(uint32_t kind, uint64_t value) {
  const Frame frame{kMagic, kind, value};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&frame);
  out_.insert(out_.end(), bytes, bytes + sizeof frame);
  if (state_ != State::kConnecting) flush();
}

// errno of a connection that is broken, else 0.
int PeerChannel::write_out() {
  size_t sent = 0;
  int broken = 0;
  while (sent < out_.size() && broken == 0) {
    const ssize_t n = ::send(socket_.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (would_block(errno) || errno == ENOTCONN) {
      break;
    } else {
      broken = errno;
    }
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(sent));
  return broken;
}

// True: nothing is left.
bool PeerChannel::flush() {
  if (write_out() != 0) fail(gone());
  return state_ != State::kFailed && out_.empty();
}

size_t PeerChannel::get(uint8_t* to, size_t size) {
  const ssize_t n = ::recv(socket_.get(), to, size, 0);
  if (n > 0) return static_cast<size_t>(n);
  if (n == 0 || !would_block(errno)) fail(gone());
  return 0;
}

bool PeerChannel::take_frame(Frame* frame) {
  const size_t had = frame_.size();
  frame_.resize(sizeof *frame);
  const size_t got = get(frame_.data() + had, sizeof *frame - had);
  frame_.resize(had + got);
  if (frame_.size() < sizeof *frame) return false;
  std::memcpy(frame, frame_.data(), sizeof *frame);
  frame_.clear();
  if (frame->magic == kMagic) return true;
  fail(error(NRT_FAILURE, "The peer does not speak this protocol", base::Fault::kIo));
  return false;
}

base::Result<std::optional<uint32_t>> peek_sender(int connection) {
  struct {
    uint32_t magic = 0;
    uint32_t kind = 0;
    uint64_t value = 0;
  } hello;
  const ssize_t n = ::recv(connection, &hello, sizeof hello, MSG_PEEK);
  if (n == 0 || (n < 0 && !would_block(errno))) return gone();
  if (n < static_cast<ssize_t>(sizeof hello)) return std::optional<uint32_t>();
  if (hello.magic != kMagic || hello.kind != kHello || hello.value > UINT32_MAX) {
    return error(NRT_FAILURE, "A stranger has connected", base::Fault::kIo);
  }
  return std::optional<uint32_t>(static_cast<uint32_t>(hello.value));
}

}  // namespace nrt
