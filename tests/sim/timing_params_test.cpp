#include "sim/timing_params.h"

#include <gtest/gtest.h>

#include "arch/config/timing.h"

namespace sim {
namespace {

// Blocks are tested with the defaults of the structure; the file of trn1 must say the same.
TEST(TimingParams, DefaultsAreThoseOfTrn1) {
  const hw::TimingParams file = timing_params(config::Timing::load("trn1").value());
  const hw::TimingParams built_in;
  const auto same_rate = [](base::Rate a, base::Rate b) {
    return a.bytes * b.ps == b.bytes * a.ps;
  };
  EXPECT_TRUE(same_rate(file.dma_engine, built_in.dma_engine));
  EXPECT_TRUE(same_rate(file.dma_chip, built_in.dma_chip));
  EXPECT_TRUE(same_rate(file.dma_compute, built_in.dma_compute));
  EXPECT_TRUE(same_rate(file.hbm_stack, built_in.hbm_stack));
  EXPECT_TRUE(same_rate(file.core_fabric, built_in.core_fabric));
  EXPECT_TRUE(same_rate(file.core_reads, built_in.core_reads));
  EXPECT_TRUE(same_rate(file.pcie, built_in.pcie));
  EXPECT_TRUE(same_rate(file.clk_pe, built_in.clk_pe));
  EXPECT_TRUE(same_rate(file.clk_act, built_in.clk_act));
  EXPECT_TRUE(same_rate(file.clk_pool, built_in.clk_pool));
  EXPECT_TRUE(same_rate(file.clk_dve, built_in.clk_dve));
  EXPECT_TRUE(same_rate(file.clk_sp, built_in.clk_sp));
  EXPECT_EQ(file.dma_accumulate_num, built_in.dma_accumulate_num);
  EXPECT_EQ(file.dma_accumulate_den, built_in.dma_accumulate_den);
  EXPECT_EQ(file.dma_fetch, built_in.dma_fetch);
  EXPECT_EQ(file.dma_first_byte, built_in.dma_first_byte);
  EXPECT_EQ(file.dma_write_ack, built_in.dma_write_ack);
  EXPECT_EQ(file.dma_buffer, built_in.dma_buffer);
  EXPECT_EQ(file.dma_buffer_least, built_in.dma_buffer_least);
  EXPECT_EQ(file.dma_burst_packets, built_in.dma_burst_packets);
  EXPECT_EQ(file.dma_hwdge, built_in.dma_hwdge);
  EXPECT_EQ(file.dma_swdge_start_cycles, built_in.dma_swdge_start_cycles);
  EXPECT_EQ(file.dma_swdge_cycles, built_in.dma_swdge_cycles);
  EXPECT_EQ(file.dma_t0, built_in.dma_t0);
  EXPECT_EQ(file.dma_scattered_buffer, built_in.dma_scattered_buffer);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(file.dma_transpose_num[i] * built_in.dma_transpose_den[i],
              built_in.dma_transpose_num[i] * file.dma_transpose_den[i]);
  }
  EXPECT_EQ(file.hbm_latency, built_in.hbm_latency);
  EXPECT_EQ(file.seq_alu_cycles, built_in.seq_alu_cycles);
  EXPECT_EQ(file.seq_fetch, built_in.seq_fetch);
  EXPECT_EQ(file.seq_write, built_in.seq_write);
  EXPECT_EQ(file.sem_complete, built_in.sem_complete);
  EXPECT_EQ(file.sem_start, built_in.sem_start);
  EXPECT_EQ(file.dep_same_engine, built_in.dep_same_engine);
  EXPECT_EQ(file.eng_min_ii_cycles, built_in.eng_min_ii_cycles);
  EXPECT_EQ(file.eng_min_ii_dynamic_cycles, built_in.eng_min_ii_dynamic_cycles);
  EXPECT_EQ(file.eng_stride_penalty_bytes, built_in.eng_stride_penalty_bytes);
  EXPECT_EQ(file.eng_stride_penalty_factor, built_in.eng_stride_penalty_factor);
  EXPECT_EQ(file.dve_pipe_latency, built_in.dve_pipe_latency);
  EXPECT_EQ(file.dve_fp32_copy_speedup, built_in.dve_fp32_copy_speedup);
  EXPECT_EQ(file.act_pipe_latency, built_in.act_pipe_latency);
  EXPECT_EQ(file.pe_mm_pipe_latency, built_in.pe_mm_pipe_latency);
  EXPECT_EQ(file.pool_pipe_latency, built_in.pool_pipe_latency);
  EXPECT_EQ(file.pool_start_cycles, built_in.pool_start_cycles);
  EXPECT_EQ(file.dve_reciprocal_cycles, built_in.dve_reciprocal_cycles);
  EXPECT_EQ(file.dve_read_accumulator_cycles, built_in.dve_read_accumulator_cycles);
  EXPECT_EQ(file.act_table_load, built_in.act_table_load);
  EXPECT_EQ(file.act_read_accumulator_cycles, built_in.act_read_accumulator_cycles);
  EXPECT_EQ(file.pe_ls_pipe_latency, built_in.pe_ls_pipe_latency);
  EXPECT_EQ(file.pe_issue_cycles, built_in.pe_issue_cycles);
  EXPECT_EQ(file.pe_activity_num, built_in.pe_activity_num);
  EXPECT_EQ(file.pe_activity_den, built_in.pe_activity_den);
  EXPECT_EQ(file.pe_activity_window, built_in.pe_activity_window);
  EXPECT_EQ(file.pe_start_limit, built_in.pe_start_limit);
  EXPECT_EQ(file.pe_initial_num, built_in.pe_initial_num);
  EXPECT_EQ(file.pe_initial_den, built_in.pe_initial_den);
  EXPECT_EQ(file.pe_start_window, built_in.pe_start_window);
  EXPECT_EQ(file.pe_rearm_num, built_in.pe_rearm_num);
  EXPECT_EQ(file.pe_rearm_den, built_in.pe_rearm_den);
  EXPECT_EQ(file.pe_mm_init_cycles, built_in.pe_mm_init_cycles);
  EXPECT_EQ(file.pe_ls_speedup, built_in.pe_ls_speedup);
  EXPECT_EQ(file.pe_fp32_factor, built_in.pe_fp32_factor);
  EXPECT_EQ(file.dve_bn_aggregate_cycles, built_in.dve_bn_aggregate_cycles);
  EXPECT_EQ(file.dve_exp_speedup, built_in.dve_exp_speedup);
  EXPECT_EQ(file.dve_rand2_speedup, built_in.dve_rand2_speedup);
  EXPECT_EQ(file.dve_mx_speedup, built_in.dve_mx_speedup);
  EXPECT_EQ(file.pe_fp32_onezero_factor, built_in.pe_fp32_onezero_factor);
  EXPECT_EQ(file.seq_load_sbuf_cycles, built_in.seq_load_sbuf_cycles);
  EXPECT_EQ(file.seq_load_hbm, built_in.seq_load_hbm);
  EXPECT_EQ(file.pool_rsqrt_cycles, built_in.pool_rsqrt_cycles);
  EXPECT_EQ(file.cc_trigger, built_in.cc_trigger);
  EXPECT_EQ(file.cc_instr, built_in.cc_instr);
  EXPECT_EQ(file.cc_branch, built_in.cc_branch);
  EXPECT_EQ(file.cc_sem_wait, built_in.cc_sem_wait);
  EXPECT_EQ(file.cc_barrier, built_in.cc_barrier);
  EXPECT_EQ(file.cc_block, built_in.cc_block);
  EXPECT_EQ(file.nq_entry, built_in.nq_entry);
  EXPECT_EQ(file.mgmt_reset, built_in.mgmt_reset);
  EXPECT_EQ(file.mgmt_power_sample, built_in.mgmt_power_sample);
  EXPECT_EQ(file.mgmt_heartbeat, built_in.mgmt_heartbeat);
  EXPECT_EQ(file.link_wire, built_in.link_wire);
}

TEST(TimingParams, EveryTimingFileWillDo) {
  for (const auto& name : config::Timing::names()) {
    EXPECT_NO_THROW(timing_params(config::Timing::load(name).value())) << name;
  }
}

TEST(TimingParams, OverridesArrive) {
  auto timing = config::Timing::load("trn1").value();
  ASSERT_TRUE(timing.set("dma.engine_gbps=8.5").ok());
  const hw::TimingParams params = timing_params(timing);
  EXPECT_EQ(params.dma_engine.bytes * 2000, params.dma_engine.ps * 17);
  EXPECT_TRUE(timing.unread_overrides().empty());
}

}  // namespace
}  // namespace sim
