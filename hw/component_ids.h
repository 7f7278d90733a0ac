// Component ids: they order the events of one picosecond (hw/time/event_queue.h), so two blocks
// with one id would make the order depend on who scheduled first. Own: the numbers. An id is the
// chip, then the block of the chip: DMA engines first, in this order.
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"

namespace hw::component {

constexpr uint32_t kChipShift = 16;
constexpr uint32_t kIdsPerCore = 8;    // one for each engine
constexpr uint32_t kIdsPerBlock = 16;  // of others: one for each initiator socket
constexpr uint32_t kMaxBlocks = 64;

// First ids of a chip's blocks.
constexpr uint32_t kDmaEngines = 0;
constexpr uint32_t kCores = 0x1000;
constexpr uint32_t kNotifications = 0x2000;  // of the NeuronCores, then of the CC-cores
constexpr uint32_t kCcCores = 0x3000;
constexpr uint32_t kManagement = 0x4000;
constexpr uint32_t kBlocks = 0x5000;  // of others
constexpr uint32_t kTraces = 0x8000;  // of the DMA engines

// What the host does in a tick comes behind all that the chips do.
constexpr uint32_t kHostTasks = ~0u;

constexpr uint32_t id(uint32_t chip, uint32_t first, uint32_t number) {
  return chip << kChipShift | (first + number);
}
// Of a NeuronCore's engine 0; the others follow.
constexpr uint32_t core_id(uint32_t chip, uint32_t core) {
  return id(chip, kCores, core * kIdsPerCore);
}

// Whether no id has two owners on a chip of the generation, and none reaches into the next chip.
constexpr bool disjoint(const contract::AddressMap& map) {
  return kDmaEngines + map.dma_engines() <= kCores &&
         kCores + map.ncs() * kIdsPerCore <= kNotifications &&
         kNotifications + map.ncs() + map.topsps() <= kCcCores &&
         kCcCores + map.topsps() <= kManagement && kManagement + 1 <= kBlocks &&
         kBlocks + kMaxBlocks * kIdsPerBlock <= kTraces &&
         kTraces + map.dma_engines() <= 1u << kChipShift;
}
static_assert(disjoint({contract::Gen::kV2}));
static_assert(disjoint({contract::Gen::kV3}));
static_assert(disjoint({contract::Gen::kV4}));
static_assert(contract::kEnginesPerNc <= kIdsPerCore);
static_assert(contract::kMaxChips < kHostTasks >> kChipShift, "host tasks are behind all chips");

}  // namespace hw::component
