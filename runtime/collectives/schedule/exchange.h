// Stages of an all-to-all (spec/collectives.md 2.12).
#pragma once

#include "runtime/collectives/schedule/stage.h"

namespace ccl {

// Every rank writes every block to its place at the receiver. `paced`: in rounds, one peer after
// the other (pairwise), else all at once.
class DirectExchange : public Stage {
 public:
  DirectExchange(ChainBuilder* builder, const OpRequest& request, const Group& group, bool paced);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override { touches(rank, peers); }
  void append(RankProgram* program) const override;

 private:
  uint32_t peer(uint32_t rank, uint32_t round) const;

  uint64_t bytes_;  // of a block
  bool paced_;
  uint32_t data_;
  std::vector<uint32_t> starts_;  // first round, by rank
};

// Chips with equally many ranks each.
struct ExchangeChips {
  std::vector<std::vector<uint32_t>> ranks;  // of every chip, by core
  std::vector<Seat> seats;                   // by rank: {chip, core}

  uint32_t chips() const { return static_cast<uint32_t>(ranks.size()); }
  uint32_t cores() const { return static_cast<uint32_t>(ranks.front().size()); }
};

// Two phases: a rank sends the blocks for a whole chip to the rank in its own place there, which
// hands them to their receivers. Peers and remote transfers per rank: chips + ranks of a chip.
// Does rounds [first, last): round t goes to the t-th next chip.
class ChipExchange : public Stage {
 public:
  ChipExchange(ChainBuilder* builder, const OpRequest& request,
               std::shared_ptr<const ExchangeChips> chips, uint32_t first, uint32_t last);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  Section bundle(uint32_t chip, uint32_t round) const;

  uint64_t bytes_;  // of a block
  std::shared_ptr<const ExchangeChips> chips_;
  uint32_t first_;
  uint32_t last_;
  uint32_t data_;
  uint32_t end_;
  Spot slots_;
};

}  // namespace ccl
