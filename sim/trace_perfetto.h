// Writes a trace in Perfetto's protobuf format (open it at https://ui.perfetto.dev).
//
// Times are rounded down to the format's nanoseconds; exact durations are in the report. The file
// ends within its byte limit: past it, new events are dropped and counted, ends of open spans are
// still written. The same events give the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/trace.h"

namespace sim {

class PerfettoTrace final : public base::TraceSink {
 public:
  static base::Result<std::unique_ptr<PerfettoTrace>> create(const std::string& path,
                                                             uint64_t limit_bytes);
  ~PerfettoTrace() override;

  base::TrackId add_track(std::string_view name, base::TrackId parent) override;
  base::TrackId add_counter(std::string_view name, base::TrackId parent,
                            std::string_view unit) override;
  void begin(base::TrackId track, base::Ps time, std::string_view name) override;
  void begin_noted(base::TrackId track, base::Ps time, std::string_view name,
                   const base::SpanNotes& notes) override;
  void end(base::TrackId track, base::Ps time) override;
  void instant(base::TrackId track, base::Ps time, std::string_view name) override;
  void counter(base::TrackId track, base::Ps time, int64_t value) override;

  // Writes what is buffered; the first failure of the file since create(), if any.
  base::Status close();
  uint64_t dropped_events() const;
  uint64_t bytes() const;

 private:
  struct State;
  explicit PerfettoTrace(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace sim
