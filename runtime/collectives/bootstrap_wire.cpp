#include "runtime/collectives/bootstrap_wire.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/span.h"
#include "runtime/collectives/types.h"

namespace ccl::wire {
namespace {

// FNV-1a over the protocol's name and version: two builds that differ here must not talk.
uint32_t check_word() {
  uint32_t hash = 2166136261u;
  for (const char c : std::string("collectives bootstrap 1")) {
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

Hello make_hello(uint32_t world, uint32_t rank, const DeviceRecord& record) {
  Hello hello;
  hello.world = world;
  hello.rank = rank;
  std::memcpy(hello.record, record.data(), record.size());
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
  if (hello.rank == 0 || hello.rank >= world) {
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

void Connection::send(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  out_.insert(out_.end(), bytes, bytes + size);
}

void Connection::send(Type type, uint32_t rank, uint32_t tag, const Blob& payload) {
  Header header;
  header.type = static_cast<uint32_t>(type);
  header.tag = tag;
  header.rank = rank;
  header.length = static_cast<uint32_t>(payload.size());
  send(&header, sizeof header);
  send(payload.data(), payload.size());
}

bool Connection::flush() {
  while (!out_.empty()) {
    const ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    out_.erase(out_.begin(), out_.begin() + n);
  }
  return true;
}

bool Connection::fill() {
  uint8_t buffer[65536];
  while (in_.size() < 2 * static_cast<size_t>(kMaxPayload)) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    in_.insert(in_.end(), buffer, buffer + n);
    if (static_cast<size_t>(n) < sizeof buffer) break;
  }
  return true;
}

int Connection::take_hello(Hello* hello) {
  if (in_.empty()) return 0;
  // The magic decides early, so that a few bytes of something else do not keep a slot.
  const uint32_t magic = kMagic;
  if (std::memcmp(in_.data(), &magic, std::min(in_.size(), sizeof magic)) != 0) return -1;
  if (in_.size() < sizeof *hello) return 0;
  *hello = base::load<Hello>(in_.data());
  in_.erase(in_.begin(), in_.begin() + sizeof *hello);
  return 1;
}

int Connection::take_frame(Frame* frame, uint32_t world) {
  if (in_.size() < sizeof(Header)) return 0;
  const auto header = base::load<Header>(in_.data());
  if (header.type < static_cast<uint32_t>(Type::kWelcome) ||
      header.type > static_cast<uint32_t>(Type::kFail) || header.rank >= world ||
      header.length > kMaxPayload) {
    return -1;
  }
  if (in_.size() < sizeof header + header.length) return 0;
  frame->header = header;
  const auto begin = in_.begin() + sizeof header;
  frame->payload.assign(begin, begin + header.length);
  in_.erase(in_.begin(), begin + header.length);
  return 1;
}

}  // namespace ccl::wire
