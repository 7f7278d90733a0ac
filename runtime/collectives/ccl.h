// The collectives library towards the runtime: one call turns a collective into what one rank must
// load: DMA rings, CC programs, semaphores. Pure: no device, no allocation on devices, no sockets
// (those are in bootstrap.h). Source of truth: spec/collectives.md 2, 3;
// docs/hardware-contract.md 5, 6.
//
// Use by the runtime, per (stream, group, equal operation):
//   1. needs() tells what to allocate: channel buffer, semaphores;
//   2. ranks exchange RankResources (serialize/deserialize) with Bootstrap::all_gather;
//   3. plan() gives Lowered: rings for queue `queue` of the rank's engines, a program for each
//      CC-core of the stream;
//   4. the runtime lays rings out, loads the programs, and triggers the first CC-core once per
//      execution of the op; its program triggers the others.
// Every execution consumes each ring exactly once and leaves all semaphores at their value before,
// so programs and rings are replayed without being touched. A ring of the runtime is the
// concatenation of the operations of one execution, in order, times ring_copies(): only the ring id
// check must be masked.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"
#include "arch/contract/cc_program.h"
#include "contract/regs/sem.h"
#include "runtime/collectives/schedule/schedule.h"
#include "runtime/collectives/types.h"

namespace ccl {

struct Overrides;  // schedule/select.h

// of one stream (spec/collectives.md 3.3)
constexpr uint32_t kMaxCcCores = 4;
constexpr uint32_t kSemaphores = contract::sem::kIncCount;  // of a CC-core

// A CC-core of the stream as one operation sees it. Semaphores are numbers in its block.
struct CcResources {
  uint32_t index = 0;            // software index on the chip
  uint32_t signal_base = 0;      // Needs::signals semaphores: peers signal them
  uint32_t completion_base = 0;  // Needs::completions semaphores: own engines and CC-cores only
};

// What a signal adds to a semaphore in total: each of the k engines of a step, a power of two, adds
// kSignal / k.
constexpr uint32_t kSignal = contract::kDmaPerNc * contract::kMaxLnc;
// Signals of a step that an engine sends in one packet: the words of a row of the weights.
constexpr uint32_t kSignalsPerPacket = 8;
constexpr uint32_t kWeights = 6;
static_assert(kSignal == 1u << (kWeights - 1), "each share of a signal is a weight");
// What RankResources::weights holds: rows of equal words, of 1, 2, 4 and so on to kSignal.
constexpr auto weight_rows() {
  std::array<uint32_t, size_t{kWeights} * kSignalsPerPacket> words{};
  for (uint32_t i = 0; i < words.size(); ++i) words[i] = 1u << i / kSignalsPerPacket;
  return words;
}

// What one rank contributes to one collective. Device addresses are local to its chip.
struct RankResources {
  uint32_t global_rank = 0;
  uint32_t chip = 0;  // platform-wide chip number, for peer windows
  uint32_t nc = 0;    // first NeuronCore within the chip
  uint32_t lnc = 1;   // NeuronCores of the rank
  contract::Gen gen = contract::Gen::kV2;
  // CC-cores of the stream; the first takes the triggers. Channels are dealt to them in turn.
  uint32_t cc_count = 1;
  std::array<CcResources, kMaxCcCores> cc{};
  uint32_t signals = 0;  // semaphores that each CC-core provides from its signal_base
  uint32_t queue = contract::kCollectiveQueue;
  uint64_t weights = 0;  // in the own HBM: weight_rows()
  uint64_t src = 0;
  uint64_t second = 0;  // src1 of a permute with reduction
  uint64_t dst = 0;
  uint64_t metadata = 0;                         // of operations of variable size
  uint32_t block_queue = contract::kFetchQueue;  // own: queue of their blocks, with own rings
  uint64_t blocks = 0;                           // own: memory for Needs::blocks Blocks
  uint64_t channel_buffer = 0;                   // 64-byte aligned; 0 if none needed
  uint64_t channel_bytes = 0;                    // its size

  contract::AddressMap map() const { return {gen}; }
  uint32_t engines() const { return contract::kDmaPerNc * lnc; }
  uint64_t cc_window(uint32_t index) const { return map().topsp(cc[index].index).device; }
  // Registers of engine 0 .. engines() - 1.
  uint64_t udma(uint32_t engine) const {
    return map().udma(nc * contract::kDmaPerNc + engine).device;
  }
  uint64_t broadcast(uint32_t core) const { return map().broadcast(nc + core).device; }
};

// Fixed-size image for the exchange between ranks; deserialize checks every field.
std::vector<uint8_t> serialize(const RankResources& resources);
base::Result<RankResources> deserialize(const uint8_t* data, size_t size);

// Whether two ranges share a byte.
constexpr bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}
// Whether input and output of a rank share a byte of memory.
bool tensors_overlap(const OpRequest& request, const RankResources& rank);

// Where the completion goes: DONE adds `value` at `address` (an increment window). 0: nowhere.
struct Completion {
  uint64_t address = 0;
  uint32_t value = 1;
};

struct PlanOptions {
  uint32_t packet_bytes = 65536;  // copies only; NEURON_RT_DBG_CC_DMA_PACKET_SIZE may shrink it
  std::shared_ptr<const Overrides> overrides;  // of the library's choice of algorithms; null: none
  ScheduleOptions schedule;                    // in_place is set by needs() and plan()
  bool notify = true;                          // kOpStart / kOpEnd notification entries
  bool broadcast = true;                       // false: ring engines without the broadcast windows
  // Own CC-cores but the first: the word that starts this operation's program on them.
  std::array<uint32_t, kMaxCcCores> triggers{};
};

// Ring contents of one engine for one execution of the operation, ring id 1 in every descriptor.
struct EngineRing {
  uint32_t engine = 0;  // 0 .. RankResources::engines() - 1
  std::vector<contract::Descriptor> m2s;
  std::vector<contract::Descriptor> s2m;
};

// What the queue of blocks of an engine must hold at once, with one descriptor to spare.
struct BlockRing {
  uint32_t engine = 0;
  uint32_t m2s = 0;
  uint32_t s2m = 0;
};

using CcProgram = std::vector<contract::cc_program::Record>;

struct Lowered {
  Algorithm algorithm = Algorithm::kRing;
  uint32_t queue = contract::kCollectiveQueue;
  std::vector<EngineRing> rings;  // engines that take part, ascending
  // By CC-core of the stream; branch targets relative to the start. Empty: has nothing to do; the
  // first is never empty.
  std::vector<CcProgram> programs;
  uint64_t channel_buffer = 0;                      // bytes used at the own rank
  std::vector<contract::cc_program::Block> blocks;  // for RankResources::blocks
  std::vector<BlockRing> block_rings;
  std::string describe() const;  // one line per record and ring, for debugging
};

// What every rank must provide for an operation; the same on all ranks of the group.
struct Needs {
  Algorithm algorithm = Algorithm::kRing;
  uint64_t channel_bytes = 0;
  uint32_t signals = 0;      // semaphores of each CC-core; see `signature`
  uint32_t completions = 0;  // of each CC-core; all operations of a CC-core may share them
  uint32_t blocks = 0;
  // Operations with equal signatures may share signal semaphores: their signals go between the
  // same ranks and mean the same.
  std::string signature;
};
// `in_place`: any rank's source and destination share memory. `cc_count`: CC-cores of the stream.
base::Result<Needs> needs(const OpRequest& request, const Group& group, bool in_place,
                          uint32_t cc_count, const PlanOptions& options);

// Lowers the part of `members[own]`. `members` are the resources of the group's ranks, in its
// order; every rank must call it with the same group, members and request.
base::Result<Lowered> plan(const OpRequest& request, const Group& group,
                           const std::vector<RankResources>& members, uint32_t own,
                           const Completion& completion, const PlanOptions& options);
// The same for a schedule that has been made.
base::Result<Lowered> lower(const Schedule& schedule, const std::vector<RankResources>& members,
                            uint32_t own, const Completion& completion, const PlanOptions& options);
Needs needs_of(const Shape& shape, uint32_t engines, uint32_t cc_count);

// Shortens a program: consecutive equal blocks become one block in a MOV / LOOP, up to two deep.
// Same effects in the same order; uses registers 0 and 1. The program has no branches.
CcProgram roll_loops(const CcProgram& program);

// Adds `base` to the targets of branches and loops, for a program placed at record `base`.
void relocate(CcProgram* program, uint32_t base);

// How often a ring of `descriptors` must be repeated in memory so that its length is legal for a
// hardware queue (contract::ring) and is never filled completely.
uint32_t ring_copies(uint64_t descriptors);

// Execution barrier for CC-core 3 n + 2 (v2): arrive at `cell` (device address of a barrier cell,
// equal on all members), wait for `members`, signal, done.
CcProgram barrier_program(uint64_t cell, uint32_t members, const Completion& completion);

}  // namespace ccl
