// Bytes of the bootstrap protocol: the HELLO of a new connection, then framed messages. Everything
// that is read from a socket is checked here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "runtime/collectives/bootstrap.h"

namespace ccl::wire {

constexpr uint32_t kMagic = 0x4E43434F;  // collectives.md 4.2
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxPayload = 16u << 20;
constexpr uint32_t kMaxWorld = 65536;

struct Hello {
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t world = 0;
  uint32_t rank = 0;
  uint16_t family = 0;  // own listen address; 0: reached through the root only
  uint16_t port = 0;
  uint8_t address[16] = {};
  uint8_t record[64] = {};
  uint32_t check = 0;
};
static_assert(sizeof(Hello) == 104);

enum class Type : uint32_t {
  kWelcome = 1,  // root accepted the HELLO
  kTable = 2,    // all ranks are here
  kBlob = 3,     // contribution of `rank` to all-gather number `tag` (P2P and BARRIER of the spec)
  kReject = 4,   // text; the HELLO does not fit
  kBye = 5,      // `rank` leaves in good order
  kFail = 6,     // `rank` vanished; text
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

Hello make_hello(uint32_t world, uint32_t rank, const DeviceRecord& record);
// Empty if the HELLO can join a world of this size; otherwise what is wrong.
std::string check_hello(const Hello& hello, uint32_t world);

struct Table {
  std::vector<PeerInfo> peers;
  uint64_t cluster_id = 0;
  int64_t epoch = 0;
};
Blob encode(const Table& table);
base::Result<Table> decode_table(const Blob& payload, uint32_t world);

// A connected socket with its unsent and unparsed bytes; never blocks.
class Connection {
 public:
  explicit Connection(base::UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.valid(); }
  void close() { fd_.reset(); }
  bool wants_write() const { return !out_.empty(); }

  void send(const void* data, size_t size);
  void send(Type type, uint32_t rank, uint32_t tag, const Blob& payload = {});
  // Moves what the socket takes or has; false when the peer is gone.
  bool flush();
  bool fill();

  // Next complete message; 0 nothing yet, 1 taken, -1 malformed.
  int take_hello(Hello* hello);
  int take_frame(Frame* frame, uint32_t world);

 private:
  base::UniqueFd fd_;
  std::vector<uint8_t> in_;
  std::vector<uint8_t> out_;
};

}  // namespace ccl::wire
