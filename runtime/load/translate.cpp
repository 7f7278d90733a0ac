#include "runtime/load/translate.h"

#include <algorithm>
#include <cstring>

#include "arch/contract/address_map.h"
#include "arch/contract/dge.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

using contract::isa::Instruction;
using contract::isa::Opcode;
using contract::isa::Record;
using contract::isa::UpdateOp;
using contract::isa::WaitCond;

constexpr uint64_t kTailIncrement = 0x38;  // spec/hw-registers.md 3.4
constexpr uint64_t kQueueStride = 0x1000;
constexpr uint64_t kFirstQueue = 0x1000;

Instruction make(Opcode opcode) {
  Instruction i{};
  i.opcode = opcode;
  return i;
}

class Translator {
 public:
  Translator(const neff::EngineProgram& program, const std::vector<Replacement>& replacements,
             const TensorTables& arguments)
      : program_(program), replacements_(replacements), arguments_(arguments) {}

  base::Result<Translated> run(const Prologue& prologue) {
    const size_t records = program_.records.size() / contract::isa::kRecordBytes;
    out_.pc_map.assign(records + 1, 0);
    add_prologue(prologue);
    bool halted = false;
    for (const neff::ProgramStep& step : program_.steps) {
      out_.pc_map[step.pc] = here();
      halted = step.instruction.opcode == Opcode::kHalt ||
               step.instruction.opcode == Opcode::kReturn;  // of a function behind the HALT
      add_step(step);
      // Nothing begins at an extension record: the map goes on with the next instruction.
      const auto extensions = out_.pc_map.begin() + step.pc + 1;
      std::fill(extensions, extensions + step.instruction.records() - 1, here());
    }
    out_.pc_map[records] = here();
    if (!halted) add_end(make(Opcode::kHalt));
    if (!failure_.empty()) return error(NRT_INVALID, failure_, base::Fault::kProgram);
    if (base::Status status = fix_branches(); !status.ok()) return status.error();
    return std::move(out_);
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(out_.records.size()); }

  void add(const Instruction& instruction) {
    Record room[1 + contract::isa::kMaxExtensions];
    const uint32_t n = contract::isa::encode(instruction, room[0].bytes, sizeof room);
    if (n == 0) {
      failure_ = "An instruction cannot be encoded, operation code " +
                 std::to_string(static_cast<unsigned>(instruction.opcode));
      return;
    }
    out_.records.insert(out_.records.end(), room, room + n);
  }

  void add_prologue(const Prologue& prologue) {
    if (prologue.barrier) {
      if (prologue.leader) add(to_instruction(prologue.trigger));
      Instruction wait = make(Opcode::kEventSemaphore);
      wait.wait = {WaitCond::kGe, false, prologue.semaphore, 1};
      add(wait);
      for (size_t i = 0; prologue.leader && i < prologue.release.size(); ++i) {
        add(to_instruction(prologue.release[i]));
      }
    }
    out_.start_pc = here();
    add_notify(make(Opcode::kNotify), kNotifyStart);
  }

  void add_notify(Instruction carrier, uint32_t payload) {
    carrier.opcode = Opcode::kNotify;
    carrier.operands.notify = {contract::isa::NotifyType::kNotify, payload};
    add(carrier);
  }

  // The wait of a HALT moves to the DRAIN, so that the end NOTIFY comes after it.
  void add_end(Instruction halt) {
    Instruction drain = make(Opcode::kDrain);
    drain.wait = halt.wait;
    drain.debug_id = halt.debug_id;
    add(drain);
    out_.end_pcs.push_back(here());
    add_notify(make(Opcode::kNotify), kNotifyEnd);
    halt.wait = {};
    add(halt);
  }

  void add_step(const neff::ProgramStep& step) {
    const Instruction& in = step.instruction;
    if (in.opcode == Opcode::kHalt) {
      add_end(in);
      return;
    }
    const auto found =
        std::lower_bound(replacements_.begin(), replacements_.end(), step.pc,
                         [](const Replacement& r, uint32_t pc) { return r.pc < pc; });
    if (found != replacements_.end() && found->pc == step.pc) {
      if (found->queue) {
        Instruction generated = in;
        contract::dge::set_queue(&generated, *found->queue);
        add(generated);
        return;
      }
      add_replacement(in, *found);
      return;
    }
    if (in.opcode == Opcode::kCall) return add_call(step);
    const contract::isa::OpInfo* info = contract::isa::find_op(static_cast<uint8_t>(in.opcode));
    if (info == nullptr || info->pseudo) {
      failure_ = "Unsupported hardware operator code " +
                 std::to_string(static_cast<unsigned>(in.opcode)) + " found in neff.";
      return;
    }
    if (in.opcode == Opcode::kBranch || in.opcode == Opcode::kCompareBranch) {
      branches_.push_back({here(), step});
    }
    const uint8_t* raw = program_.records.data() + step.pc * contract::isa::kRecordBytes;
    for (uint32_t i = 0; i < in.records(); ++i) {
      Record record;
      std::memcpy(record.bytes, raw + i * contract::isa::kRecordBytes, sizeof record.bytes);
      out_.records.push_back(record);
    }
  }

  void add_call(const neff::ProgramStep& step) {
    const std::string& name = program_.symbol(step.instruction.operands.call.name);
    const auto f = std::find_if(program_.functions.begin(), program_.functions.end(),
                                [&](const neff::Function& known) { return known.name == name; });
    if (f == program_.functions.end()) {
      failure_ = "CALL of a function that the file does not have";
      return;
    }
    neff::ProgramStep link = step;
    link.instruction.opcode = Opcode::kBranchLink;
    TensorTable table;
    if (const uint32_t id = program_.argument_table(step); id != 0) {
      const auto found = arguments_.find(id);
      if (found == arguments_.end()) {
        failure_ = "CALL with variable " + std::to_string(id) + ", which is no dge-table";
        return;
      }
      table = found->second;
    }
    link.instruction.operands.branch_link = {static_cast<int32_t>(f->entry - step.pc),
                                             table.entries, table.address};
    branches_.push_back({here(), link});
    add(link.instruction);
  }

  void add_replacement(const Instruction& in, const Replacement& replacement) {
    std::vector<Instruction> list = replacement.instructions;
    const bool waits = !list.empty() && (list.front().wait.cond != WaitCond::kNone ||
                                         list.front().read_update.op != UpdateOp::kNone);
    if (list.empty() || waits) list.insert(list.begin(), make(Opcode::kEventSemaphore));
    list.front().wait = in.wait;
    list.front().read_update = in.read_update;
    if (!replacement.defer_complete && in.complete_update.op != UpdateOp::kNone) {
      if (list.back().complete_update.op != UpdateOp::kNone) {
        list.push_back(make(Opcode::kEventSemaphore));
      }
      list.back().complete_update = in.complete_update;
    }
    for (Instruction& i : list) {
      i.flags = in.flags;
      i.debug_id = in.debug_id;
      add(i);
    }
  }

  static int32_t* target_of(Instruction* in) {
    switch (in->opcode) {
      case Opcode::kBranch:
        return &in->operands.branch.target;
      case Opcode::kCompareBranch:
        return &in->operands.compare_branch.target;
      default:
        return &in->operands.branch_link.target;
    }
  }

  base::Status fix_branches() {
    for (const auto& [at, step] : branches_) {
      Instruction in = step.instruction;
      int32_t* target = target_of(&in);
      const int64_t file_target = static_cast<int64_t>(step.pc) + *target;
      if (file_target < 0 || file_target >= static_cast<int64_t>(out_.pc_map.size())) {
        return error(NRT_INVALID, "A branch leaves its program", base::Fault::kProgram);
      }
      *target = static_cast<int32_t>(
          static_cast<int64_t>(out_.pc_map[static_cast<size_t>(file_target)]) - at);
      if (contract::isa::encode(in, out_.records[at].bytes, sizeof(Record)) == 0) {
        return error(NRT_INVALID, "A branch cannot be encoded", base::Fault::kProgram);
      }
    }
    return {};
  }

  const neff::EngineProgram& program_;
  const std::vector<Replacement>& replacements_;
  const TensorTables& arguments_;
  std::vector<std::pair<uint32_t, neff::ProgramStep>> branches_;
  std::string failure_;
  Translated out_;
};

bool equal_counts(const std::vector<DoorbellCounts>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](const DoorbellCounts& c) {
    return c.m2s == counts[0].m2s && c.s2m == counts[0].s2m;
  });
}

StorePair ring(uint64_t unit, uint32_t queue, const DoorbellCounts& counts) {
  const uint64_t at = unit + kFirstQueue + queue * kQueueStride + kTailIncrement;
  StorePair pair;
  const auto add = [&](uint64_t address, uint32_t value) {
    if (value == 0) return;
    pair.address[pair.count] = address;
    pair.value[pair.count++] = value;
  };
  add(at, counts.m2s);
  add(at + contract::kS2mOffset, counts.s2m);
  return pair;
}

}  // namespace

int64_t Translated::source_pc(uint32_t pc) const {
  if (pc < pc_map.front()) return -1;
  const auto after = std::upper_bound(pc_map.begin(), pc_map.end() - 1, pc);
  return after - pc_map.begin() - 1;
}

base::Result<Translated> translate(const neff::EngineProgram& program,
                                   const std::vector<Replacement>& replacements,
                                   const Prologue& prologue, const TensorTables& arguments) {
  return Translator(program, replacements, arguments).run(prologue);
}

Instruction to_instruction(const StorePair& stores) {
  Instruction write = make(Opcode::kWrite);
  const bool two = stores.count == 2;
  write.operands.write = {stores.address[0],
                          two ? stores.address[1] : 0,
                          stores.value[0],
                          two ? stores.value[1] : 0,
                          4,
                          static_cast<uint8_t>(two ? 4 : 0)};
  return write;
}

std::vector<Instruction> to_instructions(const std::vector<StorePair>& stores) {
  std::vector<Instruction> list;
  for (const StorePair& pair : stores) list.push_back(to_instruction(pair));
  return list;
}

std::vector<StorePair> doorbells(const std::vector<DoorbellCounts>& counts,
                                 const std::vector<uint64_t>& udma, uint64_t broadcast,
                                 uint32_t queue) {
  std::vector<StorePair> stores;
  if (counts.size() == contract::kDmaPerNc && equal_counts(counts)) {
    if (const StorePair pair = ring(broadcast, queue, counts[0]); pair.count != 0) {
      stores.push_back(pair);
    }
    return stores;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (const StorePair pair = ring(udma[i], queue, counts[i]); pair.count != 0) {
      stores.push_back(pair);
    }
  }
  return stores;
}

}  // namespace nrt
