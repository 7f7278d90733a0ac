// What a DMA engine tells the checker (hw/check). Each of its queues is an agent: packets run in
// order, behind the doorbells that announced their descriptors, and a signal releases all packets
// of its queue before it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "hw/check/checker.h"
#include "hw/dma/packet.h"

namespace hw {

class DmaChecks {
 public:
  static constexpr uint32_t kQueues = 16;

  DmaChecks(check::Checker& checker, std::string name)
      : checker_(checker), name_(std::move(name)) {}

  // Whoever acts has announced so many descriptors.
  void rung(uint32_t q, Half h, uint32_t count);
  // The queue has been emptied.
  void reset(uint32_t q, Half h);
  // A packet ends: its data are about to move, or its source has been read, for a signal.
  void ended(const Packet& packet, const Buffer* buffers);
  // One with a masked error: it moves nothing.
  void dropped(const Packet& packet);
  // What the queue's next signal releases.
  check::Release signal(uint32_t q);

 private:
  struct Rung {
    uint32_t left = 0;  // descriptors
    uint32_t site = 0;
    bool unplaced = false;
    check::Snapshot known;
  };
  struct Queue {
    uint32_t agent = 0;
    uint32_t epoch = 0;
    uint32_t site = 0;                   // who started the last packet
    bool unplaced = false;               // it reads or writes wherever
    uint32_t starter = 0, dma_site = 0;  // of the last one asked for
    check::Clock clock;
    check::Snapshot known;  // `clock`, until it changes
    check::Snapshot last;   // that it has learned
    std::array<std::deque<Rung>, 2> rung;
  };
  Queue& queue(uint32_t q);
  uint32_t dma_site(uint32_t q);
  void start(Queue& queue, Half h, uint32_t descriptors);

  check::Checker& checker_;
  std::string name_;
  std::array<std::unique_ptr<Queue>, kQueues> queues_;  // made on first use
};

}  // namespace hw
