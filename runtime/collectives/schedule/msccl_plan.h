// An MSCCL program laid out for one request: sizes, the order in which every rank executes it,
// numbers of events. Shared by all ranks; msccl.cpp makes the steps of one rank from it.
#pragma once

#include "runtime/collectives/schedule/msccl.h"

namespace ccl {

// One step of a thread block, or several that are fused, for `count` chunks from `first` on.
struct MscclAction {
  uint32_t block = 0;
  uint32_t step = 0;
  uint32_t fused = 1;  // steps
  uint32_t first = 0;
  uint32_t count = 1;
  bool begins = true;  // the step's first action
  bool ends = true;
};

struct MscclPlan {
  MscclProgram program;
  OpRequest request;
  bool buffers_in_place = false;

  uint64_t chunk_bytes = 0;
  uint64_t piece_bytes = 0;  // of a chunk, per loop
  uint32_t loops = 1;
  bool whole_messages = true;  // all chunks of a message in one action
  uint32_t slots = 1;
  uint64_t slot_bytes = 0;
  uint64_t copy_at = 0;   // in the channel buffer: the shared storage of reduce(-scatter) in place
  uint64_t slots_at = 0;  // of channel 0

  bool prologue = false;  // the shared storage is filled
  bool epilogue = false;  // and copied out

  std::vector<std::vector<MscclAction>> order;  // per rank, of one loop
  // Per rank and block: the block at the other end.
  std::vector<std::vector<uint32_t>> send_block;
  std::vector<std::vector<uint32_t>> recv_block;

  // Events by channel (number of the block).
  std::vector<uint32_t> data;
  std::vector<uint32_t> credit;
  std::vector<uint32_t> start;
  std::vector<uint32_t> done;
  std::vector<std::vector<uint32_t>> dependency;
  Shape shape;
};

// Blocks that block `b` of a rank waits for at step `s`, and that wait for it, without those that
// an earlier wait implies.
struct MscclDependencies {
  struct Edge {
    uint32_t from_block = 0;
    uint32_t from_step = 0;
    uint32_t to_block = 0;
    uint32_t to_step = 0;
    uint32_t fifo = 0;  // number among the fifos to to_block
  };
  std::vector<Edge> edges;  // by to_block, to_step
};
MscclDependencies dependencies_of(const MscclRank& rank);

// How many steps one action covers: reductions into one place are fused.
uint32_t fused_steps(const MscclBlock& block, uint32_t step);

base::Result<MscclPlan> make_plan(const MscclProgram& program, const OpRequest& request,
                                  const ScheduleOptions& options);

}  // namespace ccl
