// Lowering of one rank's part of a schedule, in parts: what is refused (check_steps), which
// CC-core, engines and semaphores a channel has (Layout), what a step waits for (step_order.h), how
// steps become descriptors (Descriptors), how a program is written (ProgramWriter), and what ties
// them together (lowering.cpp).
#pragma once

#include <vector>

#include "runtime/collectives/ccl.h"

namespace ccl {

// What all ranks agree on besides the shape: follows from the shape, the number of engines of a
// rank, and the number of CC-cores of the stream.
class Layout {
 public:
  Layout(const Shape& shape, uint32_t engines, uint32_t cc_count);

  // The channels in which this rank moves something, ascending: they share its engines. Without it
  // all do.
  void use(const std::vector<uint32_t>& channels);
  // A power of two.
  uint32_t share() const { return share_; }
  uint32_t first_engine(uint32_t channel) const { return first_engine_[channel]; }
  // Engines of a step of so many bytes that is one of `together` in flight: a power of two.
  uint32_t engines_of(uint64_t bytes, uint32_t together) const;
  // CC-core that runs the channel. Channels with a common engine have a common CC-core: the order
  // of doorbells is the order of the ring.
  uint32_t cc(uint32_t channel) const { return channel % engines_ % cc_count_; }
  // Thread of that CC-core: channels do not wait for each other while there are threads enough.
  uint32_t thread(uint32_t channel) const {
    return channel % engines_ / cc_count_ % contract::cc_program::kThreads;
  }

  // Semaphores, from signal_base: of the n-th signal to an event.
  uint32_t signal(uint32_t event, uint32_t n) const {
    return events_[event] + (fifos_[event] ? n % kStepsInFlight : 0);
  }
  uint32_t signals() const { return signals_; }
  // From completion_base: the end of the other CC-cores' programs, of the own threads; own steps.
  static constexpr uint32_t join() { return 0; }
  static constexpr uint32_t threads_end() { return 1; }
  uint32_t done(uint32_t channel, uint32_t ordinal) const {
    return channels_[channel] + ordinal % kStepsInFlight;
  }
  uint32_t fan_out(uint32_t channel) const { return channels_[channel] + kStepsInFlight; }
  uint32_t blocks(uint32_t channel) const { return channels_[channel] + kStepsInFlight + 1; }
  uint32_t completions() const { return completions_; }

 private:
  uint32_t engines_;
  uint32_t cc_count_;
  uint32_t share_ = 1;
  std::vector<uint32_t> first_engine_;  // by channel
  std::vector<uint32_t> events_;
  std::vector<bool> fifos_;
  std::vector<uint32_t> channels_;
  uint32_t signals_ = 0;
  uint32_t completions_ = 0;
};

// The steps of a rank name only what there is; kNrtFailure says which does not.
base::Status check_steps(const Shape& shape, const Steps& steps, uint32_t rank);
// A member of the group provides what an operation needs, in the way of the own rank.
base::Status check_member(const RankResources& r, const RankResources& own, const Needs& needs);

struct EngineRange {
  uint32_t first = 0;
  uint32_t count = 1;
};

struct DoorbellCounts {
  uint64_t m2s = 0;
  uint64_t s2m = 0;
};

// Bytes of a tensor from `offset` on.
struct Stretch {
  uint64_t base = 0;
  uint64_t offset = 0;
  SbufRows rows;

  uint64_t at(uint64_t skip) const { return base + rows.at(offset + skip); }
  // Bytes that are contiguous from there on.
  uint64_t run(uint64_t skip) const { return rows.run(offset + skip); }
};

// A step with addresses.
struct Transfer {
  std::vector<Stretch> sources;
  std::vector<Stretch> destinations;
  uint64_t bytes = 0;
  EngineRange engines;
  bool barrier = false;           // each engine's first packet waits for its queue to be idle (DMB)
  std::vector<uint64_t> signals;  // increment windows: every engine adds its share behind its part
};

// Appends descriptors of one rank to its engines' rings.
class Descriptors {
 public:
  // `transfers`: how often add() will be called, about.
  Descriptors(const OpRequest& request, uint64_t weights, uint32_t engines, uint32_t packet_bytes,
              size_t transfers);

  void add(const Transfer& transfer);
  // What add() has appended to a ring since the last call.
  DoorbellCounts take_new(uint32_t engine);
  // Rings with descriptors.
  std::vector<EngineRing> take();

 private:
  struct Piece {
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };
  // Part `index` of `count` of a transfer.
  std::vector<Piece> pieces(uint32_t index, uint32_t count, uint64_t bytes, uint32_t limit) const;
  // Cut further where a tensor in SBUF goes on in another row.
  static std::vector<Piece> rows(const Transfer& transfer, const std::vector<Piece>& pieces);
  void add_packet(EngineRing* ring, const Transfer& transfer, const Piece& piece, bool barrier,
                  bool last);
  static void add_signals(EngineRing* ring, const std::vector<uint64_t>& signals, uint64_t weight,
                          bool barrier);

  OpRequest request_;
  uint64_t weights_;
  uint32_t packet_bytes_;
  size_t transfers_;
  size_t added_ = 0;
  std::vector<EngineRing> rings_;
  std::vector<DoorbellCounts> announced_;
};

// The program of one CC-core. Doorbells wait for the next record of another kind, so that steps
// that start together share them.
class ProgramWriter {
 public:
  ProgramWriter(const RankResources& own, bool broadcast);

  void emit(contract::cc_program::Op op, uint32_t imm, uint64_t address, uint8_t flags = 0);
  // Waits for a local semaphore and subtracts.
  void wait(contract::cc_program::Op op, uint32_t semaphore, uint32_t value);
  void ring(uint32_t engine, const DoorbellCounts& counts);
  // Records on registers `a` and `b`.
  void emit_on(contract::cc_program::Op op, uint8_t a, uint8_t b, uint32_t imm,
               uint64_t address = 0);
  // Index of the next record.
  uint32_t here();
  CcProgram take();

 private:
  void put(contract::cc_program::Op op, uint32_t imm, uint64_t address, uint8_t flags = 0,
           uint8_t a = 0, uint8_t b = 0);
  void flush();
  void flush_core(uint32_t core);
  bool equal_counts(uint32_t first, uint32_t count) const;
  void put_range(uint32_t first, uint32_t count, uint32_t value);

  const RankResources& own_;
  bool broadcast_;
  bool pending_ = false;
  std::vector<DoorbellCounts> counts_;  // by engine
  CcProgram program_;
};

// Variable-size steps of one rank: their Blocks, and the loops over the tiles. The steps of a row
// share a loop, which ends with a wait for all of them; register 0 counts tiles.
class BlockSteps {
 public:
  using Block = contract::cc_program::Block;
  BlockSteps(const Shape& shape, const RankResources& own, const Layout& layout,
             uint32_t packet_bytes);

  // All steps of the rank: those that go side by side are spread less.
  void count(const Steps& steps);

  using Address = std::function<uint64_t(const Range&)>;
  // `semaphore`: increment window of what the blocks of the channel report to.
  void add(const Step& step, const Address& address, uint64_t semaphore, ProgramWriter* writer);
  bool open(uint32_t channel) const { return rows_[channel].steps != 0; }
  void close(uint32_t channel, ProgramWriter* writer);

  std::vector<Block> take_blocks() { return std::move(blocks_); }
  std::vector<BlockRing> take_rings();

 private:
  struct Row {  // open, of a channel
    uint32_t steps = 0;
    uint32_t loop = 0;    // first record
    uint32_t stride = 1;  // tiles
    uint32_t first_engine = 0;
    BlockRing ring;  // what one tile of all steps puts into each engine's
  };

  Block make(const Step& step, const Address& address) const;

  const OpRequest& request_;
  const RankResources& own_;
  const Layout& layout_;
  uint32_t packet_bytes_;
  std::vector<uint32_t> together_;  // by channel: steps that do not wait for each other
  std::vector<Row> rows_;           // by channel
  std::vector<Block> blocks_;
  std::vector<BlockRing> rings_;  // by engine
};

}  // namespace ccl
