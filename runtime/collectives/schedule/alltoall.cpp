#include "runtime/collectives/schedule/alltoall.h"

#include <algorithm>

#include "runtime/collectives/schedule/exchange.h"

namespace ccl {
namespace {

// Above this a transfer per pair of ranks costs more CC instructions than a second hop.
constexpr uint32_t kMaxDirectRanks = 64;
// The chip form spreads over more programs from here on.
constexpr uint32_t kMinManyRanks = 128;

}  // namespace

DirectExchange::DirectExchange(ChainBuilder* builder, const OpRequest& request, const Group& group,
                               bool paced)
    : bytes_(request.input_bytes / group.ranks()), paced_(paced), data_(builder->event()) {
  const uint32_t ranks = group.ranks();
  starts_.assign(ranks, 1);
  if (paced || group.topology.fabric == Fabric::kSwitched) return;
  // The ranks of a chip begin with different chips, so that all its ports are busy.
  for (const ChipRanks& chip : by_chip(group)) {
    const uint32_t cores = static_cast<uint32_t>(chip.members.size());
    for (uint32_t c = 0; c < cores; ++c) starts_[chip.members[c]] = 1 + c * ranks / cores;
  }
}

void DirectExchange::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  for (uint32_t peer = 0; bytes_ != 0 && peer < starts_.size(); ++peer) {
    if (peer != rank) peers->insert(peer);
  }
}

// Rounds are pairings where the ranks are a power of two.
uint32_t DirectExchange::peer(uint32_t rank, uint32_t round) const {
  const uint32_t ranks = static_cast<uint32_t>(starts_.size());
  return paced_ && (ranks & (ranks - 1)) == 0 ? rank ^ round : (rank + round) % ranks;
}

void DirectExchange::append(RankProgram* program) const {
  constexpr size_t kWindow = 2;  // rounds in flight: the next starts while one ends
  const uint32_t rank = program->rank();
  const uint32_t ranks = static_cast<uint32_t>(starts_.size());
  if (bytes_ == 0) return;
  std::vector<uint32_t> issued;
  for (uint32_t t = 0; t < ranks; ++t) {
    const uint32_t to = peer(rank, (starts_[rank] + t) % ranks);
    if (paced_ && issued.size() >= kWindow) program->after(issued[issued.size() - kWindow]);
    StepEdit step =
        program->move(bytes_, {input_of(rank, to * bytes_)}, {output_of(to, rank * bytes_)});
    if (to != rank) step.signal(to, data_);
    if (!paced_) program->fan_out(&step);
    issued.push_back(step.id());
  }
  program->wait(data_, ranks - 1);
}

ChipExchange::ChipExchange(ChainBuilder* builder, const OpRequest& request,
                           std::shared_ptr<const ExchangeChips> chips, uint32_t first,
                           uint32_t last)
    : bytes_(request.input_bytes / static_cast<uint32_t>(chips->seats.size())),
      chips_(std::move(chips)),
      first_(first),
      last_(last),
      data_(builder->event()),
      end_(builder->event()),
      slots_(builder->reserve((last - first) * bytes_ * chips_->cores())) {}

void ChipExchange::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  const Seat seat = chips_->seats[rank];
  if (bytes_ == 0) return;
  for (uint32_t round = first_; round < last_; ++round) {
    peers->insert(chips_->ranks[(seat.team + round) % chips_->chips()][seat.member]);
  }
  peers->insert(chips_->ranks[seat.team].begin(), chips_->ranks[seat.team].end());
}

void ChipExchange::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  const Seat seat = chips_->seats[rank];
  if (bytes_ == 0) return;
  for (uint32_t round = first_; round < last_; ++round) {
    peers->insert(
        chips_->ranks[(seat.team + chips_->chips() - round) % chips_->chips()][seat.member]);
  }
  peers->insert(chips_->ranks[seat.team].begin(), chips_->ranks[seat.team].end());
}

// Blocks for the ranks of a chip, one after the other in the slot of the round.
Section ChipExchange::bundle(uint32_t chip, uint32_t round) const {
  Section out;
  Spot to = slots_ + (round - first_) * bytes_ * chips_->cores();
  for (const uint32_t rank : chips_->ranks[chip]) {
    append_piece(&out, {bytes_, {Buffer::kInput, rank * bytes_}, to});
    to = to + bytes_;
  }
  return out;
}

void ChipExchange::append(RankProgram* program) const {
  const uint32_t rank = program->rank();
  const Seat seat = chips_->seats[rank];
  const auto& mates = chips_->ranks[seat.team];
  const uint32_t chips = chips_->chips();
  const uint32_t rounds = last_ - first_;
  if (bytes_ == 0) return;
  size_t arriving = 0;
  for (uint32_t i = 0; i < rounds; ++i) {
    // Cores begin with different chips, so that all ports are busy.
    const uint32_t round = first_ + (i + seat.member * rounds / chips_->cores()) % rounds;
    if (round == 0) continue;
    const uint32_t to_chip = (seat.team + round) % chips;
    const uint32_t to = chips_->ranks[to_chip][seat.member];
    for (const Piece& piece : bundle(to_chip, round)) {
      StepEdit step = program->move(piece.bytes, {at(rank, piece.from)}, {at(to, piece.to)});
      step.signal(to, data_);
      program->fan_out(&step);
    }
    arriving += bundle(seat.team, round).size();
  }
  if (first_ == 0) {
    for (const uint32_t mate : mates) {
      StepEdit step =
          program->move(bytes_, {input_of(rank, mate * bytes_)}, {output_of(mate, rank * bytes_)});
      program->fan_out(&step);
    }
  }
  program->wait(data_, static_cast<uint32_t>(arriving));
  for (uint32_t round = std::max(first_, 1u); round < last_; ++round) {
    const uint32_t from = chips_->ranks[(seat.team + chips - round) % chips][seat.member];
    Spot slot = slots_ + (round - first_) * bytes_ * chips_->cores();
    for (const uint32_t mate : mates) {
      StepEdit step = program->move(bytes_, {at(rank, slot)}, {output_of(mate, from * bytes_)});
      program->fan_out(&step);
      slot = slot + bytes_;
    }
  }
  // One signal for all blocks: a signal for each would double the work.
  program->after(program->last_fan_out());
  StepEdit end = program->handshake();
  for (const uint32_t mate : mates) {
    if (mate != rank) end.signal(mate, end_);
  }
  program->wait(end_, static_cast<uint32_t>(mates.size() - 1));
}

base::Result<Schedule> direct_all_to_all(const OpRequest& request, const Group& group,
                                         const ScheduleOptions& options) {
  if (group.ranks() > options.max_steps) {
    return not_eligible(Algorithm::kMesh, "more ranks than steps of a program");
  }
  ChainBuilder builder(Algorithm::kMesh, request, group, options);
  builder.begin_chain();
  builder.add<DirectExchange>(request, group, false);
  return builder.take();
}

base::Result<Schedule> chip_all_to_all(const OpRequest& request, const Group& group,
                                       const ScheduleOptions& options) {
  auto chips = std::make_shared<ExchangeChips>();
  chips->seats.resize(group.ranks());
  for (const ChipRanks& chip : by_chip(group)) {
    for (uint32_t c = 0; c < chip.members.size(); ++c) {
      chips->seats[chip.members[c]] = {static_cast<uint32_t>(chips->ranks.size()), c};
    }
    chips->ranks.push_back(chip.members);
  }
  for (const auto& chip : chips->ranks) {
    if (chip.size() != chips->cores()) {
      return not_eligible(Algorithm::kMesh, "chips with different numbers of ranks");
    }
  }
  ChainBuilder builder(Algorithm::kMesh, request, group, options);
  const uint32_t count = group.ranks() < kMinManyRanks ? 1 : std::max(options.max_channels, 1u);
  const uint32_t parts = std::min(count, chips->chips());
  for (uint32_t p = 0; p < parts; ++p) {
    builder.begin_chain();
    builder.add<ChipExchange>(request, chips, p * chips->chips() / parts,
                              (p + 1) * chips->chips() / parts);
  }
  return builder.take();
}

base::Result<Schedule> mesh_all_to_all(const OpRequest& request, const Group& group,
                                       const ScheduleOptions& options) {
  if (options.in_place) return not_eligible(Algorithm::kMesh, "all-to-all in place");
  if (group.ranks() > kMaxDirectRanks) {
    base::Result<Schedule> by_chips = chip_all_to_all(request, group, options);
    if (by_chips) return by_chips;
  }
  return direct_all_to_all(request, group, options);
}

}  // namespace ccl
