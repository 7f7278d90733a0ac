// DMA to ranges that came without a file: "VFIO_USER_DMA_READ" and "VFIO_USER_DMA_WRITE" of the
// vfio-user document, on the client's own socket. The machine waits for the answer in wall time,
// since a device's access to memory is one step of it; commands that arrive meanwhile are kept.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "driver/qemu/vfio_user.h"

namespace driver::qemu {
namespace {

using std::chrono::milliseconds;
using vfio::Header;

// A client that stops for longer is dropped; its guest would see a hung device anyway.
constexpr milliseconds kAnswerWithin{2000};
// Commands kept while an answer is awaited.
constexpr size_t kMaxDeferred = 256;
constexpr size_t kMaxDeferredBytes = 8 << 20;

}  // namespace

bool VfioUser::dma_read(uint64_t address, base::ByteSpan to) {
  for (size_t done = 0; done < to.size();) {
    const size_t n = std::min<size_t>(to.size() - done, max_transfer_);
    if (!exchange(vfio::Command::kDmaRead, {address + done, n}, {}, to.sub(done, n))) return false;
    done += n;
  }
  return true;
}

bool VfioUser::dma_write(uint64_t address, base::ConstByteSpan from) {
  for (size_t done = 0; done < from.size();) {
    const size_t n = std::min<size_t>(from.size() - done, max_transfer_);
    if (!exchange(vfio::Command::kDmaWrite, {address + done, n}, from.sub(done, n), {})) {
      return false;
    }
    done += n;
  }
  return true;
}

// One command to the client and its reply.
bool VfioUser::exchange(vfio::Command command, const vfio::DmaAccess& access,
                        base::ConstByteSpan from, base::ByteSpan to) {
  if (!broken_.ok()) return false;
  Header header;
  header.id = next_id_++;
  header.command = static_cast<uint16_t>(command);
  std::vector<uint8_t> bytes(sizeof header + sizeof access);
  base::store(bytes.data() + sizeof header, access);
  bytes.insert(bytes.end(), from.begin(), from.end());
  stream_.send(header, std::move(bytes));

  Message reply;
  if (!wait_for_reply(command, header.id, reply)) return false;
  if ((reply.header.flags & vfio::kFlagError) != 0) return false;  // a bus error, nothing worse
  const size_t size = reply.payload.size();
  const bool fits = to.empty() ? size == sizeof access || size == vfio::kDmaWriteReplyShort
                               : size == sizeof access + to.size();
  if (!fits || base::load<uint64_t>(reply.payload.data()) != access.address ||
      base::load<uint32_t>(reply.payload.data() + sizeof access.address) != access.count) {
    give_up({base::Fault::kUsage, EPROTO, "vfio-user", "an answer of another size than its DMA"});
    return false;
  }
  std::copy_n(reply.payload.begin() + sizeof access, to.size(), to.begin());
  return true;
}

bool VfioUser::wait_for_reply(vfio::Command command, uint16_t id, Message& reply) {
  const auto deadline = std::chrono::steady_clock::now() + kAnswerWithin;
  while (broken_.ok()) {
    if (base::Status sent = stream_.flush(); !sent) {
      give_up(sent.error());
      return false;
    }
    auto message = stream_.receive();
    if (!message) {
      give_up(message.error());
      return false;
    }
    if (message->has_value()) {
      if (take_reply(**message, command, id, reply)) return true;
      continue;
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      std::string why = "the client does not answer a DMA";
      // It waits itself, for an answer that comes after this one.
      if (!deferred_.empty()) why += std::string(" to memory without a file: ") + vfio::kShareHint;
      give_up({base::Fault::kIo, ETIMEDOUT, "vfio-user", std::move(why)});
      return false;
    }
    const auto events = static_cast<short>(POLLIN | (stream_.pending() > 0 ? POLLOUT : 0));
    pollfd wait{stream_.fd(), events, 0};
    ::poll(&wait, 1, static_cast<int>(left.count()));
  }
  return false;
}

// True if it is the awaited reply; a command is kept for serve().
bool VfioUser::take_reply(Message& message, vfio::Command command, uint16_t id, Message& reply) {
  const Header& header = message.header;
  if ((header.flags & vfio::kFlagType) == vfio::kTypeReply) {
    if (header.id == id && header.command == static_cast<uint16_t>(command)) {
      reply = std::move(message);
      return true;
    }
    give_up({base::Fault::kUsage, EPROTO, "vfio-user", "a reply to nothing"});
    return false;
  }
  deferred_bytes_ += message.payload.size();
  deferred_.push_back(std::move(message));
  if (deferred_.size() > kMaxDeferred || deferred_bytes_ > kMaxDeferredBytes) {
    give_up({base::Fault::kUsage, EPROTO, "vfio-user", "too many commands before a DMA's answer"});
    return false;
  }
  set_wake(true);
  return false;
}

}  // namespace driver::qemu
