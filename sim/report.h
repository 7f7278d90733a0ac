// What one command did on the machine, as a file that is the same tomorrow.
//
// JSON with a schema, fixed key order, integer picoseconds; rows sorted by name. It holds durations
// relative to releases, sums and counts: no absolute machine time, no wall time, no addresses,
// handles, process ids, paths or order of arrival. The machine's counters are handed in as plain
// values, so that this file knows nothing of the machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "sim/report_profile.h"

namespace config {
class Timing;
struct Platform;
}  // namespace config

namespace sim {

// Orders "dma2" before "dma10".
struct NaturalLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};

struct Durations {
  uint64_t count = 0;
  base::Ps total = 0;
  base::Ps min = 0;
  base::Ps max = 0;

  void add(base::Ps duration);
  void add(const Durations& other);
  friend bool operator==(const Durations& a, const Durations& b) {
    return a.count == b.count && a.total == b.total && a.min == b.min && a.max == b.max;
  }
};

struct Usage {
  uint64_t bytes = 0;
  base::Ps busy = 0;
  uint64_t signals = 0;  // of links: 4-byte writes to registers, part of `bytes`
};

struct Counter {
  uint64_t value = 0;
  std::string unit;
};

struct Accesses {
  uint64_t reads = 0;
  uint64_t writes = 0;
};

// What one engine did in the executions of a program; what does not happen is left out.
struct EngineRow {
  std::string name;
  uint64_t instructions = 0;
  base::Ps busy = 0;
  std::vector<std::pair<std::string, base::Ps>> stalled;  // by cause
  // Of the cause "semaphore", by the engine that was waited for.
  std::vector<std::pair<std::string, base::Ps>> waited_for;
  std::vector<std::pair<std::string, uint64_t>> bytes;  // by memory and direction
};

// Operations of the Tensor engine with numbers of a kind, and the most of them it can do.
struct OperationsRow {
  std::string kind;
  uint64_t operations = 0;
  uint64_t peak_per_us = 0;
};

// The executions of one program on one core.
struct ExecutionRow {
  std::string core;      // "d0.nc0"
  uint32_t program = 0;  // in the order of their first executions
  Durations times;
  uint64_t hbm_bytes = 0;
  uint64_t operations = 0;              // of the Tensor engine; an addition is one
  uint64_t peak_operations_per_us = 0;  // of the Tensor engine with 16-bit numbers
  std::vector<OperationsRow> operations_by_kind;
  uint64_t peak_hbm_bytes_per_us = 0;  // of the core's HBM stack
  std::vector<EngineRow> engines;
  std::vector<std::pair<std::string, base::Ps>> critical_path;  // by part; adds up to the total
  std::optional<ProfileRow> profile;
};

// An instruction of a finding, or what acts without one.
struct CheckSite {
  std::string who;        // "d0.nc0.dve"; of DMA, the engine that started it
  std::string dma;        // "d0.dma3 queue 0"; empty: not DMA
  std::string operation;  // empty: no instruction
  uint32_t record = 0;    // of the engine's program
  std::string line;       // "softmax.cpp:42 (activation)"; empty: not known
};

// What a check has found (docs/checks.md). Rows and bytes are those of the first time.
struct CheckRow {
  std::string kind;
  std::string where;                 // "d0.nc0.sbuf"
  std::vector<uint64_t> partitions;  // first and last, where there are some
  std::vector<uint64_t> bytes;       // first and last, where there are some
  std::vector<CheckSite> sites;      // one or two; of a race, the earlier one first
  uint64_t count = 0;

  std::string text() const;
};

class Report {
 public:
  Report(const config::Platform& platform, const config::Timing& timing, std::string policy,
         bool repeatable, bool timing_only);

  // One activity of a kind took `duration` from its release to its end.
  void add_activity(std::string_view kind, base::Ps duration);
  void add_activities(std::string_view kind, const Durations& durations);
  // The machine was not at rest for `duration` more: the base of every utilisation.
  void add_active_time(base::Ps duration) { active_ += duration; }
  void add_usage(std::string_view resource, const Usage& more);
  void add_count(std::string_view counter, uint64_t value, std::string_view unit);
  // Rows come core by core, program by program.
  void add_execution(ExecutionRow row) { executions_.push_back(std::move(row)); }
  // Bytes that timing-only did not move were read where they decide something.
  void add_elided(std::string_view what, uint64_t count);
  // Payload that timing-only did not move; no reason to mistrust anything.
  void add_elided_bytes(uint64_t bytes) { elided_bytes_ += bytes; }
  void add_unsupported(std::string_view feature, uint64_t count);
  // Accesses to a known register whose effect is not modelled: in the report, not a warning, since
  // drivers write many of them once and for all.
  void add_inert(std::string_view name, uint64_t count);
  // Accesses to a register or window that no block claims.
  void add_unknown(std::string_view name, uint64_t reads, uint64_t writes);
  // Requests entered without rest of the machine (time.slice_us); such a run is not repeatable.
  void add_slices(uint64_t count);
  // Links taken down or up while the machine was at work; such a run is not repeatable.
  void add_late_faults(uint64_t count);
  // A part of the machine failed, or works again: "link.d0-d1 down".
  void add_fault(std::string_view what, uint64_t count);
  // The run was checked; `more`: findings that are not among the rows.
  void set_checks(std::vector<CheckRow> rows, uint64_t more);
  uint64_t findings() const { return checks_.size() + more_checks_; }
  void set_failure(const base::Error& error);

  std::string to_json() const;
  base::Status write(const std::string& path) const;  // base/file.h
  // One line per reason to mistrust this run, for people.
  std::vector<std::string> warnings() const;

 private:
  template <typename T>
  using Table = std::map<std::string, T, NaturalLess>;
  struct NamedValue {
    std::string name, value, unit;
  };

  std::string platform_;
  bool validated_;
  std::string timing_;
  std::vector<NamedValue> overrides_;
  std::vector<NamedValue> estimates_;  // parameters that this machine read and nobody published
  std::string policy_;
  bool repeatable_;
  bool timing_only_;
  uint64_t slices_ = 0;
  uint64_t late_faults_ = 0;
  base::Ps active_ = 0;
  Table<Durations> activities_;
  Table<Usage> usage_;
  Table<Counter> counters_;
  std::vector<ExecutionRow> executions_;
  Table<uint64_t> elided_;
  uint64_t elided_bytes_ = 0;
  Table<uint64_t> unsupported_;
  Table<uint64_t> inert_;
  Table<Accesses> unknown_;
  Table<uint64_t> faults_;
  bool checked_ = false;
  std::vector<CheckRow> checks_;
  uint64_t more_checks_ = 0;
  std::string failure_;  // fault name, empty if none
  std::string failure_text_;
};

}  // namespace sim
