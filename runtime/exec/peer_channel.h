// One direction of transfer between two cores: a TCP connection between their processes, and the
// requests on it, which match in order (spec/nrt-api.md 12.3). No thread: every call moves what can
// be moved at once. Bytes take no simulated time between hosts: there is no model of a network.
// Own: the wire protocol. Frames of 16 bytes; a receiver offers the room of each receive in turn, a
// sender answers with the bytes or with a refusal.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/span.h"

namespace nrt {

struct PeerLimits {
  uint16_t port = 45645;  // of core 0; that of core n is n higher
  std::chrono::milliseconds connect{60'000};
  std::chrono::milliseconds stall{60'000};  // of a transfer without progress
};

// Where a transfer reads or writes, in device memory or not.
class TransferMemory {
 public:
  virtual ~TransferMemory() = default;
  virtual base::Status read(uint64_t offset, base::ByteSpan to) = 0;
  virtual base::Status write(uint64_t offset, base::ConstByteSpan from) = 0;
};

struct Transfer {
  std::unique_ptr<TransferMemory> memory;
  uint64_t length = 0;  // of the caller; at the end what was moved
  uint64_t moved = 0;
  bool begun = false;  // the sides have agreed on `length`
  bool done = false;
  base::Status status;  // of a finished one
  std::chrono::steady_clock::time_point progress;
};

class PeerChannel {
 public:
  static constexpr size_t kMaxPending = 64;

  // The sending end, towards a listener. Its turn comes when `before`, the last channel to the same
  // peer, is connected or has failed: peers match channels in the order of their creation.
  PeerChannel(std::string host, uint32_t peer, uint32_t own, const PeerLimits& limits,
              std::shared_ptr<PeerChannel> before);
  // The receiving end; attach() gives it its connection.
  explicit PeerChannel(const PeerLimits& limits);

  bool sender() const { return sender_; }
  void attach(base::UniqueFd connection);
  bool attached();

  // Any thread. NRT_TIMEOUT, NRT_FAILURE: it has failed for good.
  base::Result<bool> connected();
  // NRT_RESOURCE: too many unfinished ones; NRT_FAILURE: not connected.
  base::Result<std::shared_ptr<Transfer>> start(std::unique_ptr<TransferMemory> memory,
                                                uint64_t length);
  // True: finished, with its status.
  bool advance(const Transfer& transfer);
  bool idle();  // connected, no unfinished transfer

 private:
  enum class State { kWaiting, kConnecting, kGreeting, kReady, kFailed };
  struct Frame {
    uint32_t magic = 0;
    uint32_t kind = 0;
    uint64_t value = 0;
  };
  using Lock = std::lock_guard<std::mutex>;
  using Clock = std::chrono::steady_clock;

  // The mutex is held.
  void connect();
  void try_connect();
  void try_again();
  void progress();
  void serve(Transfer* transfer);
  void send_some(Transfer* transfer);
  void receive_some(Transfer* transfer);
  bool take_frame(Frame* frame);
  void put_frame(uint32_t kind, uint64_t value);
  int write_out();
  bool flush();
  size_t get(uint8_t* to, size_t size);
  void fail(base::Error why);
  void finish(Transfer* transfer, base::Status status);

  const bool sender_;
  const std::string host_;
  const uint32_t peer_ = 0;
  const uint32_t own_ = 0;
  const PeerLimits limits_;
  std::mutex mutex_;
  std::shared_ptr<PeerChannel> before_;
  State state_ = State::kWaiting;
  base::Status failure_;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point next_try_ = Clock::now();
  base::UniqueFd socket_;
  std::vector<uint8_t> out_;    // not yet taken by the kernel
  std::vector<uint8_t> frame_;  // part of one that has come
  std::deque<std::shared_ptr<Transfer>> pending_;
};

// First frame of a connection: which core of the other host sends. None yet: not all has come.
// An error: a stranger, or the end of the connection.
base::Result<std::optional<uint32_t>> peek_sender(int connection);

}  // namespace nrt
