// Device-side events of one execution, gathered from notification entries, and how programs get
// them.
//
// The public way is the system trace (nrt/nrt_sys_trace.h): nrt_sys_trace_config_allocate,
// nrt_sys_trace_start before the executions, then nrt_sys_trace_fetch_events, which returns
//   {"events": [{"event_type": "cc_running", "phase": "start", "tracking_id": 7, "nc_idx": 0,
//                "worker_gid": 0,
//                "data": {"nc_timestamp_ns": 1234, "nc_timestamp_ps": 1234567, "exec_id": 3,
//                         "op_index": 0, "stream": 0, "operation": "ALL_REDUCE",
//                         "algorithm": "ring", "bytes": 65536, "model_id": 1001}}, ...]}
// Each collective operation gives one cc_running pair (start, stop) per execution and rank: start
// is the earliest NOTIFY start entry of its CC-cores, stop the latest NOTIFY end entry. A program
// gives one nc_exec_running pair per execution: earliest NOTIFY of its engines after the execution
// barrier, latest NOTIFY at the end. Durations are stop - start of data.nc_timestamp_ps, integer
// picoseconds of the device clock; nc_timestamp_ns is the same value divided by 1000.
// "op_index" counts the collectives of the program in issue order, from 0.
//
// Source of truth: docs/hardware-contract.md 4 and 5, spec/nrt-api.md 15. Exact: the time stamps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nrt {

struct DeviceSpan {
  std::string event_type;  // "nc_exec_running", "cc_running", "cc_exec_barrier"
  uint64_t start_ps = 0;
  uint64_t stop_ps = 0;
  int32_t op_index = -1;  // collectives only
  uint32_t stream = 0;
  std::string operation;
  std::string algorithm;
  uint64_t bytes = 0;
};

struct DeviceEvents {
  uint32_t vnc = 0;
  int64_t rank = -1;  // global rank, -1 outside a world
  uint32_t model_id = 0;
  uint64_t exec_id = 0;
  uint64_t seq_id = 0;       // of an asynchronous request, else 0
  uint64_t sync_cpu_ns = 0;  // host clock at the time of sync_nc_ps
  uint64_t sync_nc_ps = 0;
  std::vector<DeviceSpan> spans;
};

}  // namespace nrt
