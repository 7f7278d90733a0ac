// A driver library over plain memory, linked instead of the real one: memory chunks with device
// addresses, a register file with a log, queue set-up records, notification rings. Between a start
// doorbell and the next host call a tiny machine runs: it executes WRITE, EVENT_SEMAPHORE, NOTIFY,
// DRAIN, HALT and TENSOR_TENSOR ADD on float32 of the loaded programs, and moves DMA packets
// through the rings, so that tests see real data. All devices share their memory and cores. No
// timing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"

namespace fake {

struct Options {
  contract::Gen gen = contract::Gen::kV2;
  int devices = 1;
  bool driver_present = true;
  uint64_t memory_limit = ~0ull;  // bytes that allocations may take
  bool hang = false;              // engines never reach their end
  int error_engine = -1;          // this engine reports `error_code` instead of running
  uint32_t error_code = 0;
  bool dma_abort = false;  // engine 0 reports abort
};

void reset(const Options& options = {});  // forget everything
Options& options();

uint32_t busy_cores();  // cores that somebody marked
// Initialisation states that somebody gave a physical core, in order.
std::vector<uint32_t> core_states(uint32_t nc);
size_t live_chunks();         // allocated and not freed
size_t queue_inits();         // queues attached so far
size_t descriptor_uploads();  // descriptor copies so far
// Register writes, in order: {BAR0 offset, value}.
const std::vector<std::pair<uint64_t, uint32_t>>& writes();
uint32_t register_value(uint64_t bar0);
void mark_core_busy(uint32_t core);
uint64_t counter(uint32_t core, uint32_t index);  // of the datastore
uint64_t device_counter(uint32_t index);          // of the datastore
// The label in the datastore's object of this type; empty: there is none.
std::string label(int object_type);

}  // namespace fake
