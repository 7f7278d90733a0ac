// The collectives of one program on one core (neff.md 4.5, collectives.md 3.1): what each PTC2 is
// replaced by, the CC programs, the rings of the collective queues, and the execution barrier.
//
// Work is split in two: create() does what needs no peer (operation numbers, semaphores); finish(),
// at the first execution, exchanges addresses with the peers, lowers, and loads. So one thread may
// load several ranks one after the other (nrt-api.md 10.3).
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

  static uint32_t queue_of_stream(uint32_t stream);

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
  CcCore& stream_core(uint32_t stream) const;
  // Empty: the number of operations per execution is not known at load (loops).
  std::vector<Issued> issued(uint32_t stream) const;
  Issued operation(uint32_t op_index, uint32_t stream) const;
  bool counted(uint32_t stream) const { return streams_[stream].counted; }

 private:
  struct Operation {  // distinct
    const neff::CollectiveOp* op = nullptr;
    ccl::OpRequest request;
    ccl::Completion completion;
    uint32_t group = 0;  // index in groups_
    uint32_t op_index = 0;
    uint32_t first_record = 0;
    uint32_t records = 0;
    ccl::RankResources resources;
    ccl::Lowered lowered;
  };
  struct Group {  // (stream, group id): own semaphores and channel buffer
    uint32_t stream = 0;
    uint32_t group_id = 0;
    neff::RankList ranks;
    uint32_t own = 0;
    uint32_t semaphore_base = 0;
    uint32_t semaphores = 0;
    uint64_t channel_bytes = 0;
    DeviceBuffer channel;
  };
  struct Stream {
    bool used = false;
    bool counted = true;             // every trigger runs once per execution
    std::vector<uint32_t> sequence;  // indices in operations_, issue order
    std::vector<uint32_t> pcs;
  };

  CollectiveSet(const LoadedProgram& program, std::shared_ptr<Communicator> communicator);
  base::Status add_all();
  base::Status add(const neff::CollectiveOp& op);
  base::Result<uint32_t> find_group(const neff::CollectiveOp& op);
  base::Result<ccl::Completion> completion_of(const neff::CollectiveOp& op) const;
  base::Status check_order() const;
  base::Status reserve_barrier(const std::vector<uint8_t>& used_semaphores);
  base::Status make_resources();
  base::Status exchange(std::vector<std::vector<ccl::RankResources>>* by_operation);
  base::Status lower(const std::vector<std::vector<ccl::RankResources>>& by_operation);
  base::Status load_programs();
  base::Status load_barrier();
  base::Status place_program(CcCore* cc, std::vector<contract::cc_program::Record> records,
                             uint32_t op_index, uint32_t* first);
  base::Status make_rings();
  ccl::PlanOptions plan_options(uint32_t stream) const;

  const LoadedProgram& program_;
  Core& core_;
  std::shared_ptr<Communicator> communicator_;
  std::vector<Operation> operations_;
  std::vector<Group> groups_;
  std::vector<Stream> streams_;
  std::vector<HardwareQueue> queues_;
  uint8_t barrier_semaphore_ = 0;
  uint32_t barrier_op_ = 0;
  uint32_t barrier_first_ = 0;
  uint32_t barrier_records_ = 0;
  bool barrier_reserved_ = false;
  bool finished_ = false;
};

}  // namespace nrt
