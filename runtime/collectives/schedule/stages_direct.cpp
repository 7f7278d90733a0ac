// Stages in which all members of a team reach each other.
#include <algorithm>

#include "runtime/collectives/schedule/stages.h"

namespace ccl {
namespace {

// Steps that the other members take for their own sections.
uint32_t pieces_of_others(const Teams& teams, uint32_t rank) {
  const Seat seat = teams.seats[rank];
  size_t pieces = 0;
  for (uint32_t j = 0; j < teams.of(rank).size(); ++j) {
    if (j != seat.member) pieces += teams.section(seat.team, j).size();
  }
  return static_cast<uint32_t>(pieces);
}

// The other members, nearest successor first, so that all members write to different ones.
std::vector<uint32_t> others(const Teams& teams, uint32_t rank) {
  const auto& team = teams.of(rank);
  std::vector<uint32_t> out;
  for (size_t k = 1; k < team.size(); ++k) {
    out.push_back(team[(teams.seats[rank].member + k) % team.size()]);
  }
  return out;
}

// Members whose section is not empty.
void add_members_with_data(const Teams& teams, uint32_t rank, std::set<uint32_t>* peers) {
  for (const uint32_t member : teams.of(rank)) {
    if (!teams.section_of(member).empty()) peers->insert(member);
  }
}

// All members, if the own section is not empty.
void add_team_if_data(const Teams& teams, uint32_t rank, std::set<uint32_t>* peers) {
  if (teams.section_of(rank).empty()) return;
  peers->insert(teams.of(rank).begin(), teams.of(rank).end());
}

}  // namespace

DirectGather::DirectGather(ChainBuilder* builder, TeamsPtr teams, uint32_t width)
    : teams_(std::move(teams)), width_(width), data_(builder->event()) {}

void DirectGather::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  add_team_if_data(*teams_, rank, peers);
}

void DirectGather::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  add_members_with_data(*teams_, rank, peers);
}

void DirectGather::append(RankProgram* program) const {
  const uint32_t rank = program->rank();
  bool copied = false;
  for (const Piece& piece : teams_->section_of(rank)) {
    std::vector<uint32_t> targets = others(*teams_, rank);
    if (!(piece.from == piece.to)) {
      targets.push_back(rank);
      copied = true;
    }
    for (size_t first = 0; first < targets.size(); first += width_) {
      const size_t last = std::min<size_t>(first + width_, targets.size());
      std::vector<Range> destinations;
      for (size_t i = first; i < last; ++i) destinations.push_back(at(targets[i], piece.to));
      StepEdit step = program->move(piece.bytes, {at(rank, piece.from)}, std::move(destinations));
      program->fan_out(&step);
      for (size_t i = first; i < last; ++i) {
        if (targets[i] != rank) step.signal(targets[i], data_);
      }
    }
  }
  if (copied) program->after(program->last_fan_out());
  program->wait(data_, pieces_of_others(*teams_, rank));
}

ReadReduce::ReadReduce(ChainBuilder* builder, TeamsPtr teams, bool share)
    : teams_(std::move(teams)), share_(share), event_(builder->event()) {}

void ReadReduce::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  add_team_if_data(*teams_, rank, peers);
}

void ReadReduce::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  add_members_with_data(*teams_, rank, peers);
}

void ReadReduce::append(RankProgram* program) const {
  const uint32_t rank = program->rank();
  const Section own = teams_->section_of(rank);
  const std::vector<uint32_t> peers = others(*teams_, rank);
  const size_t direct = share_ ? std::min<size_t>(kMaxDestinations - 1, peers.size()) : 0;
  std::vector<uint32_t> folds;
  for (const Piece& piece : own) {
    std::vector<Range> sources;
    for (const uint32_t peer : teams_->of(rank)) sources.push_back(at(peer, piece.from));
    std::vector<Range> destinations = {at(rank, piece.to)};
    for (size_t i = 0; i < direct; ++i) destinations.push_back(at(peers[i], piece.to));
    StepEdit step = program->fold(piece.bytes, std::move(sources), std::move(destinations));
    // Read by the fold only: told at once. Shared: the others learn it with the result.
    const size_t told = share_ ? direct : peers.size();
    for (size_t i = 0; i < told; ++i) step.signal(peers[i], event_);
    folds.push_back(step.id());
  }
  for (const uint32_t fold : folds) program->after(fold);
  for (const Piece& piece : own) {
    for (size_t first = direct; share_ && first < peers.size(); first += kMaxDestinations) {
      const size_t last = std::min<size_t>(first + kMaxDestinations, peers.size());
      std::vector<Range> destinations;
      for (size_t i = first; i < last; ++i) destinations.push_back(at(peers[i], piece.to));
      StepEdit step = program->move(piece.bytes, {at(rank, piece.to)}, std::move(destinations));
      for (size_t i = first; i < last; ++i) step.signal(peers[i], event_);
    }
  }
  const uint32_t signals = pieces_of_others(*teams_, rank);
  share_ ? program->wait(event_, signals) : program->wait_at_end(event_, signals);
}

SlotReduce::SlotReduce(ChainBuilder* builder, TeamsPtr teams)
    : teams_(std::move(teams)),
      in_place_(builder->in_place()),
      slot_bytes_(round_up(teams_->largest_section())),
      slots_(builder->reserve(slot_bytes_ * teams_->largest_team())),
      data_(builder->event()) {}

void SlotReduce::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  add_members_with_data(*teams_, rank, peers);
}

void SlotReduce::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  add_team_if_data(*teams_, rank, peers);
}

void SlotReduce::append(RankProgram* program) const {
  const uint32_t rank = program->rank();
  const Seat seat = teams_->seats[rank];
  const auto& team = teams_->of(rank);
  const Section own = teams_->section_of(rank);
  bool overwrites = false;
  for (const uint32_t peer : others(*teams_, rank)) {
    uint64_t offset = 0;
    for (const Piece& piece : teams_->section_of(peer)) {
      StepEdit step = program->move(piece.bytes, {at(rank, piece.from)},
                                    {at(peer, slot(seat.member) + offset)});
      step.signal(peer, data_);
      program->fan_out(&step);
      offset += piece.bytes;
      overwrites |= in_place_ && !own.empty() && piece.from == own.front().from;
    }
  }
  if (overwrites) program->after(program->last_fan_out());
  program->wait(data_, static_cast<uint32_t>((team.size() - 1) * own.size()));
  std::vector<uint32_t> folds;
  uint64_t offset = 0;
  for (const Piece& piece : own) {
    std::vector<Range> sources;
    for (uint32_t k = 0; k < team.size(); ++k) {
      sources.push_back(at(rank, k == seat.member ? piece.from : slot(k) + offset));
    }
    // A fold in parts may overwrite the own operand in place: it comes first then.
    std::rotate(sources.begin(), sources.begin() + (sources.size() > kMaxSources ? seat.member : 0),
                sources.end());
    folds.push_back(program->fold(piece.bytes, std::move(sources), {at(rank, piece.to)}).id());
    offset += piece.bytes;
  }
  for (const uint32_t fold : folds) program->after(fold);
}

}  // namespace ccl
