// Timing of one chip: every rate and latency that the blocks of the machine use, with the name
// under which the timing file sets it and where the default comes from. Source:
// spec/timing.md (status D documented, V derived, M measured off a figure, A assumption). Defaults
// are those of v2 (Trn1).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "soma/policy.h"

namespace hw {

struct TimingParams {
  // DMA engines (spec/timing.md 5).
  base::Rate dma_engine{17, 1000};  // dma.engine_gbps, D
  base::Rate dma_chip{1000, 1000};  // dma.chip_gbps, D: all engines of a chip together
  uint64_t dma_accumulate_num = 1;  // dma.accumulate_factor, D: compute throughput of two
  uint64_t dma_accumulate_den = 2;  //   sources per destination byte, relative to a copy
  // 8-bit elements that an engine makes from two sources or more: dma.compute_gelem_per_s, M: uint8
  // all-reduces are slower than those of equally many bytes of bf16 (spec/calibration.md N02.01,
  // N28); 16-bit ones are not limited so (N23).
  base::Rate dma_compute{5, 2000};
  base::Ps dma_fetch = base::ns(770);       // dma.desc_fetch_ns, M: doorbell to first activity
  base::Ps dma_first_byte = base::ns(230);  // dma.first_byte_ns, M: from there to the first data
  base::Ps dma_write_ack = base::ns(280);   // dma.write_ack_ns, M: last byte to completion write
  base::Ps dma_buffer = base::ns(1);  // dma.packet_overhead_ns, M: per buffer beyond bytes / rate
  base::Ps dma_buffer_least = 8500;   // dma.buffer_least_ns, M: of a buffer, however short
  // dma.burst_packets, A: reserved of a busy path at once, with the signal behind them.
  uint64_t dma_burst_packets = 2;
  // Descriptors that engines generate (spec/engine-isa.md 8.2, 8.3).
  base::Ps dma_hwdge = base::ns(600);            // dma.hwdge_ns, D
  uint64_t dma_swdge_start_cycles = 150;         // dma.swdge_start_cycles, A
  uint64_t dma_swdge_cycles = 4;                 // dma.swdge_cycles_per_desc, A
  base::Ps dma_t0 = base::ns(1153);              // dma.t0_ns, V: least spacing on one queue
  base::Ps dma_scattered_buffer = base::ns(20);  // dma.scattered_buffer_ns, M
  // Rates relative to a copy: dma.transpose_hbm_factor, D; dma.transpose_sbuf_factor, D.
  uint64_t dma_transpose_num[2] = {9, 1};
  uint64_t dma_transpose_den[2] = {10, 2};

  // Memory and on-chip fabric (spec/timing.md 6, 7).
  // Reads and writes together: hbm.stack_gbps, V (410), times hbm.efficiency, M (0.88).
  base::Rate hbm_stack{3608, 10000};
  base::Ps hbm_latency = 0;  // hbm.latency_ns, A: zero until known (spec/timing.md 10)
  // Between the memories of two core groups (v2: cores; v3, v4: core pairs), per direction. Fitted
  // to the bus bandwidth of 32-rank and of two-rank all-reduces on trn1 (spec/calibration.md N23,
  // N20); half of what the latter move is reads.
  base::Rate core_fabric{70, 1000};  // fabric.core_to_core_gbps
  base::Rate core_reads{48, 1000};   // fabric.core_read_gbps
  base::Rate die_to_die{400, 1000};  // fabric.die_to_die_gbps, A: v3 and v4, per direction
  base::Rate die_reads{400, 1000};   // fabric.die_read_gbps, A: of these, what is read
  base::Rate pcie{16, 1000};         // host.pcie_gbps, M: per direction

  // Engine clocks (spec/timing.md 1), in cycles per picoseconds: 1.4 GHz is {7, 5000}. D, SP: A.
  base::Rate clk_pe{14, 5000};    // clk.pe_ghz
  base::Rate clk_act{7, 5000};    // clk.act_ghz
  base::Rate clk_pool{7, 5000};   // clk.pool_ghz
  base::Rate clk_dve{28, 25000};  // clk.dve_ghz
  base::Rate clk_sp{7, 5000};     // clk.sp_ghz

  // Sequencers and synchronisation (spec/timing.md 2).
  uint64_t seq_alu_cycles = 10;             // seq.alu_cycles, A
  uint64_t seq_load_sbuf_cycles = 64;       // seq.load_sbuf_cycles, A
  base::Ps seq_load_hbm = base::ns(1300);   // seq.load_hbm_ns, A
  base::Ps seq_fetch = 0;                   // seq.fetch_ns, A: nothing published
  base::Ps seq_write = base::ns(50);        // seq.write_ns, A
  base::Ps sem_complete = base::ns(12);     // sem.complete_to_visible_ns, M
  base::Ps sem_start = base::ns(20);        // sem.visible_to_start_ns, M
  base::Ps dep_same_engine = base::ns(30);  // dep.same_engine_ns, M

  // Compute engines (spec/timing.md 3).
  uint64_t eng_min_ii_cycles = 64;              // eng.min_ii_cycles, D
  uint64_t eng_min_ii_dynamic_cycles = 600;     // eng.min_ii_dynamic_cycles, D
  uint64_t eng_stride_penalty_bytes = 16;       // eng.stride_penalty_bytes, D
  uint64_t eng_stride_penalty_factor = 2;       // eng.stride_penalty_factor, D
  base::Ps dve_pipe_latency = base::ns(339);    // dve.pipe_latency_ns, M
  uint64_t dve_fp32_copy_speedup = 1;           // dve.fp32_copy_speedup, D
  uint64_t dve_reciprocal_cycles = 8;           // dve.reciprocal_cycles, D
  uint64_t dve_bn_aggregate_cycles = 13;        // dve.bn_aggregate_cycles, D
  uint64_t dve_exp_speedup = 4;                 // dve.exp_speedup, V
  uint64_t dve_rand2_speedup = 4;               // dve.rand2_speedup, V
  uint64_t dve_mx_speedup = 4;                  // dve.mx_speedup, V
  uint64_t dve_read_accumulator_cycles = 64;    // dve.read_accumulator_cycles, V
  base::Ps act_pipe_latency = base::ns(113);    // act.pipe_latency_ns, M
  base::Ps act_table_load = base::ns(1280);     // act.table_load_ns, A
  uint64_t act_read_accumulator_cycles = 64;    // act.read_accumulator_cycles, D
  base::Ps pe_mm_pipe_latency = base::ns(142);  // pe.mm_pipe_latency_ns, M
  base::Ps pe_ls_pipe_latency = base::ns(44);   // pe.ls_pipe_latency_ns, M
  uint64_t pe_issue_cycles = 1;                 // pe.issue_cycles, A
  uint64_t pe_mm_init_cycles = 64;              // pe.mm_init_cycles, D
  uint64_t pe_ls_speedup = 4;                   // pe.ls_speedup, D
  uint64_t pe_fp32_factor = 4;                  // pe.fp32_factor, D
  uint64_t pe_fp32_onezero_factor = 2;          // pe.fp32_onezero_factor, V
  // throttle.activity_limit, M: what the Tensor engine may work of the time when it works for long
  // (spec/calibration.md P01, K08); throttle.activity_window_us, A: how far it may be ahead of
  // that.
  uint64_t pe_activity_num = 7;
  uint64_t pe_activity_den = 8;
  base::Ps pe_activity_window = base::us(3);
  // throttle.enable, D: whether the Tensor engine starts slowly after it has rested (v3, v4), at
  // throttle.initial_limit of its rate, D, for throttle.window_us, D; it has rested if it worked
  // less than throttle.rearm_below of such a window, D (spec/engine-isa.md 6.5).
  bool pe_start_limit = false;
  uint64_t pe_initial_num = 1;
  uint64_t pe_initial_den = 2;
  base::Ps pe_start_window = base::us(3);
  uint64_t pe_rearm_num = 1;
  uint64_t pe_rearm_den = 2;
  base::Ps pool_pipe_latency = base::ns(100);  // pool.pipe_latency_ns, A
  uint64_t pool_start_cycles = 150;            // pool.start_cycles, D
  uint64_t pool_rsqrt_cycles = 4;              // pool.rsqrt_cycles, A

  // CC-cores, notifications, management (A: choices explained in the timing files).
  base::Ps cc_trigger = base::ns(100);            // cc.trigger_ns
  base::Ps cc_instr = base::ns(20);               // cc.instr_ns
  base::Ps cc_branch = base::ns(20);              // cc.branch_ns
  base::Ps cc_sem_wait = base::ns(220);           // cc.sem_wait_ns
  base::Ps cc_barrier = base::ns(100);            // cc.barrier_ns
  base::Ps cc_block = base::ns(600);              // cc.block_ns
  base::Ps nq_entry = base::ns(50);               // nq.entry_ns
  base::Ps mgmt_reset = base::us(2000);           // mgmt.reset_us
  base::Ps mgmt_power_sample = base::us(10'000);  // mgmt.power_sample_us
  base::Ps mgmt_heartbeat = base::us(1'000'000);  // mgmt.heartbeat_us

  // Links between chips (spec/timing.md 7), one way. A route takes the wire once, each further hop
  // and each switch on it come on top. Rates are those of the classes of links.
  base::Ps link_wire = base::ns(250);         // link.wire_ns, M
  base::Ps link_route_extra = base::ns(100);  // link.route_extra_ns, M
  base::Ps link_switch = base::ns(250);       // link.switch_ns, A
};

// A link between two chips, given by their platform-wide numbers. Both directions at once.
struct LinkParams {
  uint32_t a = 0;
  uint32_t b = 0;
  base::Rate rate;  // per direction: link.<class>_gbps_per_dir times link.efficiency
  // S-engines that own its port on either chip (spec/collectives.md 2.3), one bit each; 0: none in
  // particular, so that nothing on the chip has to be crossed to get there (v2, switched v4).
  uint8_t owners_a = 0;
  uint8_t owners_b = 0;
};

// A switch that does not block: each member has a port of this rate per direction.
struct SwitchParams {
  std::string name;
  uint32_t level = 1;
  base::Rate rate;
  std::vector<uint32_t> members;
};

// Which of the possible ways a transfer takes; the rules are those of hw/link/router.h.
struct RouteParams {
  enum class Rule : uint8_t { kShortest, kTorus, kSwitched };
  Rule rule = Rule::kShortest;
  // Of several switches between two chips.
  enum class Switch : uint8_t { kFirst, kSpread };
  Switch switch_port = Switch::kFirst;
  // In place of these: policies of others.
  std::function<std::unique_ptr<soma::Routing>(const soma::Topology&)> routing;
  std::function<std::unique_ptr<soma::SwitchChoice>(const soma::Topology&)> switch_choice;
  std::vector<uint32_t> dims;                 // kTorus, outermost first
  std::vector<std::vector<uint32_t>> coords;  // kTorus: by chip, one number per dimension
};

// Which queue of a DMA engine goes next. kGeneration: round robin, on v4 by service class.
struct QueuePolicy {
  enum class Rule : uint8_t { kGeneration, kRoundRobin, kStrictPriority };
  Rule rule = Rule::kGeneration;
  std::function<std::unique_ptr<soma::QueueArbiter>()> arbiter;  // of others, in its place
};

// How a direction of a link or switch port serves packets; empty: first come, first served.
using LinkPolicy = std::function<std::unique_ptr<soma::LinkArbiter>(base::Rate rate)>;

}  // namespace hw
