// Rewrites one engine's program for execution (spec/nrt-api.md 6.1, spec/neff.md 3.1, 4.5, 5.4):
// pseudo instructions become what the caller says (doorbells, CC-core triggers, barriers),
// transfers that engines generate get the number of their hardware queue, calls branch to their
// function with the address of their arguments' table, a prologue waits for the execution barrier
// and posts the start NOTIFY, and every HALT is preceded by the end NOTIFY. Pure.
//
// Exact: order, waits, updates. Own: the notification payloads, placing DRAIN before the end
// NOTIFY.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arch/contract/isa.h"
#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/load/dma_lowering.h"

namespace nrt {

// Payloads of the NOTIFYs that the runtime adds; programs may use any others.
constexpr uint32_t kNotifyStart = 0x4E52'0001;
constexpr uint32_t kNotifyEnd = 0x4E52'0002;

// A parallel 32-bit store or a pair of them.
struct StorePair {
  uint64_t address[2] = {0, 0};
  uint32_t value[2] = {0, 0};
  uint32_t count = 0;  // 1 or 2
};

// What to put in place of a pseudo instruction, by record index in the file.
struct Replacement {
  uint32_t pc = 0;
  // The wait and the updates of the pseudo instruction come before and behind those of these.
  std::vector<contract::isa::Instruction> instructions;
  bool defer_complete = false;  // the @complete update is done elsewhere (PTC2)
  // Of a transfer that the engine generates: nothing is replaced but its queue.
  std::optional<uint32_t> queue = {};
};

contract::isa::Instruction to_instruction(const StorePair& stores);
std::vector<contract::isa::Instruction> to_instructions(const std::vector<StorePair>& stores);

struct Prologue {
  bool barrier = false;
  bool leader = false;             // issues the barrier's trigger
  StorePair trigger;               // to the barrier's CC-core
  uint8_t semaphore = 0;           // of the core; reaches 1 when the barrier is released
  std::vector<StorePair> release;  // by the leader, once released: for the other physical core
};

// A table of tensors in device memory.
struct TensorTable {
  uint64_t address = 0;
  uint32_t entries = 0;
};
using TensorTables = std::map<uint32_t, TensorTable>;  // by id of the variable

struct Translated {
  std::vector<contract::isa::Record> records;
  std::vector<uint32_t> pc_map;   // file record -> first record here; one entry past the end
  uint32_t start_pc = 0;          // record of the start NOTIFY
  std::vector<uint32_t> end_pcs;  // records of the end NOTIFYs

  // File record that the record `pc` stands for, or -1 for one that the runtime added.
  int64_t source_pc(uint32_t pc) const;
};

base::Result<Translated> translate(const neff::EngineProgram& program,
                                   const std::vector<Replacement>& replacements,
                                   const Prologue& prologue, const TensorTables& arguments = {});

// Doorbell writes for one trigger: `counts` per queue of the set, unit base addresses in `udma`.
// All 16 engines with equal counts use the broadcast window. M2S rings first
// (spec/hw-registers.md 3.6).
std::vector<StorePair> doorbells(const std::vector<DoorbellCounts>& counts,
                                 const std::vector<uint64_t>& udma, uint64_t broadcast,
                                 uint32_t queue);

}  // namespace nrt
