// Executes all ranks of a schedule on symbolic data, once. The order in which the ranks are
// advanced decides nothing: a fifo has one producer and one consumer, a gather is waited for once,
// so every order meets the same waits. What could differ between orders is found by clocks: at its
// start a step must know the ends of all conflicting accesses before it (verify_clock.h).
//
// A rank starts its steps in the order of its list here, as when all its channels share a CC-core:
// no other assignment of channels to cores waits for more. Order between steps is only taken from
// what holds for every assignment: the order within a channel, signals and `after`.
//
// Beyond one execution: operations are replayed, so a signal to a gather must not be able to come
// while the gather of the operation before is still open.
#include "runtime/collectives/schedule/verify.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "runtime/collectives/schedule/verify_program.h"

namespace ccl {
namespace {

using Stamp = std::shared_ptr<const Clock>;

constexpr std::array<Buffer, 5> kBuffers = {Buffer::kInput, Buffer::kOutput, Buffer::kChannel,
                                            Buffer::kSecond, Buffer::kMetadata};

struct Track {
  Clock clock;
  uint32_t started = 0;            // steps
  std::vector<uint32_t> windowed;  // numbers of steps
  std::vector<uint32_t> fan_outs;
};

struct EventState {
  std::deque<Stamp> fifo;
  std::optional<Clock> gathered;
  uint64_t count = 0;  // of a gather
};

// A signal to a gather: what its sender knew of ranks that had started.
struct GatherSignal {
  uint32_t step = 0;
  Signal signal;
  std::vector<uint64_t> started;
};

class Execution {
 public:
  // `variable`: what an operation of variable size leaves; else null.
  Execution(const Program& program, uint32_t steps_in_flight,
            const VariableResult* variable = nullptr)
      : p_(program),
        shape_(program.shape),
        steps_in_flight_(steps_in_flight),
        variable_(variable),
        folds_(program.shape.ranks) {
    prepare();
  }

  base::Status run() {
    if (base::Status status = advance(); !status) return status;
    if (base::Status status = check_stuck(); !status) return status;
    for (uint32_t r = 0; r < shape_.ranks; ++r) {
      if (base::Status status = check_output(r); !status) return status;
      if (base::Status status = check_metadata(r); !status) return status;
    }
    if (base::Status status = check_ends(); !status) return status;
    return check_replay();
  }

 private:
  void prepare();
  Clock empty_clock() const {
    return {shape_.ranks, static_cast<uint32_t>(p_.tracks.size()), p_.fan_outs};
  }
  Memory& memory(uint32_t rank, Buffer buffer) {
    return memories_[rank * kBuffers.size() + static_cast<size_t>(buffer)];
  }
  EventState& event(uint32_t rank, uint32_t e) { return events_[rank * shape_.events.size() + e]; }

  base::Status advance();
  bool finished(uint32_t rank) const { return next_[rank] == p_.ranks[rank].size(); }
  std::map<uint32_t, uint64_t> needs(uint32_t id) const;
  uint64_t came(uint32_t rank, uint32_t e);
  bool can_start(uint32_t id);
  base::Status start(Track* track, uint32_t id);
  void take_waits(Track* track, uint32_t id);
  void take_after(Track* track, uint32_t id);
  void signal(uint32_t id, const Clock& at_end);

  struct Piece {
    uint64_t begin = 0;  // from the start of the step
    uint64_t end = 0;
    uint64_t origin = 0;
    uint32_t fold = 0;
  };
  base::Status transfer(const Clock& clock, uint32_t id);
  base::Status touch(const Clock& clock, uint32_t id, const Place& place);
  base::Status read(const Clock& clock, uint32_t id, const Place& place,
                    std::vector<Piece>* pieces);
  base::Status check_write(const Clock& clock, uint32_t id, const Place& place);
  void record_read(const Clock& clock, uint32_t id, const Place& place);
  base::Result<std::vector<Piece>> fold(uint32_t id,
                                        const std::vector<std::vector<Piece>>& sources);
  base::Error race(uint32_t id, uint32_t other, uint64_t at, const Place& place) const;

  base::Status check_stuck();
  base::Status check_output(uint32_t rank);
  base::Status check_metadata(uint32_t rank);
  base::Status check_segment(uint32_t rank, uint64_t begin, const Segment& segment);
  bool is_fold_of_all(uint32_t fold);
  base::Status check_order(uint64_t begin, uint64_t end, uint32_t fold);
  base::Status check_ends();
  base::Status check_replay();

  const Program& p_;
  const Shape& shape_;
  uint32_t steps_in_flight_;
  const VariableResult* variable_;
  Folds folds_;
  std::vector<Memory> memories_;
  std::vector<Track> tracks_;
  std::vector<EventState> events_;
  std::vector<uint32_t> next_;                // per rank: index in its list
  std::deque<uint32_t> ready_;                // ranks that may be able to go on
  std::vector<bool> queued_;                  // per rank: is in ready_
  std::vector<std::vector<uint32_t>> touch_;  // per rank: steps of others that touch its memory
  std::vector<GatherSignal> gather_signals_;
  std::vector<Clock> ends_;             // per rank
  std::map<uint32_t, bool> complete_;   // folds that were compared with that of all ranks
  std::optional<Memory> agreed_order_;  // of an all-reduce, by rank 0
};

void Execution::prepare() {
  for (uint32_t r = 0; r < shape_.ranks; ++r) {
    for (const Buffer b : kBuffers) {
      uint64_t bytes = size_of(shape_, b, r);
      // Inputs inside of outputs and the reverse.
      if (shape_.in_place && b == Buffer::kInput)
        bytes = std::max(bytes, shape_.request.output_bytes);
      memories_.emplace_back(bytes);
    }
    const bool has_input = shape_.request.kind != OpKind::kBroadcast || r == shape_.request.root;
    for (const Buffer b : {Buffer::kInput, Buffer::kSecond, Buffer::kMetadata}) {
      const uint64_t bytes = size_of(shape_, b, r);
      if (bytes == 0 || !has_input) continue;
      const Place place = place_of(shape_, {r, b, 0}, bytes);
      Segment segment;
      segment.end = place.end;
      segment.fold = folds_.leaf(r, b != Buffer::kInput);
      memory(r, b).write(place.begin, segment);
    }
    for (uint32_t c = 0; c < shape_.channels; ++c) {
      tracks_.push_back({empty_clock(), 0, {}, {}});
      tracks_.back().clock.start_rank(r);
    }
  }
  events_.resize(shape_.ranks * shape_.events.size());
  touch_.resize(shape_.ranks);
  next_.resize(shape_.ranks);
  queued_.assign(shape_.ranks, true);
  for (uint32_t r = 0; r < shape_.ranks; ++r) ready_.push_back(r);
}

base::Status Execution::advance() {
  while (!ready_.empty()) {
    const uint32_t rank = ready_.front();
    ready_.pop_front();
    queued_[rank] = false;
    const uint32_t id = p_.first[rank] + next_[rank];
    if (finished(rank) || !can_start(id)) continue;
    ++next_[rank];
    if (base::Status status = start(&tracks_[p_.refs[id].track], id); !status) return status;
    // One step at a turn, so that signals do not pile up.
    ready_.push_back(rank);
    queued_[rank] = true;
  }
  return {};
}

// A step may wait for an event more than once.
std::map<uint32_t, uint64_t> Execution::needs(uint32_t id) const {
  std::map<uint32_t, uint64_t> out;
  for (const Wait& wait : p_.step(id).waits) out[wait.event] += wait.signals;
  return out;
}

uint64_t Execution::came(uint32_t rank, uint32_t e) {
  return shape_.events[e].fifo ? event(rank, e).fifo.size() : event(rank, e).count;
}

bool Execution::can_start(uint32_t id) {
  const std::map<uint32_t, uint64_t> all = needs(id);
  return std::all_of(all.begin(), all.end(), [&](const auto& need) {
    return came(p_.refs[id].rank, need.first) >= need.second;
  });
}

void Execution::take_waits(Track* track, uint32_t id) {
  for (const Wait& wait : p_.step(id).waits) {
    EventState& state = event(p_.refs[id].rank, wait.event);
    if (!shape_.events[wait.event].fifo) {
      if (state.gathered) track->clock.merge(*state.gathered);
      continue;
    }
    for (uint32_t k = 0; k < wait.signals; ++k) {
      track->clock.merge(*state.fifo.front());
      state.fifo.pop_front();
    }
  }
}

void Execution::take_after(Track* track, uint32_t id) {
  for (const uint32_t before : p_.step(id).after) {
    const uint32_t earlier = p_.first[p_.refs[id].rank] + before;
    const StepRef& ref = p_.refs[earlier];
    if (!ref.fan_out) {
      if (p_.step(earlier).bytes != 0) track->clock.end(ref);
      continue;
    }
    for (const uint32_t fan_out : track->fan_outs) {
      if (fan_out <= earlier) track->clock.end(p_.refs[fan_out]);
    }
  }
}

base::Status Execution::start(Track* track, uint32_t id) {
  const Step& step = p_.step(id);
  const StepRef& ref = p_.refs[id];
  take_waits(track, id);
  take_after(track, id);
  if (step.bytes != 0 && !step.fan_out && ref.number >= steps_in_flight_) {
    track->clock.end(p_.refs[track->windowed[ref.number - steps_in_flight_]]);
  }
  track->clock.start(ref.track, ++track->started);
  if (step.bytes != 0) {
    if (base::Status status = transfer(track->clock, id); !status) return status;
    (step.fan_out ? track->fan_outs : track->windowed).push_back(id);
  }
  if (step.signals.empty()) return {};
  Clock at_end = track->clock;
  if (step.bytes != 0) at_end.end(ref);
  signal(id, at_end);
  return {};
}

void Execution::signal(uint32_t id, const Clock& at_end) {
  Stamp stamp;
  for (const Signal& s : p_.step(id).signals) {
    EventState& state = event(s.rank, s.event);
    if (shape_.events[s.event].fifo) {
      if (!stamp) stamp = std::make_shared<const Clock>(at_end);
      state.fifo.push_back(stamp);
    } else {
      if (!state.gathered) state.gathered = empty_clock();
      state.gathered->merge(at_end);
      ++state.count;
      // Signals of one rank come in the order of its operations.
      if (p_.use(s.rank, s.event).many_ranks) {
        gather_signals_.push_back({id, s, at_end.started_ranks()});
      }
    }
    if (!queued_[s.rank]) ready_.push_back(s.rank);
    queued_[s.rank] = true;
  }
}

base::Error Execution::race(uint32_t id, uint32_t other, uint64_t at, const Place& place) const {
  constexpr const char* kNames[] = {"input", "output", "channel buffer", "second input",
                                    "metadata"};
  return schedule_error(p_.name(other) + " and " + p_.name(id) + " touch byte " +
                        std::to_string(at) + " of the " +
                        kNames[static_cast<size_t>(place.memory)] + " of rank " +
                        std::to_string(place.rank) + " without an order");
}

// The memory of another rank may be touched once it is known to have started the operation.
base::Status Execution::touch(const Clock& clock, uint32_t id, const Place& place) {
  if (place.rank == p_.refs[id].rank) return {};
  if (!clock.rank_started(place.rank)) {
    return schedule_error(p_.name(id) + " touches memory of rank " + std::to_string(place.rank) +
                          ", which may not have started");
  }
  std::vector<uint32_t>& touches = touch_[place.rank];
  if (touches.empty() || touches.back() != id) touches.push_back(id);
  return {};
}

base::Status Execution::read(const Clock& clock, uint32_t id, const Place& place,
                             std::vector<Piece>* pieces) {
  if (base::Status status = touch(clock, id, place); !status) return status;
  const Memory::Span span = memory(place.rank, place.memory).span(place.begin, place.end);
  for (auto it = span.begin; it != span.end; ++it) {
    const Segment& segment = it->second;
    if (segment.fold == 0) {
      return schedule_error(p_.name(id) + " reads bytes that nobody wrote, from byte " +
                            std::to_string(it->first) + " of a buffer of rank " +
                            std::to_string(place.rank));
    }
    if (segment.writer != kNoStep && !clock.ended(p_.refs[segment.writer])) {
      return race(id, segment.writer, it->first, place);
    }
    pieces->push_back(
        {it->first - place.begin, segment.end - place.begin, segment.origin, segment.fold});
  }
  return {};
}

base::Status Execution::check_write(const Clock& clock, uint32_t id, const Place& place) {
  if (base::Status status = touch(clock, id, place); !status) return status;
  const Memory::Span span = memory(place.rank, place.memory).span(place.begin, place.end);
  for (auto it = span.begin; it != span.end; ++it) {
    const Segment& segment = it->second;
    if (segment.writer != kNoStep && !clock.ended(p_.refs[segment.writer])) {
      return race(id, segment.writer, it->first, place);
    }
    for (const uint32_t reader : segment.readers) {
      if (!clock.ended(p_.refs[reader])) return race(id, reader, it->first, place);
    }
  }
  return {};
}

void Execution::record_read(const Clock& clock, uint32_t id, const Place& place) {
  const Memory::Span span = memory(place.rank, place.memory).span(place.begin, place.end);
  for (auto it = span.begin; it != span.end; ++it) {
    std::vector<uint32_t>& readers = it->second.readers;
    // Who comes after this reader comes after those before it.
    const auto over = [&](uint32_t reader) { return clock.ended(p_.refs[reader]); };
    readers.erase(std::remove_if(readers.begin(), readers.end(), over), readers.end());
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
}

base::Result<std::vector<Execution::Piece>> Execution::fold(
    uint32_t id, const std::vector<std::vector<Piece>>& sources) {
  if (sources.size() == 1) return sources.front();
  std::vector<uint64_t> cuts;
  for (const auto& pieces : sources) {
    for (const Piece& piece : pieces) cuts.push_back(piece.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<size_t> at(sources.size());
  std::vector<Piece> out;
  uint64_t begin = 0;
  for (const uint64_t end : cuts) {
    std::vector<uint32_t> operands;
    Piece sum{begin, end, 0, 0};
    for (size_t k = 0; k < sources.size(); ++k) {
      if (sources[k][at[k]].end <= begin) ++at[k];
      const Piece& piece = sources[k][at[k]];
      const uint64_t origin = piece.origin + (begin - piece.begin);
      if (k != 0 && origin != sum.origin) {
        return schedule_error(p_.name(id) + " folds byte " + std::to_string(sum.origin) +
                              " of inputs with byte " + std::to_string(origin));
      }
      sum.origin = origin;
      operands.push_back(piece.fold);
    }
    sum.fold = folds_.fold(operands);
    out.push_back(sum);
    begin = end;
  }
  return out;
}

base::Status Execution::transfer(const Clock& clock, uint32_t id) {
  const Step& step = p_.step(id);
  std::vector<Place> from;
  std::vector<Place> to;
  for (const Range& range : step.sources) from.push_back(place_of(shape_, range, step.bytes));
  for (const Range& range : step.destinations) {
    const Place place = place_of(shape_, range, step.bytes);
    // A copy onto itself moves nothing.
    if (from.size() != 1 || !place.same(from.front())) to.push_back(place);
  }
  if (to.empty()) return {};
  std::vector<std::vector<Piece>> sources(from.size());
  for (size_t k = 0; k < from.size(); ++k) {
    if (base::Status status = read(clock, id, from[k], &sources[k]); !status) return status;
  }
  for (const Place& place : to) {
    if (base::Status status = check_write(clock, id, place); !status) return status;
  }
  const base::Result<std::vector<Piece>> result = fold(id, sources);
  if (!result) return result.error();
  for (const Place& place : from) record_read(clock, id, place);
  for (const Place& place : to) {
    for (const Piece& piece : *result) {
      memory(place.rank, place.memory)
          .write(place.begin + piece.begin,
                 {place.begin + piece.end, piece.origin, piece.fold, id, {}});
    }
  }
  return {};
}

// All ranks are at their end, or some wait for ever. Names the wait that no other wait causes
// first: a fifo whose producer has finished.
base::Status Execution::check_stuck() {
  std::string first;
  for (uint32_t r = 0; r < shape_.ranks; ++r) {
    if (finished(r)) continue;
    const uint32_t id = p_.first[r] + next_[r];
    for (const auto& [e, signals] : needs(id)) {
      if (came(r, e) >= signals) continue;
      const EventUse& use = p_.use(r, e);
      const bool fifo = shape_.events[e].fifo;
      std::string text = p_.name(id) + " can never start: it waits for " + std::to_string(signals) +
                         " signals of " + (fifo ? "fifo " : "gather ") + std::to_string(e) + ", " +
                         std::to_string(came(r, e)) + " came";
      if (use.sent < use.taken) {
        return schedule_error(text + "; only " + std::to_string(use.sent) + " of " +
                              std::to_string(use.taken) + " are ever sent");
      }
      if (fifo) {
        const uint32_t by = use.producer / shape_.channels;
        text += "; its producer waits in " + p_.name(p_.first[by] + next_[by]);
      }
      if (first.empty()) first = text;
    }
  }
  if (!first.empty()) return schedule_error(first);
  return {};
}

bool Execution::is_fold_of_all(uint32_t fold) {
  const auto [it, inserted] = complete_.emplace(fold, false);
  if (!inserted) return it->second;
  std::vector<uint32_t> all(shape_.ranks);
  for (uint32_t r = 0; r < shape_.ranks; ++r) all[r] = folds_.leaf(r, false);
  it->second = folds_.leaves(fold) == all;
  return it->second;
}

// All ranks of an all-reduce fold every byte in the same order.
base::Status Execution::check_order(uint64_t begin, uint64_t end, uint32_t fold) {
  if (!agreed_order_) agreed_order_.emplace(shape_.request.output_bytes);
  const Memory::Span span = agreed_order_->span(begin, end);
  for (auto it = span.begin; it != span.end; ++it) {
    if (it->second.fold == 0) it->second.fold = fold;
    if (it->second.fold == fold) continue;
    return schedule_error("ranks fold byte " + std::to_string(it->first) +
                          " in different orders: " + folds_.text(it->second.fold) + " and " +
                          folds_.text(fold));
  }
  return {};
}

base::Status Execution::check_segment(uint32_t rank, uint64_t begin, const Segment& segment) {
  for (uint64_t at = begin; at < segment.end;) {
    const Expected want = variable_ != nullptr ? variable_->output(folds_, rank, at)
                                               : expected(shape_, folds_, rank, at);
    const uint64_t origin = segment.origin + (at - begin);
    const uint64_t end = std::min(want.until, segment.end);
    if (want.leaves.empty() && !want.all_ranks) {
      if (segment.fold != 0) {
        return schedule_error("byte " + std::to_string(at) + " of the output of rank " +
                              std::to_string(rank) + " is written; no block lies there");
      }
      at = end;
      continue;
    }
    if (segment.fold == 0) {
      return schedule_error("nobody writes byte " + std::to_string(at) + " of the output of rank " +
                            std::to_string(rank));
    }
    const bool same =
        want.all_ranks ? is_fold_of_all(segment.fold) : folds_.leaves(segment.fold) == want.leaves;
    if (!same || origin != want.origin) {
      return schedule_error("byte " + std::to_string(at) + " of the output of rank " +
                            std::to_string(rank) + " is byte " + std::to_string(origin) +
                            " of inputs " + folds_.text(segment.fold) + ", expected byte " +
                            std::to_string(want.origin) + " of " +
                            (want.all_ranks ? "all" : folds_.text(want.leaves.front())));
    }
    if (shape_.request.kind == OpKind::kAllReduce) {
      if (base::Status status = check_order(at, end, segment.fold); !status) return status;
    }
    at = end;
  }
  return {};
}

base::Status Execution::check_output(uint32_t rank) {
  const uint64_t bytes = size_of(shape_, Buffer::kOutput, rank);
  if (bytes == 0) return {};
  const Place place = place_of(shape_, {rank, Buffer::kOutput, 0}, bytes);
  const Memory::Span span = memory(rank, place.memory).span(place.begin, place.end);
  for (auto it = span.begin; it != span.end; ++it) {
    Segment segment = it->second;
    segment.end -= place.begin;
    if (base::Status s = check_segment(rank, it->first - place.begin, segment); !s) return s;
  }
  return {};
}

// Row 2 of the metadata holds what the senders announce, everything else what was there.
base::Status Execution::check_metadata(uint32_t rank) {
  if (variable_ == nullptr) return {};
  const uint64_t bytes = size_of(shape_, Buffer::kMetadata, rank);
  for (uint64_t at = 0; at < bytes; at += kMetadataWord) {
    const auto announced = variable_->announced(rank, at);
    const uint32_t owner = announced ? variable_->sender_of(at) : rank;
    const Memory::Span span = memory(rank, Buffer::kMetadata).span(at, at + kMetadataWord);
    const Segment& word = span.begin->second;
    if (word.fold == folds_.leaf(owner, true) && word.origin == announced.value_or(at)) continue;
    return schedule_error("byte " + std::to_string(at) + " of the metadata of rank " +
                          std::to_string(rank) + " is not what rank " + std::to_string(owner) +
                          " says");
  }
  return {};
}

// A rank has finished when its last steps are complete: then nobody may touch its memory any more,
// and after a barrier all others have started.
base::Status Execution::check_ends() {
  for (uint32_t r = 0; r < shape_.ranks; ++r) {
    Clock end = empty_clock();
    for (uint32_t c = 0; c < shape_.channels; ++c) {
      const Track& track = tracks_[r * shape_.channels + c];
      end.merge(track.clock);
      for (const uint32_t id : track.windowed) end.end(p_.refs[id]);
      for (const uint32_t id : track.fan_outs) end.end(p_.refs[id]);
    }
    for (const uint32_t id : touch_[r]) {
      if (!end.ended(p_.refs[id])) {
        return schedule_error(p_.name(id) + " may touch memory of rank " + std::to_string(r) +
                              " after this rank has finished");
      }
    }
    for (uint32_t o = 0; o < shape_.ranks && shape_.request.kind == OpKind::kBarrier; ++o) {
      if (!end.rank_started(o)) {
        return schedule_error("rank " + std::to_string(r) + " may leave the barrier before rank " +
                              std::to_string(o) + " enters it");
      }
    }
    ends_.push_back(std::move(end));
  }
  return {};
}

// The sender of a signal to a gather may already be in the next operation. It must know then that
// the waiter has taken the signals of this one: from the end of any rank that has begun the next.
base::Status Execution::check_replay() {
  std::map<uint32_t, std::vector<uint64_t>> knowing;  // waiter: ranks whose ends know its start
  for (const GatherSignal& s : gather_signals_) {
    const uint32_t waiter = p_.use(s.signal.rank, s.signal.event).waiter;
    std::vector<uint64_t>& ranks = knowing[waiter];
    if (ranks.empty()) {
      ranks.resize(s.started.size());
      const uint32_t track = p_.refs[waiter].track;
      const std::vector<uint32_t>& list = p_.tracks[track];
      const auto at = std::lower_bound(list.begin(), list.end(), waiter) - list.begin();
      for (uint32_t r = 0; r < shape_.ranks; ++r) {
        if (ends_[r].started(track) > at) ranks[r / 64] |= uint64_t{1} << (r % 64);
      }
    }
    bool safe = false;
    for (size_t i = 0; i < ranks.size(); ++i) safe = safe || (ranks[i] & s.started[i]) != 0;
    if (!safe) {
      return schedule_error("the signal of " + p_.name(s.step) + " to gather " +
                            std::to_string(s.signal.event) + " of rank " +
                            std::to_string(s.signal.rank) +
                            " can, in the next operation, come before " + p_.name(waiter) +
                            " has taken those of this one");
    }
  }
  return {};
}

base::Status check_window(uint32_t steps_in_flight) {
  if (steps_in_flight != 0 && steps_in_flight <= kMostInFlight) return {};
  return schedule_error(std::to_string(steps_in_flight) +
                        " steps of a channel in flight; expected 1 to " +
                        std::to_string(kMostInFlight));
}

}  // namespace

base::Status verify(const Schedule& schedule, uint32_t steps_in_flight) {
  if (base::Status status = check_window(steps_in_flight); !status) return status;
  const base::Result<Program> program = make_program(schedule);
  if (!program) return program.error();
  return Execution(*program, steps_in_flight).run();
}

base::Status verify(const Schedule& schedule, const Metadata& metadata, uint32_t steps_in_flight) {
  if (base::Status status = check_window(steps_in_flight); !status) return status;
  const base::Result<Program> program = make_program(resolve(schedule, metadata));
  if (!program) return program.error();
  const VariableResult result(program->shape, metadata);
  return Execution(*program, steps_in_flight, &result).run();
}

}  // namespace ccl
