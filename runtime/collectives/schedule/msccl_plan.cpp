#include "runtime/collectives/schedule/msccl_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ccl {
namespace {

constexpr uint32_t kMaxChannels = 32;  // spec/collectives.md 1.8
constexpr uint32_t kMaxFusedSources = 16;

base::Error refused(const MscclProgram& program, const std::string& what) {
  return {base::Fault::kUsage, kNrtInvalid, "msccl program '" + program.name + "'", what};
}

uint64_t round_to(uint64_t bytes) {
  return (bytes + kChunkAlign - 1) / kChunkAlign * kChunkAlign;
}

// Executes one loop with the slots that there are: the order of every rank's actions. The lists of
// ranks are started in this order, which makes them free of deadlocks: it has been walked once.
class Walk {
 public:
  explicit Walk(const MscclPlan& plan)
      : plan_(plan), order_(plan.program.ranks.size()), at_(plan.program.ranks.size()) {
    for (size_t r = 0; r < at_.size(); ++r) at_[r].resize(plan.program.ranks[r].blocks.size());
  }

  base::Result<std::vector<std::vector<MscclAction>>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t r = 0; r < at_.size(); ++r) {
        for (uint32_t b = 0; b < at_[r].size(); ++b) moved = advance(r, b) || moved;
      }
    }
    for (uint32_t r = 0; r < at_.size(); ++r) {
      for (uint32_t b = 0; b < at_[r].size(); ++b) {
        if (at_[r][b].step == block(r, b).steps.size()) continue;
        return refused(plan_.program, "gpu " + std::to_string(r) + " thread block " +
                                          std::to_string(b) + " waits for ever at step " +
                                          std::to_string(at_[r][b].step));
      }
    }
    return std::move(order_);
  }

 private:
  struct State {
    uint32_t step = 0;
    uint32_t chunk = 0;     // of this step
    uint32_t arrived = 0;   // messages not yet consumed
    uint32_t in_slots = 0;  // messages of this block that the receiver has not consumed
  };

  const MscclBlock& block(uint32_t r, uint32_t b) const { return plan_.program.ranks[r].blocks[b]; }

  bool ready(uint32_t r, uint32_t b, const MscclStep& step) const {
    const State& s = at_[r][b];
    if (s.chunk == 0 && step.depends && at_[r][step.block].step <= step.step) return false;
    if (receives(step.type) && s.arrived == 0) return false;
    return !sends(step.type) || s.in_slots < plan_.slots;
  }

  bool advance(uint32_t r, uint32_t b) {
    State& s = at_[r][b];
    const std::vector<MscclStep>& steps = block(r, b).steps;
    if (s.step == steps.size() || !ready(r, b, steps[s.step])) return false;
    const MscclStep& step = steps[s.step];
    MscclAction action;
    action.block = b;
    action.step = s.step;
    action.fused = fused_steps(block(r, b), s.step);
    action.first = s.chunk;
    action.count = plan_.whole_messages ? step.count : 1;
    action.begins = s.chunk == 0;
    s.chunk += action.count;
    action.ends = s.chunk >= step.count;
    if (action.ends) {
      s.step += action.fused;
      s.chunk = 0;
    }
    order_[r].push_back(action);
    if (sends(step.type)) {
      ++s.in_slots;
      ++at_[static_cast<uint32_t>(block(r, b).send)][plan_.send_block[r][b]].arrived;
    }
    if (receives(step.type)) {
      --s.arrived;
      --at_[static_cast<uint32_t>(block(r, b).recv)][plan_.recv_block[r][b]].in_slots;
    }
    return true;
  }

  const MscclPlan& plan_;
  std::vector<std::vector<MscclAction>> order_;
  std::vector<std::vector<State>> at_;
};

void find_peers(MscclPlan* plan) {
  using Edge = std::tuple<uint32_t, uint32_t, int32_t>;
  std::map<Edge, uint32_t> senders;
  std::map<Edge, uint32_t> receivers;
  const auto visit = [&](const auto& each) {
    for (uint32_t r = 0; r < plan->program.ranks.size(); ++r) {
      const std::vector<MscclBlock>& blocks = plan->program.ranks[r].blocks;
      for (uint32_t b = 0; b < blocks.size(); ++b) each(r, b, blocks[b]);
    }
  };
  const auto uses = [](const MscclBlock& b, bool (*does)(MscclType)) {
    return std::any_of(b.steps.begin(), b.steps.end(),
                       [does](const MscclStep& s) { return does(s.type); });
  };
  visit([&](uint32_t r, uint32_t b, const MscclBlock& block) {
    if (uses(block, sends)) senders[{r, static_cast<uint32_t>(block.send), block.channel}] = b;
    if (uses(block, receives)) receivers[{static_cast<uint32_t>(block.recv), r, block.channel}] = b;
  });
  for (const MscclRank& rank : plan->program.ranks) {
    plan->send_block.emplace_back(rank.blocks.size());
    plan->recv_block.emplace_back(rank.blocks.size());
  }
  // parse_msccl() has matched them.
  visit([&](uint32_t r, uint32_t b, const MscclBlock& block) {
    const auto to = receivers.find({r, static_cast<uint32_t>(block.send), block.channel});
    const auto from = senders.find({static_cast<uint32_t>(block.recv), r, block.channel});
    if (to != receivers.end()) plan->send_block[r][b] = to->second;
    if (from != senders.end()) plan->recv_block[r][b] = from->second;
  });
}

struct Extent {
  uint32_t blocks = 0;
  uint32_t scratch = 0;
  uint32_t chunks = 1;  // of a message
  uint32_t steps = 1;   // of a block, chunk by chunk
};

Extent extent_of(const MscclProgram& program) {
  Extent e;
  for (const MscclRank& rank : program.ranks) {
    e.blocks = std::max(e.blocks, static_cast<uint32_t>(rank.blocks.size()));
    e.scratch = std::max(e.scratch, rank.scratch_chunks);
    for (const MscclBlock& block : rank.blocks) {
      uint32_t steps = 0;
      for (const MscclStep& step : block.steps) {
        e.chunks = std::max(e.chunks, step.count);
        steps += step.count + 1;  // and a handshake
      }
      e.steps = std::max(e.steps, steps);
    }
  }
  return e;
}

void set_sizes(MscclPlan* plan, const Extent& extent, const ScheduleOptions& options) {
  plan->chunk_bytes = report_size(plan->request) / plan->program.chunks;
  const uint64_t slot = std::max(kChunkAlign, options.slot_bytes / kChunkAlign * kChunkAlign);
  plan->whole_messages = plan->chunk_bytes <= slot / extent.chunks;
  const uint64_t most_loops = std::max(1u, options.max_steps / extent.steps);
  plan->piece_bytes = std::max(slot, round_to((plan->chunk_bytes + most_loops - 1) / most_loops));
  plan->piece_bytes = std::min(plan->piece_bytes, plan->chunk_bytes);
  plan->loops =
      static_cast<uint32_t>((plan->chunk_bytes + plan->piece_bytes - 1) / plan->piece_bytes);
  plan->slots = std::max(1u, options.slots);
  plan->slot_bytes =
      round_to(plan->piece_bytes * (plan->whole_messages ? extent.chunks : uint64_t{1}));

  const bool reduced =
      plan->program.kind == OpKind::kReduceScatter || plan->program.kind == OpKind::kReduce;
  plan->epilogue = plan->program.in_place && reduced;
  plan->prologue = plan->program.in_place && (plan->epilogue || !plan->buffers_in_place);
  plan->copy_at = round_to(extent.scratch * plan->chunk_bytes);
  plan->slots_at =
      plan->copy_at + (plan->epilogue ? round_to(plan->program.chunks * plan->chunk_bytes) : 0);
  Shape& shape = plan->shape;
  shape.channel_bytes = plan->slots_at + extent.blocks * plan->slots * plan->slot_bytes;
  shape.largest_step = plan->piece_bytes * (plan->whole_messages ? extent.chunks : 1);
  if (plan->prologue) shape.largest_step = std::max(shape.largest_step, plan->request.input_bytes);
  if (plan->epilogue) shape.largest_step = std::max(shape.largest_step, plan->request.output_bytes);
}

void number_events(MscclPlan* plan, uint32_t channels) {
  std::vector<Event>& events = plan->shape.events;
  const auto add = [&](uint32_t channel) {
    events.push_back({channel, true});
    return static_cast<uint32_t>(events.size() - 1);
  };
  std::vector<uint32_t> fifos(channels);
  for (const MscclRank& rank : plan->program.ranks) {
    for (const MscclDependencies::Edge& edge : dependencies_of(rank).edges) {
      fifos[edge.to_block] = std::max(fifos[edge.to_block], edge.fifo + 1);
    }
  }
  for (uint32_t c = 0; c < channels; ++c) {
    bool is_sender = false;
    bool is_receiver = false;
    for (const MscclRank& rank : plan->program.ranks) {
      if (c >= rank.blocks.size()) continue;
      is_sender = is_sender || rank.blocks[c].send != -1;
      is_receiver = is_receiver || rank.blocks[c].recv != -1;
    }
    plan->data.push_back(is_receiver ? add(c) : 0);
    plan->credit.push_back(is_sender ? add(c) : 0);
    plan->start.push_back(plan->prologue && c != 0 ? add(c) : 0);
    plan->done.push_back(plan->epilogue && c != 0 ? add(0) : 0);
    plan->dependency.emplace_back();
    for (uint32_t k = 0; k < fifos[c]; ++k) plan->dependency.back().push_back(add(c));
  }
}

}  // namespace

uint32_t fused_steps(const MscclBlock& block, uint32_t step) {
  const MscclStep& first = block.steps[step];
  if (first.type != MscclType::kReduce) return 1;
  uint32_t n = 1;
  while (step + n < block.steps.size() && n + 1 < kMaxFusedSources) {
    const MscclStep& next = block.steps[step + n];
    const bool same = next.type == MscclType::kReduce && next.dst.buffer == first.dst.buffer &&
                      next.dst.chunk == first.dst.chunk && next.count == first.count;
    if (!same || next.depends || block.steps[step + n - 1].awaited) break;
    ++n;
  }
  return n;
}

MscclDependencies dependencies_of(const MscclRank& rank) {
  MscclDependencies out;
  for (uint32_t b = 0; b < rank.blocks.size(); ++b) {
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> waited;  // block: fifo, next step to wait for
    for (uint32_t i = 0; i < rank.blocks[b].steps.size(); ++i) {
      const MscclStep& step = rank.blocks[b].steps[i];
      if (!step.depends || step.block == b) continue;
      const auto fifo = static_cast<uint32_t>(waited.size());
      auto& [number, next] = waited.try_emplace(step.block, fifo, 0).first->second;
      if (step.step < next) continue;
      next = step.step + 1;
      out.edges.push_back({step.block, step.step, b, i, number});
    }
  }
  return out;
}

base::Result<MscclPlan> make_plan(const MscclProgram& program, const OpRequest& request,
                                  const ScheduleOptions& options) {
  MscclPlan plan;
  plan.program = program;
  plan.request = request;
  plan.buffers_in_place = options.in_place;
  const Extent extent = extent_of(program);
  if (extent.blocks == 0 || extent.blocks > kMaxChannels) {
    return refused(program, std::to_string(extent.blocks) + " thread blocks per gpu; 1 to " +
                                std::to_string(kMaxChannels) + " channels can be had");
  }
  plan.shape.algorithm = Algorithm::kImported;
  plan.shape.request = request;
  plan.shape.ranks = static_cast<uint32_t>(program.ranks.size());
  plan.shape.channels = extent.blocks;
  plan.shape.in_place = options.in_place;
  find_peers(&plan);
  set_sizes(&plan, extent, options);
  number_events(&plan, extent.blocks);
  base::Result<std::vector<std::vector<MscclAction>>> order = Walk(plan).run();
  if (!order) return order.error();
  plan.order = std::move(*order);
  return plan;
}

}  // namespace ccl
