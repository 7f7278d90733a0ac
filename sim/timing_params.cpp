#include "sim/timing_params.h"

#include <string>
#include <vector>

#include "arch/config/timing.h"

namespace sim {

hw::TimingParams timing_params(const config::Timing& timing) {
  hw::TimingParams params;
  params.dma_engine = timing.rate("dma.engine_gbps");
  params.dma_chip = timing.rate("dma.chip_gbps");
  const config::Ratio accumulate = timing.ratio("dma.accumulate_factor");
  params.dma_accumulate_num = accumulate.num;
  params.dma_accumulate_den = accumulate.den;
  params.dma_compute = timing.rate("dma.compute_gelem_per_s");
  params.dma_fetch = timing.ps("dma.desc_fetch_ns");
  params.dma_first_byte = timing.ps("dma.first_byte_ns");
  params.dma_write_ack = timing.ps("dma.write_ack_ns");
  params.dma_buffer = timing.ps("dma.packet_overhead_ns");
  params.dma_buffer_least = timing.ps("dma.buffer_least_ns");
  params.dma_burst_packets = timing.integer("dma.burst_packets");
  params.dma_hwdge = timing.ps("dma.hwdge_ns");
  params.dma_swdge_start_cycles = timing.integer("dma.swdge_start_cycles");
  params.dma_swdge_cycles = timing.integer("dma.swdge_cycles_per_desc");
  params.dma_t0 = timing.ps("dma.t0_ns");
  params.dma_scattered_buffer = timing.ps("dma.scattered_buffer_ns");
  const config::Ratio turned[2] = {timing.ratio("dma.transpose_hbm_factor"),
                                   timing.ratio("dma.transpose_sbuf_factor")};
  for (size_t i = 0; i < 2; ++i) {
    params.dma_transpose_num[i] = turned[i].num;
    params.dma_transpose_den[i] = turned[i].den;
  }

  params.hbm_stack = config::scaled(timing.rate("hbm.stack_gbps"), timing.ratio("hbm.efficiency"));
  params.hbm_latency = timing.ps("hbm.latency_ns");
  params.core_fabric = timing.rate("fabric.core_to_core_gbps");
  params.core_reads = timing.rate("fabric.core_read_gbps");
  if (timing.generation() != config::Generation::kV2) {  // v2 is one die
    params.die_to_die = timing.rate("fabric.die_to_die_gbps");
    params.die_reads = timing.rate("fabric.die_read_gbps");
  }
  params.pcie = timing.rate("host.pcie_gbps");

  params.clk_pe = timing.clock("clk.pe_ghz");
  params.clk_act = timing.clock("clk.act_ghz");
  params.clk_pool = timing.clock("clk.pool_ghz");
  params.clk_dve = timing.clock("clk.dve_ghz");
  params.clk_sp = timing.clock("clk.sp_ghz");

  params.seq_alu_cycles = timing.integer("seq.alu_cycles");
  params.seq_fetch = timing.ps("seq.fetch_ns");
  params.seq_write = timing.ps("seq.write_ns");
  params.sem_complete = timing.ps("sem.complete_to_visible_ns");
  params.sem_start = timing.ps("sem.visible_to_start_ns");
  params.dep_same_engine = timing.ps("dep.same_engine_ns");

  params.eng_min_ii_cycles = timing.integer("eng.min_ii_cycles");
  params.eng_min_ii_dynamic_cycles = timing.integer("eng.min_ii_dynamic_cycles");
  params.eng_stride_penalty_bytes = timing.integer("eng.stride_penalty_bytes");
  params.eng_stride_penalty_factor = timing.integer("eng.stride_penalty_factor");
  params.dve_pipe_latency = timing.ps("dve.pipe_latency_ns");
  params.dve_fp32_copy_speedup = timing.integer("dve.fp32_copy_speedup");
  params.act_pipe_latency = timing.ps("act.pipe_latency_ns");
  params.pe_mm_pipe_latency = timing.ps("pe.mm_pipe_latency_ns");
  params.pool_pipe_latency = timing.ps("pool.pipe_latency_ns");
  params.pool_start_cycles = timing.integer("pool.start_cycles");
  params.dve_reciprocal_cycles = timing.integer("dve.reciprocal_cycles");
  params.dve_read_accumulator_cycles = timing.integer("dve.read_accumulator_cycles");
  params.act_table_load = timing.ps("act.table_load_ns");
  params.act_read_accumulator_cycles = timing.integer("act.read_accumulator_cycles");
  params.pe_ls_pipe_latency = timing.ps("pe.ls_pipe_latency_ns");
  params.pe_issue_cycles = timing.integer("pe.issue_cycles");
  params.pe_mm_init_cycles = timing.integer("pe.mm_init_cycles");
  params.pe_ls_speedup = timing.integer("pe.ls_speedup");
  params.pe_fp32_factor = timing.integer("pe.fp32_factor");
  const config::Ratio activity = timing.ratio("throttle.activity_limit");
  params.pe_activity_num = activity.num;
  params.pe_activity_den = activity.den;
  params.pe_activity_window = timing.ps("throttle.activity_window_us");
  params.pe_start_limit = timing.integer("throttle.enable") != 0;
  const config::Ratio initial = timing.ratio("throttle.initial_limit");
  params.pe_initial_num = initial.num;
  params.pe_initial_den = initial.den;
  params.pe_start_window = timing.ps("throttle.window_us");
  const config::Ratio rearm = timing.ratio("throttle.rearm_below");
  params.pe_rearm_num = rearm.num;
  params.pe_rearm_den = rearm.den;
  params.dve_bn_aggregate_cycles = timing.integer("dve.bn_aggregate_cycles");
  params.dve_exp_speedup = timing.integer("dve.exp_speedup");
  params.dve_rand2_speedup = timing.integer("dve.rand2_speedup");
  params.dve_mx_speedup = timing.integer("dve.mx_speedup");
  params.pe_fp32_onezero_factor = timing.integer("pe.fp32_onezero_factor");
  params.seq_load_sbuf_cycles = timing.integer("seq.load_sbuf_cycles");
  params.seq_load_hbm = timing.ps("seq.load_hbm_ns");
  params.pool_rsqrt_cycles = timing.integer("pool.rsqrt_cycles");

  params.cc_trigger = timing.ps("cc.trigger_ns");
  params.cc_instr = timing.ps("cc.instr_ns");
  params.cc_branch = timing.ps("cc.branch_ns");
  params.cc_sem_wait = timing.ps("cc.sem_wait_ns");
  params.cc_barrier = timing.ps("cc.barrier_ns");
  params.cc_block = timing.ps("cc.block_ns");
  params.nq_entry = timing.ps("nq.entry_ns");
  params.mgmt_reset = timing.ps("mgmt.reset_us");
  params.mgmt_power_sample = timing.ps("mgmt.power_sample_us");
  params.mgmt_heartbeat = timing.ps("mgmt.heartbeat_us");
  params.link_wire = timing.ps("link.wire_ns");
  return params;
}

base::Status lock_timing(config::Timing& timing) {
  timing.lock();
  const std::vector<std::string> unread = timing.unread_overrides();
  if (unread.empty()) return {};
  return base::Error{
      base::Fault::kConfig, 0, "--set",
      "nothing in this machine reads " + unread.front() + "; the override has no effect"};
}

}  // namespace sim
