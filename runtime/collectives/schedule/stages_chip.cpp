// Stages that treat the ranks of a chip together (two-step mesh).
#include <algorithm>

#include "runtime/collectives/schedule/stages.h"

namespace ccl {
namespace {}  // namespace

// Where a rank sits, and who is around.
class ChipView {
 public:
  ChipView(const Teams& teams, const std::vector<TeamChips>& chips, uint32_t rank)
      : teams_(teams),
        seat_(teams.seats[rank]),
        chips_(chips[seat_.team]),
        own_(chips_.seats[seat_.member]) {}

  uint32_t chip() const { return own_.team; }
  uint32_t core() const { return own_.member; }
  uint32_t chips() const { return static_cast<uint32_t>(chips_.chips.size()); }
  uint32_t cores(uint32_t chip) const { return static_cast<uint32_t>(chips_.chips[chip].size()); }
  const MeshPaths& paths() const { return *chips_.paths; }

  uint32_t rank(uint32_t chip, uint32_t core) const {
    return teams_.members[seat_.team][chips_.chips[chip][core]];
  }
  Section section(uint32_t chip, uint32_t core) const {
    return teams_.section(seat_.team, chips_.chips[chip][core]);
  }
  // Ranks of the own chip, by core.
  std::vector<uint32_t> chip_ranks() const {
    std::vector<uint32_t> out;
    for (uint32_t c = 0; c < cores(chip()); ++c) out.push_back(rank(chip(), c));
    return out;
  }
  // The others of them.
  std::vector<uint32_t> mates() const {
    std::vector<uint32_t> out = chip_ranks();
    std::rotate(out.begin(), out.begin() + core(), out.end());
    out.erase(out.begin());
    return out;
  }

 private:
  const Teams& teams_;
  Seat seat_;
  const TeamChips& chips_;
  Seat own_;
};

namespace {

// Groups of at most four mates that one step writes to.
std::vector<std::vector<uint32_t>> fours(const std::vector<uint32_t>& ranks) {
  std::vector<std::vector<uint32_t>> out;
  for (size_t first = 0; first < ranks.size(); first += kMaxDestinations) {
    const size_t last = std::min(first + kMaxDestinations, ranks.size());
    out.emplace_back(ranks.begin() + static_cast<ptrdiff_t>(first),
                     ranks.begin() + static_cast<ptrdiff_t>(last));
  }
  return out;
}

std::vector<Range> all_at(const std::vector<uint32_t>& ranks, const Spot& place) {
  std::vector<Range> out;
  for (const uint32_t rank : ranks) out.push_back(at(rank, place));
  return out;
}

void signal_peers(StepEdit* step, const std::vector<uint32_t>& ranks, uint32_t own,
                  uint32_t event) {
  for (const uint32_t rank : ranks) {
    if (rank != own) step->signal(rank, event);
  }
}

}  // namespace

ChipReduce::ChipReduce(ChainBuilder* builder, TeamsPtr teams, TeamChipsPtr chips, bool share,
                       Readers readers)
    : teams_(std::move(teams)),
      chips_(std::move(chips)),
      share_(share),
      readers_(readers),
      slot_bytes_(round_up(teams_->largest_section())),
      data_(builder->event()) {
  size_t most = 0;
  for (const TeamChips& team : *chips_) most = std::max(most, team.chips.size());
  slots_ = builder->reserve(slot_bytes_ * most);
  if (share_) shared_ = builder->event();
  if (readers_ == Readers::kTellEnd) end_ = builder->event();
}

// Ranks of other chips for which this core folds the data of its chip, {chip, core}.
std::vector<Seat> ChipReduce::served(const ChipView& me) const {
  std::vector<Seat> out;
  for (uint32_t t = 1; t < me.chips(); ++t) {
    const uint32_t d = (me.chip() + t) % me.chips();
    for (uint32_t core = 0; core < me.cores(d); ++core) {
      const bool owns = me.paths().owner(me.chip(), d, core) == me.core();
      if (owns && !me.section(d, core).empty()) out.push_back({d, core});
    }
  }
  return out;
}

bool ChipReduce::active(const ChipView& me) const {
  return !me.section(me.chip(), me.core()).empty() || !served(me).empty();
}

void ChipReduce::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  const ChipView me(*teams_, *chips_, rank);
  if (!active(me)) return;
  for (const uint32_t mate : me.chip_ranks()) peers->insert(mate);
  for (const Seat& to : served(me)) peers->insert(me.rank(to.team, to.member));
}

void ChipReduce::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  const ChipView me(*teams_, *chips_, rank);
  for (const uint32_t mate : me.chip_ranks()) {
    if (active(ChipView(*teams_, *chips_, mate))) peers->insert(mate);
  }
  for (uint32_t s = 0; s < me.chips() && !me.section(me.chip(), me.core()).empty(); ++s) {
    if (s != me.chip()) peers->insert(me.rank(s, me.paths().owner(s, me.chip(), me.core())));
  }
}

// Folds the data of the own chip for one rank into its slot for this chip.
std::vector<uint32_t> ChipReduce::fold_chip(RankProgram* program, const ChipView& me,
                                            const Seat& to) const {
  std::vector<uint32_t> steps;
  const uint32_t target = me.rank(to.team, to.member);
  uint64_t offset = 0;
  for (const Piece& piece : me.section(to.team, to.member)) {
    StepEdit step = program->fold(piece.bytes, all_at(me.chip_ranks(), piece.from),
                                  {at(target, slot(me.chip()) + offset)});
    if (target != program->rank()) {
      step.signal(target, data_);
      program->fan_out(&step);
    }
    steps.push_back(step.id());
    offset += piece.bytes;
  }
  return steps;
}

void ChipReduce::fold_slots(RankProgram* program, const ChipView& me) const {
  const uint32_t rank = program->rank();
  std::vector<uint32_t> targets = {rank};
  if (share_) {
    const std::vector<uint32_t> mates = me.mates();
    targets.insert(targets.end(), mates.begin(), mates.end());
  }
  // Folding again for the next four is one hop less than copying the result; a fold in several
  // steps needs the own output and is not repeated.
  const bool again = me.chips() <= kMaxSources;
  const auto groups = again ? fours(targets) : std::vector<std::vector<uint32_t>>{{rank}};
  std::vector<uint32_t> folds;
  uint64_t offset = 0;
  for (const Piece& piece : me.section(me.chip(), me.core())) {
    std::vector<Range> sources;
    for (uint32_t s = 0; s < me.chips(); ++s) sources.push_back(at(rank, slot(s) + offset));
    for (const auto& group : groups) {
      StepEdit step = program->fold(piece.bytes, sources, all_at(group, piece.to));
      signal_peers(&step, group, rank, shared_);
      folds.push_back(step.id());
    }
    offset += piece.bytes;
  }
  for (const uint32_t fold : folds) program->after(fold);
  if (again || !share_) return;
  for (const Piece& piece : me.section(me.chip(), me.core())) {
    for (const auto& group : fours(me.mates())) {
      StepEdit step = program->move(piece.bytes, {at(rank, piece.to)}, all_at(group, piece.to));
      signal_peers(&step, group, rank, shared_);
    }
  }
}

void ChipReduce::append(RankProgram* program) const {
  const ChipView me(*teams_, *chips_, program->rank());
  const std::vector<uint32_t> local = fold_chip(program, me, {me.chip(), me.core()});
  for (const Seat& to : served(me)) fold_chip(program, me, to);
  const uint32_t last = program->last_fan_out();
  const size_t own = me.section(me.chip(), me.core()).size();
  program->wait(data_, static_cast<uint32_t>((me.chips() - 1) * own));
  for (const uint32_t step : local) program->after(step);
  fold_slots(program, me);
  const std::vector<uint32_t> mates = me.mates();
  if (readers_ == Readers::kTellEnd) {
    uint32_t readers = 0;
    for (const uint32_t mate : mates) readers += active(ChipView(*teams_, *chips_, mate));
    if (active(me) && !mates.empty()) {
      program->after(last);
      StepEdit end = program->handshake();
      signal_peers(&end, mates, program->rank(), end_);
    }
    program->wait_at_end(end_, readers);
  }
  if (!share_) return;
  size_t signals = 0;
  for (uint32_t c = 0; c < me.cores(me.chip()); ++c) {
    if (c != me.core()) signals += me.section(me.chip(), c).size();
  }
  program->wait(shared_, static_cast<uint32_t>(signals));
}

LandingGather::LandingGather(ChainBuilder* builder, TeamsPtr teams, TeamChipsPtr chips, Mates mates)
    : teams_(std::move(teams)),
      chips_(std::move(chips)),
      mates_(mates),
      landed_(builder->event()),
      data_(builder->event()) {
  if (!shared()) end_ = builder->event();
  if (mates_ == Mates::kMade) made_ = builder->event();
}

// The sections of a chip, as they lie in an output.
Section LandingGather::of_chip(const ChipView& me, uint32_t chip) const {
  Section out;
  for (uint32_t c = 0; c < me.cores(chip); ++c) {
    for (const Piece& piece : me.section(chip, c)) {
      append_piece(&out, {piece.bytes, piece.to, piece.to});
    }
  }
  return out;
}

// Steps in which a chip's sections travel to another chip.
uint32_t LandingGather::sent_steps(const ChipView& me, uint32_t chip) const {
  if (shared()) return static_cast<uint32_t>(of_chip(me, chip).size());
  size_t steps = 0;
  for (uint32_t c = 0; c < me.cores(chip); ++c) steps += me.section(chip, c).size();
  return static_cast<uint32_t>(steps);
}

// Chips that this core sends to.
std::vector<uint32_t> LandingGather::sent(const ChipView& me) const {
  std::vector<uint32_t> out;
  for (uint32_t t = 1; t < me.chips(); ++t) {
    const uint32_t d = (me.chip() + t) % me.chips();
    if (me.paths().owner(me.chip(), d, 0) == me.core()) out.push_back(d);
  }
  return out;
}

// Chips whose sections land at a core of the own chip.
std::vector<uint32_t> LandingGather::landed(const ChipView& me, uint32_t core) const {
  std::vector<uint32_t> out;
  for (uint32_t s = 0; s < me.chips(); ++s) {
    if (s != me.chip() && me.paths().land(s, me.chip()) == core) out.push_back(s);
  }
  return out;
}

bool LandingGather::reads(const ChipView& me, uint32_t core) const {
  return !shared() && core != me.core() && !sent(me).empty() &&
         !me.section(me.chip(), core).empty();
}

bool LandingGather::spreads(const ChipView& me) const {
  if (!shared() && !me.section(me.chip(), me.core()).empty()) return true;
  for (const uint32_t s : landed(me, me.core())) {
    if (!of_chip(me, s).empty()) return true;
  }
  return false;
}

void LandingGather::touches(uint32_t rank, std::set<uint32_t>* peers) const {
  const ChipView me(*teams_, *chips_, rank);
  for (uint32_t c = 0; c < me.cores(me.chip()); ++c) {
    if (spreads(me) || reads(me, c)) peers->insert(me.rank(me.chip(), c));
  }
  for (const uint32_t d : sent(me)) {
    const bool any = !of_chip(me, me.chip()).empty();
    if (any) peers->insert(me.rank(d, me.paths().land(me.chip(), d)));
  }
}

void LandingGather::touchers(uint32_t rank, std::set<uint32_t>* peers) const {
  const ChipView me(*teams_, *chips_, rank);
  for (const uint32_t mate : me.chip_ranks()) {
    const ChipView view(*teams_, *chips_, mate);
    if (spreads(view) || reads(view, me.core())) peers->insert(mate);
  }
  for (const uint32_t s : landed(me, me.core())) {
    if (!of_chip(me, s).empty()) peers->insert(me.rank(s, me.paths().owner(s, me.chip(), 0)));
  }
}

void LandingGather::send_chip(RankProgram* program, const ChipView& me, uint32_t chip) const {
  const uint32_t to = me.rank(chip, me.paths().land(me.chip(), chip));
  const auto send = [&](const Piece& piece, uint32_t from) {
    StepEdit step = program->move(piece.bytes, {at(from, piece.from)}, {at(to, piece.to)});
    step.signal(to, landed_);
    program->fan_out(&step);
  };
  if (shared()) {
    for (const Piece& piece : of_chip(me, me.chip())) send(piece, program->rank());
    return;
  }
  for (uint32_t c = 0; c < me.cores(me.chip()); ++c) {
    for (const Piece& piece : me.section(me.chip(), c)) send(piece, me.rank(me.chip(), c));
  }
}

// Pieces to all mates, and to the own output where they are not there yet.
void LandingGather::spread(RankProgram* program, const ChipView& me, const Section& pieces) const {
  for (const Piece& piece : pieces) {
    std::vector<uint32_t> targets = me.mates();
    if (!(piece.from == piece.to)) targets.push_back(program->rank());
    for (const auto& group : fours(targets)) {
      StepEdit step =
          program->move(piece.bytes, {at(program->rank(), piece.from)}, all_at(group, piece.to));
      signal_peers(&step, group, program->rank(), data_);
      program->fan_out(&step);
    }
  }
}

std::vector<uint32_t> LandingGather::read(const ChipView& me) const {
  std::vector<uint32_t> out;
  for (uint32_t c = 0; c < me.cores(me.chip()); ++c) {
    if (reads(me, c)) out.push_back(me.rank(me.chip(), c));
  }
  return out;
}

std::vector<uint32_t> LandingGather::readers(const ChipView& me) const {
  std::vector<uint32_t> out;
  for (const uint32_t mate : me.mates()) {
    if (reads(ChipView(*teams_, *chips_, mate), me.core())) out.push_back(mate);
  }
  return out;
}

// To mates, if there are any; then as many are expected.
void LandingGather::tell(RankProgram* program, const std::vector<uint32_t>& mates,
                         uint32_t event) const {
  if (mates.empty()) return;
  StepEdit step = program->handshake();
  signal_peers(&step, mates, program->rank(), event);
}

void LandingGather::append(RankProgram* program) const {
  const ChipView me(*teams_, *chips_, program->rank());
  if (mates_ == Mates::kMade) {
    tell(program, readers(me), made_);
    program->wait(made_, static_cast<uint32_t>(read(me).size()));
  }
  for (const uint32_t d : sent(me)) send_chip(program, me, d);
  const uint32_t last = program->last_fan_out();
  if (!shared()) spread(program, me, me.section(me.chip(), me.core()));

  size_t arriving = 0;
  for (const uint32_t s : landed(me, me.core())) arriving += sent_steps(me, s);
  program->wait(landed_, static_cast<uint32_t>(arriving));
  for (const uint32_t s : landed(me, me.core())) spread(program, me, of_chip(me, s));
  if (!shared()) {
    if (!read(me).empty()) program->after(last);
    tell(program, read(me), end_);
    program->wait_at_end(end_, static_cast<uint32_t>(readers(me).size()));
  }
  size_t signals = 0;
  for (uint32_t c = 0; c < me.cores(me.chip()); ++c) {
    if (c == me.core()) continue;
    if (!shared()) signals += me.section(me.chip(), c).size();
    for (const uint32_t s : landed(me, c)) signals += of_chip(me, s).size();
  }
  program->wait(data_, static_cast<uint32_t>(signals));
}

}  // namespace ccl
