// Checks that the hardware does not have: reads of memory that nobody wrote, races between engines,
// DMA queues and CC-cores, semaphores and PSUM groups left behind, addresses out of bounds. Off by
// default; blocks hold a pointer that is null then. See docs/checks.md.
//
// Order is happens-before, by vector clocks: what an agent does is ordered by its own program, by a
// wait behind the semaphore updates that it needed, and behind the doorbell that started it.
// Whatever the host does is ordered behind all that has happened. When things happened plays no
// part: a race is found also when it went well.
//
// Exact: bytes, rows, the updates that a wait needed (SemaphoreChecks). Approximate: HBM counts as
// never written only page by page, since clients write it by mappings that nobody sees; of several
// agents that update one semaphore, those count that came first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "hw/check/clock.h"
#include "hw/check/shadow.h"
#include "hw/mem/memory.h"

namespace hw::check {

// An instruction, or what acts without one.
struct Site {
  std::string who;        // "d0.nc0.dve", "d0.cc0", "host"
  std::string operation;  // "ACTIVATE"; of DMA, the instruction that started it
  std::string by;         // of DMA, the queue that was seen first: "d0.dma3 queue 0"
  uint32_t pc = 0;        // record
  uint64_t debug_id = 0;
  uint64_t program = 0;  // device address of the engine's first record
  uint32_t engine = 0;
  std::string core;  // "d0.nc0"; empty: no instruction
  std::string line;  // of its source, once a finding names it; empty: not known

  bool instruction() const { return !core.empty(); }
};

enum class Kind : uint8_t {
  kReadUnwritten,
  kReadAfterWrite,  // the read is not ordered behind the write
  kWriteAfterWrite,
  kWriteAfterRead,
  kSemaphore,    // not zero at the end of an execution
  kGroup,        // a result in PSUM that nobody has read at the end of an execution
  kOutOfBounds,  // an address from a register
};
constexpr size_t kKinds = 7;
const char* name(Kind kind);

// What is over when an agent does something: what it knows, and as much of its own.
struct Release {
  struct Own {
    uint32_t agent = 0;
    uint32_t epoch = 0;
  };
  Snapshot known;
  uint32_t site = 0;
  std::array<Own, View::kOwn> own;
  // Where it is to happen is not known, since what says so was not computed (timing-only).
  bool unplaced = false;
};

// Equal ones but for the place are counted together.
struct Finding {
  Kind kind = Kind::kReadUnwritten;
  std::string where;  // "d0.nc0.sbuf", "d0.nc0.semaphores 3", ...
  bool rows = false;  // whether area has rows
  Area area;          // of the first time
  Site first;         // of a race, the earlier one
  Site second;        // who: empty if there is none
  uint64_t count = 0;
};

class Checker {
 public:
  // Findings that are told apart; further ones are only counted.
  static constexpr size_t kFindings = 100;

  Checker();

  // ---- Agents, instructions ----
  uint32_t add_agent();
  // Its next epoch.
  uint32_t advance(uint32_t agent) { return ++latest_[agent]; }
  uint32_t epoch(uint32_t agent) const { return latest_[agent]; }
  // The same for equal sites of engines and CC-cores.
  uint32_t site(const Site& site);
  // Of the DMA that this site started: one for all doorbells of what the program asked for once.
  uint32_t dma_site(uint32_t starter, const std::string& queue);
  const Site& site(uint32_t number) const { return sites_[number]; }
  // Who knows the lines of programs; asked for both instructions of a finding when it comes up,
  // while the programs are still those that are loaded.
  void set_lines(std::function<std::string(const Site&)> lines) { lines_ = std::move(lines); }

  // ---- Who acts ----
  // While it lives, semaphore updates, doorbells and starts are those of this agent; without one,
  // they are the host's.
  class Acting {
   public:
    Acting() = default;
    Acting(Checker& checker, Release release)
        : checker_(&checker), release_(std::move(release)), outer_(checker.acting_) {
      checker.acting_ = this;
    }
    ~Acting() {
      if (checker_ != nullptr) checker_->acting_ = outer_;
    }
    Acting(const Acting&) = delete;
    Acting& operator=(const Acting&) = delete;

   private:
    friend class Checker;
    Checker* checker_ = nullptr;
    Release release_;
    Acting* outer_ = nullptr;
    Snapshot snapshot_;  // made when somebody asks
  };
  bool host_acts() const { return acting_ == nullptr; }
  uint32_t acting_site() const { return acting_ == nullptr ? kHost : acting_->release_.site; }
  bool acting_unplaced() const { return acting_ != nullptr && acting_->release_.unplaced; }
  // What is over when whoever acts has done it.
  Snapshot released();
  void release_into(Clock& clock);
  // The host orders: everything so far.
  Snapshot everything() { return std::make_shared<const Clock>(latest_, bases_); }
  void join(Clock& to, const Clock& from) { to.join(from, bases_); }
  // For what many will learn.
  Snapshot share(Clock& clock) {
    clock.settle_for_many(bases_);
    return std::make_shared<const Clock>(clock);
  }

  // ---- Memories ----
  // `pitch`: from row to row; 0: one row.
  void add_memory(Memory& memory, uint64_t pitch);
  struct Tracked {
    Memory* memory = nullptr;
    uint64_t pitch = 0;
    Shadow shadow;
  };
  Tracked* find(const Memory* memory) {
    const auto at = memories_.find(memory);
    return at == memories_.end() ? nullptr : at->second.get();
  }
  // An access of plain bytes at an offset of the memory.
  void read(Tracked& memory, uint64_t offset, uint64_t length, const Access& by, const View& view);
  void write(Tracked& memory, uint64_t offset, uint64_t length, const Access& by, const View& view);
  // An area of rows; returns the youngest result of agent `own` that it met.
  uint32_t read(Tracked& memory, const Area& area, const Access& by, const View& view,
                uint32_t own);
  uint32_t write(Tracked& memory, const Area& area, const Access& by, const View& view,
                 uint32_t own, bool adds);

  // ---- Executions ----
  void core_started();
  void core_stopped() { --running_; }

  void add(Kind kind, const std::string& where, uint32_t first, uint32_t second,
           const Area& area = {}, bool rows = false);
  // Since the last call, by kind and place in the programs; `more`: those that are not among them.
  std::vector<Finding> take(uint64_t* more);

  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kHost = 1;

 private:
  Site named(uint32_t site) const;
  void report(Tracked& memory, const Access& by);
  void assume_written(Tracked& memory, const Area& area);
  bool untouched(const Tracked& memory, const Area& area) const;

  std::vector<uint32_t> latest_;  // epochs of all agents
  uint64_t bases_ = 0;            // of clocks, made so far
  Acting* acting_ = nullptr;
  std::vector<Site> sites_;
  using Place = std::tuple<std::string, uint32_t, uint64_t, uint64_t, std::string>;
  uint32_t number(std::map<Place, uint32_t>& numbers, const Place& place, const Site& site);
  std::map<Place, uint32_t> numbers_;
  std::map<Place, uint32_t> dma_numbers_;
  std::vector<uint32_t> dma_sites_;  // by the site that started it; 0: none yet
  std::function<std::string(const Site&)> lines_;
  std::unordered_map<const Memory*, std::unique_ptr<Tracked>> memories_;
  std::vector<Tracked*> flat_;  // HBM, in the order in which they were added
  std::vector<Conflict> conflicts_;
  uint32_t running_ = 0;  // cores
  using Key = std::tuple<Kind, uint32_t, uint32_t, std::string>;
  std::map<Key, Finding> findings_;
  uint64_t more_ = 0;
};

}  // namespace hw::check
