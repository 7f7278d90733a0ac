// The system trace (spec/nrt-api.md 15): rings of events per core, fetched as JSON.
// Exact: keys and values that the specification lists, device times in ns and ps. Event types that
// no code path raises are listed and accepted, and stay empty.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/exec/device_events.h"

namespace nrt {

constexpr uint64_t kDefaultEventsPerCore = 1'000'000;

struct TraceConfig {
  uint64_t max_events_per_nc = kDefaultEventsPerCore;
  std::map<uint32_t, bool> cores;  // only those that were set
  std::set<std::string> disabled;  // event types

  bool captures(uint32_t vnc, const std::string& type) const;
};

struct FetchOptions {
  uint64_t max_events_per_nc = 0;  // 0 = all
  bool one_core = false;
  uint64_t nc_idx = 0;
};

// All names, and whether one is known (filters also know a few other spellings).
const std::vector<std::string>& event_types();
bool known_event_type(const std::string& name);

class SysTrace {
 public:
  base::Status start(const TraceConfig& config);
  void stop();
  bool active();

  // Device events of one execution.
  void add(const DeviceEvents& events, const std::string& model, bool success);
  // A host activity, in nanoseconds of the realtime clock. `sequence`: of an asynchronous request.
  void add_host(uint32_t vnc, const char* type, uint64_t start_ns, uint64_t stop_ns, int status,
                uint64_t sequence = 0);

  base::Result<std::string> fetch(const FetchOptions& options);

 private:
  struct Event {
    uint64_t key_ps = 0;  // order within one execution
    std::string json;
  };
  void push(uint32_t vnc, std::string json);

  std::mutex mutex_;
  bool active_ = false;
  TraceConfig config_;
  std::map<uint32_t, std::deque<std::string>> rings_;
  uint64_t next_id_ = 1;
};

SysTrace& sys_trace();
uint64_t realtime_ns();

}  // namespace nrt
