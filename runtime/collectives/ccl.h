// The collectives library towards the runtime: one call turns a collective into what one rank must
// load: DMA rings, a CC program, semaphores. Pure: no device, no allocation on devices, no sockets
// (those are in bootstrap.h). Source of truth: collectives.md 2, 3; docs/hardware-contract.md 5, 6.
//
// Use by the runtime, per (stream, group, equal operation):
//   1. channel_buffer_bytes() and semaphore_count() tell what to allocate;
//   2. ranks exchange RankResources (serialize/deserialize) with Bootstrap::all_gather;
//   3. plan() gives Lowered: rings to queue `queue` of the rank's engines, records for its CC-core;
//   4. the runtime lays rings out, loads the program, and rings `trigger` once per execution of the
//   op.
// Every execution consumes each ring exactly once and leaves all semaphores at their value before,
// so programs and rings are replayed without being touched. A ring of the runtime is the
// concatenation of the operations of one execution, in order, times ring_copies(): only the ring id
// check must be masked.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"
#include "arch/contract/cc_program.h"
#include "runtime/collectives/types.h"

namespace ccl {

// What one rank contributes to one collective. Device addresses are local to its chip.
struct RankResources {
  uint32_t global_rank = 0;
  uint32_t chip = 0;  // platform-wide chip number, for peer windows
  uint32_t nc = 0;    // NeuronCore within the chip
  uint32_t hbm = 0;   // its HBM stack
  contract::Gen gen = contract::Gen::kV2;
  // CC-core of the stream: software index, and its window. Streams with two CC-cores use the first.
  uint32_t cc_core = 0;
  uint64_t cc_window = 0;
  uint32_t semaphore_base = 0;  // first of semaphore_count() semaphores in the CC-core's block
  uint32_t queue = 15;          // UDMA queue of collectives
  std::array<uint64_t, contract::kDmaPerNc> udma{};  // UDMA units of the NC's engines
  uint64_t broadcast = 0;  // doorbell broadcast window of the NC; 0: ring each engine
  uint64_t one_word = 0;   // a device word (own HBM) that holds 1
  uint64_t src = 0;
  uint64_t dst = 0;
  uint64_t channel_buffer = 0;  // channel_buffer_bytes() bytes, 64-byte aligned; 0 if none needed
};

// Fills the addresses that follow from the position: CC-core window, UDMA units, broadcast window.
// `cc_core` is the software index of the CC-core: 3 n + stream on v2.
RankResources resources_of(contract::Gen gen, uint32_t global_rank, uint32_t chip, uint32_t nc,
                           uint32_t cc_core);

// Fixed-size image for the exchange between ranks; deserialize checks every field.
std::vector<uint8_t> serialize(const RankResources& resources);
base::Result<RankResources> deserialize(const uint8_t* data, size_t size);

// Where the completion goes: DONE adds `value` at `address` (an increment window). 0: nowhere.
struct Completion {
  uint64_t address = 0;
  uint32_t value = 1;
};

struct PlanOptions {
  uint32_t packet_bytes = 65536;  // copies only; NEURON_RT_DBG_CC_DMA_PACKET_SIZE may shrink it
  std::string algo_override;      // text of NCCOM_CC_ALGO: "<op>:<algo>[,...]"
  bool notify = true;             // kOpStart / kOpEnd notification entries
};

// Ring contents of one engine for one execution of the operation, ring id 1 in every descriptor.
struct EngineRing {
  uint32_t engine = 0;  // 0..15 within the NC
  std::vector<contract::Descriptor> m2s;
  std::vector<contract::Descriptor> s2m;
};

struct Lowered {
  Algorithm algorithm = Algorithm::kRing;
  uint32_t queue = 15;
  std::vector<EngineRing> rings;                      // engines that take part, ascending
  std::vector<contract::cc_program::Record> program;  // branch targets relative to its start
  uint32_t semaphores = 0;                            // used, from semaphore_base
  uint64_t channel_buffer = 0;                        // bytes used at the own rank
  std::string describe() const;                       // one line per record and ring, for debugging
};

// Semaphores per rank of a communicator of `ranks` members.
uint32_t semaphore_count(uint32_t ranks);

// Algorithm that plan() will take. `in_place`: any rank's source and destination share memory.
base::Result<Algorithm> select(const OpRequest& request, uint32_t ranks, bool in_place,
                               const std::string& algo_override);

// Channel buffer that each rank must provide for this operation. `same_chip`: all members are on
// one chip (then two ranks need none, unless a mesh all-reduce is forced to run in place).
base::Result<uint64_t> channel_buffer_bytes(const OpRequest& request, uint32_t ranks, bool in_place,
                                            bool same_chip, const PlanOptions& options);

// Lowers the part of `group[own]`. `group` is in the order of the replica group and holds the
// addresses of all members; every rank must call it with the same group and request.
base::Result<Lowered> plan(const OpRequest& request, const std::vector<RankResources>& group,
                           uint32_t own, const Completion& completion, const PlanOptions& options);

// Adds `base` to the targets of branches and loops, for a program placed at record `base`.
void relocate(std::vector<contract::cc_program::Record>* program, uint32_t base);

// How often a ring of `descriptors` must be repeated in memory so that its length is legal for a
// hardware queue (multiple of 16, at least 32: hw-registers.md 3.5) and is never filled completely.
uint32_t ring_copies(uint64_t descriptors);

// Execution barrier for CC-core 3 n + 2 (v2): arrive at `cell` (device address of a barrier cell,
// equal on all members), wait for `members`, signal, done.
std::vector<contract::cc_program::Record> barrier_program(uint64_t cell, uint32_t members,
                                                          const Completion& completion);

}  // namespace ccl
