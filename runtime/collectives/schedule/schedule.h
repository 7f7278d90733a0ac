// Schedules: what moves from where to where, in which order, as plain data. No addresses, no
// devices. An algorithm (algorithms.h) is a function from a rank to the steps that this rank
// executes, so that a rank of a large group never builds the steps of the others; verify.h runs all
// ranks on symbolic data and finds wrong results, races and deadlocks; lowering turns the steps of
// one rank into DMA rings and CC programs.
//
// How ranks wait for each other. Every rank has the same numbered `events` (semaphores of its own
// CC-core). A step waits for signals on events of its own rank before it starts, and signals
// events of any rank when it is complete. Two kinds:
//   fifo    signals of one producer: the k-th wait takes the k-th signal of that producer. Its
//           signals come from one channel of the producer, in the order of its steps.
//   gather  any producers, in any order: a wait for n signals takes all n that this operation
//           ever sends to it (n may be 0). At most one wait per operation and rank.
// A step without bytes moves nothing: it waits, and signals at once (handshakes, credits).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/collectives/schedule/topology.h"
#include "runtime/collectives/types.h"

namespace ccl {

// kSecond: src1 of a permute with reduction.
enum class Buffer : uint8_t { kInput, kOutput, kChannel, kSecond, kMetadata };

// Bytes [offset, offset + bytes of the step) of a buffer of a rank (index in the group).
struct Range {
  uint32_t rank = 0;
  Buffer buffer = Buffer::kInput;
  uint64_t offset = 0;
};

struct Signal {
  uint32_t rank = 0;  // index in the group; may be the own rank (between its channels)
  uint32_t event = 0;
};

struct Wait {
  uint32_t event = 0;
  uint32_t signals = 1;
};

// A step whose length and places are words of 32 bits that are read when it starts, in elements.
// A source in the output is the destination.
struct Variable {
  Range count;
  std::optional<Range> source;  // first element, in every other source; else 0
  std::optional<Range> destination;
  // The step is one of `parts` that share the block.
  uint32_t part = 0;
  uint32_t parts = 1;
};

// A step reads and writes as many ranges as a packet of a DMA engine can.
constexpr uint32_t kMaxSources = contract::DmaCompute::kMaxSources;
constexpr uint32_t kMaxDestinations = contract::DmaCompute::kMaxCopies;

// Steps with bytes of one channel that are in flight together: such a step, but for fan-outs, is
// issued only when the one so many before it is complete. So a semaphore never mixes the
// contributions of engines to two steps; the lowering issues by it and the verifier counts on it.
constexpr uint32_t kStepsInFlight = 4;

// One transfer, executed by the DMA engines of the rank that owns the step: every destination = the
// fold of the sources, left to right, rounded once to the type of the operation. One source is a
// copy. Sources and destinations are read and written once each, whatever their number (1R2W).
struct Step {
  uint32_t channel = 0;  // steps of one channel start in their order
  uint64_t bytes = 0;
  std::vector<Range> sources;       // 1 to kMaxSources
  std::vector<Range> destinations;  // 1 to kMaxDestinations
  std::vector<Wait> waits;
  std::vector<Signal> signals;
  // Earlier steps of the same rank and channel that must be complete first (index in the list of
  // the rank). Steps are otherwise in flight together.
  std::vector<uint32_t> after;
  // One of many independent steps (to all peers of a mesh): only completed together with all such
  // steps before it. Signals gather events only; `after` on it waits for all of them.
  bool fan_out = false;
  // `bytes` is 0 and ranges say where element 0 is; one destination; fans out. resolve() makes an
  // ordinary step of it. Of a channel such steps stand in a row; `after` names the one before, on
  // whose result this one works.
  std::optional<Variable> variable;
};

struct Event {
  uint32_t channel = 0;  // the channel whose steps wait for it
  bool fifo = false;
};

// What all ranks agree on.
struct Shape {
  Algorithm algorithm = Algorithm::kRing;
  OpRequest request;
  uint32_t ranks = 0;
  uint32_t channels = 1;
  std::vector<Event> events;
  uint64_t channel_bytes = 0;  // channel buffer needed at each rank
  bool in_place = false;
  // Largest step of any rank: decides over how many engines every step is spread.
  uint64_t largest_step = 0;
  uint32_t variable_steps = 0;  // of any rank, at most
};

using Steps = std::vector<Step>;

struct Schedule {
  Shape shape;
  // Steps of one rank (index in the group), the same at every call. Pure; may be called from
  // several threads.
  std::function<Steps(uint32_t rank)> steps;
};

// Metadata of every rank, as words (spec/collectives.md 1.4).
using Metadata = std::vector<std::vector<uint32_t>>;
// What a schedule of variable size does with this metadata, as an ordinary schedule. Blocks that
// leave their buffers move nothing.
Schedule resolve(const Schedule& schedule, Metadata metadata);
// Metadata with blocks of equal size, in the order of the ranks.
Metadata equal_blocks(const OpRequest& request, uint32_t ranks);

// Chunk n of a buffer of `bytes` over `ranks` (spec/collectives.md 1.3): multiples of 64 bytes.
// Chunks and parts are cut at multiples of this many bytes (spec/collectives.md 1.3).
constexpr uint64_t kChunkAlign = 64;

struct Chunk {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
Chunk chunk_of(uint64_t bytes, uint32_t ranks, uint32_t n);
// Chunk n of the operation's long buffer: of the input of a reduce-scatter or all-to-all, of the
// output of an all-gather (exact shares), of an all-reduce's buffer (chunk_of).
Chunk chunk_of(const OpRequest& request, uint32_t ranks, uint32_t n);
// Part p of `parts` of a chunk, cut at multiples of 64 bytes from its start.
Chunk part_of(const Chunk& chunk, uint32_t parts, uint32_t p);

struct ScheduleOptions {
  bool in_place = false;
  uint32_t max_channels = 4;
  uint64_t slot_bytes = 2 * 1024 * 1024;  // at least; 512 KiB in spec/collectives.md 3.4
  uint32_t slots = 8;                     // D of spec/collectives.md 3.5
  uint32_t slices = 2;                    // S of spec/collectives.md 2.5, at least
  // A bound for steps per rank and channel (programs must fit a CC-core); slices and slots grow
  // instead.
  uint32_t max_steps = 900;
  bool strict = false;  // groups as published only (groups.h)
};

}  // namespace ccl
