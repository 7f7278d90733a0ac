// Operations of variable size (spec/collectives.md 1.4, 2.12): direct, with lengths and places that
// are read when the operation runs.
//
// All-to-all-v and all-gather-v: every rank writes its block for every peer to its place there.
// Where that is follows from the rank, or is a word of the receiver's metadata, which the receiver
// first sends to the channel buffer of the sender. What the sender announces is copied to the
// receiver's metadata. Reduce-scatter-v: every rank folds its block of all inputs, in the order of
// the ranks.
#include <algorithm>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/builder.h"
#include "runtime/collectives/schedule/groups.h"
#include "runtime/collectives/schedule/stage.h"

namespace ccl {
namespace {

// Below this one channel folds it all: more would only add handshakes.
constexpr uint64_t kManyChannelBytes = 256 * 1024;

enum MetadataRow : uint32_t { kSendCounts, kSendPlaces, kReceiveCounts, kReceivePlaces };

// The group and the metadata, as the stages of one operation see them.
struct Exchange {
  Exchange(const OpRequest& q, const Group& group, uint32_t channel_count)
      : request(q), ranks(group.ranks()), channels(channel_count) {
    element = contract::dtype_size(request.dtype);
    starts.assign(ranks, 0);
    // The ranks of a chip begin with different chips, so that all its ports are busy.
    for (const ChipRanks& chip : by_chip(group)) {
      const auto cores = static_cast<uint32_t>(chip.members.size());
      for (uint32_t c = 0; c < cores; ++c) starts[chip.members[c]] = c * ranks / cores;
    }
  }

  Range word(uint32_t rank, MetadataRow row, uint32_t column) const {
    return {rank, Buffer::kMetadata, (uint64_t{row} * ranks + column) * kMetadataWord};
  }
  // Of an all-gather-v only column 0 is read.
  uint32_t column(uint32_t peer) const { return request.kind == OpKind::kAllGatherV ? 0 : peer; }
  // Bytes from which the block of `sender` lies without row 3.
  uint64_t slot(uint32_t sender) const {
    return request.output_bytes / element / ranks * sender * element;
  }
  // The channel of the pair.
  uint32_t channel(uint32_t sender, uint32_t receiver) const {
    return (receiver + ranks - sender) % ranks % channels;
  }
  // Peers of `rank` on a channel, itself included, in the order in which it sends.
  std::vector<uint32_t> receivers(uint32_t rank, uint32_t on) const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t peer = (rank + starts[rank] + i) % ranks;
      if (channel(rank, peer) == on) out.push_back(peer);
    }
    return out;
  }
  std::vector<uint32_t> senders(uint32_t rank, uint32_t on) const {
    std::vector<uint32_t> out;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (channel(peer, rank) == on) out.push_back(peer);
    }
    return out;
  }

  OpRequest request;
  uint32_t ranks;
  uint32_t channels;
  uint64_t element;
  std::vector<uint32_t> starts;  // by rank: distance to the first receiver
};
using ExchangePtr = std::shared_ptr<const Exchange>;

uint32_t others(const std::vector<uint32_t>& peers, uint32_t rank) {
  const auto own = static_cast<size_t>(std::count(peers.begin(), peers.end(), rank));
  return static_cast<uint32_t>(peers.size() - own);
}

class VariableExchange : public Stage {
 public:
  VariableExchange(ChainBuilder* builder, ExchangePtr exchange, uint32_t channel, Spot places)
      : x_(std::move(exchange)),
        channel_(channel),
        placed_(builder->event()),
        data_(builder->event()),
        places_(places) {}

  void touches(uint32_t rank, std::set<uint32_t>* peers) const override {
    add(x_->receivers(rank, channel_), peers);
    if (x_->request.receive_displacements) add(x_->senders(rank, channel_), peers);
  }
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override {
    add(x_->senders(rank, channel_), peers);
    if (x_->request.receive_displacements) add(x_->receivers(rank, channel_), peers);
  }

  void append(RankProgram* program) const override {
    const uint32_t rank = program->rank();
    const std::vector<uint32_t> receivers = x_->receivers(rank, channel_);
    if (x_->request.receive_displacements) {
      send_places(program);
      program->wait(placed_, others(receivers, rank));
    }
    if (!x_->request.receive_counts_known) announce(receivers, program);
    for (const uint32_t peer : receivers) send(peer, program);
    program->after(program->last_fan_out());
    StepEdit end = program->handshake();
    for (const uint32_t peer : receivers) {
      if (peer != rank) end.signal(peer, data_);
    }
    program->wait(data_, others(x_->senders(rank, channel_), rank));
  }

 private:
  static void add(const std::vector<uint32_t>& some, std::set<uint32_t>* peers) {
    peers->insert(some.begin(), some.end());
  }
  Range place_slot(uint32_t rank, uint32_t peer) const {
    return at(rank, places_ + uint64_t{peer} * kMetadataWord);
  }

  void send_places(RankProgram* program) const {
    const uint32_t rank = program->rank();
    for (const uint32_t peer : x_->senders(rank, channel_)) {
      if (peer == rank) continue;
      StepEdit step = program->move(kMetadataWord, {x_->word(rank, kReceivePlaces, peer)},
                                    {place_slot(peer, rank)});
      step.signal(peer, placed_);
      program->fan_out(&step);
    }
  }

  void announce(const std::vector<uint32_t>& receivers, RankProgram* program) const {
    const uint32_t rank = program->rank();
    for (const uint32_t peer : receivers) {
      StepEdit step = program->move(kMetadataWord, {x_->word(rank, kSendCounts, x_->column(peer))},
                                    {x_->word(peer, kReceiveCounts, rank)});
      program->fan_out(&step);
    }
  }

  void send(uint32_t peer, RankProgram* program) const {
    const uint32_t rank = program->rank();
    Variable v;
    v.count = x_->word(rank, kSendCounts, x_->column(peer));
    v.source = x_->word(rank, kSendPlaces, x_->column(peer));
    uint64_t slot = x_->slot(rank);
    if (x_->request.receive_displacements) {
      slot = 0;
      v.destination = peer == rank ? x_->word(rank, kReceivePlaces, rank) : place_slot(rank, peer);
    }
    StepEdit step = program->move(0, {input_of(rank, 0)}, {output_of(peer, slot)});
    step.variable(v);
    program->fan_out(&step);
  }

  ExchangePtr x_;
  uint32_t channel_;
  uint32_t placed_;
  uint32_t data_;
  Spot places_;  // words of the receivers, by rank
};

class VariableReduce : public Stage {
 public:
  VariableReduce(ChainBuilder* builder, ExchangePtr exchange, uint32_t channel)
      : x_(std::move(exchange)), channel_(channel), end_(builder->event()) {}

  void touches(uint32_t /*rank*/, std::set<uint32_t>* peers) const override {
    for (uint32_t peer = 0; peer < x_->ranks; ++peer) peers->insert(peer);
  }
  void touchers(uint32_t rank, std::set<uint32_t>* peers) const override { touches(rank, peers); }

  void append(RankProgram* program) const override {
    const uint32_t rank = program->rank();
    Variable v;
    v.count = x_->word(rank, kSendCounts, rank);
    v.source = x_->word(rank, kSendPlaces, rank);
    v.part = channel_;
    v.parts = x_->channels;
    for (uint32_t from = 0; from < x_->ranks;) {
      std::vector<Range> sources;
      if (from != 0) {
        sources.push_back(output_of(rank, 0));
        program->after(program->last_fan_out());
      }
      while (from < x_->ranks && sources.size() < kMaxSources) {
        sources.push_back(input_of(from++, 0));
      }
      StepEdit step = program->move(0, std::move(sources), {output_of(rank, 0)});
      step.variable(v);
      program->fan_out(&step);
    }
    program->after(program->last_fan_out());
    StepEdit end = program->handshake();
    for (uint32_t peer = 0; peer < x_->ranks; ++peer) {
      if (peer != rank) end.signal(peer, end_);
    }
    program->wait(end_, x_->ranks - 1);
  }

 private:
  ExchangePtr x_;
  uint32_t channel_;
  uint32_t end_;
};

}  // namespace

base::Result<Schedule> variable_mesh(const OpRequest& request, const Group& group,
                                     const ScheduleOptions& options) {
  const uint32_t ranks = group.ranks();
  if (options.in_place) return not_eligible(Algorithm::kMesh, "variable sizes in place");
  if (ranks > options.max_steps) {
    return not_eligible(Algorithm::kMesh, "more ranks than steps of a program");
  }
  const bool reduce = request.kind == OpKind::kReduceScatterV;
  uint32_t channels = std::min(std::max(options.max_channels, 1u), ranks);
  if (reduce && request.output_bytes < kManyChannelBytes) channels = 1;
  const auto exchange = std::make_shared<const Exchange>(request, group, channels);
  ChainBuilder builder(Algorithm::kMesh, request, group, options);
  Spot places;
  if (request.receive_displacements) places = builder.reserve(uint64_t{ranks} * kMetadataWord);
  for (uint32_t c = 0; c < channels; ++c) {
    builder.begin_chain();
    if (reduce) {
      builder.add<VariableReduce>(exchange, c);
    } else {
      builder.add<VariableExchange>(exchange, c, places);
    }
  }
  return builder.take();
}

}  // namespace ccl
