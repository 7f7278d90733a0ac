// What the engines of a NeuronCore have done, execution by execution, and where the time went.
//
// An execution lasts from the first NOTIFY of an engine, or where there is none from the start of
// the first engine, to the stop of the last one: a runtime says so that the program begins, and
// what engines wait for before it, such as ranks that start later, is a matter of hosts.
// Executions of the same program are added up: a program is the records that its first engine runs.
//
// The critical path is the chain of instructions that decided how long an execution took: from its
// end backwards, each had to wait for the one before. It is kept forwards: every engine carries
// the chain that has led to where it is, as time by part, and takes over the chain of an engine
// whose semaphore it had waited for. The parts add up to the time of the execution.
// Approximate: a wait that ends by a write of DMA or of the host counts as "dma", whatever started
// that transfer.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "arch/contract/engine.h"
#include "base/units.h"
#include "hw/time/bandwidth.h"

namespace hw {

struct CriticalPath {
  enum Part : uint8_t {
    kPe,
    kAct,
    kPool,
    kDve,
    kSp,
    kDma,
    kSemaphore,   // from an update to the start of who waited
    kDependency,  // results of the same engine that were not there yet
    kMemory,      // SBUF or PSUM in use by another engine
    kThrottle,    // limits of power
    kStart,       // of this engine behind the first one
    kParts,
  };
  static const char* name(size_t part);

  std::array<base::Ps, kParts> parts{};
  base::Ps until = 0;
  contract::Engine engine = contract::kPe;  // whose update it leads to

  void advance(Part part, base::Ps now) {
    if (now <= until) return;
    parts[part] += now - until;
    until = now;
  }
};

// Why an engine stood still with an instruction at hand.
enum class Stall : uint8_t {
  kSemaphore,   // until another engine's update
  kDma,         // until a write of DMA, of a CC-core or of the host
  kDependency,  // a result of its own
  kMemory,      // SBUF, in use by another engine
  kPsum,        // PSUM, likewise
  kIssue,       // the first instructions are fetched
  kThrottle,    // a limit of power (PeSchedule)
};
constexpr size_t kStalls = 7;
const char* name_of(Stall cause);

// What the Tensor engine multiplies, as far as it has a rate of its own.
enum class PeRate : uint8_t { kShort, kFloat32, kDoubleRow, kMx };
constexpr size_t kPeRates = 4;
const char* name_of(PeRate rate);

struct EngineStats {
  uint64_t instructions = 0;
  base::Ps busy = 0;
  std::array<base::Ps, kStalls> stalled{};
  // Of stalled[kSemaphore], by the engine whose update ended it.
  std::array<base::Ps, contract::kEnginesPerNc> waited_for{};
  uint64_t sbuf_read = 0;  // bytes
  uint64_t sbuf_written = 0;
  uint64_t psum_read = 0;
  uint64_t psum_written = 0;
  // Of the Tensor engine, each with an addition.
  std::array<uint64_t, kPeRates> multiplications{};

  void add(const EngineStats& more, const EngineStats& less);
};
using CoreStats = std::array<EngineStats, contract::kEnginesPerNc>;

struct ExecutionTotals {
  uint64_t program = 0;  // of its first engine's: address and length
  uint64_t count = 0;
  base::Ps total = 0;
  base::Ps least = 0;
  base::Ps most = 0;
  uint64_t hbm_bytes = 0;  // of the core's HBM stack meanwhile, whoever moved them
  CoreStats engines{};
  std::array<base::Ps, CriticalPath::kParts> critical{};
};

class ExecutionLog {
 public:
  // Programs that are told apart; further ones count as the last.
  static constexpr size_t kPrograms = 256;

  explicit ExecutionLog(const BandwidthResource& hbm) : hbm_(hbm) {}
  // `stats`: what the engine has done so far. Returns when the execution began.
  base::Ps start(contract::Engine engine, uint64_t program, base::Ps now, const EngineStats& stats);
  // The engine has posted a NOTIFY; whether it was its first, and what was before does not count.
  bool begin(contract::Engine engine, base::Ps now, const EngineStats& stats);
  base::Ps begun() const { return begin_; }
  void stop(contract::Engine engine, base::Ps now, const EngineStats& stats,
            const CriticalPath& path);
  void drop() { running_ = 0; }  // a reset ends it without a result

  // What has ended since the last call, in the order of the programs' first executions.
  std::vector<ExecutionTotals> take() { return std::exchange(totals_, {}); }

 private:
  const BandwidthResource& hbm_;
  uint32_t running_ = 0;  // bit per engine
  uint32_t started_ = 0;
  uint32_t begun_ = 0;
  uint64_t program_ = 0;
  base::Ps begin_ = 0;
  uint64_t hbm_bytes_ = 0;
  CoreStats before_{};
  CoreStats after_{};
  std::vector<ExecutionTotals> totals_;
};

}  // namespace hw
