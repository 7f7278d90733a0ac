// Notification queue entries (spec/hw-registers.md 5 leaves the layout open;
// docs/hardware-contract.md 4).
#pragma once

#include <cstdint>

namespace contract {

enum class NqType : uint8_t {
  kTrace = 0,
  kNotify = 1,
  kEvent = 2,
  kError = 3,
  kTraceDma = 4,
  kThrottle = 5
};

// 32 bytes, little-endian, written in one piece. The phase is 1 on the first lap of a ring that
// starts zeroed and flips at each wrap; an entry is new while its phase equals the consumer's.
struct NqEntry {
  uint32_t header = 0;  // phase [31], engine, CC-core or DMA queue [15:8], NqType [3:0]
  // NOTIFY: the instruction's payload; ERROR: error code; TRACE: opcode; TRACE_DMA: bytes
  uint32_t payload = 0;
  uint64_t timestamp = 0;  // device time in picoseconds
  uint64_t debug_id = 0;   // debug id of the instruction, 0 for CC-cores; TRACE_DMA: start
  uint32_t pc = 0;         // record index; TRACE_DMA: pointer of the first descriptor
  uint32_t info = 0;       // ERROR: detail (address low, semaphore index); TRACE_DMA: descriptors

  static constexpr uint32_t kPhase = 1u << 31;
  static constexpr uint32_t make_header(NqType type, uint32_t source, bool phase) {
    return (phase ? kPhase : 0) | (source & 0xFF) << 8 | static_cast<uint32_t>(type);
  }
  constexpr NqType type() const { return static_cast<NqType>(header & 15); }
  constexpr uint32_t source() const { return (header >> 8) & 0xFF; }
  constexpr bool phase() const { return (header & kPhase) != 0; }
};
static_assert(sizeof(NqEntry) == 32);

// Payload convention of CC programs: what happened to which operation.
namespace cc_notify {
constexpr uint32_t kOpStart = 1u << 16;
constexpr uint32_t kOpEnd = 2u << 16;
constexpr uint32_t kOutOfBounds = 3u << 16;  // a block left its buffers; once per operation
constexpr uint32_t kOpMask = 0xFFFF;         // op_index of the trigger
}  // namespace cc_notify

}  // namespace contract
