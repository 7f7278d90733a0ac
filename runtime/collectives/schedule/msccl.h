// Programs of the MSCCL XML format (spec/collectives.md 5.2) as schedules.
// Exact: the step types, FIFO order of a (source, destination, channel) triple, dependencies,
// checks. Ours: a thread block is a channel of the schedule; a message goes through slots of the
// receiver's channel buffer with credits; a chunk is moved in pieces, and all pieces of one loop
// come before those of the next; programs that work in place run on the output (or a copy in the
// channel buffer), filled first. Broadcast and reduce have root 0: the format does not say. `proto`
// and `hasdep` decide nothing. Missing: sizes that the chunks do not divide (not applicable).
#pragma once

#include <optional>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

enum class MscclType : uint8_t { kSend, kRecv, kRcs, kRrc, kRrs, kRrcs, kCopy, kReduce, kNop };
constexpr bool receives(MscclType t) {
  return t >= MscclType::kRecv && t <= MscclType::kRrcs;
}
constexpr bool sends(MscclType t) {
  return t == MscclType::kSend || t == MscclType::kRcs || t == MscclType::kRrs ||
         t == MscclType::kRrcs;
}
constexpr bool stores(MscclType t) {  // has a destination
  return t == MscclType::kRecv || t == MscclType::kRcs || t == MscclType::kRrc ||
         t == MscclType::kRrcs || t == MscclType::kCopy || t == MscclType::kReduce;
}
constexpr bool loads(MscclType t) {  // has a source
  return t == MscclType::kSend || t == MscclType::kRrc || t == MscclType::kRrs ||
         t == MscclType::kRrcs || t == MscclType::kCopy || t == MscclType::kReduce;
}

// Chunks of a buffer: 'i', 'o', 's', or '-' for none.
struct MscclRef {
  char buffer = '-';
  uint32_t chunk = 0;
};

struct MscclStep {
  MscclType type = MscclType::kNop;
  MscclRef src;
  MscclRef dst;
  uint32_t count = 1;
  // Index of a thread block of the same rank and of its step; none: kNoDependency.
  uint32_t block = 0;
  uint32_t step = 0;
  bool depends = false;
  bool awaited = false;  // another step depends on it
};

struct MscclBlock {
  int32_t send = -1;  // peers
  int32_t recv = -1;
  int32_t channel = -1;
  std::vector<MscclStep> steps;
};

struct MscclRank {
  uint32_t input_chunks = 0;
  uint32_t output_chunks = 0;
  uint32_t scratch_chunks = 0;
  std::vector<MscclBlock> blocks;  // by ascending id
};

struct MscclProgram {
  std::string name;
  OpKind kind = OpKind::kAllReduce;
  bool in_place = false;
  std::optional<ReduceOp> op;  // none: any
  uint32_t chunks = 0;         // of the long buffer
  uint64_t min_bytes = 0;
  uint64_t max_bytes = uint64_t{1} << 35;
  std::vector<MscclRank> ranks;
  std::vector<std::string> warnings;

  // Made for this operation, number of ranks, size and aliasing.
  bool applies(const OpRequest& request, uint32_t group_ranks, bool buffers_in_place) const;
};

// Reads and checks a program: counts, references, peers, dependencies, that sends and receives
// match. `where` names the file in errors.
base::Result<MscclProgram> parse_msccl(const std::string& xml, const std::string& where);

// Applies the program, which must be made for the request.
base::Result<Schedule> msccl_schedule(const MscclProgram& program, const OpRequest& request,
                                      const Group& group, const ScheduleOptions& options);

// parse_msccl(), then executes the program once on symbolic data: its result, deadlocks, races.
base::Result<MscclProgram> load_msccl(const std::string& xml, const std::string& where);

}  // namespace ccl
