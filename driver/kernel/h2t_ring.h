// The driver's own copy rings between host and device memory (spec/hw-registers.md 3.12, 10.5;
// spec/driver-ioctl.md 6). Every byte a driver moves goes through one of these, as descriptors of
// at most 64 KiB with a write barrier on the last one and a 4-byte marker behind it. Exact:
// descriptors, ring ids over wraps, doorbells, time limits. Approximate: long copies poll at 1/64
// of their estimate instead of every microsecond, to keep the number of events bounded.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "driver/kernel/context.h"
#include "driver/kernel/dma_engines.h"
#include "driver/kernel/memory.h"

namespace driver {

class H2tRing {
 public:
  static constexpr uint32_t kLength = 8192;    // descriptors per half
  static constexpr uint32_t kMaxBatch = 2032;  // data descriptors
  static constexpr uint64_t kPiece = 64 * base::kKiB;
  static constexpr int kContexts = 3;  // SYNC, ASYNC1, ASYNC2

  struct Id {
    uint32_t nc = 0;
    uint32_t engine = 0;
    uint32_t queue = 0;
  };
  // One contiguous piece of a transfer, at most 64 KiB.
  struct Piece {
    uint64_t from = 0;
    uint64_t to = 0;
    uint32_t bytes = 0;
  };

  H2tRing(const Context& context, const Dhal& dhal, DmaEngines& engines, Memory& memory, Id id,
          uint32_t timeout_factor);
  ~H2tRing() { free_memory(); }
  H2tRing(const H2tRing&) = delete;
  H2tRing& operator=(const H2tRing&) = delete;

  const Id& id() const { return id_; }
  bool usable() const { return tx_ != nullptr; }
  int allocate_memory();  // 0 or -ENOMEM
  void free_memory();     // transfers in flight notice and end
  int start();            // initialises the hardware queue onto the rings

  // Ends when the data is visible: 0, -EPERM on time-out, -ENOMEM without room in the ring.
  int copy(uint64_t from, uint64_t to, uint64_t bytes);
  // Fills [to, to + bytes) from the 64 KiB pattern at device address `pattern`.
  int fill(uint64_t pattern, uint64_t to, uint64_t bytes);
  // Synchronous transfer of arbitrary pieces, in batches.
  int transfer(const std::vector<Piece>& pieces);

  // Asynchronous transfers (spec/driver-ioctl.md 3.4.2): one batch in context 1 or 2.
  int start_async(int context, uint64_t from, uint64_t to, uint64_t bytes);
  int wait_async(int context);
  bool async_in_use(int context) const { return contexts_[static_cast<size_t>(context)].in_use; }

  // A reset that covers this ring is under way until end_reset (copies then fail or are retried).
  void begin_reset() { resetting_ = true; }
  void end_reset();
  TaskMutex& mutex() { return mutex_; }

 private:
  struct Transfer {
    bool in_use = false;
    uint32_t descriptors = 0;  // with the marker
    uint64_t epoch = 0;        // ring incarnation it was started in
  };
  enum class Outcome { kDone, kTimeout, kLost };

  int submit(int context, const Piece* pieces, size_t count);
  void put(uint32_t index, uint32_t ring_id, const Piece& piece, bool barrier);
  Outcome await(int context, bool async);
  int run_batch(const Piece* pieces, size_t count);
  uint8_t* marker_source(int context) const;
  uint8_t* marker_target(int context) const;

  const Context& context_;
  const Dhal& dhal_;
  DmaEngines& engines_;
  Memory& memory_;
  Id id_;
  uint32_t timeout_factor_;
  Chunk* tx_ = nullptr;
  Chunk* rx_ = nullptr;
  Chunk* words_ = nullptr;  // completion words of the contexts
  uint32_t next_ = 0;       // next free descriptor
  uint32_t ring_id_ = 1;
  uint32_t used_ = 0;
  uint64_t epoch_ = 0;
  bool resetting_ = false;
  std::array<Transfer, kContexts> contexts_;
  TaskMutex mutex_;
};

}  // namespace driver
