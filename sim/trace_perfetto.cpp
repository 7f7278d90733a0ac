#include "sim/trace_perfetto.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "sim/perfetto.pb.h"

namespace sim {
namespace {

namespace pb = perfetto_subset;

constexpr uint32_t kSequence = 1;           // one writer: one packet sequence
constexpr uint32_t kStateCleared = 1;       // TracePacket.SequenceFlags
constexpr size_t kFlushBytes = 256 * 1024;  // what is held in memory before a write

void annotate(const base::SpanNotes& notes, pb::TrackEvent& event) {
  for (const auto& [name, text] : notes.texts) {
    pb::DebugAnnotation* note = event.add_debug_annotations();
    note->set_name(name.data(), name.size());
    note->set_string_value(text);
  }
  for (const auto& [name, number] : notes.numbers) {
    pb::DebugAnnotation* note = event.add_debug_annotations();
    note->set_name(name.data(), name.size());
    note->set_uint_value(number);
  }
  for (const uint64_t flow : notes.departing) event.add_flow_ids(flow);
  for (const uint64_t flow : notes.arriving) event.add_terminating_flow_ids(flow);
}

}  // namespace

struct PerfettoTrace::State {
  base::UniqueFd file;
  std::string path;
  uint64_t limit = 0;
  uint64_t written = 0;
  uint64_t dropped = 0;
  std::string buffer;
  std::optional<base::Error> failure;
  // Per track (index = id - 1): spans that are open in the file, and dropped ones on top of them.
  struct Depth {
    uint32_t open = 0;
    uint32_t dropped = 0;
  };
  std::vector<Depth> depth;
  uint64_t open_spans = 0;
  bool full = false;  // the first thing that did not fit ends the trace: better short than holed

  // An end of a span and its framing never take more than this.
  static constexpr uint64_t kEndBytes = 64;

  // Fails when the packet would take room that ends of open spans need.
  bool put(pb::TracePacket& packet, uint64_t reserved_spans) {
    packet.set_trusted_packet_sequence_id(kSequence);
    if (written == 0) packet.set_sequence_flags(kStateCleared);
    pb::Trace trace;
    trace.mutable_packet()->UnsafeArenaAddAllocated(&packet);
    const size_t size = trace.ByteSizeLong();
    const bool is_end = packet.track_event().type() == pb::TrackEvent::TYPE_SLICE_END;
    const bool fits = is_end || (!full && written + size + reserved_spans * kEndBytes <= limit);
    full = full || !fits;
    if (fits) {
      trace.AppendToString(&buffer);
      written += size;
    }
    (void)trace.mutable_packet()->UnsafeArenaReleaseLast();
    if (buffer.size() >= kFlushBytes) flush();
    return fits;
  }

  bool put_event(base::TrackId track, base::Ps time, pb::TrackEvent::Type type,
                 std::string_view name, std::optional<int64_t> value, uint64_t reserved_spans,
                 const base::SpanNotes* notes = nullptr) {
    pb::TracePacket packet;
    packet.set_timestamp(time / base::kPsPerNs);
    pb::TrackEvent* event = packet.mutable_track_event();
    event->set_type(type);
    event->set_track_uuid(track);
    if (!name.empty()) event->set_name(name.data(), name.size());
    if (value) event->set_counter_value(*value);
    if (notes != nullptr) annotate(*notes, *event);
    return put(packet, reserved_spans);
  }

  void flush() {
    for (size_t at = 0; at < buffer.size() && !failure;) {
      const ssize_t n = ::write(file.get(), buffer.data() + at, buffer.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) failure = base::errno_error(path.c_str(), "cannot write the trace");
      if (n > 0) at += static_cast<size_t>(n);
    }
    buffer.clear();
  }

  base::TrackId add(std::string_view name, base::TrackId parent, std::optional<std::string> unit) {
    depth.emplace_back();
    const auto id = static_cast<base::TrackId>(depth.size());
    pb::TracePacket packet;
    pb::TrackDescriptor* track = packet.mutable_track_descriptor();
    track->set_uuid(id);
    if (parent != base::kNoTrack) track->set_parent_uuid(parent);
    track->set_name(name.data(), name.size());
    if (unit) {
      pb::CounterDescriptor* counter = track->mutable_counter();
      counter->set_unit(*unit == "B" ? pb::CounterDescriptor::UNIT_SIZE_BYTES
                                     : pb::CounterDescriptor::UNIT_COUNT);
      counter->set_unit_name(*unit);
    }
    if (!put(packet, open_spans)) ++dropped;
    return id;
  }
};

PerfettoTrace::PerfettoTrace(std::unique_ptr<State> state) : state_(std::move(state)) {}

PerfettoTrace::~PerfettoTrace() {
  state_->flush();
}

base::Result<std::unique_ptr<PerfettoTrace>> PerfettoTrace::create(const std::string& path,
                                                                   uint64_t limit_bytes) {
  constexpr int kMode = 0644;
  auto state = std::make_unique<State>();
  state->file =
      base::UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!state->file.valid()) return base::errno_error(path.c_str(), "cannot create the trace");
  state->path = path;
  state->limit = limit_bytes;
  return std::unique_ptr<PerfettoTrace>(new PerfettoTrace(std::move(state)));
}

base::TrackId PerfettoTrace::add_track(std::string_view name, base::TrackId parent) {
  return state_->add(name, parent, std::nullopt);
}

base::TrackId PerfettoTrace::add_counter(std::string_view name, base::TrackId parent,
                                         std::string_view unit) {
  return state_->add(name, parent, std::string(unit));
}

void PerfettoTrace::begin(base::TrackId track, base::Ps time, std::string_view name) {
  begin_noted(track, time, name, {});
}

void PerfettoTrace::begin_noted(base::TrackId track, base::Ps time, std::string_view name,
                                const base::SpanNotes& notes) {
  State::Depth& depth = state_->depth.at(track - 1);
  // A span inside a dropped one would look as if it stood alone.
  if (depth.dropped == 0 && state_->put_event(track, time, pb::TrackEvent::TYPE_SLICE_BEGIN, name,
                                              std::nullopt, state_->open_spans + 1, &notes)) {
    ++depth.open;
    ++state_->open_spans;
  } else {
    ++depth.dropped;
    ++state_->dropped;
  }
}

void PerfettoTrace::end(base::TrackId track, base::Ps time) {
  State::Depth& depth = state_->depth.at(track - 1);
  if (depth.dropped > 0) {
    --depth.dropped;
  } else if (depth.open > 0) {
    --depth.open;
    --state_->open_spans;
    state_->put_event(track, time, pb::TrackEvent::TYPE_SLICE_END, {}, std::nullopt,
                      state_->open_spans);
  }
}

void PerfettoTrace::instant(base::TrackId track, base::Ps time, std::string_view name) {
  if (!state_->put_event(track, time, pb::TrackEvent::TYPE_INSTANT, name, std::nullopt,
                         state_->open_spans)) {
    ++state_->dropped;
  }
}

void PerfettoTrace::counter(base::TrackId track, base::Ps time, int64_t value) {
  if (!state_->put_event(track, time, pb::TrackEvent::TYPE_COUNTER, {}, value,
                         state_->open_spans)) {
    ++state_->dropped;
  }
}

base::Status PerfettoTrace::close() {
  state_->flush();
  if (state_->failure) return *state_->failure;
  return {};
}

uint64_t PerfettoTrace::dropped_events() const {
  return state_->dropped;
}
uint64_t PerfettoTrace::bytes() const {
  return state_->written;
}

}  // namespace sim
