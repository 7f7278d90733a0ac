// Building blocks of the algorithms that are not rings: a schedule is a chain of stages, each of
// which scatters and reduces, or gathers, the sections of teams of ranks. Mesh, RDH and
// hierarchical schedules are such chains (spec/collectives.md 2.7 to 2.9).
//
// A team is an ordered list of ranks; member j ends a reduction, or begins a gather, with section j
// of the data. A section is a list of pieces; each piece says where a stage finds it and where it
// leaves it, the same place at every rank. Teams of one stage are disjoint and work side by side.
//
// Handshakes. A chain begins with one exchange of READY among all ranks that touch each other in
// any of its stages. Ranks whose memory is only read (nothing arrives that says so) are told at the
// END of the chain. All events are gathers.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "runtime/collectives/schedule/builder.h"

namespace ccl {

struct Spot {
  Buffer buffer = Buffer::kInput;
  uint64_t offset = 0;
};

struct Piece {
  uint64_t bytes = 0;
  Spot from;
  Spot to;
};
using Section = std::vector<Piece>;

inline bool operator==(const Spot& a, const Spot& b) {
  return a.buffer == b.buffer && a.offset == b.offset;
}
inline Spot operator+(const Spot& a, uint64_t bytes) {
  return {a.buffer, a.offset + bytes};
}
inline Range at(uint32_t rank, const Spot& place) {
  return {rank, place.buffer, place.offset};
}
uint64_t bytes_of(const Section& section);
// Appends the piece, to the last one where both continue it; pieces without bytes vanish.
void append_piece(Section* section, const Piece& piece);
void append_section(Section* section, const Section& more);

struct Seat {
  uint32_t team = 0;
  uint32_t member = 0;
};

struct Teams {
  std::vector<std::vector<uint32_t>> members;  // indices in the group
  std::vector<Seat> seats;                     // by index in the group
  std::function<Section(uint32_t team, uint32_t member)> section;

  const std::vector<uint32_t>& of(uint32_t rank) const { return members[seats[rank].team]; }
  Section section_of(uint32_t rank) const { return section(seats[rank].team, seats[rank].member); }
  uint64_t largest_section() const;
  uint32_t largest_team() const;
};
using TeamsPtr = std::shared_ptr<const Teams>;

TeamsPtr make_teams(std::vector<std::vector<uint32_t>> members, uint32_t ranks,
                    std::function<Section(uint32_t team, uint32_t member)> section);
// Steps of one rank on one channel. What must come before the next step collects until that is
// added.
class RankProgram {
 public:
  RankProgram(uint32_t rank, uint32_t channel, StepList* list)
      : rank_(rank), channel_(channel), list_(list) {}

  uint32_t rank() const { return rank_; }
  void wait(uint32_t event, uint32_t signals);
  void wait_at_end(uint32_t event, uint32_t signals);
  void after(uint32_t step);
  StepEdit move(uint64_t bytes, std::vector<Range> sources, std::vector<Range> destinations);
  StepEdit handshake();
  // A fold of any number of sources; beyond 16 in several steps over destinations[0]. The returned
  // step is the last.
  StepEdit fold(uint64_t bytes, std::vector<Range> sources, std::vector<Range> destinations);
  // Last fan-out step so far (kNoId: none).
  uint32_t last_fan_out() const { return last_fan_out_; }
  void fan_out(StepEdit* step) {
    step->fan_out();
    last_fan_out_ = step->id();
  }
  void finish();

 private:
  void attach(StepEdit* step);

  uint32_t rank_;
  uint32_t channel_;
  StepList* list_;
  std::vector<Wait> waits_;
  std::vector<Wait> last_waits_;
  std::vector<uint32_t> after_;
  uint32_t last_fan_out_ = kNoId;
};

class Stage {
 public:
  virtual ~Stage() = default;
  // Whose memory `rank` touches, and who touches that of `rank`: exactly, because a rank that is
  // told READY and touches nothing would never be heard of again. May name `rank` itself.
  virtual void touches(uint32_t rank, std::set<uint32_t>* peers) const = 0;
  virtual void touchers(uint32_t rank, std::set<uint32_t>* peers) const = 0;
  virtual void append(RankProgram* program) const = 0;
};

// The shape under construction, with its chains of stages: one per channel.
class ChainBuilder {
 public:
  ChainBuilder(Algorithm algorithm, const OpRequest& request, const Group& group,
               const ScheduleOptions& options);

  void begin_chain();  // on the next channel
  uint32_t event() { return add_gather(shape_, shape_.channels - 1); }
  bool in_place() const { return shape_.in_place; }
  // Space in the channel buffer of every rank.
  Spot reserve(uint64_t bytes);
  template <typename T, typename... Args>
  void add(Args&&... args) {
    chains_.back().stages.push_back(std::make_unique<T>(this, std::forward<Args>(args)...));
  }
  Schedule take();

 private:
  struct Chain {
    uint32_t ready = 0;
    std::vector<std::unique_ptr<const Stage>> stages;
  };
  static void append(const Chain& chain, RankProgram* program);

  Shape shape_;
  std::vector<Chain> chains_;
};

// How the data of a request falls into chunks, for one of `blocks` equal blocks of every chunk
// (pipelining): chunk n where the operation finds it and where it leaves it.
struct Block {
  uint32_t number = 0;
  uint32_t count = 1;
};
class ChunkMap {
 public:
  ChunkMap(const OpRequest& request, uint32_t ranks, bool in_place, Block block = {})
      : request_(request), ranks_(ranks), in_place_(in_place), block_(block) {}

  // Reductions: from the long input to the output.
  Piece reduced(uint32_t chunk) const;
  // Gathers: of an all-gather from the input, of an all-reduce from the output.
  Piece gathered(uint32_t chunk) const;
  // Gathers, later stages: within the output.
  Piece held(uint32_t chunk) const;
  uint64_t largest() const { return chunk(0).bytes; }

 private:
  Chunk chunk(uint32_t n) const;

  OpRequest request_;
  uint32_t ranks_;
  bool in_place_;
  Block block_;
};

}  // namespace ccl
