#include "runtime/nrt/sys_trace.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint64_t kPsPerNs = 1000;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u >= 0x7F) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\u00";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number(const char* key, uint64_t value) {
  return std::string(", \"") + key + "\": " + std::to_string(value);
}

// The common head of an event up to the data object's opening brace.
std::string head(const std::string& type, const char* phase, uint64_t id, uint32_t vnc,
                 int64_t rank) {
  std::string out = "{\"event_type\": " + quoted(type) + ", \"phase\": \"" + phase + "\"";
  out += number("tracking_id", id) + number("id", id) + number("nc_idx", vnc);
  if (rank >= 0) out += number("worker_gid", static_cast<uint64_t>(rank));
  out += number("process_id", static_cast<uint64_t>(getpid()));
  return out + ", \"data\": {";
}

std::string device_data(const DeviceEvents& events, const DeviceSpan& span, uint64_t ps,
                        const std::string& model, bool success) {
  std::string out = "\"nc_timestamp_ns\": " + std::to_string(ps / kPsPerNs);
  out += number("nc_timestamp_ps", ps) + number("exec_id", events.exec_id);
  out += number("model_id", events.model_id);
  if (events.seq_id != 0) out += number("seq_id", events.seq_id);
  out += ", \"model_name\": " + quoted(model);
  if (span.op_index >= 0) {
    out += number("op_index", static_cast<uint64_t>(span.op_index));
    out += number("stream", span.stream) + number("bytes", span.bytes);
    out += ", \"operation\": " + quoted(span.operation);
    out += ", \"algorithm\": " + quoted(span.algorithm);
  } else {
    out += number("status", success ? 0 : 1);
  }
  return out + "}}";
}

}  // namespace

const std::vector<std::string>& event_types() {
  static const auto* types = new std::vector<std::string>{
      "nc_exec_running",  "cc_running",           "cc_exec_barrier",  "numerical_err",
      "nrt_model_switch", "timestamp_sync_point", "hw_notify",        "nrt_load",
      "nrt_execute",      "nrt_tensor_read",      "nrt_tensor_write", "nrta_execute_schedule",
      "model_load",       "runtime_execute",      "kmgr_exec_core",   "kbl_exec_wait",
      "dmem_buf_copyin",  "dmem_buf_copyout",     "cc_exec",          "device_exec"};
  return *types;
}

bool known_event_type(const std::string& name) {
  const std::vector<std::string>& types = event_types();
  return std::find(types.begin(), types.end(), name) != types.end() || name == "tensor_read" ||
         name == "tensor_write" || name == "nc_model_switch";
}

bool TraceConfig::captures(uint32_t vnc, const std::string& type) const {
  const auto core = cores.find(vnc);
  return (core == cores.end() || core->second) && disabled.count(type) == 0;
}

uint64_t realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

SysTrace& sys_trace() {
  static auto* trace = new SysTrace;
  return *trace;
}

base::Status SysTrace::start(const TraceConfig& config) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (active_) return error(NRT_FAILURE, "The system trace is already running");
  active_ = true;
  config_ = config;
  rings_.clear();
  return {};
}

void SysTrace::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  active_ = false;
  rings_.clear();
}

bool SysTrace::active() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return active_;
}

void SysTrace::push(uint32_t vnc, std::string json) {
  std::deque<std::string>& ring = rings_[vnc];
  ring.push_back(std::move(json));
  while (ring.size() > config_.max_events_per_nc) ring.pop_front();
}

void SysTrace::add(const DeviceEvents& events, const std::string& model, bool success) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!active_) return;
  std::vector<Event> list;
  for (const DeviceSpan& span : events.spans) {
    if (!config_.captures(events.vnc, span.event_type)) continue;
    const uint64_t id = next_id_++;
    for (const bool start : {true, false}) {
      const uint64_t ps = start ? span.start_ps : span.stop_ps;
      list.push_back(
          {ps, head(span.event_type, start ? "start" : "stop", id, events.vnc, events.rank) +
                   device_data(events, span, ps, model, success)});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Event& a, const Event& b) { return a.key_ps < b.key_ps; });
  for (Event& event : list) push(events.vnc, std::move(event.json));
  if (!config_.captures(events.vnc, "timestamp_sync_point")) return;
  push(events.vnc, head("timestamp_sync_point", "start", next_id_++, events.vnc, events.rank) +
                       "\"cpu_timestamp_ns\": " + std::to_string(events.sync_cpu_ns) +
                       number("nc_timestamp_ns", events.sync_nc_ps / kPsPerNs) +
                       number("exec_id", events.exec_id) + "}}");
}

void SysTrace::add_host(uint32_t vnc, const char* type, uint64_t start_ns, uint64_t stop_ns,
                        int status, uint64_t sequence) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!active_ || !config_.captures(vnc, type)) return;
  const uint64_t id = next_id_++;
  for (const bool start : {true, false}) {
    push(vnc, head(type, start ? "start" : "stop", id, vnc, -1) +
                  "\"cpu_timestamp_ns\": " + std::to_string(start ? start_ns : stop_ns) +
                  number("status", static_cast<uint64_t>(status)) +
                  (sequence != 0 ? number("seq_id", sequence) : "") + "}}");
  }
}

base::Result<std::string> SysTrace::fetch(const FetchOptions& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!active_) return error(NRT_FAILURE, "The system trace was not started");
  std::string out = "{\"events\": [";
  bool first = true;
  for (auto& [vnc, ring] : rings_) {
    if (options.one_core && vnc != options.nc_idx) continue;
    for (uint64_t n = 0; !ring.empty(); ++n) {
      if (options.max_events_per_nc != 0 && n == options.max_events_per_nc) break;
      out += first ? "\n" : ",\n";
      out += ring.front();
      ring.pop_front();
      first = false;
    }
  }
  return out + "]}";
}

}  // namespace nrt
