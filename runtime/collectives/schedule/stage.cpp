#include "runtime/collectives/schedule/stage.h"

#include <algorithm>

namespace ccl {
namespace {

// Ranks whose steps are looked at for the largest step: the first chunks are the largest.
constexpr uint32_t kSampledRanks = 16;

}  // namespace

uint64_t bytes_of(const Section& section) {
  uint64_t bytes = 0;
  for (const Piece& piece : section) bytes += piece.bytes;
  return bytes;
}

void append_piece(Section* section, const Piece& piece) {
  if (piece.bytes == 0) return;
  if (!section->empty()) {
    Piece& last = section->back();
    if (last.from + last.bytes == piece.from && last.to + last.bytes == piece.to) {
      last.bytes += piece.bytes;
      return;
    }
  }
  section->push_back(piece);
}

void append_section(Section* section, const Section& more) {
  for (const Piece& piece : more) append_piece(section, piece);
}

uint64_t Teams::largest_section() const {
  uint64_t largest = 0;
  for (uint32_t t = 0; t < members.size(); ++t) {
    for (uint32_t j = 0; j < members[t].size(); ++j) {
      largest = std::max(largest, bytes_of(section(t, j)));
    }
  }
  return largest;
}

uint32_t Teams::largest_team() const {
  size_t largest = 0;
  for (const auto& team : members) largest = std::max(largest, team.size());
  return static_cast<uint32_t>(largest);
}

TeamsPtr make_teams(std::vector<std::vector<uint32_t>> members, uint32_t ranks,
                    std::function<Section(uint32_t team, uint32_t member)> section) {
  auto teams = std::make_shared<Teams>();
  teams->seats.resize(ranks);
  for (uint32_t t = 0; t < members.size(); ++t) {
    for (uint32_t j = 0; j < members[t].size(); ++j) teams->seats[members[t][j]] = {t, j};
  }
  teams->members = std::move(members);
  teams->section = std::move(section);
  return teams;
}

void RankProgram::wait(uint32_t event, uint32_t signals) {
  if (signals != 0) waits_.push_back({event, signals});
}

void RankProgram::wait_at_end(uint32_t event, uint32_t signals) {
  if (signals != 0) last_waits_.push_back({event, signals});
}

void RankProgram::after(uint32_t step) {
  if (step != kNoId) after_.push_back(step);
}

void RankProgram::attach(StepEdit* step) {
  for (const Wait& wait : waits_) step->wait(wait.event, wait.signals);
  step->after(after_);
  waits_.clear();
  after_.clear();
}

StepEdit RankProgram::move(uint64_t bytes, std::vector<Range> sources,
                           std::vector<Range> destinations) {
  StepEdit step = list_->move(channel_, bytes, std::move(sources), std::move(destinations));
  attach(&step);
  return step;
}

StepEdit RankProgram::handshake() {
  StepEdit step = list_->handshake(channel_);
  attach(&step);
  return step;
}

StepEdit RankProgram::fold(uint64_t bytes, std::vector<Range> sources,
                           std::vector<Range> destinations) {
  while (sources.size() > kMaxSources) {
    const auto cut = sources.begin() + kMaxSources;
    std::vector<Range> rest(cut, sources.end());
    sources.erase(cut, sources.end());
    after(move(bytes, std::move(sources), {destinations.front()}).id());
    rest.insert(rest.begin(), destinations.front());
    sources = std::move(rest);
  }
  return move(bytes, std::move(sources), std::move(destinations));
}

void RankProgram::finish() {
  waits_.insert(waits_.end(), last_waits_.begin(), last_waits_.end());
  last_waits_.clear();
  after_.clear();  // a rank ends with all its steps
  if (!waits_.empty()) handshake();
}

ChainBuilder::ChainBuilder(Algorithm algorithm, const OpRequest& request, const Group& group,
                           const ScheduleOptions& options)
    : shape_(make_shape(algorithm, request, group, options)) {
  shape_.channels = 0;
}

void ChainBuilder::begin_chain() {
  ++shape_.channels;
  chains_.emplace_back();
  chains_.back().ready = event();
}

Spot ChainBuilder::reserve(uint64_t bytes) {
  const Spot place{Buffer::kChannel, shape_.channel_bytes};
  shape_.channel_bytes += round_up(bytes);
  return place;
}

void ChainBuilder::append(const Chain& chain, RankProgram* program) {
  const uint32_t rank = program->rank();
  std::set<uint32_t> touches;
  std::set<uint32_t> touchers;
  for (const auto& stage : chain.stages) {
    stage->touches(rank, &touches);
    stage->touchers(rank, &touchers);
  }
  touches.erase(rank);
  touchers.erase(rank);
  if (!touchers.empty()) {
    StepEdit ready = program->handshake();
    for (const uint32_t peer : touchers) ready.signal(peer, chain.ready);
  }
  program->wait(chain.ready, static_cast<uint32_t>(touches.size()));
  for (const auto& stage : chain.stages) stage->append(program);
  program->finish();
}

Schedule ChainBuilder::take() {
  // Shared, because a std::function is copied.
  const auto chains = std::make_shared<const std::vector<Chain>>(std::move(chains_));
  Schedule schedule;
  schedule.shape = std::move(shape_);
  schedule.steps = [chains](uint32_t rank) {
    StepList list;
    for (uint32_t c = 0; c < chains->size(); ++c) {
      RankProgram program(rank, c, &list);
      append((*chains)[c], &program);
    }
    return list.take();
  };
  const uint32_t ranks = schedule.shape.ranks;
  for (uint32_t r = 0; r < ranks && r < kSampledRanks; ++r) {
    uint32_t variable = 0;
    for (const Step& step : schedule.steps(r)) {
      schedule.shape.largest_step = std::max(schedule.shape.largest_step, step.bytes);
      if (step.variable) ++variable;
    }
    schedule.shape.variable_steps = std::max(schedule.shape.variable_steps, variable);
  }
  return schedule;
}

Chunk ChunkMap::chunk(uint32_t n) const {
  if (request_.kind == OpKind::kAllReduce) {
    // Chunks of the block rather than blocks of chunks: neighbours stay contiguous.
    const Chunk block = part_of({0, request_.input_bytes}, block_.count, block_.number);
    const Chunk part = chunk_of(block.bytes, ranks_, n);
    return {block.offset + part.offset, part.bytes};
  }
  const Chunk whole = chunk_of(request_, ranks_, n);
  return part_of(whole, block_.count, block_.number);
}

Piece ChunkMap::reduced(uint32_t n) const {
  const Chunk c = chunk(n);
  const uint64_t start = chunk_of(request_, ranks_, n).offset;
  const bool scatter = request_.kind == OpKind::kReduceScatter;
  return {c.bytes, {Buffer::kInput, c.offset}, {Buffer::kOutput, c.offset - (scatter ? start : 0)}};
}

Piece ChunkMap::gathered(uint32_t n) const {
  Piece piece = held(n);
  // In place, the input of a rank is its chunk of the output.
  if (request_.kind == OpKind::kAllGather && !in_place_) {
    piece.from = {Buffer::kInput, piece.to.offset - chunk_of(request_, ranks_, n).offset};
  }
  return piece;
}

Piece ChunkMap::held(uint32_t n) const {
  const Chunk c = chunk(n);
  return {c.bytes, {Buffer::kOutput, c.offset}, {Buffer::kOutput, c.offset}};
}

}  // namespace ccl
