#include "runtime/collectives/schedule/verify_program.h"

#include <algorithm>

namespace ccl {
namespace {

class Checker {
 public:
  explicit Checker(Program* program) : p_(*program), shape_(program->shape) {}

  base::Status shape() const {
    if (base::Status status = validate(shape_.request, shape_.ranks); !status) return status;
    if (shape_.channels == 0) return schedule_error("no channels");
    for (uint32_t e = 0; e < shape_.events.size(); ++e) {
      if (shape_.events[e].channel >= shape_.channels) {
        return schedule_error("event " + std::to_string(e) + " of channel " +
                              std::to_string(shape_.events[e].channel) + " of " +
                              std::to_string(shape_.channels));
      }
    }
    if (shape_.in_place && shape_.request.kind == OpKind::kAllToAll) {
      return schedule_error("an all-to-all cannot run in place");
    }
    return {};
  }

  base::Status step(uint32_t id) {
    const StepRef& ref = p_.refs[id];
    const Step& step = p_.step(id);
    if (step.bytes != 0) {
      if (base::Status status = transfer(id, step); !status) return status;
    } else if (step.fan_out) {
      return schedule_error(p_.name(id) + " fans out without bytes");
    }
    for (const uint32_t before : step.after) {
      if (before >= ref.step || p_.ranks[ref.rank][before].channel != step.channel) {
        return schedule_error(p_.name(id) + " comes after step " + std::to_string(before) +
                              ", which is no earlier step of its channel");
      }
    }
    for (const Signal& signal : step.signals) {
      if (base::Status status = sends(id, signal); !status) return status;
    }
    for (const Wait& wait : step.waits) {
      if (base::Status status = takes(id, wait); !status) return status;
    }
    return {};
  }

  base::Status events() const {
    for (uint32_t r = 0; r < shape_.ranks; ++r) {
      for (uint32_t e = 0; e < shape_.events.size(); ++e) {
        if (base::Status status = event(r, e); !status) return status;
      }
    }
    return {};
  }

 private:
  base::Status transfer(uint32_t id, const Step& step) const {
    if (step.sources.empty() || step.sources.size() > kMaxSources || step.destinations.empty() ||
        step.destinations.size() > kMaxDestinations) {
      return schedule_error(p_.name(id) + " has " + std::to_string(step.sources.size()) +
                            " sources and " + std::to_string(step.destinations.size()) +
                            " destinations");
    }
    if (step.bytes > shape_.largest_step) {
      return schedule_error(p_.name(id) + " moves " + std::to_string(step.bytes) +
                            " bytes, the largest step of the shape " +
                            std::to_string(shape_.largest_step));
    }
    if (step.sources.size() > 1 && !reduces(shape_.request.kind)) {
      return schedule_error(p_.name(id) + " folds, the operation does not");
    }
    const uint64_t element = contract::dtype_size(shape_.request.dtype);
    std::vector<Range> all = step.sources;
    all.insert(all.end(), step.destinations.begin(), step.destinations.end());
    for (const Range& range : all) {
      if (base::Status status = inside(id, step, range); !status) return status;
      if (step.sources.size() > 1 && (range.offset % element != 0 || step.bytes % element != 0)) {
        return schedule_error(p_.name(id) + " folds parts of elements");
      }
    }
    return destinations(id, step);
  }

  base::Status inside(uint32_t id, const Step& step, const Range& range) const {
    if (range.rank >= shape_.ranks) {
      return schedule_error(p_.name(id) + " names rank " + std::to_string(range.rank));
    }
    const uint64_t size = size_of(shape_, range.buffer, range.rank);
    if (range.offset <= size && step.bytes <= size - range.offset) return {};
    constexpr const char* kNames[] = {"input", "output", "channel buffer", "second input",
                                      "metadata"};
    return schedule_error(p_.name(id) + " reaches " + std::to_string(range.offset) + " + " +
                          std::to_string(step.bytes) + " bytes into the " +
                          kNames[static_cast<size_t>(range.buffer)] + " of rank " +
                          std::to_string(range.rank) + ", which has " + std::to_string(size));
  }

  base::Status destinations(uint32_t id, const Step& step) const {
    for (size_t i = 0; i < step.destinations.size(); ++i) {
      const Range& to = step.destinations[i];
      if (to.buffer == Buffer::kInput || to.buffer == Buffer::kSecond) {
        return schedule_error(p_.name(id) + " writes an input");
      }
      const Place place = place_of(shape_, to, step.bytes);
      for (size_t k = 0; k < i; ++k) {
        if (place.overlaps(place_of(shape_, step.destinations[k], step.bytes))) {
          return schedule_error(p_.name(id) + " writes the same bytes twice");
        }
      }
      for (const Range& from : step.sources) {
        const Place source = place_of(shape_, from, step.bytes);
        if (place.overlaps(source) && !place.same(source)) {
          return schedule_error(p_.name(id) + " reads and writes ranges that partly overlap");
        }
      }
    }
    return {};
  }

  base::Status sends(uint32_t id, const Signal& signal) {
    if (signal.rank >= shape_.ranks || signal.event >= shape_.events.size()) {
      return schedule_error(p_.name(id) + " signals event " + std::to_string(signal.event) +
                            " of rank " + std::to_string(signal.rank));
    }
    EventUse& use = p_.use(signal.rank, signal.event);
    ++use.sent;
    if (use.producer == kNoStep) use.producer = p_.refs[id].track;
    if (use.producer / shape_.channels != p_.refs[id].rank) use.many_ranks = true;
    if (!shape_.events[signal.event].fifo) return {};
    if (p_.step(id).fan_out) {
      return schedule_error(p_.name(id) + " fans out and signals fifo " +
                            std::to_string(signal.event) + " of rank " +
                            std::to_string(signal.rank));
    }
    if (use.producer != p_.refs[id].track) {
      return schedule_error(p_.name(id) + " signals fifo " + std::to_string(signal.event) +
                            " of rank " + std::to_string(signal.rank) +
                            ", which has another producer");
    }
    return {};
  }

  base::Status takes(uint32_t id, const Wait& wait) {
    if (wait.event >= shape_.events.size() ||
        shape_.events[wait.event].channel != p_.step(id).channel) {
      return schedule_error(p_.name(id) + " waits for event " + std::to_string(wait.event) +
                            ", which is none of its channel");
    }
    EventUse& use = p_.use(p_.refs[id].rank, wait.event);
    use.taken += wait.signals;
    use.waiter = id;
    ++use.waits;
    if (shape_.events[wait.event].fifo && wait.signals == 0) {
      return schedule_error(p_.name(id) + " waits for no signal of fifo " +
                            std::to_string(wait.event));
    }
    return {};
  }

  base::Status event(uint32_t rank, uint32_t e) const {
    const EventUse& use = p_.use(rank, e);
    const std::string name = (shape_.events[e].fifo ? "fifo " : "gather ") + std::to_string(e) +
                             " of rank " + std::to_string(rank);
    if (use.sent > use.taken) {
      return schedule_error(name + ": " + std::to_string(use.sent) + " signals, of which " +
                            std::to_string(use.taken) + " are taken");
    }
    if (shape_.events[e].fifo) return {};
    if (use.waits > 1) return schedule_error(name + ": " + std::to_string(use.waits) + " waits");
    if (use.taken > use.sent) {
      return schedule_error(p_.name(use.waiter) + " can never start: it waits for " +
                            std::to_string(use.taken) + " signals of " + name + ", of which " +
                            std::to_string(use.sent) + " are sent");
    }
    return {};
  }

  Program& p_;
  const Shape& shape_;
};

// Numbers the steps of one rank. The channel of every step is checked.
base::Status add_rank(Program* p, uint32_t rank) {
  const Steps& steps = p->ranks[rank];
  p->first.push_back(static_cast<uint32_t>(p->refs.size()));
  for (uint32_t i = 0; i < steps.size(); ++i) {
    if (steps[i].channel >= p->shape.channels) {
      return schedule_error("rank " + std::to_string(rank) + " step " + std::to_string(i) +
                            " on channel " + std::to_string(steps[i].channel) + " of " +
                            std::to_string(p->shape.channels));
    }
    const uint32_t track = rank * p->shape.channels + steps[i].channel;
    StepRef ref{rank, i, track, 0, steps[i].fan_out};
    if (ref.fan_out) {
      ref.number = p->fan_outs++;
    } else if (steps[i].bytes != 0) {
      ref.number = p->windowed[track]++;
    }
    p->tracks[track].push_back(static_cast<uint32_t>(p->refs.size()));
    p->refs.push_back(ref);
  }
  return {};
}

}  // namespace

base::Error schedule_error(const std::string& what) {
  return {base::Fault::kInternal, kNrtFailure, "schedule", what};
}

std::string Program::name(uint32_t id) const {
  return "rank " + std::to_string(refs[id].rank) + " step " + std::to_string(refs[id].step) +
         " (channel " + std::to_string(step(id).channel) + ")";
}

base::Result<Program> make_program(const Schedule& schedule) {
  Program p;
  p.shape = schedule.shape;
  Checker checker(&p);
  if (base::Status status = checker.shape(); !status) return status.error();
  const size_t tracks = size_t{p.shape.ranks} * p.shape.channels;
  p.tracks.resize(tracks);
  p.windowed.resize(tracks);
  p.uses.resize(size_t{p.shape.ranks} * p.shape.events.size());
  for (uint32_t r = 0; r < p.shape.ranks; ++r) {
    p.ranks.push_back(schedule.steps(r));
    if (base::Status status = add_rank(&p, r); !status) return status.error();
  }
  for (uint32_t id = 0; id < p.refs.size(); ++id) {
    if (base::Status status = checker.step(id); !status) return status.error();
  }
  if (base::Status status = checker.events(); !status) return status.error();
  return p;
}

}  // namespace ccl
