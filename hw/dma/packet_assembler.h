// Assembles packets from prefetched descriptors and checks them (spec/hw-registers.md 3.5, 3.6,
// 3.9): what they read and write, what they occupy, which errors they carry. Changes nothing but
// the candidate: whoever wants it takes it.
#pragma once

#include <array>
#include <cstdint>

#include "hw/dma/descriptor_queues.h"
#include "hw/dma/dma_context.h"
#include "hw/dma/packet.h"
#include "hw/dma/packet_list.h"

namespace hw {

// Values of registers that packets look at.
struct EngineConfig {
  bool known = false;  // since the last write to a register
  bool stream_on = false;
  bool zero_is_64k = false;
  bool classes = false;  // queues differ in service class
  bool ring_id_masked[2] = {};
  uint32_t scheduled = 0;        // queues whose packets start
  uint32_t prefetching[2] = {};  // queues whose rings are read
  uint32_t dmb_ignored = 0;      // queues
  uint32_t max_bytes = 0;
  uint32_t max_descriptors = 0;
  std::array<uint8_t, DescriptorQueues::kQueues> service_class{};
};

enum class Assembly : uint8_t {
  kNone,        // not all descriptors are there, or it does not fit in the burst
  kPacket,      // may execute
  kStalled,     // a DMB waits for earlier writes
  kError,       // carries causes, and must not execute
  kUnanswered,  // nobody will answer: the queue stands still
};

// Where a packet is looked for: behind these descriptors of its queue.
struct Behind {
  uint32_t tx = 0;
  uint32_t rx = 0;
  bool joins = false;    // the burst of the packets before
  uint64_t packets = 0;  // so many

  void add(const Packet& packet) {
    tx += packet.tx_descriptors;
    rx += packet.rx_descriptors;
    ++packets;
  }
};

class PacketAssembler {
 public:
  // `engine`: what the engine itself moves per time; `domain`: where it sits in the fabric.
  PacketAssembler(DmaContext& context, BandwidthResource& engine, uint32_t domain,
                  PacketList& packets)
      : context_(context), engine_(engine), packets_(packets), domain_(domain) {}

  // The packet of a queue as it would start at `at`: the candidate of the list, whose charges are
  // those of the context.
  Assembly assemble(const QueuePair& queue, uint32_t q, const EngineConfig& config,
                    const Behind& behind, base::Ps at);

 private:
  // Buffers in a row that lie on one path.
  struct SamePath {
    const Path* path = nullptr;
    uint64_t bytes = 0;
  };

  bool read_descriptor(uint64_t address, contract::Descriptor& to);
  bool fetch(const HalfQueue& half, RingPointer from, contract::Descriptor& to);
  Assembly assemble_tx(const HalfQueue& half, uint32_t offset, const EngineConfig& config);
  Assembly assemble_rx(const HalfQueue& half, uint32_t offset, const EngineConfig& config);
  void take_metadata(const contract::Descriptor& d, uint32_t& scale);
  bool take_source(const contract::Descriptor& d, uint32_t scale, bool zero_is_64k);
  void take_sources(uint32_t skip, uint32_t bytes);
  bool compute_shape();
  bool transpose_shape() const;
  bool wrong_ring_id(Half h, bool masked);
  Assembly fail(Half h, uint32_t cause);
  bool fits(const Behind& behind) const;
  Assembly judge();
  void look_at(Half h);
  Space look(Buffer& b, Half h, SamePath& same);
  void charge(SamePath& same);
  uint64_t engine_bytes() const;
  base::Ps overhead(uint64_t bytes) const;

  DmaContext& context_;
  BandwidthResource& engine_;
  PacketList& packets_;
  uint32_t domain_;
};

// Assembles the packets of one queue.
struct PacketSource {
  PacketAssembler& assembler;
  const EngineConfig& config;
  QueuePair& queue;
  uint32_t q;

  Assembly assemble(const Behind& behind, base::Ps at) const {
    return assembler.assemble(queue, q, config, behind, at);
  }
};

}  // namespace hw
