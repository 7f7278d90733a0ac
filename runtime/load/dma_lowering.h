// From static DMA descriptions (spec/neff.md 3) to descriptors of hardware rings. Pure: no device.
//
// A block's transfers are cut into pieces that are contiguous on both sides, dealt to the queues of
// the set in equal, contiguous shares; every queue ends its part with a 4-byte write that
// increments the completion semaphore, also when it moved nothing (spec/neff.md 3.8). Packets hold
// pieces of up to NEURON_RT_DBG_DMA_PACKETIZATION_SIZE bytes. Descriptors that touch an input or
// output are listed, because their addresses change with the tensors that are bound. Exact: bytes,
// completion counts, order per queue. Own: the dealing, spec/neff.md 3.8 leaves it open. Missing
// (typed Unsupported): several source types in one reduction, an event on more than one queue.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/contract/descriptor.h"
#include "base/error.h"
#include "neff_loader/neff.h"

namespace nrt {

struct VariableAddress {
  uint64_t base = 0;
  bool io = false;  // bound at execution: base is unknown at load
};

struct IoReference {
  uint32_t descriptor = 0;  // index in the list
  uint32_t variable = 0;
  uint64_t offset = 0;
};

struct DescriptorList {
  std::vector<contract::Descriptor> descriptors;
  std::vector<IoReference> io;
};

// What one queue of one DMA engine does for a program, in trigger order.
struct QueueImage {
  DescriptorList m2s;
  DescriptorList s2m;
};

struct DoorbellCounts {
  uint32_t m2s = 0;
  uint32_t s2m = 0;

  bool operator==(const DoorbellCounts& other) const {
    return m2s == other.m2s && s2m == other.s2m;
  }
};

struct DmaContext {
  const neff::Subgraph* subgraph = nullptr;
  std::vector<VariableAddress> variables;  // by index in the subgraph
  uint64_t one_word = 0;                   // device address of a word that holds 1
  uint64_t semaphore_increment = 0;        // device address of the increment alias of semaphore 0
  uint64_t remote_increment = 0;           // the same of the other physical core; 0: there is none
  uint64_t events = 0;                     // device address of event 0
  uint32_t packet_bytes = 4096;
};

// Appends the elements to the images (one per queue of the set) and returns what each queue's
// doorbells must be rung with.
base::Result<std::vector<DoorbellCounts>> lower_block(
    const DmaContext& context, const std::vector<const neff::DmaElement*>& elements,
    std::vector<QueueImage>* queues);

// The largest packet of NEURON_RT_DBG_DMA_PACKETIZATION_SIZE; it can only be raised from 4096.
uint32_t packet_bytes_from_environment();

}  // namespace nrt
