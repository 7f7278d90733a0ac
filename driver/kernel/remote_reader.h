// Reads misc RAM of the neighbours of one device over its four election engines: two engines per
// side, each with its own inter-server window. Source: spec/hw-registers.md 9.2, 9.3. Exact: engine
// and queue initialisation, descriptors, doorbells, polls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "driver/kernel/context.h"

namespace driver {

class NeuronDevice;

class RemoteReader {
 public:
  static constexpr uint32_t kEngines = 4;  // left, left, right, right
  static constexpr uint32_t kMaxWords = 4;
  using Words = std::array<uint32_t, kMaxWords>;

  explicit RemoteReader(NeuronDevice& device) : device_(device) {}
  ~RemoteReader();
  RemoteReader(const RemoteReader&) = delete;
  RemoteReader& operator=(const RemoteReader&) = delete;

  // Initialises engines and queues, as every attempt does first; false without host memory, which
  // is kept from then on: a late answer must find it.
  bool start();
  // Words of the neighbour's misc RAM; nothing when no answer comes.
  std::optional<Words> read(uint32_t engine, uint32_t offset, uint32_t words);

 private:
  struct Queue {
    uint64_t tx = 0;  // host physical
    uint64_t rx = 0;
    uint64_t page = 0;
    uint32_t next = 0;
    uint32_t ring_id = 1;
  };
  bool allocate(Queue& queue);
  void put(Queue& queue, uint64_t from, uint64_t to, uint32_t bytes);

  NeuronDevice& device_;
  std::array<Queue, kEngines> queues_;
};

}  // namespace driver
