// Messages of QEMU's proxy PCI device (x-pci-proxy-dev) and their checks, without a socket.
// Source of truth: spec/qemu-remote-pci.md. A header says what payload to expect; a payload is
// checked against its header and the number of descriptors that came along. Pure: bytes in,
// requests out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/span.h"

namespace driver::qemu::remote {

enum class Command : int32_t {
  kSyncSysmem = 0,
  kReply = 1,  // what we send
  kConfigWrite = 2,
  kConfigRead = 3,
  kBarWrite = 4,
  kBarRead = 5,
  kSetIrqFd = 6,
  kDeviceReset = 7,
};

constexpr size_t kHeaderBytes = 16;
constexpr size_t kRegions = 8;            // in a table of guest memory
constexpr size_t kMaxPayloadBytes = 192;  // that table
constexpr size_t kReplyBytes = 24;
constexpr size_t kMaxFds = kRegions;

struct Header {
  Command command = Command::kReply;
  size_t payload = 0;  // bytes, at most kMaxPayloadBytes
};

struct MemoryRegion {
  uint64_t base = 0;  // guest physical
  uint64_t size = 0;  // 0: unused
  uint64_t fd_offset = 0;
};

struct Request {
  Command command = Command::kReply;
  std::array<MemoryRegion, kRegions> memory = {};  // kSyncSysmem; descriptor k belongs to region k
  uint64_t address = 0;  // configuration space: offset; BAR: guest physical address
  uint64_t value = 0;    // writes
  unsigned size = 0;     // bytes of the access
  bool is_memory = true;
};

base::Result<Header> decode_header(base::ConstByteSpan bytes);
base::Result<Request> decode_payload(const Header& header, base::ConstByteSpan payload, size_t fds);
std::array<uint8_t, kReplyBytes> encode_reply(uint64_t value);

// For peers of a front end: tests, and tools that play the part of QEMU.
std::array<uint8_t, kHeaderBytes> encode_header(Command command, uint64_t payload);

}  // namespace driver::qemu::remote
