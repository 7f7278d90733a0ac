// What a client of a driver does for the scripts of spec/hw-registers.md 10.6: the queues that
// *_nc1_reset.trace finds, the reset itself, and the DMA queues that *_process_exit.trace returns.
// A bench has ioctl(file, request, argument) and alloc(file, size) or the like.
#pragma once

#include <gtest/gtest.h>

#include "arch/contract/address_map.h"
#include "driver/uapi/requests.h"
#include "driver/uapi/structs.h"

namespace golden {

// NC 1: a queue in set 2 of its block and one of its last-but-one (v2) or last CC-core in set 0.
template <typename Bench>
void create_queues_of_nc1(Bench& bench, int file, const contract::AddressMap& map) {
  namespace uapi = driver::uapi;
  uapi::notifications_init_v2 nc{};
  nc.nq_dev_id = 1;
  nc.nq_type = uapi::kNqNotify;
  nc.engine_index = 2;
  nc.size = 4096;
  nc.on_host_memory = 1;
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitV2, nc), 0);
  uapi::notifications_init_v2 topsp{};
  topsp.nq_dev_id = map.v2() ? 4 : 3;
  topsp.nq_dev_type = uapi::kNqDevTopsp;
  topsp.size = 8192;
  topsp.dram_channel = map.hbm_of_nc(1);
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitV2, topsp), 0);
}

// Resets the cores of `nc_map` and waits for the end; returns the request.
template <typename Bench>
driver::uapi::device_reset reset_cores(Bench& bench, int file, uint32_t nc_map) {
  namespace uapi = driver::uapi;
  uapi::device_reset reset{nc_map, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kNcReset, reset), 0);
  uapi::device_ready ready{reset.request_id, -7};
  EXPECT_EQ(bench.ioctl(file, uapi::kNcResetReady, ready), 0);
  EXPECT_EQ(ready.result, 0);
  return reset;
}

// Queues (20, 0) and (5, 5), and one of an instruction fetcher, which stays at exit.
template <typename Bench>
void create_queues_to_return(Bench& bench, int file, uint64_t ring) {
  namespace uapi = driver::uapi;
  const uint32_t queues[][2] = {{20, 0}, {5, 5}, {4, 14}};
  for (const auto& [engine, queue] : queues) {
    uapi::dma_queue_init init{engine, queue, 64, 64, ring, ring, 0, 0};
    ASSERT_EQ(bench.ioctl(file, uapi::kDmaQueueInit, init), 0);
  }
}

}  // namespace golden
