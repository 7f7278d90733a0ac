// The collectives of one program on one core (neff.md 4.5, collectives.md 3.1): what each PTC2 is
// replaced by, the CC programs, the rings of the collective queues, and the execution barrier.
//
// Work is split in two: create() does what needs no peer (operation numbers); finish(), at the
// first execution, learns where the peers are, chooses algorithms, allocates semaphores and channel
// buffers, exchanges addresses, sees that the programs of all ranks fit together (agreement.h),
// lowers, and loads. So one thread may load several ranks one after the other (nrt-api.md 10.3),
// and a lack of semaphores shows at the first execution.
// Own: operands that are inputs or outputs are exchanged once, so they must stay the same tensors.
// Missing (typed Unsupported): streams above the number of stream CC-cores, one stream fed by
// several engines or by repeated triggers with operations that differ.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/collectives/ccl.h"
#include "runtime/load/agreement.h"
#include "runtime/load/communicator.h"
#include "runtime/load/loaded_program.h"

namespace nrt {

class CollectiveSet {
 public:
  static base::Result<std::unique_ptr<CollectiveSet>> create(
      const LoadedProgram& program, std::shared_ptr<Communicator> communicator,
      const std::vector<uint8_t>& used_semaphores);
  ~CollectiveSet();
  CollectiveSet(const CollectiveSet&) = delete;
  CollectiveSet& operator=(const CollectiveSet&) = delete;

  // Highest queue of an engine that collectives leave to the program.
  static uint32_t last_free_queue(const neff::Subgraph& subgraph);

  uint8_t barrier_semaphore() const { return barrier_semaphore_; }
  Prologue prologue(bool leader) const;
  void add_replacements(std::array<std::vector<Replacement>, contract::kEnginesPerNc>* lists) const;

  // I/O variable whose address the peers know.
  bool fixes(uint32_t variable) const;
  bool finished() const { return finished_; }
  // The program's I/O is bound. Blocks until all ranks of the world are here.
  base::Status finish();
  const std::vector<HardwareQueue>& queues() const { return queues_; }

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

  // For events: operations of a stream in issue order.
  struct Issued {
    std::string operation;
    std::string algorithm;
    uint64_t bytes = 0;
  };
  uint32_t stream_count() const { return static_cast<uint32_t>(streams_.size()); }
  // Stream that has this one of the core's CC-cores; stream_count() if none.
  uint32_t stream_of(uint32_t cc_core) const;
  // Empty: the number of operations per execution is not known at load (loops).
  std::vector<Issued> issued(uint32_t stream) const;
  Issued operation(uint32_t op_index, uint32_t stream) const;
  bool counted(uint32_t stream) const { return streams_[stream].counted; }

 private:
  struct Placed {  // on one CC-core
    uint32_t op_index = ~0u;
    uint32_t first_record = 0;
    uint32_t records = 0;
  };
  struct Operation {  // distinct
    const neff::CollectiveOp* op = nullptr;
    ccl::OpRequest request;
    ccl::Completion completion;
    uint32_t group = 0;                           // index in groups_
    std::array<Placed, ccl::kMaxCcCores> placed;  // by CC-core of the stream
    ccl::RankResources resources;
    ccl::Needs needs;
    ccl::Lowered lowered;
    DeviceBuffer blocks;
  };
  struct Group {  // (stream, group id): own semaphores and channel buffer
    uint32_t stream = 0;
    uint32_t group_id = 0;
    neff::RankList ranks;
    uint32_t own = 0;
    ccl::Group members;
    uint64_t channel_bytes = 0;
    DeviceBuffer channel;
  };
  // Semaphores of operations that may share them, on the CC-cores of a stream.
  struct Semaphores {
    uint32_t group = 0;     // index in groups_
    std::string signature;  // empty: completions of the whole stream, of any group
    uint32_t stream = 0;
    uint32_t count = 0;
    std::array<uint32_t, ccl::kMaxCcCores> base{};
    uint32_t allocated = 0;  // CC-cores that have them
  };
  // What has a queue of its own on the rank's engines.
  struct Lane {
    static constexpr uint32_t kNoQueue = 16;
    uint32_t stream = 0;
    uint32_t priority = 0;
    uint32_t queue = 0;
    uint32_t block_queue = kNoQueue;  // of operations of variable size
  };
  struct Stream {
    bool counted = true;             // every trigger runs once per execution
    std::vector<uint32_t> cc;        // indices in Core::cc_cores(); empty: unused
    std::vector<uint32_t> sequence;  // indices in operations_, issue order
    std::vector<uint32_t> pcs;
  };

  CollectiveSet(const LoadedProgram& program, std::shared_ptr<Communicator> communicator);
  static std::vector<Lane> lanes_of(const neff::Subgraph& subgraph);
  const Lane& lane(const neff::CollectiveOp& op) const;
  base::Status add_all();
  base::Status check_lane(const neff::CollectiveOp& op) const;
  base::Status add(const neff::CollectiveOp& op);
  base::Result<uint32_t> find_group(const neff::CollectiveOp& op);
  base::Result<ccl::Completion> completion_of(const neff::CollectiveOp& op) const;
  base::Status check_order() const;
  base::Status reserve_barrier(const std::vector<uint8_t>& used_semaphores);
  CcCore& stream_core(uint32_t stream, uint32_t slot = 0) const;
  uint32_t trigger_word(const Operation& operation, uint32_t slot) const;
  base::Status make_groups();
  base::Status choose_rings();
  base::Status make_resources(Operation* operation);
  base::Status choose(Operation* operation);
  base::Status allocate_semaphores();
  base::Status allocate(Semaphores* semaphores);
  Semaphores& semaphores_of(const Operation& operation);
  base::Status allocate_channels();
  base::Status do_finish();
  base::Status prepare();
  ProgramSummary summary() const;
  base::Status check_heads(const ccl::Gathered& all) const;
  base::Status agree(const ccl::Gathered& all);
  base::Status exchange(const base::Status& prepared,
                        std::vector<std::vector<ccl::RankResources>>* by_operation);
  base::Status confirm(const base::Status& own);
  base::Status load(std::vector<std::vector<ccl::RankResources>>* by_operation);
  base::Status allocate_blocks();
  base::Status lower(std::vector<std::vector<ccl::RankResources>>* by_operation);
  base::Status load_programs();
  base::Status load_barrier();
  base::Status place_program(CcCore* cc, ccl::CcProgram records, uint32_t op_index,
                             uint32_t* first);
  base::Status make_rings();
  base::Status make_ring(uint32_t engine, const Lane& lane, const std::vector<uint32_t>& sequence);
  base::Status make_block_rings(const Lane& lane, const std::vector<uint32_t>& sequence);
  base::Status load_blocks();
  base::Status read_overrides();
  ccl::PlanOptions plan_options(uint32_t stream) const;

  const LoadedProgram& program_;
  Core& core_;
  std::shared_ptr<Communicator> communicator_;
  std::vector<Operation> operations_;
  std::vector<Group> groups_;
  std::vector<Stream> streams_;
  std::vector<Lane> lanes_;
  std::vector<Semaphores> semaphores_;
  std::shared_ptr<const ccl::Overrides> overrides_;
  bool strict_ = false;
  std::vector<HardwareQueue> queues_;
  uint8_t barrier_semaphore_ = 0;
  uint32_t barrier_op_ = 0;
  uint32_t barrier_first_ = 0;
  uint32_t barrier_records_ = 0;
  bool barrier_reserved_ = false;
  bool finished_ = false;
  base::Status failure_;  // of finish(): peers have given up, too
};

}  // namespace nrt
