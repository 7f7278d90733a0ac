// Recursive halving and doubling (spec/collectives.md 2.8).
#include <algorithm>

#include "runtime/collectives/schedule/stages.h"

namespace ccl {
namespace {

uint32_t member_with(const Cube& cube, uint32_t code) {
  return static_cast<uint32_t>(std::find(cube.codes.begin(), cube.codes.end(), code) -
                               cube.codes.begin());
}

}  // namespace

// Bytes that lie together where they start, and in every slot that holds sums for them.
struct Halving::Run {
  uint64_t bytes = 0;
  Spot from;
  Spot to;
  std::vector<Spot> arrived;  // by earlier step
  uint64_t target = 0;        // offset in the slots of the step that sends it
};

// What one member keeps, step by step.
class Halving::Walk {
 public:
  Walk(const Teams& teams, const Cube& cube, const Seat& seat)
      : teams_(teams), cube_(cube), seat_(seat) {
    for (uint32_t j = 0; j < cube.codes.size(); ++j) kept_.push_back(j);
  }

  uint32_t axis(uint32_t step) const { return cube_.axes[cube_.axes.size() - 1 - step]; }
  uint32_t partner(uint32_t step) const {
    return teams_.members[seat_.team][member_with(cube_, cube_.codes[seat_.member] ^ axis(step))];
  }
  // Members whose sections are sent at the step, or kept.
  std::vector<uint32_t> side(uint32_t step, bool sent) const {
    std::vector<uint32_t> out;
    for (const uint32_t j : kept_) {
      const bool differs = ((cube_.codes[j] ^ cube_.codes[seat_.member]) & axis(step)) != 0;
      if (differs == sent) out.push_back(j);
    }
    return out;
  }
  // After the step: sums for the kept sections have arrived at `slots`.
  void keep(uint32_t step, const Spot& slots) {
    kept_ = side(step, false);
    std::vector<Spot> places(cube_.codes.size());
    uint64_t offset = 0;
    for (const uint32_t j : kept_) {
      places[j] = slots + offset;
      offset += bytes_of(teams_.section(seat_.team, j));
    }
    arrived_.push_back(std::move(places));
  }
  // What is sent together (`sent`), or folded together into the output.
  std::vector<Run> runs(const std::vector<uint32_t>& set, bool sent = true) const;
  const std::vector<uint32_t>& kept() const { return kept_; }

 private:
  const Teams& teams_;
  const Cube& cube_;
  Seat seat_;
  std::vector<uint32_t> kept_;
  std::vector<std::vector<Spot>> arrived_;  // [step][member]
};

std::vector<Halving::Run> Halving::Walk::runs(const std::vector<uint32_t>& set, bool sent) const {
  std::vector<Run> out;
  uint64_t target = 0;
  for (const uint32_t j : set) {
    uint64_t inside = 0;
    for (const Piece& piece : teams_.section(seat_.team, j)) {
      Run run{piece.bytes, piece.from, piece.to, {}, target};
      for (const auto& places : arrived_) run.arrived.push_back(places[j] + inside);
      bool joins = !out.empty() && out.back().from + out.back().bytes == run.from &&
                   (sent || out.back().to + out.back().bytes == run.to);
      for (size_t i = 0; joins && i < run.arrived.size(); ++i) {
        joins = out.back().arrived[i] + out.back().bytes == run.arrived[i];
      }
      if (joins) {
        out.back().bytes += run.bytes;
      } else {
        out.push_back(std::move(run));
      }
      target += piece.bytes;
      inside += piece.bytes;
    }
  }
  return out;
}

Halving::Halving(ChainBuilder* builder, TeamsPtr teams, std::vector<Cube> cubes, MatesPtr mates,
                 Readers readers, bool ahead)
    : teams_(std::move(teams)),
      cubes_(std::move(cubes)),
      mates_(std::move(mates)),
      readers_(readers),
      ahead_(ahead) {
  const uint64_t section = teams_->largest_section();
  const size_t steps = cubes_.front().axes.size();
  for (size_t k = 0; k < steps; ++k) {
    slots_.push_back(builder->reserve(section << (steps - 1 - k)));
    data_.push_back(builder->event());
  }
  if (readers_ == Readers::kTellEnd) end_ = builder->event();
  if (ahead_) done_ = builder->event();
}

bool Halving::active(uint32_t rank) const {
  const uint32_t team = teams_->seats[rank].team;
  for (uint32_t j = 0; j < teams_->of(rank).size(); ++j) {
    if (!teams_->section(team, j).empty()) return true;
  }
  return false;
}

// Partners that anything is sent to, or comes from.
void Halving::add_partners(uint32_t rank, bool sent, std::set<uint32_t>* peers) const {
  const Seat seat = teams_->seats[rank];
  Walk walk(*teams_, cubes_[seat.team], seat);
  for (uint32_t k = 0; k < slots_.size(); ++k) {
    if (!walk.runs(walk.side(k, sent)).empty()) peers->insert(walk.partner(k));
    walk.keep(k, slots_[k]);
  }
}

void Halving::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  if (active(rank)) peers->insert((*mates_)[rank].begin(), (*mates_)[rank].end());
  add_partners(rank, true, peers);
}

void Halving::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  for (const uint32_t mate : (*mates_)[rank]) {
    if (active(mate)) peers->insert(mate);
  }
  add_partners(rank, false, peers);
}

std::vector<Range> Halving::operands(uint32_t rank, const Run& run) const {
  std::vector<Range> out;
  for (const uint32_t mate : (*mates_)[rank]) out.push_back(at(mate, run.from));
  for (const Spot& place : run.arrived) out.push_back(at(rank, place));
  return out;
}

void Halving::fold_own(RankProgram* program, const std::vector<Run>& own) const {
  const uint32_t rank = program->rank();
  const Seat seat = teams_->seats[rank];
  const Cube& cube = cubes_[seat.team];
  std::vector<uint32_t> folds;
  const uint32_t other =
      ahead_ ? member_with(cube, cube.codes[seat.member] ^ cube.axes.front()) : seat.member;
  const uint32_t partner = teams_->of(rank)[other];
  for (const Run& run : own) {
    std::vector<Range> destinations = {at(rank, run.to)};
    if (ahead_) destinations.push_back(at(partner, run.to));
    StepEdit step = program->fold(run.bytes, operands(rank, run), std::move(destinations));
    if (ahead_) step.signal(partner, done_);
    folds.push_back(step.id());
  }
  for (const uint32_t fold : folds) program->after(fold);
  if (ahead_) {
    program->wait(done_, static_cast<uint32_t>(teams_->section(seat.team, other).size()));
  }
}

void Halving::append(RankProgram* program) const {
  const uint32_t rank = program->rank();
  const Seat seat = teams_->seats[rank];
  Walk walk(*teams_, cubes_[seat.team], seat);
  for (uint32_t k = 0; k < slots_.size(); ++k) {
    const uint32_t partner = walk.partner(k);
    for (const Run& run : walk.runs(walk.side(k, true))) {
      StepEdit step =
          program->fold(run.bytes, operands(rank, run), {at(partner, slots_[k] + run.target)});
      step.signal(partner, data_[k]);
      program->fan_out(&step);
    }
    // The partner's runs are cut as the own ones would be: both have kept the same so far.
    program->wait(data_[k], static_cast<uint32_t>(walk.runs(walk.side(k, false)).size()));
    walk.keep(k, slots_[k]);
  }
  fold_own(program, walk.runs(walk.kept(), false));
  const auto& mates = (*mates_)[rank];
  if (readers_ != Readers::kTellEnd || mates.size() < 2) return;
  uint32_t readers = 0;
  for (const uint32_t mate : mates) readers += mate != rank && active(mate);
  program->wait_at_end(end_, readers);
  if (!active(rank)) return;
  program->after(program->last_fan_out());
  StepEdit end = program->handshake();
  for (const uint32_t mate : mates) {
    if (mate != rank) end.signal(mate, end_);
  }
}

Doubling::Doubling(ChainBuilder* builder, TeamsPtr teams, std::vector<Cube> cubes, bool ahead)
    : teams_(std::move(teams)), cubes_(std::move(cubes)), first_(ahead ? 1 : 0) {
  for (size_t k = first_; k < cubes_.front().axes.size(); ++k) data_.push_back(builder->event());
}

uint32_t Doubling::partner(const Seat& seat, uint32_t step) const {
  const Cube& cube = cubes_[seat.team];
  return member_with(cube, cube.codes[seat.member] ^ cube.axes[step]);
}

void Doubling::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  const Seat seat = teams_->seats[rank];
  for (uint32_t k = first_; k < first_ + data_.size(); ++k) {
    if (!held(seat, k).empty()) peers->insert(teams_->of(rank)[partner(seat, k)]);
  }
}

void Doubling::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  const Seat seat = teams_->seats[rank];
  for (uint32_t k = first_; k < first_ + data_.size(); ++k) {
    const uint32_t other = partner(seat, k);
    if (!held({seat.team, other}, k).empty()) peers->insert(teams_->of(rank)[other]);
  }
}

// What a member holds before a step: at first its own section, where the stage finds it.
Section Doubling::held(const Seat& seat, uint32_t step) const {
  if (step == 0) return teams_->section(seat.team, seat.member);
  const Cube& cube = cubes_[seat.team];
  uint32_t span = 0;
  for (uint32_t k = 0; k < step; ++k) span |= cube.axes[k];
  Section out;
  for (uint32_t j = 0; j < cube.codes.size(); ++j) {
    if (((cube.codes[j] ^ cube.codes[seat.member]) & ~span) != 0) continue;
    for (const Piece& piece : teams_->section(seat.team, j)) {
      append_piece(&out, {piece.bytes, piece.to, piece.to});
    }
  }
  return out;
}

void Doubling::append(RankProgram* program) const {
  const uint32_t rank = program->rank();
  const Seat seat = teams_->seats[rank];
  uint32_t copied = kNoId;
  for (uint32_t k = first_; k < first_ + data_.size(); ++k) {
    const uint32_t other = partner(seat, k);
    const uint32_t to = teams_->of(rank)[other];
    for (const Piece& piece : held(seat, k)) {
      // The first step also leaves the own section in the own output.
      std::vector<Range> destinations = {at(to, piece.to)};
      const bool copies = k == 0 && !(piece.from == piece.to);
      if (copies) destinations.push_back(at(rank, piece.to));
      StepEdit step = program->move(piece.bytes, {at(rank, piece.from)}, std::move(destinations));
      step.signal(to, data_[k - first_]);
      program->fan_out(&step);
      if (copies) copied = step.id();
    }
    program->wait(data_[k - first_], static_cast<uint32_t>(held({seat.team, other}, k).size()));
    if (k == 0) program->after(copied);
  }
}

}  // namespace ccl
