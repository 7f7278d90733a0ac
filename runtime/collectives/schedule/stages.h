// The stages that mesh, RDH and hierarchical schedules are made of.
#pragma once

#include "runtime/collectives/schedule/ports.h"
#include "runtime/collectives/schedule/stage.h"

namespace ccl {

// Every member writes its section to all others (2.7.5, K = 1). `width`: destinations of one step;
// more than one where all members share a chip (1R3W).
class DirectGather : public Stage {
 public:
  DirectGather(ChainBuilder* builder, TeamsPtr teams, uint32_t width);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  TeamsPtr teams_;
  uint32_t width_;
  uint32_t data_;
};

// Every member folds its section of all members' data, read where it is. `share`: and writes the
// result to all members, in the same transfer to the first four.
class ReadReduce : public Stage {
 public:
  ReadReduce(ChainBuilder* builder, TeamsPtr teams, bool share);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  TeamsPtr teams_;
  bool share_;
  uint32_t event_;
};

// Every member writes the sections of the others into its slot at them, and folds the slots.
// Sections may be the same bytes for all members: the single-step all-reduce of 2.7.4.
class SlotReduce : public Stage {
 public:
  SlotReduce(ChainBuilder* builder, TeamsPtr teams);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  Spot slot(uint32_t member) const { return slots_ + member * slot_bytes_; }

  TeamsPtr teams_;
  bool in_place_;
  uint64_t slot_bytes_;
  Spot slots_;
  uint32_t data_;
};

// Teams by chips: chip s of a team has the members chips[s], in the order of the cores.
struct TeamChips {
  std::vector<std::vector<uint32_t>> chips;  // members of the team
  std::vector<Seat> seats;                   // by member: {chip, position in the chip}
  std::shared_ptr<const MeshPaths> paths;
};
using TeamChipsPtr = std::shared_ptr<const std::vector<TeamChips>>;  // by team

class ChipView;

// What happens to memory that chip mates have only read.
enum class Readers : uint8_t {
  kTellEnd,   // they say when they are done
  kFollowed,  // data that later stages bring can only exist when they are done
};

// Two-step reduce-scatter of 2.7.3: owners fold the data of their chip and write it to slot s of
// the destination, which folds its slots. `share`: and writes the result to its chip mates.
class ChipReduce : public Stage {
 public:
  ChipReduce(ChainBuilder* builder, TeamsPtr teams, TeamChipsPtr chips, bool share,
             Readers readers);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  std::vector<Seat> served(const ChipView& me) const;
  bool active(const ChipView& me) const;  // folds anything
  std::vector<uint32_t> fold_chip(RankProgram* program, const ChipView& me, const Seat& to) const;
  void fold_slots(RankProgram* program, const ChipView& me) const;
  Spot slot(uint32_t chip) const { return slots_ + chip * slot_bytes_; }

  TeamsPtr teams_;
  TeamChipsPtr chips_;
  bool share_;
  Readers readers_;
  uint64_t slot_bytes_;
  Spot slots_;
  uint32_t data_;
  uint32_t shared_ = 0;
  uint32_t end_ = 0;
};

// What the members of a chip know of each other's sections when a gather begins.
enum class Mates : uint8_t {
  kInputs,  // they lie at their owners since the start of the operation
  kMade,    // they lie at their owners, made by an earlier stage: the owners say when
  kShared,  // every member of the chip holds them all
};

// Two-step all-gather of 2.7.2, with the landing rule of Trn2: owners write the sections of their
// chip to the landing core of every other chip, which writes them to its mates. Written straight
// to the outputs, so that no channel buffer is needed.
class LandingGather : public Stage {
 public:
  LandingGather(ChainBuilder* builder, TeamsPtr teams, TeamChipsPtr chips, Mates mates);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  Section of_chip(const ChipView& me, uint32_t chip) const;
  uint32_t sent_steps(const ChipView& me, uint32_t chip) const;
  std::vector<uint32_t> sent(const ChipView& me) const;
  std::vector<uint32_t> landed(const ChipView& me, uint32_t core) const;
  bool reads(const ChipView& me, uint32_t core) const;  // the data of a mate
  bool spreads(const ChipView& me) const;               // anything to its mates
  void send_chip(RankProgram* program, const ChipView& me, uint32_t chip) const;
  void spread(RankProgram* program, const ChipView& me, const Section& pieces) const;
  void tell(RankProgram* program, const std::vector<uint32_t>& mates, uint32_t event) const;

  bool shared() const { return mates_ == Mates::kShared; }
  std::vector<uint32_t> read(const ChipView& me) const;     // mates that this core reads
  std::vector<uint32_t> readers(const ChipView& me) const;  // mates that read this core

  TeamsPtr teams_;
  TeamChipsPtr chips_;
  Mates mates_;
  uint32_t landed_;
  uint32_t data_;
  uint32_t end_ = 0;
  uint32_t made_ = 0;
};

// Teams as hypercubes: member j has code codes[j], a permutation of 0..2^p-1.
struct Cube {
  std::vector<uint32_t> codes;
  std::vector<uint32_t> axes;  // masks, in the order of the all-gather
};

// By rank: ranks that stand for it, in the order in which their data is folded.
using MatesPtr = std::shared_ptr<const std::vector<std::vector<uint32_t>>>;

// Halving of 2.8, without intermediate sums: what is sent at step k is the fold of the data of the
// mates, read where it is, and of what arrived in the steps before, so that every step is one
// transfer and the sum is rounded once per step that carries it.
class Halving : public Stage {
 public:
  // `ahead`: the sum goes to the first partner of the doubling that follows, too.
  Halving(ChainBuilder* builder, TeamsPtr teams, std::vector<Cube> cubes, MatesPtr mates,
          Readers readers, bool ahead);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  struct Run;
  class Walk;
  std::vector<Range> operands(uint32_t rank, const Run& run) const;
  void fold_own(RankProgram* program, const std::vector<Run>& own) const;
  bool active(uint32_t rank) const;  // folds anything
  void add_partners(uint32_t rank, bool sent, std::set<uint32_t>* peers) const;

  TeamsPtr teams_;
  std::vector<Cube> cubes_;
  MatesPtr mates_;
  Readers readers_;
  bool ahead_;
  std::vector<Spot> slots_;     // by step
  std::vector<uint32_t> data_;  // by step
  uint32_t end_ = 0;
  uint32_t done_ = 0;  // sum of the partner, ahead
};

// Doubling of 2.8. `ahead`: without the first step, which Halving has done.
class Doubling : public Stage {
 public:
  Doubling(ChainBuilder* builder, TeamsPtr teams, std::vector<Cube> cubes, bool ahead);
  void touches(uint32_t rank, std::set<uint32_t>* peers) const override;
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override;
  void append(RankProgram* program) const override;

 private:
  Section held(const Seat& seat, uint32_t step) const;
  uint32_t partner(const Seat& seat, uint32_t step) const;  // member

  TeamsPtr teams_;
  std::vector<Cube> cubes_;
  uint32_t first_;              // step
  std::vector<uint32_t> data_;  // by step, from the first
};

}  // namespace ccl
