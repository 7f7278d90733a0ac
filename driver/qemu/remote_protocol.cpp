#include "driver/qemu/remote_protocol.h"

#include <string>

namespace driver::qemu::remote {
namespace {

// Offsets in the messages (spec/qemu-remote-pci.md 2).
constexpr size_t kSizeAt = 8;  // of the header, behind four bytes that nobody defines
constexpr size_t kWord = 8;
constexpr size_t kConfigBytes = 12;
constexpr size_t kBarBytes = 24;
constexpr size_t kIrqFds = 2;

base::Error broken(const std::string& what) {
  return {base::Fault::kUsage, 0, "remote PCI", what};
}

// Payload of a command that hosts send; no value for all others.
base::Result<size_t> payload_of(int32_t command) {
  switch (static_cast<Command>(command)) {
    case Command::kSyncSysmem:
      return kMaxPayloadBytes;
    case Command::kConfigWrite:
    case Command::kConfigRead:
      return kConfigBytes;
    case Command::kBarWrite:
    case Command::kBarRead:
      return kBarBytes;
    case Command::kSetIrqFd:
    case Command::kDeviceReset:
      return size_t{0};
    case Command::kReply:
      break;
  }
  return broken("a message with command " + std::to_string(command) + ", which no host sends");
}

size_t fds_of(Command command) {
  if (command == Command::kSyncSysmem) return kRegions;
  return command == Command::kSetIrqFd ? kIrqFds : 0;
}

base::Status decode_memory(base::ConstByteSpan payload, size_t fds, Request& request) {
  for (size_t k = 0; k < kRegions; ++k) {
    MemoryRegion& region = request.memory[k];
    const uint8_t* at = payload.data() + kWord * k;
    region.base = base::load<uint64_t>(at);
    region.size = base::load<uint64_t>(at + kWord * kRegions);
    const auto offset = base::load<int64_t>(at + 2 * kWord * kRegions);
    if (region.size == 0) continue;
    if (k >= fds) return broken("a region of guest memory without a file descriptor");
    if (offset < 0) return broken("a region of guest memory at a negative file offset");
    region.fd_offset = static_cast<uint64_t>(offset);
  }
  return {};
}

}  // namespace

base::Result<Header> decode_header(base::ConstByteSpan bytes) {
  if (bytes.size() != kHeaderBytes) return broken("a header has 16 bytes");
  const auto command = base::load<int32_t>(bytes.data());
  const auto size = base::load<uint64_t>(bytes.data() + kSizeAt);
  const auto expected = payload_of(command);
  if (!expected) return expected.error();
  if (size != *expected) {
    return broken("a message with command " + std::to_string(command) + " has " +
                  std::to_string(size) + " bytes instead of " + std::to_string(*expected));
  }
  return Header{static_cast<Command>(command), *expected};
}

base::Result<Request> decode_payload(const Header& header, base::ConstByteSpan payload,
                                     size_t fds) {
  if (payload.size() != header.payload) return broken("a payload of the wrong size");
  if (fds > fds_of(header.command)) {
    return broken(std::to_string(fds) + " file descriptors with command " +
                  std::to_string(static_cast<int32_t>(header.command)));
  }
  Request request;
  request.command = header.command;
  switch (header.command) {
    case Command::kSyncSysmem: {
      base::Status status = decode_memory(payload, fds, request);
      if (!status) return status.error();
      break;
    }
    case Command::kConfigWrite:
    case Command::kConfigRead: {
      request.address = base::load<uint32_t>(payload.data());
      request.value = base::load<uint32_t>(payload.data() + 4);
      const auto length = base::load<int32_t>(payload.data() + 8);
      if (length != 1 && length != 2 && length != 4) {
        return broken("an access of " + std::to_string(length) + " bytes to configuration space");
      }
      request.size = static_cast<unsigned>(length);
      break;
    }
    case Command::kBarWrite:
    case Command::kBarRead:
      request.address = base::load<uint64_t>(payload.data());
      request.value = base::load<uint64_t>(payload.data() + kWord);
      request.size = base::load<uint32_t>(payload.data() + 2 * kWord);
      request.is_memory = payload[2 * kWord + 4] != 0;
      if (request.size != 1 && request.size != 2 && request.size != 4 && request.size != 8) {
        return broken("an access of " + std::to_string(request.size) + " bytes to a BAR");
      }
      break;
    case Command::kSetIrqFd:
      if (fds != kIrqFds) return broken("interrupts need two file descriptors");
      break;
    case Command::kDeviceReset:
    case Command::kReply:
      break;
  }
  return request;
}

std::array<uint8_t, kHeaderBytes> encode_header(Command command, uint64_t payload) {
  std::array<uint8_t, kHeaderBytes> bytes = {};
  base::store(bytes.data(), static_cast<int32_t>(command));
  base::store(bytes.data() + kSizeAt, payload);
  return bytes;
}

std::array<uint8_t, kReplyBytes> encode_reply(uint64_t value) {
  std::array<uint8_t, kReplyBytes> bytes = {};
  base::store(bytes.data(), static_cast<int32_t>(Command::kReply));
  base::store<uint64_t>(bytes.data() + kSizeAt, kWord);
  base::store(bytes.data() + kHeaderBytes, value);
  return bytes;
}

}  // namespace driver::qemu::remote
