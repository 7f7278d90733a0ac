// One DMA packet as the engine sees it after descriptor prefetch: what it reads, what it writes,
// how many descriptors it consumes. Assembled once (hw/dma/packet_assembler.h), it does not change;
// when it executes stands beside it (hw/dma/packet_list.h). Source: spec/hw-registers.md 3.5, 3.6;
// docs/hardware-contract.md 6.
#pragma once

#include <array>
#include <cstdint>

#include "arch/contract/descriptor.h"
#include "base/units.h"

namespace hw {

class BusTarget;
class Memory;

// Cause bits of the secondary interrupt groups (spec/hw-registers.md 3.9), as the engine raises
// them. An address that answers with an error is an AXI response error (3.6).
namespace m2s_cause {
constexpr uint32_t kStreamResponse = 1u << 2;  // here: an operation word that is not modelled
constexpr uint32_t kDataRead = 1u << 8;
constexpr uint32_t kDescriptorRead = 1u << 11;
constexpr uint32_t kPacketTooLong = 1u << 13;
constexpr uint32_t kTooManyDescriptors = 1u << 14;
constexpr uint32_t kFirst = 1u << 15;
constexpr uint32_t kLast = 1u << 16;
constexpr uint32_t kRingId = 1u << 17;
}  // namespace m2s_cause
namespace s2m_cause {
constexpr uint32_t kDataWrite = 1u << 1;
constexpr uint32_t kDescriptorRead = 1u << 9;
constexpr uint32_t kRingId = 1u << 11;
constexpr uint32_t kLengthMismatch = 1u << 24;
}  // namespace s2m_cause

enum Half : uint8_t { kM2s = 0, kS2m = 1 };

// Who holds a range of addresses.
enum class Holder : uint8_t {
  kElsewhere,  // a host's memory, several places, or nobody; decoded when it is moved
  kMemory,     // plain memory of a chip
  kBlock,      // with registers
  kStage,      // bytes that stand for the range (hw/dma/outward_transfer.h)
};
union HeldBy {
  Memory* memory;
  BusTarget* block;
  uint8_t* stage;
};

// A range of addresses and who holds it, decoded once, when the packet is assembled.
struct Buffer {
  Buffer() = default;
  Buffer(uint64_t at, uint32_t bytes) : address(at), length(bytes) {}

  uint64_t address = 0;
  uint32_t length = 0;
  Holder holder = Holder::kElsewhere;
  HeldBy by{};
  uint64_t offset = 0;  // in memory or block

  bool in_memory() const { return holder == Holder::kMemory; }
  bool in_block() const { return holder == Holder::kBlock; }
};

// Constants of a compute packet, one per source (docs/hardware-contract.md 6).
constexpr uint32_t kMaxSources = contract::DmaCompute::kMaxSources;
using Scales = std::array<uint32_t, kMaxSources>;  // float32, one per source

struct Packet {
  uint8_t queue = 0;
  bool compute = false;
  bool transpose = false;
  bool scattered = false;  // rows that were found through an index
  bool from_sbuf = false;
  bool write_barrier = false;
  bool dmb = false;
  // Receive descriptors are there for a first part only: its M2S descriptors stay.
  bool partial = false;
  // Writes a register, or a word of host memory: a flag that someone may be watching. It takes
  // effect when it is acknowledged; other data are there at the end of the packet.
  bool signal = false;
  // Reads a register: it is read when the packet ends, so nothing may be coalesced behind it.
  bool reads_register = false;
  // Reads or writes outside of the machine: executed by itself, and at work until all have
  // answered.
  bool outward = false;
  bool unanswered = false;  // waits for a chip that is not connected
  uint32_t tx_descriptors = 0;
  uint32_t rx_descriptors = 0;
  uint32_t sources = 0;
  uint32_t destinations = 0;
  uint32_t source_bytes = 0;
  uint32_t bytes = 0;              // destination bytes, of all copies
  uint32_t copies = 1;             // the result is written that often
  contract::DmaCompute operation;  // of a compute packet
  contract::DmaTranspose turn;     // of a transpose packet
  uint32_t errors[2] = {};         // causes to raise per half when the packet starts
  uint32_t noted[2] = {};          // causes that are masked and do not stop the packet
  uint32_t generation[2] = {};     // of the halves of its queue
  base::Ps work = 0;               // of its engine
  base::Ps read_latency = 0;
  base::Ps write_latency = 0;

  // More than a copy: begins with metadata, and ends as a whole.
  bool works() const { return compute || transpose; }
  bool erroneous() const { return errors[kM2s] != 0 || errors[kS2m] != 0; }
  bool scaled() const { return compute && operation.op == contract::ReduceOp::kFma; }
};

}  // namespace hw
