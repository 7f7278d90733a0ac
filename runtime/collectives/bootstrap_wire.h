// Bytes of the bootstrap protocol: the HELLO of a new connection, then framed messages. Everything
// that is read from a socket is checked here.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "runtime/collectives/bootstrap.h"

namespace ccl::wire {

constexpr uint32_t kMagic = 0x4E43434F;  // spec/collectives.md 4.2
constexpr uint32_t kVersion = 3;
constexpr uint32_t kMaxPayload = 16u << 20;  // of a message to the root
constexpr uint32_t kMaxGathered = 1u << 30;  // of one from the root
constexpr uint32_t kMaxWorld = 65536;

struct Hello {
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t world = 0;
  uint32_t rank = 0;
  uint16_t family = 0;  // own listen address; 0: reached through the root only
  uint16_t port = 0;
  uint8_t address[16] = {};  // family 0: process_id() of the sender
  uint8_t record[64] = {};
  uint32_t check = 0;
};
static_assert(sizeof(Hello) == 104);

enum class Type : uint32_t {
  kWelcome = 1,   // root accepted the HELLO
  kTable = 2,     // all ranks are here
  kBlob = 3,      // contribution of `rank` to all-gather number `tag` (P2P and BARRIER of the spec)
  kReject = 4,    // text; the HELLO does not fit
  kBye = 5,       // `rank` leaves in good order, after `tag` contributions
  kFail = 6,      // `rank` vanished; text
  kGathered = 7,  // all-gather number `tag` is complete: all contributions
  kHere = 8,    // the same for the table (tag 0) or all-gather number `tag` - 1, where the receiver
                // is in the process of the root, which has put it into Shared
  kAsk = 9,     // to the root: who is behind `tag` executions? From it: how many have you begun?
  kBegun = 10,  // `tag` executions
  kMissing = 11,  // text: the answer of the root
};

struct Header {
  uint32_t type = 0;
  uint32_t tag = 0;
  uint32_t rank = 0;
  uint32_t length = 0;
};
static_assert(sizeof(Header) == 16);

struct Frame {
  Header header;
  Blob payload;
};

using ProcessId = std::array<uint8_t, 16>;
ProcessId process_id();  // no other process has it

Hello make_hello(uint32_t world, uint32_t rank, const DeviceRecord& record);
// Empty if the HELLO is of a rank of a world of this size; otherwise what is wrong.
std::string check_hello(const Hello& hello, uint32_t world);

struct Table {
  std::vector<PeerInfo> peers;
  uint64_t cluster_id = 0;
  int64_t epoch = 0;
};
Blob encode(const Table& table);
base::Result<Table> decode_table(const Blob& payload, uint32_t world);

Blob encode(const Gathered& gathered);
base::Result<Gathered> decode_gathered(const Blob& payload, uint32_t world);

// A message ready to send to any number of connections.
using Message = std::shared_ptr<const Blob>;
Message make_message(Type type, uint32_t rank, uint32_t tag, const Blob& payload = {});

// A connected socket with its unsent and unparsed bytes; never blocks.
class Connection {
 public:
  // `limit`: the largest payload that the other side may send.
  Connection(base::UniqueFd fd, uint32_t limit) : fd_(std::move(fd)), limit_(limit) {}

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.valid(); }
  void close() { fd_.reset(); }
  bool wants_write() const { return !out_.empty(); }

  void send(Message message) { out_.push_back(std::move(message)); }
  void send(Type type, uint32_t rank, uint32_t tag, const Blob& payload = {}) {
    send(make_message(type, rank, tag, payload));
  }
  // Moves what the socket takes or has; false when the peer is gone.
  bool flush();
  bool fill();

  // Next complete message; 0 nothing yet, 1 taken, -1 malformed.
  int take_hello(Hello* hello);
  int take_frame(Frame* frame, uint32_t world);

 private:
  size_t unparsed() const { return in_.size() - parsed_; }
  void parsed(size_t bytes);

  base::UniqueFd fd_;
  uint32_t limit_;
  std::vector<uint8_t> in_;
  size_t parsed_ = 0;  // bytes at the front of in_ that are done with
  std::deque<Message> out_;
  size_t sent_ = 0;  // bytes of the first message in out_
};

}  // namespace ccl::wire
