#include "runtime/collectives/bootstrap_wire.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/span.h"
#include "runtime/collectives/types.h"

namespace ccl::wire {
namespace {

// FNV-1a over the protocol's name and version: two builds that differ here must not talk.
uint32_t check_word() {
  uint32_t hash = 2166136261u;
  for (const char c : std::string("collectives bootstrap 2")) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  }
  return hash;
}

struct TableHead {
  uint32_t count = 0;
  uint32_t reserved = 0;
  uint64_t cluster_id = 0;
  int64_t epoch = 0;
};
struct TableEntry {
  uint32_t rank = 0;
  uint16_t family = 0;
  uint16_t port = 0;
  uint8_t address[16] = {};
  uint8_t record[64] = {};
};
static_assert(sizeof(TableHead) == 24 && sizeof(TableEntry) == 88);

}  // namespace

ProcessId process_id() {
  static const uint64_t random = [] {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }();
  ProcessId id{};
  base::store<uint64_t>(id.data(), random);
  base::store<uint64_t>(id.data() + 8, static_cast<uint64_t>(::getpid()));  // a fork has its own
  return id;
}

Hello make_hello(uint32_t world, uint32_t rank, const DeviceRecord& record) {
  Hello hello;
  hello.world = world;
  hello.rank = rank;
  std::memcpy(hello.record, record.data(), record.size());
  const ProcessId id = process_id();
  std::memcpy(hello.address, id.data(), id.size());
  hello.check = check_word();
  return hello;
}

std::string check_hello(const Hello& hello, uint32_t world) {
  if (hello.version != kVersion || hello.check != check_word()) {
    return "another version of the collectives library";
  }
  if (hello.world != world) {
    return "a world of " + std::to_string(hello.world) + " ranks, the root has " +
           std::to_string(world);
  }
  if (hello.rank >= world) {
    return "rank " + std::to_string(hello.rank) + " in a world of " + std::to_string(world);
  }
  return {};
}

Blob encode(const Table& table) {
  Blob out(sizeof(TableHead) + table.peers.size() * sizeof(TableEntry));
  TableHead head;
  head.count = static_cast<uint32_t>(table.peers.size());
  head.cluster_id = table.cluster_id;
  head.epoch = table.epoch;
  base::store(out.data(), head);
  for (size_t i = 0; i < table.peers.size(); ++i) {
    TableEntry entry;
    entry.rank = table.peers[i].rank;
    std::memcpy(entry.record, table.peers[i].record.data(), sizeof entry.record);
    base::store(out.data() + sizeof head + i * sizeof entry, entry);
  }
  return out;
}

base::Result<Table> decode_table(const Blob& payload, uint32_t world) {
  const base::Error bad{base::Fault::kIo, kNrtFailure, "bootstrap",
                        "the root sent a malformed table"};
  if (payload.size() != sizeof(TableHead) + uint64_t{world} * sizeof(TableEntry)) return bad;
  const auto head = base::load<TableHead>(payload.data());
  if (head.count != world) return bad;
  Table table;
  table.cluster_id = head.cluster_id;
  table.epoch = head.epoch;
  for (uint32_t i = 0; i < world; ++i) {
    const auto entry =
        base::load<TableEntry>(payload.data() + sizeof head + i * sizeof(TableEntry));
    if (entry.rank != i) return bad;
    PeerInfo peer;
    peer.rank = i;
    std::memcpy(peer.record.data(), entry.record, sizeof entry.record);
    table.peers.push_back(peer);
  }
  return table;
}

// A length per rank, then the bytes of all.
Blob encode(const Gathered& gathered) {
  Blob out(gathered.size() * sizeof(uint32_t));
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    base::store(out.data() + rank * sizeof(uint32_t), static_cast<uint32_t>(gathered[rank].size()));
    out.insert(out.end(), gathered[rank].begin(), gathered[rank].end());
  }
  return out;
}

base::Result<Gathered> decode_gathered(const Blob& payload, uint32_t world) {
  const base::Error bad{base::Fault::kIo, kNrtFailure, "bootstrap",
                        "the root sent malformed contributions"};
  size_t at = uint64_t{world} * sizeof(uint32_t);
  if (payload.size() < at) return bad;
  std::vector<Blob> blobs;
  blobs.reserve(world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    const auto bytes = base::load<uint32_t>(payload.data() + rank * sizeof(uint32_t));
    if (bytes > payload.size() - at) return bad;
    blobs.emplace_back(payload.data() + at, payload.data() + at + bytes);
    at += bytes;
  }
  if (at != payload.size()) return bad;
  return Gathered(std::move(blobs));
}

Message make_message(Type type, uint32_t rank, uint32_t tag, const Blob& payload) {
  Header header;
  header.type = static_cast<uint32_t>(type);
  header.tag = tag;
  header.rank = rank;
  header.length = static_cast<uint32_t>(payload.size());
  auto message = std::make_shared<Blob>(sizeof header + payload.size());
  base::store(message->data(), header);
  std::copy(payload.begin(), payload.end(), message->begin() + sizeof header);
  return message;
}

bool Connection::flush() {
  constexpr size_t kParts = 64;
  while (!out_.empty()) {
    iovec parts[kParts];
    size_t count = 0;
    for (; count < std::min(kParts, out_.size()); ++count) {
      const Blob& blob = *out_[count];
      parts[count] = {const_cast<uint8_t*>(blob.data()), blob.size()};
    }
    parts[0] = {static_cast<uint8_t*>(parts[0].iov_base) + sent_, parts[0].iov_len - sent_};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<size_t>(n);
    while (!out_.empty() && sent_ >= out_.front()->size()) {
      sent_ -= out_.front()->size();
      out_.pop_front();
    }
  }
  return true;
}

bool Connection::fill() {
  uint8_t buffer[65536];
  // Room for one message and a piece of the next.
  while (unparsed() < sizeof(Header) + static_cast<size_t>(limit_) + sizeof buffer) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    in_.insert(in_.end(), buffer, buffer + n);
    if (static_cast<size_t>(n) < sizeof buffer) break;
  }
  return true;
}

// Moves the rest to the front only when that is cheap.
void Connection::parsed(size_t bytes) {
  parsed_ += bytes;
  if (unparsed() > in_.size() / 2) return;
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(parsed_));
  parsed_ = 0;
}

int Connection::take_hello(Hello* hello) {
  if (unparsed() == 0) return 0;
  // The magic decides early, so that a few bytes of something else do not keep a connection.
  const uint32_t magic = kMagic;
  const uint8_t* at = in_.data() + parsed_;
  if (std::memcmp(at, &magic, std::min(unparsed(), sizeof magic)) != 0) return -1;
  if (unparsed() < sizeof *hello) return 0;
  *hello = base::load<Hello>(at);
  parsed(sizeof *hello);
  return 1;
}

int Connection::take_frame(Frame* frame, uint32_t world) {
  if (unparsed() < sizeof(Header)) return 0;
  const uint8_t* at = in_.data() + parsed_;
  const auto header = base::load<Header>(at);
  if (header.type < static_cast<uint32_t>(Type::kWelcome) ||
      header.type > static_cast<uint32_t>(Type::kMissing) || header.rank >= world ||
      header.length > limit_) {
    return -1;
  }
  if (unparsed() < sizeof header + header.length) return 0;
  frame->header = header;
  frame->payload.assign(at + sizeof header, at + sizeof header + header.length);
  parsed(sizeof header + header.length);
  return 1;
}

}  // namespace ccl::wire
