// Steps of one rank from the plan of an MSCCL program.
#include "runtime/collectives/schedule/msccl.h"

#include <algorithm>
#include <memory>

#include "runtime/collectives/schedule/msccl_plan.h"
#include "runtime/collectives/schedule/verify.h"
#include "runtime/collectives/schedule/verify_memory.h"

namespace ccl {
namespace {

// Steps that may still be in flight when the next of a channel starts.
constexpr size_t kRecent = 4;

class RankWriter {
 public:
  RankWriter(const MscclPlan& plan, uint32_t rank)
      : plan_(plan),
        rank_(rank),
        program_(plan.program.ranks[rank]),
        dependencies_(dependencies_of(program_)),
        sent_(program_.blocks.size()),
        consumed_(program_.blocks.size()),
        recent_(plan.shape.channels) {}

  Steps write() {
    grant_credits();
    if (plan_.prologue) fill();
    for (loop_ = 0; loop_ < plan_.loops; ++loop_) {
      for (const MscclAction& action : plan_.order[rank_]) act(action);
    }
    if (plan_.epilogue) copy_out();
    return std::move(steps_);
  }

 private:
  const MscclBlock& block(uint32_t b) const { return program_.blocks[b]; }

  uint64_t loop_bytes() const {
    return std::min(plan_.piece_bytes, plan_.chunk_bytes - loop_ * plan_.piece_bytes);
  }

  // Where the chunks of a reference lie. Programs in place have one storage for input and output.
  Range at(const MscclRef& ref, uint32_t first) const {
    uint64_t chunk = ref.chunk + uint64_t{first};
    const bool own_part = ref.buffer == (plan_.program.kind == OpKind::kAllGather ? 'i' : 'o');
    const uint32_t part = plan_.program.chunks / plan_.shape.ranks;
    const bool split =
        plan_.program.kind == OpKind::kAllGather || plan_.program.kind == OpKind::kReduceScatter;
    Buffer buffer = ref.buffer == 'i' ? Buffer::kInput : Buffer::kOutput;
    uint64_t base = loop_ * plan_.piece_bytes;
    if (ref.buffer == 's') {
      buffer = Buffer::kChannel;
    } else if (plan_.program.in_place) {
      buffer = plan_.epilogue ? Buffer::kChannel : Buffer::kOutput;
      base += plan_.epilogue ? plan_.copy_at : 0;
      if (split && own_part) chunk += uint64_t{rank_} * part;
    }
    return {rank_, buffer, base + chunk * plan_.chunk_bytes};
  }

  Range slot(uint32_t of_rank, uint32_t channel, uint64_t message) const {
    return {of_rank, Buffer::kChannel,
            plan_.slots_at +
                (channel * uint64_t{plan_.slots} + message % plan_.slots) * plan_.slot_bytes};
  }

  // Messages to block b in the whole operation.
  uint64_t messages(uint32_t b) const {
    const auto is = [&](const MscclAction& a) {
      return a.block == b && receives(block(b).steps[a.step].type);
    };
    const auto& order = plan_.order[rank_];
    return plan_.loops * static_cast<uint64_t>(std::count_if(order.begin(), order.end(), is));
  }

  uint32_t add(Step step) {
    const auto id = static_cast<uint32_t>(steps_.size());
    if (step.bytes != 0) {
      for (const uint32_t earlier : recent_[step.channel]) {
        if (conflict(steps_[earlier], step)) step.after.push_back(earlier);
      }
      recent_[step.channel].push_back(id);
      if (recent_[step.channel].size() > kRecent)
        recent_[step.channel].erase(recent_[step.channel].begin());
    }
    steps_.push_back(std::move(step));
    return id;
  }

  // A thread block finishes a step before the next; here only where they touch the same bytes.
  bool conflict(const Step& a, const Step& b) const {
    const auto meet = [&](const std::vector<Range>& x, const std::vector<Range>& y) {
      for (const Range& i : x) {
        const Place place = place_of(plan_.shape, i, a.bytes);
        for (const Range& k : y) {
          if (place.overlaps(place_of(plan_.shape, k, b.bytes))) return true;
        }
      }
      return false;
    };
    return meet(a.destinations, b.sources) || meet(a.destinations, b.destinations) ||
           meet(a.sources, b.destinations);
  }

  // A handshake behind all that the channel has done so far.
  Step settled(uint32_t channel) const {
    Step step;
    step.channel = channel;
    step.after = recent_[channel];
    return step;
  }

  void grant_credits() {
    for (uint32_t b = 0; b < program_.blocks.size(); ++b) {
      const uint64_t credits = std::min<uint64_t>(plan_.slots, messages(b));
      if (credits == 0) continue;
      Step step;
      step.channel = b;
      const Signal credit{static_cast<uint32_t>(block(b).recv),
                          plan_.credit[plan_.recv_block[rank_][b]]};
      step.signals.assign(credits, credit);
      add(step);
    }
  }

  // The shared storage of a program in place.
  void fill() {
    const OpRequest& request = plan_.request;
    Step step;
    step.bytes = request.input_bytes;
    step.sources = {{rank_, Buffer::kInput, 0}};
    step.destinations = {{rank_, Buffer::kOutput, 0}};
    if (request.kind == OpKind::kAllGather) {
      step.destinations[0].offset = rank_ * request.input_bytes;
    }
    if (plan_.epilogue) step.destinations = {{rank_, Buffer::kChannel, plan_.copy_at}};
    const bool empty = request.kind == OpKind::kBroadcast && rank_ != request.root;
    if (empty) step = {};
    for (uint32_t c = 1; c < program_.blocks.size(); ++c) {
      step.signals.push_back({rank_, plan_.start[c]});
    }
    add(step);
    for (uint32_t c = 1; c < program_.blocks.size(); ++c) {
      Step wait;
      wait.channel = c;
      wait.waits = {{plan_.start[c], 1}};
      add(wait);
    }
  }

  void copy_out() {
    Step step;
    for (uint32_t c = 1; c < program_.blocks.size(); ++c) {
      Step end = settled(c);
      end.signals = {{rank_, plan_.done[c]}};
      add(end);
      step.waits.push_back({plan_.done[c], 1});
    }
    const OpRequest& request = plan_.request;
    if (request.kind == OpKind::kReduceScatter || rank_ == request.root) {
      step.bytes = request.output_bytes;
      const uint64_t part = request.kind == OpKind::kReduceScatter ? rank_ * step.bytes : 0;
      step.sources = {{rank_, Buffer::kChannel, plan_.copy_at + part}};
      step.destinations = {{rank_, Buffer::kOutput, 0}};
    }
    add(step);
  }

  void act(const MscclAction& action) {
    const uint32_t b = action.block;
    const MscclStep& what = block(b).steps[action.step];
    Step step;
    step.channel = b;
    if (what.type != MscclType::kNop) {
      step.bytes = plan_.whole_messages ? action.count * plan_.chunk_bytes : loop_bytes();
    }
    if (action.begins) wait_dependencies(action, &step);
    if (what.type == MscclType::kReduce) step.sources.push_back(at(what.dst, action.first));
    if (receives(what.type)) take(b, &step);
    for (uint32_t k = 0; k < action.fused && loads(what.type); ++k) {
      step.sources.push_back(at(block(b).steps[action.step + k].src, action.first));
    }
    if (stores(what.type)) step.destinations.push_back(at(what.dst, action.first));
    if (sends(what.type)) send(b, &step);
    add(step);
    if (action.ends) signal_dependencies(action);
  }

  void take(uint32_t b, Step* step) {
    step->waits.push_back({plan_.data[b], 1});
    step->sources.push_back(slot(rank_, b, consumed_[b]));
    if (consumed_[b] + plan_.slots < messages(b)) {
      step->signals.push_back(
          {static_cast<uint32_t>(block(b).recv), plan_.credit[plan_.recv_block[rank_][b]]});
    }
    ++consumed_[b];
  }

  void send(uint32_t b, Step* step) {
    const auto peer = static_cast<uint32_t>(block(b).send);
    const uint32_t channel = plan_.send_block[rank_][b];
    step->waits.push_back({plan_.credit[b], 1});
    step->destinations.push_back(slot(peer, channel, sent_[b]++));
    step->signals.push_back({peer, plan_.data[channel]});
  }

  void wait_dependencies(const MscclAction& action, Step* step) {
    for (const MscclDependencies::Edge& edge : dependencies_.edges) {
      if (edge.to_block != action.block || edge.to_step != action.step) continue;
      step->waits.push_back({plan_.dependency[action.block][edge.fifo], 1});
    }
  }

  // What depends on a step relies on the steps before it as well.
  void signal_dependencies(const MscclAction& action) {
    Step step = settled(action.block);
    for (const MscclDependencies::Edge& edge : dependencies_.edges) {
      if (edge.from_block != action.block || edge.from_step < action.step ||
          edge.from_step >= action.step + action.fused) {
        continue;
      }
      step.signals.push_back({rank_, plan_.dependency[edge.to_block][edge.fifo]});
    }
    if (!step.signals.empty()) add(step);
  }

  const MscclPlan& plan_;
  uint32_t rank_;
  const MscclRank& program_;
  MscclDependencies dependencies_;
  std::vector<uint64_t> sent_;  // per block: messages
  std::vector<uint64_t> consumed_;
  std::vector<std::vector<uint32_t>> recent_;
  uint32_t loop_ = 0;
  Steps steps_;
};

// A request of chunks of this many bytes.
OpRequest sample_of(const MscclProgram& program, uint64_t chunk) {
  const auto ranks = static_cast<uint32_t>(program.ranks.size());
  OpRequest r;
  r.kind = program.kind;
  r.dtype = DType::kInt32;
  r.op = program.op.value_or(ReduceOp::kAdd);
  r.input_bytes = r.output_bytes = program.chunks * chunk;
  if (program.kind == OpKind::kAllGather) r.input_bytes /= ranks;
  if (program.kind == OpKind::kReduceScatter) r.output_bytes /= ranks;
  return r;
}

}  // namespace

base::Result<Schedule> msccl_schedule(const MscclProgram& program, const OpRequest& request,
                                      const Group& group, const ScheduleOptions& options) {
  if (!program.applies(request, group.ranks(), options.in_place)) {
    return base::Error{base::Fault::kUnsupported, kNrtUnsupported,
                       "msccl program '" + program.name + "'", "is not made for this operation"};
  }
  base::Result<MscclPlan> made = make_plan(program, request, options);
  if (!made) return made.error();
  const auto plan = std::make_shared<const MscclPlan>(std::move(*made));
  return Schedule{plan->shape, [plan](uint32_t rank) { return RankWriter(*plan, rank).write(); }};
}

base::Result<MscclProgram> load_msccl(const std::string& xml, const std::string& where) {
  base::Result<MscclProgram> program = parse_msccl(xml, where);
  if (!program) return program;
  MscclProgram checked = *program;
  checked.min_bytes = 0;  // the sample is small
  checked.max_bytes = UINT64_MAX;
  Group group;
  group.members.resize(checked.ranks.size());
  for (const bool in_place : {false, true}) {
    if (in_place && (!checked.in_place || checked.kind == OpKind::kAllToAll)) continue;
    // Once in whole messages, once in two loops of single chunks.
    for (const uint64_t chunk : {uint64_t{64}, uint64_t{128}}) {
      ScheduleOptions options;
      options.in_place = in_place;
      options.max_steps = UINT32_MAX;
      if (chunk == 128) options.slot_bytes = 64;
      const base::Result<Schedule> schedule =
          msccl_schedule(checked, sample_of(checked, chunk), group, options);
      if (!schedule) return schedule.error();
      base::Status status = verify(*schedule);
      if (!status) return base::Error{base::Fault::kUsage, kNrtInvalid, where, status.error().what};
    }
  }
  return program;
}

}  // namespace ccl
