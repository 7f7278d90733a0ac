// Trace events of a model: what happened on which track, when, in simulated picoseconds.
//
// A block holds a Track (a no-op when no one listens) that it registers once by name; the back end
// behind TraceSink decides what becomes of the events. On one track, spans nest and times never
// decrease; across tracks events may arrive in any order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace base {

using TrackId = uint32_t;
constexpr TrackId kNoTrack = 0;  // as a parent: top level

// What else is known of a span.
struct SpanNotes {
  std::vector<std::pair<std::string_view, std::string>> texts;
  std::vector<std::pair<std::string_view, uint64_t>> numbers;
  // Arrows between spans, each a number: those that lead away from this one, and those that end
  // here.
  std::vector<uint64_t> departing;
  std::vector<uint64_t> arriving;
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;

  virtual TrackId add_track(std::string_view name, TrackId parent) = 0;
  // `unit` is free text ("B", "entries").
  virtual TrackId add_counter(std::string_view name, TrackId parent, std::string_view unit) = 0;
  virtual void begin(TrackId track, Ps time, std::string_view name) = 0;
  virtual void begin_noted(TrackId track, Ps time, std::string_view name,
                           const SpanNotes& /*notes*/) {
    begin(track, time, name);
  }
  virtual void end(TrackId track, Ps time) = 0;
  virtual void instant(TrackId track, Ps time, std::string_view name) = 0;
  virtual void counter(TrackId track, Ps time, int64_t value) = 0;
};

// A place to put events; cheap to copy. Default-constructed, it swallows them.
class Track {
 public:
  Track() = default;
  // Top-level track of `sink`, which may be null.
  Track(TraceSink* sink, std::string_view name)
      : sink_(sink), id_(sink == nullptr ? kNoTrack : sink->add_track(name, kNoTrack)) {}

  Track child(std::string_view name) const {
    return sink_ == nullptr ? Track() : Track(sink_, sink_->add_track(name, id_));
  }
  Track child_counter(std::string_view name, std::string_view unit) const {
    return sink_ == nullptr ? Track() : Track(sink_, sink_->add_counter(name, id_, unit));
  }

  // Ask before composing an expensive name.
  explicit operator bool() const { return sink_ != nullptr; }
  void begin(Ps time, std::string_view name) const {
    if (sink_ != nullptr) sink_->begin(id_, time, name);
  }
  void end(Ps time) const {
    if (sink_ != nullptr) sink_->end(id_, time);
  }
  void span(Ps from, Ps to, std::string_view name) const {
    begin(from, name);
    end(to);
  }
  void span(Ps from, Ps to, std::string_view name, const SpanNotes& notes) const {
    if (sink_ == nullptr) return;
    sink_->begin_noted(id_, from, name, notes);
    sink_->end(id_, to);
  }
  void instant(Ps time, std::string_view name) const {
    if (sink_ != nullptr) sink_->instant(id_, time, name);
  }
  void counter(Ps time, int64_t value) const {
    if (sink_ != nullptr) sink_->counter(id_, time, value);
  }

 private:
  Track(TraceSink* sink, TrackId id) : sink_(sink), id_(id) {}

  TraceSink* sink_ = nullptr;
  TrackId id_ = kNoTrack;
};

}  // namespace base
